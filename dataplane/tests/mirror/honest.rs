//! An honest source: every shape of log arrives whole.

use std::time::Duration;

use twinlog_proto::channel::page::Counter;
use twinlog_proto::channel::progress::{FaultCode, PartitionProgress, SlotState};

use crate::batches::SourceLog;
use crate::source::Source;
use crate::world::World;

#[test]
fn large_and_small_batches_arrive_byte_for_byte() {
    let logs = vec![SourceLog::of(40, 2, 300_000), SourceLog::of(500, 2, 900), SourceLog::default()];
    let source = Source::start(logs, 1);
    let mut world = World::new(&source);
    world.assign();
    world.wait_caught_up(&source);
    world.wait(0, "flushed", |p| p.flushed == p.leo && p.lag_bytes == 0 && p.caught_up_at_ms > 0);
    world.stop_and_compare(&source);
}

#[test]
fn a_batch_above_every_limit_streams_through_the_few_pieces() {
    let mut log = SourceLog::of(3, 2, 1000);
    log.push(100, 2, 20 << 20);
    log.push(1, 2, 500);
    let source = Source::start(vec![log], 1);
    let mut world = World::new(&source);
    world.set("mirror.fetch.max.bytes", "1048576");
    world.set("mirror.fetch.response.max.bytes", "2097152");
    world.assign();
    world.wait_caught_up(&source);
    world.stop_and_compare(&source);
}

#[test]
fn many_partitions_of_small_batches_share_answers() {
    let source = Source::start((0..64).map(|_| SourceLog::of(30, 2, 4000)).collect(), 1);
    let mut world = World::new(&source);
    world.assign();
    world.wait_caught_up(&source);
    world.stop_and_compare(&source);
}

#[test]
fn a_log_may_start_above_zero_within_a_batch_or_at_its_end() {
    let mut logs = vec![SourceLog::of(20, 2, 2000); 3];
    logs[0].start = 100;
    logs[1].start = 105;
    logs[2].start = 200;
    let source = Source::start(logs, 1);
    let mut world = World::new(&source);
    world.assign();
    world.wait_caught_up(&source);
    for (slot, start) in [(0, 100), (1, 105), (2, 200)] {
        assert_eq!(world.progress(slot).unwrap().log_start, start, "slot {slot}");
    }
    world.stop_and_compare(&source);
    assert!(world.dir(0).join("00000000000000000100.log").exists());
    assert!(
        world.dir(1).join("00000000000000000100.log").exists(),
        "the log begins at the batch, its start lies within"
    );
    assert!(world.dir(2).join("00000000000000000200.log").exists(), "an emptied partition has a file at its end");
}

#[test]
fn records_that_come_later_arrive_too_and_a_restart_goes_on_where_it_was() {
    let source = Source::start(vec![SourceLog::of(5, 2, 5000)], 1);
    let mut world = World::new(&source);
    world.assign();
    world.wait_caught_up(&source);
    source.change(|cluster| cluster.logs[0].push(10, 2, 200_000));
    world.wait_caught_up(&source);
    let mut world = world.restart(&source);
    source.change(|cluster| (0..20).for_each(|_| cluster.logs[0].push(10, 3, 7000)));
    world.assign();
    world.wait_caught_up(&source);
    let received = world.counter(Counter::MirroredBytes);
    assert_eq!(received, 20 * 7000, "nothing is fetched twice");
    world.stop_and_compare(&source);
}

#[test]
fn pause_stop_and_resume_follow_the_assignment() {
    let source = Source::start(vec![SourceLog::of(5, 2, 5000)], 1);
    let mut world = World::new(&source);
    world.assign();
    world.wait_caught_up(&source);
    world.want(|p| p.desired = 1);
    world.wait(0, "paused", |p| p.state == SlotState::Paused && p.assignment_version == 2);
    source.change(|cluster| cluster.logs[0].push(10, 2, 5000));
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(world.progress(0).unwrap().leo, 50, "nothing is fetched while paused");
    world.want(|p| p.desired = 0);
    world.wait_caught_up(&source);
    world.want(|p| p.desired = 2);
    let stopped = world.wait(0, "stopped", |p| p.state == SlotState::Stopped && p.assignment_version == 4);
    assert_eq!((stopped.leo, stopped.flushed), (60, 60));
    assert!(world.dir(0).join("00000000000000000060.snapshot").exists(), "stopped means finished");
    world.want(|p| p.desired = 0);
    source.change(|cluster| cluster.logs[0].push(10, 2, 5000));
    world.wait_caught_up(&source);
    world.want(|p| p.desired = 3);
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while world.progress(0).is_some() {
        assert!(std::time::Instant::now() < until, "a removed partition leaves the board");
        std::thread::sleep(Duration::from_millis(10));
    }
    world.stop_and_compare(&source);
}

#[test]
fn a_partition_that_left_may_come_back_more_than_once() {
    let source = Source::start(vec![SourceLog::of(5, 2, 5000), SourceLog::of(5, 2, 5000)], 1);
    let mut world = World::new(&source);
    world.assign();
    world.wait_caught_up(&source);
    for round in 1..=3 {
        world.assignment.topics[0].partitions[1].desired = 3;
        world.assign();
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while world.progress(1).is_some() {
            assert!(std::time::Instant::now() < until, "a removed partition leaves the board");
            std::thread::sleep(Duration::from_millis(10));
        }
        source.change(|cluster| cluster.logs.iter_mut().for_each(|log| log.push(10, 2, 5000)));
        world.wait(0, "caught up", |p| p.leo == 50 + 10 * round);
        world.assignment.topics[0].partitions[1].desired = 0;
        world.assign();
        world.wait_caught_up(&source);
    }
    world.stop_and_compare(&source);
}

#[test]
fn a_stop_that_is_taken_back_at_once_goes_on_at_once() {
    let source = Source::start(vec![SourceLog::of(5, 2, 5000)], 1);
    let mut world = World::new(&source);
    world.assign();
    world.wait_caught_up(&source);
    for desired in [2, 1] {
        world.want(|p| p.desired = desired);
        let version = world.assignment.assignment_version as u32;
        world.wait(0, "stopped or paused", |p| p.assignment_version == version && p.state != SlotState::Mirroring);
        world.want(|p| p.desired = 0);
        world.wait_caught_up(&source);
    }
    world.stop_and_compare(&source);
}

/// A hand-over renames the directory of a stopped partition, and brings it back when it is undone.
#[test]
fn a_stopped_partition_whose_directory_is_gone_stays_stopped_without_it_until_it_is_back() {
    let source = Source::start(vec![SourceLog::of(10, 2, 5000); 2], 1);
    let mut world = World::new(&source);
    world.assign();
    world.wait_caught_up(&source);
    world.want(|p| p.desired = 2);
    let is_stopped =
        |version| move |p: &PartitionProgress| p.state == SlotState::Stopped && p.assignment_version == version;
    world.wait(0, "stopped", is_stopped(2));
    let elsewhere = tempfile::tempdir_in(world.dir(0).parent().unwrap().parent().unwrap()).unwrap();
    std::fs::rename(world.dir(0), elsewhere.path().join("taken")).unwrap();
    world.assign();
    world.wait(0, "still stopped", is_stopped(3));
    let mut world = world.restart(&source);
    world.assign();
    let unknown = world.wait(0, "stopped after a start", is_stopped(4));
    assert_eq!((unknown.leo, unknown.fault), (-1, FaultCode::NONE), "nothing is said of what is not here");
    assert_eq!(world.wait(1, "stopped beside it", is_stopped(4)).leo, 100);
    assert!(!world.dir(0).exists(), "it is not made anew");
    world.stop();
    let recovery =
        std::fs::read_to_string(world.dir(0).parent().unwrap().join("recovery-point-offset-checkpoint")).unwrap();
    assert_eq!(recovery.lines().count(), 3, "the checkpoints have forgotten it: {recovery}");
    std::fs::rename(elsewhere.path().join("taken"), world.dir(0)).unwrap();
    let mut world = world.restart(&source);
    world.want(|p| p.desired = 0);
    world.wait_caught_up(&source);
    world.stop_and_compare(&source);
}

#[test]
fn a_cut_by_order_is_made_once_and_what_follows_is_fetched_again() {
    let source = Source::start(vec![SourceLog::of(10, 2, 5000)], 1);
    let mut world = World::new(&source);
    world.assign();
    world.wait_caught_up(&source);
    let before = world.counter(Counter::MirroredBytes);
    world.want(|p| (p.cut_to, p.attempt) = (45, 1));
    world.wait(0, "cut and whole again", |p| p.assignment_version == 2 && p.leo == 100);
    assert_eq!(
        world.counter(Counter::MirroredBytes) - before,
        6 * 5000,
        "from the start of the batch that holds the cut"
    );
    world.assign();
    world.wait(0, "asked again", |p| p.assignment_version == 3);
    assert_eq!(world.counter(Counter::MirroredBytes) - before, 6 * 5000, "the same cut is not made twice");
    world.stop_and_compare(&source);
}

#[test]
fn the_log_start_of_the_source_is_followed() {
    let source = Source::start(vec![SourceLog::of(10, 2, 5000)], 1);
    let mut world = World::new(&source);
    world.assign();
    world.wait_caught_up(&source);
    source.change(|cluster| {
        cluster.logs[0].start = 30;
        cluster.logs[0].push(10, 2, 5000);
    });
    world.wait(0, "at the new start", |p| p.leo == 110);
    source.change(|cluster| cluster.logs[0].push(10, 2, 5000));
    world.wait(0, "at the new start", |p| p.log_start == 30 && p.leo == 120);
    world.stop();
}

#[test]
fn a_steady_stream_allocates_nothing_on_the_core_between_flushes() {
    let source = Source::start(vec![SourceLog::default(); 4], 1);
    let mut world = World::without_flushes(&source);
    world.assign();
    for slot in 0..4 {
        world.wait(slot, "mirroring", |p| p.state == SlotState::Mirroring);
    }
    let push = |rounds: usize| {
        for round in 0..rounds {
            source.change(|cluster| {
                for (index, log) in cluster.logs.iter_mut().enumerate() {
                    log.push(10, 2, if index % 2 == 0 { 3000 } else { 400_000 });
                }
                // The script's own memory of requests is of no interest here.
                cluster.seen.clear();
            });
            if round % 4 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        world.wait_caught_up(&source);
        std::thread::sleep(Duration::from_millis(150));
    };
    push(60);
    push(60);
    let before = world.counter(Counter::Allocations);
    push(40);
    let made = world.counter(Counter::Allocations) - before;
    assert_eq!(made, 0, "allocations while 160 batches passed");
    world.stop_and_compare(&source);
}
