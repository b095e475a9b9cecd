//! A region that was made, sealed, sent and mapped again; and those that are refused.

use super::super::board::Seen;
use super::super::message::{Event, Order};
use super::super::page::Counter;
use super::super::progress::{PartitionProgress, SlotState};
use super::*;
use rustix::io::{pread, pwrite};

const STAMP: Stamp = Stamp { generation: 5, pid: 77, started_at_ms: 1_700_000_000_000 };

fn made() -> (Region, OwnedFd) {
    Region::create(Geometry::new(2, 10, 4, 8).unwrap(), STAMP).unwrap()
}

#[test]
fn two_mappings_of_a_region_see_the_same_board_rings_and_pages() {
    let (data, file) = made();
    let control = Region::attach(&file).unwrap();
    assert_eq!((control.stamp(), control.geometry()), (STAMP, data.geometry()));
    let progress = PartitionProgress::unknown(3, SlotState::Mirroring);
    data.board_writer().publish(9, &progress).unwrap();
    assert_eq!(control.board().read(9), Ok(Seen::Value(progress)));
    assert!(control.board().read(10).is_err());
    for core in 0..2 {
        let order = Order::AssignmentCurrent { mirror: u64::from(core), version: 1 };
        control.order_producer(core).push(&order.to_words()).unwrap();
        let got = data.order_consumer(core).pop().unwrap().unwrap();
        assert_eq!(Order::from_words(&got), Ok(order));
        let mut events = control.event_consumer(core);
        data.event_producer(core).push(&Event::Drained.to_words()).unwrap();
        assert_eq!(Event::from_words(&events.pop().unwrap().unwrap()), Ok(Event::Drained));
        data.page_writer(core).add(Counter::Turns, 4 + u64::from(core));
        assert_eq!(View::attach(&file).unwrap().page(core).get(Counter::Turns), 4 + u64::from(core));
    }
}

#[test]
fn an_end_keeps_its_memory_mapped_when_the_region_is_gone() {
    let (data, file) = made();
    let board = data.board();
    drop((data, file));
    assert_eq!(board.read(0), Ok(Seen::Empty));
}

#[test]
fn nobody_can_change_the_size_of_a_region() {
    let (_data, file) = made();
    assert!(ftruncate(&file, 0).is_err());
    assert!(ftruncate(&file, 1 << 30).is_err());
    assert!(fcntl_add_seals(&file, SealFlags::WRITE).is_err());
}

#[test]
fn a_file_that_may_still_shrink_is_refused() {
    let file = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, 1 << 20).unwrap();
    assert!(matches!(Region::attach(&file), Err(RegionError::NotSealed)));
    fcntl_add_seals(&file, SIZE_SEALS).unwrap();
    assert!(matches!(Region::attach(&file), Err(RegionError::Magic { found: 0 })));
    let file = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
    fcntl_add_seals(&file, SIZE_SEALS).unwrap();
    assert!(matches!(View::attach(&file), Err(RegionError::Size { found: 0, .. })));
}

#[test]
fn every_garbage_header_word_is_refused_by_its_name() {
    let (_data, file) = made();
    let refused = |at: usize, value: u64| {
        let mut kept = [0; 8];
        let position = (at * WORD_BYTES) as u64;
        pread(&file, &mut kept, position).unwrap();
        pwrite(&file, &value.to_ne_bytes(), position).unwrap();
        let error = View::attach(&file).unwrap_err();
        pwrite(&file, &kept, position).unwrap();
        View::attach(&file).unwrap();
        error
    };
    assert!(matches!(refused(header::MAGIC_AT, !0), RegionError::Magic { .. }));
    assert!(matches!(refused(header::VERSION_AT, 99), RegionError::Version { found: 99 }));
    assert!(matches!(refused(header::GENERATION_AT, 0), RegionError::NoGeneration));
    assert!(matches!(refused(header::WORDS_AT, 1), RegionError::Size { .. }));
    assert!(matches!(refused(header::CORES_AT, !0), RegionError::Geometry(_)));
    assert!(matches!(refused(header::SLOTS_AT, 1 << 32), RegionError::Geometry(_)));
    assert!(matches!(refused(header::SLOTS_AT, 100_000), RegionError::Size { .. }));
    assert!(matches!(refused(header::ORDER_ENTRIES_AT, 3), RegionError::Geometry(_)));
    assert!(matches!(refused(header::EVENT_ENTRIES_AT, 0), RegionError::Geometry(_)));
}

#[test]
fn a_restarted_control_plane_mends_rings_that_the_last_one_broke() {
    let (data, file) = made();
    let geometry = data.geometry();
    let mut orders = data.order_consumer(0);
    let mut events = data.event_producer(0);
    for area in [geometry.order_ring(0), geometry.event_ring(0)] {
        let garbage = vec![0xee; area.len() * WORD_BYTES];
        pwrite(&file, &garbage, (area.start * WORD_BYTES) as u64).unwrap();
    }
    assert!(orders.pop().is_err());
    let event = Event::Changed { slot: 1 }.to_words();
    // The core looks at the neighbour's position only when the ring seems full to it.
    assert!((0..=geometry.event_entries()).any(|_| events.push(&event).is_err()));
    let control = Region::attach(&file).unwrap();
    let (mut to, mut from) = (control.order_producer(0), control.event_consumer(0));
    to.push(&Order::Drain.to_words()).unwrap();
    assert_eq!(orders.pop(), Ok(Some(Order::Drain.to_words())));
    events.push(&event).unwrap();
    assert_eq!(from.pop(), Ok(Some(event)));
    assert!(data.order_consumer(1).pop().unwrap().is_none(), "the other core's rings are whole");
}

#[test]
fn a_header_that_was_written_over_is_mended_and_only_then() {
    let (region, file) = made();
    assert!(!region.mend());
    let position = (header::SLOTS_AT * WORD_BYTES) as u64;
    pwrite(&file, &(1_u64 << 32).to_ne_bytes(), position).unwrap();
    assert!(View::attach(&file).is_err());
    assert!(region.mend() && !region.mend());
    assert_eq!(View::attach(&file).unwrap().geometry(), region.geometry());
}
