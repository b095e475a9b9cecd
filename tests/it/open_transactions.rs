//! A pass proves: transactions and offsets that a stock broker left in the middle, on copies of its folders that do not end at one moment,
//! are resolved in the files alone: the broker that starts on them has nothing to complain about and nothing to abort, a reader of committed
//! data comes to the end and sees what was decided, the transactional ids go on, and groups go on from offsets that are there.

use controlplane::handover::tail;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::Path;
use std::process::Output;
use twinlog_proto::handover::batches;
use twinlog_proto::handover::plan::{self, HandOverPlan, HandOverResult, PlannedPartition};
use twinlog_proto::handover::resolve::{PartitionEnd, Resolution, Resolver, Trail, Why};
use twinlog_proto::ids::Uuid;
use twinlog_proto::storage::coordinator::transactions::TransactionState;
use twinlog_proto::storage::{partition_metadata, producer_snapshot};
use twinlog_tests::copy::{self, Extent};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::kafka_log::{self, Log};
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;
use twinlog_tests::process::mortal;
use twinlog_tests::standby::{self, Expected};

const TOPIC: &str = "orders";
const TOPICS: [(&str, i32); 3] = [(TOPIC, 2), ("__consumer_offsets", 4), ("__transaction_state", 4)];
/// Records of each producer in each partition.
const EACH: i64 = 20;
/// How far behind its end a group's offset lies at the source, as of records that the copy lacks.
const BEYOND: i64 = 7;
const NOW_MS: i64 = 1_900_000_000_000;

#[test]
fn what_a_broker_left_in_the_middle_is_resolved_in_its_files() {
    let _turn = place::turn();
    let scratch = place::scratch("open");
    let source = scratch.path().join("source");
    let ends = make_source(&source);
    let (data, logs) = (scratch.path().join("data"), scratch.path().join("logs"));
    std::fs::create_dir(&logs).expect("a folder for the broker");
    for folder in folders() {
        place::copy_folder(&source.join("data").join(&folder), &data.join(folder));
    }
    // The copy of one partition lags: it lacks the end of a transaction that was committed, and what came after.
    let lagging = data.join(format!("{TOPIC}-1"));
    let cut = (ends[1] - 1).to_string();
    done(&surgery(&["cut", lagging.to_str().expect("UTF-8"), "--offset", &cut]));

    let (found, plan) = resolved(&data, &logs);
    check_decisions(&found, ends[1] - 1);
    let file = scratch.path().join("plan");
    std::fs::write(&file, plan::encode(&plan).expect("a plan")).expect("the plan written");
    let out = surgery(&["hand-over", file.to_str().expect("UTF-8")]);
    let result = plan::decode_result(&done(&out).stdout).expect("a result");

    let extents = extents(&result);
    copy::accepted_by_dump_log(&logs, &extents).unwrap_or_else(|why| panic!("kafka-dump-log complains:\n{why}"));
    for folder in folders() {
        let log = Log::read(&logs.join(folder)).expect("a sound log");
        log.check_side_files().expect("sound side files");
    }
    let mut node = standby::start(&scratch.path().join("standby"), &logs, &expected(&logs));
    serves_what_was_decided(&node, &extents);
    let log = node.log();
    // A slow start may lose the leadership for a moment, which ends the loading of a group partition; it is loaded again.
    let is_bad = |line: &&str| {
        let lost_leadership = line.contains("Stopped loading records from") && line.contains("no longer the leader");
        line.contains("rollback of ongoing") || (line.contains(" ERROR ") && !lost_leadership)
    };
    let bad: Vec<_> = log.lines().filter(is_bad).collect();
    assert!(bad.is_empty(), "the coordinator found work to do: {bad:#?}");
    node.stop();
}

/// Both partitions: plain records, a committed, an aborted and an open transaction, and one that is committed last; offsets at the end.
fn make_source(dir: &Path) -> Vec<i64> {
    let mut broker = Broker::start(Spec::new(dir));
    let (boot, mut oracle) = (broker.address(), Oracle::start());
    oracle.create(&boot, TOPIC, 2, &json!({}));
    let each = |txn: Option<(&str, &str)>| {
        let mut request = json!({"partitions": 2, "count": 2 * EACH, "perBatch": 5});
        if let Some((id, end)) = txn {
            request["txn"] = id.into();
            request["end"] = end.into();
        }
        request
    };
    for txn in
        [None, Some(("kept", "commit")), Some(("dropped", "abort")), Some(("open", "open")), Some(("last", "commit"))]
    {
        oracle.produce(&boot, TOPIC, each(txn));
    }
    let ends: Vec<i64> = oracle.offsets(&boot, TOPIC).iter().map(|(_, end, _)| *end).collect();
    let offsets = json!({"0": [3, 0, "early"], "1": [ends[1] + BEYOND, 0, "beyond"]});
    oracle.ask(&json!({"do": "commit", "boot": boot, "group": "readers", "topic": TOPIC, "offsets": offsets}));
    drop(oracle); // killed, not closed: the transaction stays open
    broker.stop();
    ends
}

fn folders() -> impl Iterator<Item = String> {
    TOPICS.iter().flat_map(|(topic, count)| (0..*count).map(move |index| format!("{topic}-{index}")))
}

fn id_of(dir: &Path) -> Uuid {
    let text = std::fs::read(dir.join("partition.metadata")).expect("partition.metadata");
    partition_metadata::parse(&text).expect("a topic id")
}

fn partition_end(data: &Path, topic: &str, partition: i32) -> PartitionEnd {
    let dir = data.join(format!("{topic}-{partition}"));
    let log = Log::read(&dir).expect("a sound log");
    let end_offset = log.end();
    let snapshot = std::fs::read(dir.join(format!("{end_offset:020}.snapshot")));
    let producers =
        snapshot.map_or_else(|_| Vec::new(), |bytes| producer_snapshot::decode(&bytes).expect("a snapshot"));
    let leader_epoch = log.epoch_max().max(0) + 1;
    let trail = Trail::default();
    PartitionEnd {
        topic: topic.to_owned(),
        partition,
        topic_id: id_of(&dir),
        end_offset,
        leader_epoch,
        producers,
        trail,
    }
}

/// What the partitions tell of the transactions that are open in any of them.
fn follow(data: &Path, ends: &mut [PartitionEnd]) {
    let producers = ends.iter().flat_map(|end| &end.producers);
    let open: HashSet<i64> = producers.filter(|p| p.has_open_txn()).map(|producer| producer.producer_id).collect();
    for end in ends {
        let dir = data.join(format!("{}-{}", end.topic, end.partition));
        end.trail = tail::trail(&dir, end.end_offset, &end.producers, &open).expect("a sound log");
    }
}

/// Without a word of the coordinator: the marker that one partition has decides in the other.
fn check_markers_alone(ends: &[PartitionEnd]) {
    let found = Resolver::new(ends.to_vec()).expect("few open transactions").resolve(NOW_MS).expect("resolved");
    let mut decided: Vec<_> = found.transactions.iter().map(|txn| (txn.partition, txn.commit, txn.why)).collect();
    decided.sort_by_key(|(partition, commit, _)| (*partition, *commit));
    assert_eq!(decided, [(0, false, Why::Unknown), (1, false, Why::Unknown), (1, true, Why::MarkedElsewhere)]);
}

/// What is decided, and the plan to do it.
fn resolved(data: &Path, logs: &Path) -> (Resolution, HandOverPlan) {
    let each = TOPICS.iter().flat_map(|(topic, count)| (0..*count).map(move |index| (*topic, index)));
    let mut ends: Vec<_> = each.map(|(topic, index)| partition_end(data, topic, index)).collect();
    follow(data, &mut ends);
    check_markers_alone(&ends);
    let mut resolver = Resolver::new(ends.clone()).expect("few open transactions");
    for end in &ends {
        for segment in Log::read(&data.join(format!("{}-{}", end.topic, end.partition))).expect("a sound log").segments
        {
            let bytes = std::fs::read(&segment.path).expect("a segment");
            let taken = resolver.take(&end.topic, end.partition, &bytes).unwrap_or_else(|why| panic!("{why}"));
            assert_eq!(taken, bytes.len());
        }
    }
    let found = resolver.resolve(NOW_MS).expect("resolved");
    let appended = |end: &PartitionEnd| {
        let here = found.appended.iter().find(|a| (&a.topic, a.partition) == (&end.topic, end.partition));
        here.map_or_else(Vec::new, |appended| batches::encode(appended, NOW_MS))
    };
    let partitions = ends.iter().map(|end| PlannedPartition {
        topic: end.topic.clone(),
        index: end.partition,
        topic_id: end.topic_id,
        data_directory: data.to_str().expect("UTF-8").to_owned(),
        log_directory: logs.to_str().expect("UTF-8").to_owned(),
        log_start_offset: 0,
        last_mirrored_offset: end.end_offset,
        last_mirror_epoch: -1,
        verify_from: -1,
        leader_epoch: end.leader_epoch,
        segment_bytes: 1 << 30,
        segment_index_bytes: 10 << 20,
        index_interval_bytes: 4096,
        batches: appended(end),
    });
    let plan =
        HandOverPlan { mirror_name: "dr".to_owned(), partitions: partitions.collect(), ..HandOverPlan::default() };
    (found, plan)
}

fn check_decisions(found: &Resolution, end: i64) {
    let mut decided: Vec<_> = found
        .transactions
        .iter()
        .map(|txn| (txn.transactional_id.clone().unwrap_or_default(), txn.partition, txn.commit, txn.why))
        .collect();
    decided.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    let open = |partition| ("open".to_owned(), partition, false, Why::Ongoing);
    // The first word about it that is still in the log: compaction may have taken the one before.
    let by = decided.first().map_or(Why::Unknown, |first| first.3);
    assert!(matches!(by, Why::Decided(TransactionState::PrepareCommit | TransactionState::CompleteCommit)), "{by:?}");
    assert_eq!(decided, [("last".to_owned(), 1, true, by), open(0), open(1)]);
    let completed: Vec<_> = found.completed.iter().map(|id| (id.transactional_id.as_str(), id.from, id.to)).collect();
    assert_eq!(completed, [("open", TransactionState::Ongoing, TransactionState::CompleteAbort)]);
    let clamped: Vec<_> = found.clamped.iter().map(|each| (each.partition, each.from)).collect();
    assert_eq!(clamped, [(1, end + 1 + BEYOND)]);
}

fn extents(result: &HandOverResult) -> Vec<Extent> {
    let extent = |each: &plan::HandedPartition| Extent {
        topic: each.topic.clone(),
        partition: each.index,
        start: each.log_start_offset,
        end: each.end_offset,
    };
    result.partitions.iter().map(extent).collect()
}

fn expected(logs: &Path) -> Vec<Expected> {
    let topic = |(name, partitions): &(&str, i32)| Expected {
        name: (*name).to_owned(),
        id: kafka_log::topic_id(&logs.join(format!("{name}-0"))).expect("partition.metadata"),
        partitions: *partitions,
        configs: if *name == TOPIC { Vec::new() } else { vec![("cleanup.policy".to_owned(), "compact".to_owned())] },
    };
    TOPICS.iter().map(topic).collect()
}

fn serves_what_was_decided(node: &Broker, extents: &[Extent]) {
    let (boot, mut oracle) = (node.address(), Oracle::start());
    let offsets = oracle.offsets(&boot, TOPIC);
    for (extent, (start, end, stable)) in extents.iter().zip(&offsets) {
        assert_eq!((*start, *end, *stable), (0, extent.end, extent.end), "{extent:?}");
    }
    // Plain records, `kept` and `last`; neither `dropped` nor `open`.
    let counts = |oracle: &mut Oracle| {
        oracle.read(&boot, &[TOPIC], "read_committed").iter().map(|s| s.count).collect::<Vec<_>>()
    };
    assert_eq!(counts(&mut oracle), [3 * EACH, 3 * EACH]);
    let groups = oracle.ask(&json!({"do": "offsets", "boot": boot, "group": "readers"}));
    let end = extents[1].end;
    assert_eq!(groups, json!({format!("{TOPIC}-0"): [3, 0, "early"], format!("{TOPIC}-1"): [end, -1, "beyond"]}));
    let states = node.tool("transactions", &["list"]);
    let state = |id: &str| states.lines().find(|line| line.split_whitespace().next() == Some(id)).map(str::to_owned);
    for (id, wanted) in [("open", "CompleteAbort"), ("last", "CompleteCommit"), ("dropped", "CompleteAbort")] {
        assert!(state(id).is_some_and(|line| line.contains(wanted)), "{id} is not {wanted}:\n{states}");
    }
    for id in ["open", "last"] {
        let request: Value = json!({"partitions": 2, "count": 2 * EACH, "perBatch": 5, "txn": id, "end": "commit"});
        oracle.produce(&boot, TOPIC, request);
    }
    assert_eq!(counts(&mut oracle), [5 * EACH, 5 * EACH]);
    let joined = json!({"do": "join", "boot": boot, "group": "readers", "topic": TOPIC, "count": 2 * EACH});
    assert!(oracle.ask(&joined)["read"].as_i64() >= Some(2 * EACH), "the group goes on");
}

fn surgery(arguments: &[&str]) -> Output {
    mortal(place::binary("twinlog-dataplane")).args(arguments).output().expect("the data plane starts")
}

fn done(out: &Output) -> &Output {
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    out
}
