//! Judgements of brokers that lack one thing each.

use super::*;
use crate::handover::preflight::tests::{dir, facts};
use std::path::PathBuf;

fn broker() -> Broker {
    let mut log_dir = dir("/broker/a");
    log_dir.is_locked = true;
    Broker {
        address: "kafka:9092".into(),
        cluster_id: Some("cluster".into()),
        meta: Ok(("cluster".into(), 1)),
        log_dir,
        log_dirs: vec![("/broker/a".into(), ErrorCode::NONE)],
        is_the_node: Ok(()),
        brokers: vec![(1, "kafka:9092".into(), false), (2, "other:9092".into(), true)],
        settings: [("auto.create.topics.enable".to_owned(), "false".to_owned())].into(),
        fetch_from: Some(4),
        stage_in: Ok("/broker".into()),
    }
}

/// Blockers and warnings.
fn judged(change: impl FnOnce(&mut Facts, &mut Broker, &mut Destination)) -> (Vec<String>, Vec<String>) {
    let (mut facts, mut broker, mut destination) = (facts(), broker(), Destination::default());
    change(&mut facts, &mut broker, &mut destination);
    let (mut blockers, mut warnings) = (Vec::new(), Vec::new());
    judge(&facts, 0, &broker, &destination, &mut blockers, &mut warnings);
    let words = |all: Vec<Finding>| all.into_iter().map(|finding| finding.what).collect();
    (words(blockers), words(warnings))
}

#[test]
fn nothing_blocks_a_broker_that_is_as_it_should_be() {
    let (blockers, warnings) = judged(|_, _, _| {});
    assert_eq!(blockers, Vec::<String>::new());
    assert!(warnings.iter().any(|warning| warning.contains("restamped copies")), "{warnings:?}");
}

#[test]
fn each_thing_that_cannot_be_right_blocks_by_name() {
    type Change = fn(&mut Facts, &mut Broker, &mut Destination);
    let wrong: [(&str, Change); 17] = [
        ("no log directory", |_, broker, _| broker.meta = Err("no file".into())),
        ("belongs to cluster", |_, broker, _| broker.cluster_id = Some("another".into())),
        ("is not node 1", |_, broker, _| broker.is_the_node = Err("expected 2".into())),
        ("is fenced", |_, broker, _| broker.brokers[0].2 = true),
        ("is no broker of the cluster", |_, broker, _| drop(broker.brokers.remove(0))),
        (".lock is free", |_, broker, _| broker.log_dir.is_locked = false),
        ("none of the log directories", |_, broker, _| broker.log_dirs[0].0 = PathBuf::from("/broker/b")),
        ("cannot use", |_, broker, _| broker.log_dirs[0].1 = ErrorCode::KAFKA_STORAGE_ERROR),
        ("older than release 4.0", |_, broker, _| broker.fetch_from = Some(0)),
        ("cannot be written", |_, broker, _| broker.log_dir.is_writable = false),
        ("belongs to user 6", |_, broker, _| broker.log_dir.owner = (6, 6)),
        ("no place for copies", |_, broker, _| broker.stage_in = Err("nowhere".into())),
        ("bytes are free", |_, broker, _| broker.log_dir.free_bytes = 1 << 20),
        ("exists at the destination", |_, _, found| found.existing.push("orders".into())),
        ("holds the directory orders-0", |_, _, found| found.leftovers.push("orders-0".into())),
        ("would not make topic orders", |_, _, found| {
            found.refused.push(("orders".into(), ErrorCode::INVALID_CONFIG, "no such setting".into()));
        }),
        ("records of metadata", |facts, _, _| {
            let setting = |at: usize| (format!("setting.{at}"), String::new());
            facts.topics[0].configs = (0..RECORDS_MAX).map(setting).collect();
        }),
    ];
    for (sign, change) in wrong {
        let (blockers, _) = judged(change);
        assert!(blockers.iter().any(|blocker| blocker.contains(sign)), "{sign}: {blockers:?}");
    }
    let (blockers, _) = judged(|facts, _, _| facts.topics[0].partitions[0].flushed = Some(91));
    assert!(blockers.iter().any(|blocker| blocker.contains("cut short")), "{blockers:?}");
    let (blockers, _) = judged(|facts, _, _| facts.topics[0].partitions[0].index = 1);
    assert!(blockers.iter().any(|blocker| blocker.contains("not all partitions")), "{blockers:?}");
}

#[test]
fn root_and_clients_that_make_topics_are_warned_of() {
    let (blockers, warnings) = judged(|facts, broker, _| {
        facts.user = 0;
        broker.log_dir.owner = (6, 6);
        broker.settings.clear();
        broker.log_dirs.push(("/broker/b".into(), ErrorCode::NONE));
    });
    assert_eq!(blockers, Vec::<String>::new());
    for sign in ["auto.create.topics.enable", "2 log directories"] {
        assert!(warnings.iter().any(|warning| warning.contains(sign)), "{sign}: {warnings:?}");
    }
}
