//! Claims about the source itself: without them the other scenarios would prove less than they say.

use twinlog_tests::kafka_log::{Log, epoch_file};
use twinlog_tests::oracle::Oracle;
use twinlog_tests::{place, wild};

#[test]
fn the_wild_source_holds_what_the_scenarios_are_about() {
    let _turn = place::turn();
    let scratch = place::scratch("wild");
    let broker = wild::broker(scratch.path());
    let mut oracle = Oracle::start();
    let boot = broker.address();
    let log = |topic: &str, partition| Log::read(&broker.partition_dir(topic, partition)).expect("a sound log");

    for codec in 0..5 {
        assert!(
            log("codecs", i32::from(codec)).batches().all(|b| b.codec() == codec),
            "partition {codec} holds codec {codec}"
        );
    }
    assert!(log("plain", 0).batches().all(|b| b.producer_id < 0), "no producer ids");
    assert!(log("idempotent", 0).batches().all(|b| b.producer_id >= 0), "producer ids");
    assert!(log("compacted", 0).gaps() > 300, "the cleaner left gaps");
    assert!(log("compacted", 0).batches().any(|b| b.last - b.base + 1 > i64::from(b.records)), "gaps inside a batch");
    assert!(log("singles", 0).batches().all(|b| b.records == 1), "single-record batches");
    assert!(log("huge", 0).batches().any(|b| b.bytes > 20_000_000), "a batch of 20 MB");
    assert!(log("rolled", 0).segments.len() >= 3, "several segments");
    assert!(log("empty", 0).batches().next().is_none(), "an empty partition");
    let epochs = epoch_file(&broker.partition_dir("epochs", 0)).expect("a sound epoch file");
    assert!(epochs.len() >= 3, "several leader epochs: {epochs:?}");

    let transactions = log("transactions", 0);
    assert!(transactions.batches().filter(|b| b.is_control()).count() >= 5, "markers");
    let (_, end, stable) = oracle.offsets(&boot, "transactions")[0];
    assert!(stable < end, "a transaction is open: {stable} {end}");
    let both: Vec<_> = ["read_uncommitted", "read_committed"].map(|i| oracle.read(&boot, &["transactions"], i)).into();
    assert!(both[1][0].count < both[0][0].count, "the isolation levels differ: {both:?}");

    assert_eq!(oracle.offsets(&boot, "trimmed")[0].0, 45, "log start in the middle of a batch");
    assert!(log("trimmed", 0).batches().any(|b| b.base < 45 && b.last > 45), "of this one");
    assert_eq!(oracle.offsets(&boot, "trimmed-segments")[0].0, 105);
    assert_eq!(oracle.offsets(&boot, "emptied")[0], (30, 30, 30));
    assert_eq!(oracle.offsets(&boot, "many").len(), 64);
}
