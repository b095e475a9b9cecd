//! A source that breaks the protocol once: the connection is made anew and nothing is lost or doubled.

use twinlog_proto::channel::page::Counter;

use crate::batches::SourceLog;
use crate::source::{Source, Twist};
use crate::world::World;

/// Mirrors two partitions (one by leases, one by stages) past these twists.
fn mirrors_past(twists: Vec<Twist>) -> (World, Source) {
    let source = Source::start(vec![SourceLog::of(30, 2, 300_000), SourceLog::of(100, 2, 3000)], 1);
    source.change(|cluster| cluster.twists = twists);
    let mut world = World::new(&source);
    world.set("mirror.fetch.max.bytes", "2000000");
    world.assign();
    world.wait_caught_up(&source);
    world.stop_and_compare(&source);
    (world, source)
}

#[test]
fn garbage_instead_of_an_answer_costs_a_connection_only() {
    let garbage = [vec![0xff; 4], vec![0; 64], b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), vec![0, 0, 0, 9, 1, 2, 3]];
    for bytes in garbage {
        let (world, _) = mirrors_past(vec![Twist::Honest, Twist::Garbage(bytes)]);
        assert!(world.counter(Counter::ConnectFailures) > 0);
    }
}

#[test]
fn an_answer_cut_anywhere_is_fetched_again_from_the_last_whole_batch() {
    for bytes in [3, 40, 150, 5000, 299_990, 1_000_000] {
        mirrors_past(vec![Twist::CutAt(bytes), Twist::CutAt(bytes), Twist::Honest, Twist::CutAt(bytes)]);
    }
}

#[test]
fn a_source_that_falls_silent_in_the_middle_of_an_answer_is_left_in_time() {
    // Many regions of 90 kB: most of what is asked for comes at once, the rest never.
    let source = Source::start((0..20).map(|_| SourceLog::of(30, 2, 30_000)).collect(), 1);
    source.change(|cluster| cluster.twists = vec![Twist::StallAt(800_000), Twist::StallAt(800_000)]);
    let mut world = World::new(&source);
    world.set("mirror.fetch.max.bytes", "90000");
    world.set("mirror.socket.timeout.ms", "1000");
    world.assign();
    // What came at once would buy a silence of 50 s, longer than is waited for here.
    world.wait_caught_up(&source);
    assert!(source.change(|cluster| cluster.twists.is_empty()), "it was silent");
    world.stop_and_compare(&source);
}

#[test]
fn an_answer_to_another_request_is_not_taken() {
    let (world, _) = mirrors_past(vec![Twist::WrongCorrelation]);
    assert!(world.counter(Counter::ConnectFailures) > 0);
}

#[test]
fn a_lost_session_is_asked_for_again() {
    let (_, source) =
        mirrors_past(vec![Twist::Honest, Twist::Honest, Twist::Whole(70), Twist::Honest, Twist::Whole(71)]);
    let full = source.change(|cluster| cluster.seen.iter().filter(|request| request.session_epoch == 0).count());
    assert!(full >= 3, "{full} full requests");
}

#[test]
fn partitions_that_nobody_asked_for_are_dropped() {
    mirrors_past(vec![Twist::Honest, Twist::Stranger]);
}
