//! The yardstick itself: a standby node on copies of a stock broker's own folders must pass every check that a mirror will be held to.

use twinlog_tests::kafka_log::Log;
use twinlog_tests::oracle::Oracle;
use twinlog_tests::standby::{self, Expected};
use twinlog_tests::{copy, kafka_log, place, wild};

#[test]
fn a_standby_on_a_stock_brokers_own_folders_serves_the_same() {
    let _turn = place::turn();
    let scratch = place::scratch("yardstick");
    let mut source = wild::broker(&scratch.path().join("source"));
    let mut oracle = Oracle::start();
    let boot = source.address();
    let topics = wild::expected(&mut oracle, &boot);
    let names = wild::names();
    let wanted = ["read_uncommitted", "read_committed"].map(|i| oracle.read(&boot, &names, i));
    let extents = copy::extents(&mut oracle, &boot, &names);
    source.stop();

    let data = scratch.path().join("data");
    copy_partitions(&source.dir().join("data"), &data, &topics);
    let before = standby::fingerprint(&data, &topics);
    let mut node = standby::start(&scratch.path().join("standby"), &data, &topics);
    let got = ["read_uncommitted", "read_committed"].map(|i| oracle.read(&node.address(), &names, i));
    assert_eq!(got, wanted);
    node.stop();
    let changes = before.changes(&standby::fingerprint(&data, &topics));
    assert!(changes.is_empty(), "{changes:#?}");
    for topic in &topics {
        for index in 0..topic.partitions {
            let log = Log::read(&data.join(format!("{}-{index}", topic.name))).expect("a sound log");
            log.check_side_files().expect("sound side files");
            assert_eq!(kafka_log::topic_id(&log.dir).expect("partition.metadata"), topic.id);
        }
    }
    copy::accepted_by_dump_log(&data, &extents).unwrap_or_else(|why| panic!("{why}"));
}

fn copy_partitions(from: &std::path::Path, to: &std::path::Path, topics: &[Expected]) {
    for topic in topics {
        for index in 0..topic.partitions {
            let name = format!("{}-{index}", topic.name);
            place::copy_folder(&from.join(&name), &to.join(&name));
        }
    }
    for file in ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"] {
        // The standby knows our topics only: leave the lines of internal ones out.
        let kept: Vec<_> = kafka_log::offset_file(from, file)
            .expect("a sound checkpoint")
            .into_iter()
            .filter(|(p, _)| to.join(p).is_dir())
            .collect();
        let lines = kept.iter().map(|(p, offset)| {
            let (topic, index) = p.rsplit_once('-').expect("topic-N");
            format!("{topic} {index} {offset}\n")
        });
        std::fs::write(to.join(file), format!("0\n{}\n{}", kept.len(), lines.collect::<String>()))
            .expect("a checkpoint written");
    }
}
