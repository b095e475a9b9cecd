//! What a source may do to single partitions, and what each comes to.

use std::time::{Duration, Instant};

use twinlog_proto::channel::page::Counter;
use twinlog_proto::channel::progress::{FaultCode, SlotState};
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::fetch::EpochEnd;

use crate::batches::{SourceLog, batch};
use crate::source::{Source, Twist};
use crate::world::World;

#[test]
fn a_wrong_checksum_is_fetched_again_and_again_but_not_for_ever() {
    let source = Source::start(vec![SourceLog::of(10, 2, 5000), SourceLog::of(10, 2, 200_000)], 1);
    source.change(|cluster| {
        cluster.change = |cluster, index, offset, part| {
            if index == 0 && offset <= 30 && cluster.fetches < 2 && part.records.len() > 18_000 {
                part.records[18_000] ^= 1;
            }
        };
    });
    let mut world = World::new(&source);
    world.assign();
    world.wait_caught_up(&source);
    assert!(world.counter(Counter::ChecksumFailures) > 0);
    world.stop_and_compare(&source);
}

#[test]
fn a_batch_that_stays_corrupt_stops_its_partition_and_no_other() {
    let source = Source::start(vec![SourceLog::of(10, 2, 5000), SourceLog::of(10, 2, 200_000)], 1);
    source.change(|cluster| {
        cluster.logs[0].batches[4].2[700] ^= 1;
    });
    let mut world = World::new(&source);
    world.assign();
    let failed = world.wait_failed(0, FaultCode::CHECKSUM);
    assert_eq!((failed.leo, failed.fault_from), (40, 40), "the whole batches before it count");
    world.wait(1, "caught up", |p| p.leo == 100);
    // Mended, and asked to try again.
    source.change(|cluster| cluster.logs[0].batches[4].2[700] ^= 1);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(world.progress(0).unwrap().state, SlotState::Failed, "it does not try by itself");
    world.want(|p| p.attempt = 1);
    world.wait_caught_up(&source);
    world.stop_and_compare(&source);
}

#[test]
fn a_leader_that_moved_is_followed_by_its_word_or_by_metadata() {
    for node_endpoints in [true, false] {
        let source = Source::start(vec![SourceLog::of(5, 2, 5000), SourceLog::of(5, 2, 200_000)], 2);
        source.change(|cluster| cluster.node_endpoints = node_endpoints);
        let mut world = World::new(&source);
        world.assign();
        world.wait_caught_up(&source);
        source.change(|cluster| {
            (cluster.leader, cluster.epoch) = (1, 4);
            cluster.logs.iter_mut().for_each(|log| log.push(10, 4, 5000));
        });
        world.wait_caught_up(&source);
        assert_eq!(world.progress(0).unwrap().leader_epoch, 4);
        assert_eq!(world.counter(Counter::LeaderMoves), 2);
        world.stop_and_compare(&source);
    }
}

#[test]
fn a_gap_stops_the_partition_and_names_the_range() {
    let source = Source::start(vec![SourceLog::of(10, 2, 5000)], 1);
    let mut world = World::new(&source);
    world.assign();
    world.wait_caught_up(&source);
    let mut world = world.restart(&source);
    source.change(|cluster| {
        (0..10).for_each(|_| cluster.logs[0].push(10, 2, 5000));
        cluster.logs[0].start = 150;
    });
    world.assign();
    let failed = world.wait_failed(0, FaultCode::GAP);
    assert_eq!((failed.fault_from, failed.fault_to, failed.leo), (100, 150, 100));
    assert_eq!(world.counter(Counter::Gaps), 1);
}

#[test]
fn a_source_that_lost_records_stops_the_partition_and_nothing_is_cut() {
    let source = Source::start(vec![SourceLog::of(10, 2, 5000)], 1);
    let mut world = World::new(&source);
    world.assign();
    world.wait_caught_up(&source);
    source.change(|cluster| {
        let log = &mut cluster.logs[0];
        log.batches.truncate(7);
        log.end = 70;
    });
    let failed = world.wait_failed(0, FaultCode::DIVERGED);
    assert_eq!((failed.fault_from, failed.fault_to, failed.leo), (70, 100, 100));
    // The operator decides.
    source.change(|cluster| {
        cluster.epoch = 4;
        cluster.logs[0].push(10, 4, 6000);
    });
    world.want(|p| (p.cut_to, p.attempt) = (70, 1));
    world.wait_caught_up(&source);
    world.stop_and_compare(&source);
}

#[test]
fn a_divergence_told_by_epoch_stops_the_partition_with_the_range() {
    let source = Source::start(vec![SourceLog::of(10, 2, 5000)], 1);
    let mut world = World::new(&source);
    world.assign();
    world.wait_caught_up(&source);
    source.change(|cluster| {
        cluster.change = |_, _, _, part| {
            part.records.clear();
            part.tail.diverging = Some(EpochEnd { epoch: 2, end_offset: 60 });
        };
    });
    let failed = world.wait_failed(0, FaultCode::DIVERGED);
    assert_eq!((failed.fault_from, failed.fault_to, failed.leo), (60, 100, 100));
}

#[test]
fn a_batch_from_a_newer_epoch_waits_for_the_metadata() {
    let mut log = SourceLog::of(5, 3, 5000);
    log.push(10, 9, 5000);
    let source = Source::start(vec![log], 1);
    let mut world = World::new(&source);
    world.assign();
    world.wait(0, "fenced behind what came before", |p| p.state == SlotState::Fencing && p.leo == 50);
    source.change(|cluster| cluster.epoch = 9);
    world.wait_caught_up(&source);
    assert!(world.counter(Counter::Fences) > 0);
    world.stop_and_compare(&source);
}

#[test]
fn a_topic_made_anew_is_not_merged_into_the_old_one() {
    let source = Source::start(vec![SourceLog::of(5, 2, 5000)], 1);
    source.change(|cluster| cluster.topic_id = Uuid([8; 16]));
    let mut world = World::new(&source);
    world.assign();
    world.wait_failed(0, FaultCode::RECREATED);
}

#[test]
fn another_cluster_behind_the_address_is_refused() {
    let source = Source::start(vec![SourceLog::of(5, 2, 5000)], 1);
    let mut world = World::new(&source);
    world.assignment.source_cluster_id = "another".to_owned();
    world.assign();
    world.wait_failed(0, FaultCode::CLUSTER);
}

#[test]
fn security_that_is_not_there_yet_is_refused_at_once() {
    let source = Source::start(vec![SourceLog::of(5, 2, 5000)], 1);
    let mut world = World::new(&source);
    world.set("security.protocol", "SASL_SSL");
    world.assign();
    world.wait_failed(0, FaultCode::UNSUPPORTED);
}

#[test]
fn an_old_message_format_is_named() {
    let mut log = SourceLog::of(2, 2, 5000);
    let mut old = batch(20, 1, 2, 100);
    old[16] = 1;
    log.batches.push((20, 21, old));
    log.end = 21;
    let source = Source::start(vec![log], 1);
    let mut world = World::new(&source);
    world.assign();
    let failed = world.wait_failed(0, FaultCode::OLD_FORMAT);
    assert_eq!(failed.fault_from, 20);
    world.wait(0, "written up to there", |p| p.leo == 20 && p.state == SlotState::Failed);
}

#[test]
fn a_source_that_cannot_be_reached_is_said_and_tried_for_ever() {
    let source = Source::start(vec![SourceLog::of(2, 2, 5000)], 1);
    let mut world = World::new(&source);
    let right = std::mem::replace(&mut world.assignment.bootstrap_servers, vec!["127.0.0.1:1".to_owned()]);
    world.assign();
    world.wait(0, "unreachable", |p| p.fault == FaultCode::UNREACHABLE && p.state == SlotState::Preparing);
    world.assignment.bootstrap_servers = right;
    world.assign();
    world.wait_caught_up(&source);
    world.stop_and_compare(&source);
}

#[test]
fn whole_batches_below_our_end_are_dropped_but_a_source_with_nothing_else_stops_its_partition() {
    let source = Source::start(vec![SourceLog::of(20, 2, 5000), SourceLog::of(20, 2, 200_000)], 1);
    source.change(|cluster| {
        cluster.change = |cluster, index, offset, part| {
            // The batch before comes again in front of what was asked for.
            let before = cluster.logs[index as usize].batches.iter().find(|(_, end, _)| *end == offset);
            if let Some((_, _, bytes)) = before.filter(|_| !part.records.is_empty()) {
                part.records.splice(0..0, bytes.iter().copied());
            }
        };
    });
    let mut world = World::new(&source);
    world.set("mirror.fetch.max.bytes", "450000");
    world.assign();
    world.wait_caught_up(&source);
    source.change(|cluster| {
        cluster.change = |cluster, index, _, part| {
            if index == 0 {
                part.records.clone_from(&cluster.logs[0].batches[3].2);
            }
        };
        cluster.logs[0].push(10, 2, 700);
    });
    let failed = world.wait_failed(0, FaultCode::DIVERGED);
    assert_eq!((failed.leo, failed.fault_from, failed.fault_to), (200, 30, 200));
    source.change(|cluster| cluster.change = |_, _, _, _| {});
    world.want(|p| p.attempt = 1);
    world.wait_caught_up(&source);
    world.stop_and_compare(&source);
}

#[test]
fn a_source_that_claims_to_begin_beyond_our_end_costs_no_record() {
    let source = Source::start(vec![SourceLog::of(10, 2, 5000), SourceLog::of(10, 2, 5000)], 1);
    let mut world = World::new(&source);
    world.assign();
    world.wait_caught_up(&source);
    // Beyond its own end, and beyond ours alone.
    source.change(|cluster| {
        cluster.change = |cluster, index, _, part| {
            part.log_start = Some(if index == 0 { 5000 } else { cluster.logs[1].end });
        };
    });
    for _round in 0..3 {
        source.change(|cluster| cluster.logs.iter_mut().for_each(|log| log.push(10, 2, 400_000)));
        world.wait_caught_up(&source);
    }
    assert_eq!(world.progress(0).unwrap().log_start, 0);
    world.stop();
    assert_eq!(world.bytes(0), source.change(|cluster| cluster.logs[0].bytes()));
}

#[test]
fn a_log_that_could_not_be_finished_is_put_in_order_before_it_takes_records_again() {
    let source = Source::start(vec![SourceLog::of(10, 2, 5000)], 1);
    let mut world = World::new(&source);
    world.assign();
    world.wait_caught_up(&source);
    // Where the snapshot belongs there is something else.
    let obstacle = world.dir(0).join("00000000000000000100.snapshot");
    std::fs::create_dir(&obstacle).unwrap();
    world.want(|p| p.desired = 2);
    world.wait_failed(0, FaultCode::DISK);
    std::fs::remove_dir(&obstacle).unwrap();
    source.change(|cluster| cluster.logs[0].push(10, 2, 5000));
    world.want(|p| (p.desired, p.attempt) = (0, 1));
    world.wait_caught_up(&source);
    world.stop_and_compare(&source);
}

#[test]
fn a_mirror_that_leaves_is_no_fault_of_its_partitions() {
    let source = Source::start(vec![SourceLog::of(10, 2, 5000)], 1);
    let mut world = World::new(&source);
    world.assign();
    world.wait_caught_up(&source);
    world.leave();
    let until = Instant::now() + Duration::from_secs(10);
    while world.progress(0).is_some() {
        assert!(Instant::now() < until, "its partitions leave the board");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(world.counter(Counter::FaultsPartition), 0);
    world.stop_and_compare(&source);
}

#[test]
fn an_error_that_lasts_is_shown_although_it_is_tried_for_ever() {
    let source = Source::start(vec![SourceLog::of(10, 2, 5000), SourceLog::of(10, 2, 5000)], 1);
    source.change(|cluster| cluster.change = |_, index, _, part| part.error = if index == 0 { -1 } else { 0 });
    let mut world = World::new(&source);
    world.set("mirror.fetch.backoff.ms", "0");
    world.assign();
    world.wait(0, "shown to suffer", |p| p.fault == FaultCode::PROTOCOL && p.state == SlotState::Preparing);
    world.wait(1, "caught up", |p| p.leo == 100 && p.fault == FaultCode::NONE);
    source.change(|cluster| cluster.change = |_, _, _, _| {});
    world.wait_caught_up(&source);
    world.wait(0, "without fault", |p| p.fault == FaultCode::NONE);
    world.stop_and_compare(&source);
}

#[test]
fn a_source_that_refuses_every_request_is_left_in_peace_and_said() {
    for code in [-1, 70, 71] {
        let source = Source::start(vec![SourceLog::of(10, 2, 5000)], 1);
        source.change(|cluster| cluster.twists = vec![Twist::Whole(code); 100_000]);
        let mut world = World::new(&source);
        world.assign();
        world.wait(0, "said to be out of reach", |p| p.fault == FaultCode::UNREACHABLE);
        let asked = source.change(|cluster| cluster.seen.len());
        assert!(asked < 20, "{asked} requests that were refused with {code}");
        source.change(|cluster| cluster.twists.clear());
        world.wait_caught_up(&source);
        world.stop_and_compare(&source);
    }
}
