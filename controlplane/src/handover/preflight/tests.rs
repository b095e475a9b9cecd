//! Judgements of surveys that lack one thing each.

use super::*;
use crate::handover::facts::{Files, LogDir, Node, Partition, Shape, Source, Topic};
use crate::handover::problem::Problem;
use crate::mirror::topic_configs::Inherited;
use std::path::PathBuf;
use twinlog_proto::handover::resolve::Resolution;
use twinlog_proto::ids::Uuid;
use twinlog_proto::storage::producer_snapshot::ProducerEntry;

const ID: Uuid = Uuid([7; 16]);

fn files() -> Files {
    Files {
        directory: PathBuf::from("/data/orders-0"),
        device: 1,
        owner: (5, 5),
        is_writable: true,
        topic_id: Some(ID),
        start: 0,
        end: 90,
        epoch_max: 4,
        producers: Vec::new(),
        samples: Vec::new(),
        segments: Vec::new(),
        snapshot: Some(90),
        bytes: 1_000,
    }
}

fn partition() -> Partition {
    Partition {
        index: 0,
        state: "MIRRORING".into(),
        error: None,
        source_end: Some(100),
        end: Some(90),
        flushed: Some(90),
        lag: Some(10),
        lag_bytes: Some(500),
        lag_ms: Some(2_000),
        last_mirrored: None,
        leader_epoch: Some(6),
        past_epoch: -1,
        files: Ok(files()),
    }
}

pub(in crate::handover) fn dir(path: &str) -> LogDir {
    LogDir {
        path: path.into(),
        device: 1,
        owner: (5, 5),
        is_writable: true,
        free_bytes: 1 << 40,
        is_locked: false,
        is_data: false,
        foreign: Vec::new(),
    }
}

pub(in crate::handover) fn facts() -> Facts {
    let shape = Shape { segment_bytes: 1 << 30, segment_index_bytes: 10 << 20, index_interval_bytes: 4096 };
    let (configs, inherited, handed_over_to) = Default::default();
    let partitions = vec![partition()];
    let topic = Topic { name: "orders".into(), id: ID, shape, configs, inherited, handed_over_to, partitions };
    Facts {
        mirror: "dr".into(),
        source: Source { cluster_id: None, bootstrap: None, answers: Ok(()), answered_at_ms: Some(1) },
        topics: vec![topic],
        left: Vec::new(),
        acls: Vec::new(),
        quotas: Vec::new(),
        quotas_known: true,
        scram_users: Vec::new(),
        resolution: Ok(Resolution { highest_producer_id: -1, ..Resolution::default() }),
        node: Node {
            properties: "/etc/s.properties".into(),
            id: 1,
            cluster_id: None,
            release: None,
            share_groups: false,
            unformatted: Vec::new(),
            log_dirs: vec![dir("/broker/a"), dir("/broker/b")],
            metadata_log_dir: "/broker/a".into(),
            is_metadata_locked: false,
            problems: Vec::new(),
            former: None,
            plaintext: None,
            topic_defaults: [("retention.ms", "5")].map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        },
        user: 5,
        now_ms: 5_000,
    }
}

fn judged(change: impl FnOnce(&mut Facts)) -> Preflight {
    let mut facts = facts();
    change(&mut facts);
    judge(&facts, &Wishes::default())
}

#[test]
fn what_lacks_nothing_is_not_blocked_and_says_what_would_be_lost() {
    let judged = judged(|_| {});
    assert_eq!(judged.blockers, []);
    assert_eq!(judged.loss, Loss { records: Some(10), bytes: Some(500), ms: Some(2_000) });
    assert_eq!((judged.mode, judged.partitions[0].epoch_max, judged.next_producer_id), (Mode::Planned, 6, 1_000_000));
}

#[test]
fn what_would_go_wrong_blocks_with_a_remedy() {
    type Change = (&'static str, fn(&mut Facts));
    let changes: [Change; 13] = [
        ("is used by another process", |f| f.node.log_dirs[1].is_locked = true),
        ("data directory of the mirror", |f| f.node.log_dirs[0].is_data = true),
        ("no broker starts", |f| f.node.log_dirs[0].foreign = vec!["odd".into()]),
        ("bytes are free", |f| f.node.log_dirs[0].free_bytes = 1),
        ("belongs to user 5", |f| f.node.log_dirs[0].owner = (6, 6)),
        ("/meta is used by another process", |f| {
            (f.node.metadata_log_dir, f.node.is_metadata_locked) = ("/meta".into(), true);
        }),
        ("another file system", |f| f.node.log_dirs.iter_mut().for_each(|dir| dir.device = 2)),
        ("no roles", |f| f.node.problems.push(Problem::new("process.roles", "no roles", "set them"))),
        ("handed over to other", |f| f.topics[0].handed_over_to = Some("other".into())),
        ("applies none of the topic's settings", |f| {
            f.topics[0].configs.insert("remote.storage.enable".into(), "true".into());
        }),
        ("torn", |f| f.topics[0].partitions[0].files = Err("torn".into())),
        ("partition.metadata is missing", |f| f.topics[0].partitions[0].files.as_mut().unwrap().topic_id = None),
        ("mirroring ended at 95", |f| {
            f.topics[0].partitions[0].state = "STOPPED".into();
            f.topics[0].partitions[0].last_mirrored = Some((95, 4));
        }),
    ];
    for (sign, change) in changes {
        let judged = judged(change);
        assert!(judged.blockers.iter().any(|found| found.what.contains(sign)), "{sign}: {:?}", judged.blockers);
        assert!(judged.blockers.iter().all(|found| !found.remedy.is_empty()), "{sign}");
    }
}

#[test]
fn topics_that_the_nodes_own_retention_would_shorten_are_named() {
    let is_warned = |configs: &[(&str, &str)], name: &str| {
        let judged = judged(|f| {
            f.topics[0].configs = configs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
            f.topics[0].name = name.into();
        });
        judged.warnings.iter().any(|found| found.what.contains("retention is not known") && found.what.ends_with(name))
    };
    let both = [("retention.ms", "-1"), ("retention.bytes", "-1")];
    assert!(is_warned(&[], "orders"));
    assert!(is_warned(&both[..1], "orders"));
    assert!(!is_warned(&both, "orders"));
    assert!(is_warned(&[("cleanup.policy", "compact,delete")], "orders"));
    assert!(!is_warned(&[("cleanup.policy", "compact")], "orders"));
    assert!(!is_warned(&[], "__consumer_offsets"));
}

#[test]
fn share_groups_that_the_nodes_levels_do_not_have_are_warned_of() {
    let is_warned = |name: &str, share_groups: bool| {
        let judged = judged(|f| {
            f.topics.push(Topic { name: name.into(), ..f.topics[0].clone() });
            f.node.share_groups = share_groups;
        });
        judged.warnings.iter().any(|found| found.what.contains("share.version"))
    };
    assert!(is_warned("__share_group_state", false));
    assert!(!is_warned("__share_group_state", true) && !is_warned("payments", false));
}

#[test]
fn what_the_sources_brokers_say_of_retention_comes_along_where_the_node_says_otherwise() {
    let judged = judged(|f| {
        let from = |value: &str| Inherited { value: value.into(), origin: 4 };
        f.topics[0].inherited = [("retention.ms", from("9")), ("retention.bytes", from("-1"))]
            .map(|(name, of)| (name.to_owned(), of))
            .into();
        f.node.topic_defaults.insert("retention.bytes".into(), "-1".into());
    });
    assert!(!judged.warnings.iter().any(|found| found.what.contains("retention")), "{:?}", judged.warnings);
    let told: Vec<String> = judged.carried_settings.iter().map(CarriedSetting::in_words).collect();
    assert_eq!(told, ["retention.ms=9 for 1 topics, from the source broker's default, where the node says 5"]);
}

#[test]
fn what_belongs_to_somebody_else_blocks_all_but_root_who_gives_it_away() {
    let owned_by = |user: u32| {
        judged(|facts| {
            facts.user = user;
            facts.node.log_dirs[0].owner = (6, 6);
        })
    };
    let (root, other) = (owned_by(0), owned_by(5));
    assert!(root.blockers.is_empty() && root.warnings.iter().any(|found| found.what.contains("belongs to user 5")));
    assert!(other.blockers.iter().any(|found| found.remedy.contains("root")), "{:?}", other.blockers);
}

#[test]
fn a_source_that_is_gone_is_a_warning_and_blocks_only_who_asks_for_that() {
    let gone = |facts: &mut Facts| facts.source.answers = Err("nobody answers".into());
    let judged = judged(gone);
    assert_eq!((judged.mode, judged.blockers.len()), (Mode::Forced, 0));
    assert!(judged.warnings.iter().any(|found| found.what.contains("10 records")), "{:?}", judged.warnings);
    let mut facts = facts();
    gone(&mut facts);
    let strict = judge(&facts, &Wishes { no_forced: true, ..Wishes::default() });
    assert_eq!(strict.blockers.len(), 1);
}

/// A partition for which nothing is fetched is not waited for.
#[test]
fn who_wants_to_lose_nothing_is_blocked_by_partitions_that_stand_still_behind_their_source() {
    let strict = |state: &str, source_end: Option<i64>| {
        let mut facts = facts();
        let partition = &mut facts.topics[0].partitions[0];
        (partition.state, partition.source_end, partition.lag) = (state.into(), source_end, None);
        judge(&facts, &Wishes { no_forced: true, ..Wishes::default() }).blockers
    };
    for state in ["PAUSED", "STOPPED", "FAILED"] {
        // What was known when it stood still says nothing about now.
        for source_end in [None, Some(90), Some(100)] {
            let blockers = strict(state, source_end);
            assert!(blockers.iter().any(|found| found.what.contains(&format!("orders-0 ({state})"))), "{blockers:?}");
        }
        let judged = judged(|facts| facts.topics[0].partitions[0].state = state.into());
        assert!(judged.blockers.is_empty() && judged.warnings.iter().any(|found| found.what.contains("orders-0")));
    }
    assert_eq!(strict("MIRRORING", Some(100)), []);
}

#[test]
fn what_nobody_knows_is_not_told_as_nothing() {
    let judged = judged(|facts| {
        let partition = &mut facts.topics[0].partitions[0];
        (partition.source_end, partition.lag, partition.lag_bytes, partition.lag_ms) = (None, None, None, None);
    });
    assert_eq!((judged.loss, judged.loss_unknown_partitions), (Loss::default(), 1));
    assert!(topics::in_words(&judged.loss, 1).contains("unknown"));
}

#[test]
fn what_a_source_got_since_a_partition_stands_still_is_not_told_as_nothing() {
    for state in ["PAUSED", "STOPPED", "FAILED"] {
        let judged = judged(|facts| {
            let partition = &mut facts.topics[0].partitions[0];
            partition.state = state.into();
            (partition.source_end, partition.flushed, partition.lag) = (Some(100), Some(100), Some(0));
            partition.lag_bytes = Some(0);
        });
        let Loss { records, bytes, .. } = judged.loss;
        assert_eq!((records, bytes, judged.loss_unknown_partitions), (None, None, 1), "{state}");
    }
}

#[test]
fn offsets_of_groups_that_will_not_be_compared_are_told() {
    let is_told = |is_more_committed| {
        let judged = judged(|facts| {
            facts.resolution.as_mut().into_iter().for_each(|found| found.is_more_committed = is_more_committed);
        });
        judged.warnings.iter().any(|found| found.what.contains("not compared"))
    };
    assert!(is_told(true) && !is_told(false));
}

#[test]
fn users_whose_passwords_do_not_come_along_are_named() {
    let judged = judged(|facts| facts.scram_users = vec!["alice".into(), "bob".into()]);
    assert!(judged.warnings.iter().any(|found| found.what.contains("alice, bob")), "{:?}", judged.warnings);
}

#[test]
fn quotas_that_nobody_asked_for_are_told() {
    let is_told = |known| {
        let judged = judged(|facts| facts.quotas_known = known);
        judged.warnings.iter().any(|found| found.what.contains("quotas of clients"))
    };
    assert!(is_told(false) && !is_told(true));
}

#[test]
fn producer_ids_begin_above_all_that_were_seen() {
    let judged = judged(|facts| {
        let producer = ProducerEntry {
            producer_id: 41_001,
            epoch: 0,
            last_sequence: 0,
            last_offset: 0,
            offset_delta: 0,
            timestamp: 0,
            coordinator_epoch: -1,
            txn_first_offset: -1,
        };
        facts.topics[0].partitions[0].files.as_mut().unwrap().producers = vec![producer];
    });
    assert_eq!(judged.next_producer_id, 1_042_000);
}

#[test]
fn partitions_are_spread_over_the_directories_of_their_file_system() {
    let mut node = facts().node;
    node.log_dirs.push(LogDir { device: 2, ..dir("/other") });
    let places = node::places(&node, [1, 1, 1, 2, 3].into_iter());
    assert_eq!(places, [Some(0), Some(1), Some(0), Some(2), None]);
}
