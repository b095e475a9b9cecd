//! A pass proves: a mirror of topics that hold everything a stock broker can hold, also while they are written to, has the source's
//! bytes; the stock tools accept every file; and a stock broker started clean on the folder shows clients exactly what the source shows.

use serde_json::json;
use std::time::Duration;
use twinlog_tests::command::twinlog;
use twinlog_tests::copy::{self, Extent};
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka_log::Log;
use twinlog_tests::oracle::Oracle;
use twinlog_tests::standby::{self, Expected};
use twinlog_tests::{place, wild};

const COPY_LIMIT: Duration = Duration::from_secs(60);
const LEVELS: [&str; 2] = ["read_uncommitted", "read_committed"];
const STREAMED: [(&str, &str); 2] = [("live", "lz4"), ("live-plain", "none")];

#[test]
fn every_kind_of_topic_is_mirrored_byte_for_byte_and_served_by_a_stock_broker() {
    let _turn = place::turn();
    let scratch = place::scratch("everything");
    let source = wild::broker(&scratch.path().join("source"));
    let boot = source.address();
    let mut oracle = Oracle::start();
    let mut topics = wild::expected(&mut oracle, &boot);
    for (name, codec) in STREAMED {
        let id = oracle.create(&boot, name, 4, &json!({}));
        topics.push(Expected { name: name.to_owned(), id, partitions: 4, configs: Vec::new() });
        let stream = json!({"do": "stream-start", "boot": boot, "name": name, "topic": name, "partitions": 4, "codec": codec, "perBatch": 7, "mixed": true});
        oracle.ask(&stream);
    }
    let names: Vec<&str> = topics.iter().map(|t| t.name.as_str()).collect();

    let site = Site::new(scratch.path().join("site"));
    let house = House::up(&site);
    site.mirror("dr", &boot, &names);
    std::thread::sleep(Duration::from_secs(3)); // records keep coming while we copy
    for (name, _) in STREAMED {
        let sent = oracle.ask(&json!({"do": "stream-stop", "name": name}));
        assert!(sent["records"].as_i64() > Some(100), "the stream was live: {sent}");
    }
    let extents = copy::extents(&mut oracle, &boot, &names);
    let ends: Vec<_> = extents.iter().map(|e| (e.topic.clone(), i64::from(e.partition), e.end)).collect();
    site.caught_up("dr", &ends, COPY_LIMIT);
    twinlog(&["verify", "--mirror", "dr", "--state", site.state().to_str().expect("UTF-8"), "--against-source"]).done();

    stop_and_check_offsets(&site, &extents, &names);
    house.down();

    let equal = copy::same_bytes(&source, &site.data(), &extents).expect("the same bytes");
    assert!(equal.bytes > 20_000_000 && equal.batches > 1000, "{equal:?}");
    assert!(Log::read(&site.data().join("compacted-0")).expect("a sound log").gaps() > 300, "gaps are kept");
    copy::sound_folders(&site.data(), &extents, &topics).unwrap_or_else(|why| panic!("{why}"));
    copy::accepted_by_dump_log(&site.data(), &extents).unwrap_or_else(|why| panic!("kafka-dump-log complains:\n{why}"));

    let wanted = LEVELS.map(|level| oracle.read(&boot, &names, level));
    let before = standby::fingerprint(&site.data(), &topics);
    let mut node = standby::start(&scratch.path().join("standby"), &site.data(), &topics);
    let got = LEVELS.map(|level| oracle.read(&node.address(), &names, level));
    for (wanted, got) in wanted.iter().flatten().zip(got.iter().flatten()) {
        assert_eq!(got, wanted);
    }
    assert_eq!(
        oracle.offsets(&node.address(), "emptied")[0],
        (30, 30, 30),
        "an emptied partition begins where it ended"
    );
    node.stop();
    let changes = before.changes(&standby::fingerprint(&site.data(), &topics));
    assert!(changes.is_empty(), "the start changed our files: {changes:#?}");
}

fn stop_and_check_offsets(site: &Site, extents: &[Extent], names: &[&str]) {
    let mut stop = vec!["topics", "stop", "dr", "--wait", "--timeout", "60s"];
    names.iter().for_each(|n| stop.extend(["--topic", n]));
    site.cli(&stop).done();
    for extent in extents {
        let row = site.partition("dr", &extent.topic, extent.partition.into()).expect("described");
        assert_eq!(row["state"], "STOPPED", "{row}");
        assert_eq!(row["lastMirroredOffset"], extent.end, "{row}");
        assert_eq!(row["logStartOffset"], extent.start, "{row}");
    }
}
