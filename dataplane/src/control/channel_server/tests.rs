//! What clients of the socket get, and what they cannot do.

use super::*;
use crate::control::channel::{CoreEnds, EVENT_ENTRIES, Seat};
use crate::metrics::Counter;
use rustix::fs::{OFlags, open};
use rustix::net::{SendFlags, connect, send};
use std::os::unix::fs::PermissionsExt;
use twinlog_proto::channel::attach::{AttachError, Control, attach_control, attach_control_as, attach_observer};
use twinlog_proto::channel::board::Seen;
use twinlog_proto::channel::damage::{Damage, Part};
use twinlog_proto::channel::message::{Event, Order};
use twinlog_proto::channel::progress::{PartitionProgress, SlotState};
use twinlog_proto::channel::region::Region;

struct House {
    state: tempfile::TempDir,
    seats: Vec<Seat>,
    region: Region,
    server: ChannelServer,
}

fn house(cores: u32) -> House {
    let state = tempfile::tempdir().unwrap();
    let (channel, seats) = Channel::open(cores, 16).unwrap();
    let region = channel.region();
    let server = ChannelServer::start(channel, state.path()).unwrap();
    House { state, seats, region, server }
}

impl House {
    fn socket(&self) -> PathBuf {
        self.state.path().join(SOCKET_NAME)
    }
}

fn soon(mut holds: impl FnMut() -> bool) -> bool {
    (0..200).any(|_| {
        holds() || {
            std::thread::sleep(Duration::from_millis(10));
            false
        }
    })
}

#[test]
fn a_control_plane_gives_orders_and_takes_events_and_sees_the_board() {
    let mut house = house(2);
    let mut control = attach_control(&house.socket()).unwrap();
    let mut ends = house.seats.remove(1).take();
    assert_eq!(ends.inbox.take(), None);
    control.send(1, &Order::AssignmentCurrent { mirror: 4, version: 2 }).unwrap();
    control.send(1, &Order::Drain).unwrap();
    // The bell of this core rang, so a wait for it ends.
    assert_eq!(rustix::io::read(ends.inbox.bell(), &mut [0_u8; 8]), Ok(8));
    assert_eq!(ends.inbox.take(), Some(Order::AssignmentCurrent { mirror: 4, version: 2 }));
    assert_eq!(ends.inbox.take(), Some(Order::Drain));
    assert_eq!(ends.inbox.take(), None);
    let progress = PartitionProgress::unknown(8, SlotState::Preparing);
    ends.outbox.publish(3, &progress).unwrap();
    ends.outbox.event(Event::Changed { slot: 3 });
    ends.outbox.ring();
    assert_eq!(control.cores[1].events_bell.drain(), Ok(true));
    assert_eq!(control.take(1), Ok(Some(Event::Changed { slot: 3 })));
    assert_eq!((control.take(1), control.take(0)), (Ok(None), Ok(None)));
    assert_eq!(control.region.board().read(3), Ok(Seen::Value(progress)));
    ends.outbox.show_counters();
    assert_eq!(control.region.page(1).get(Counter::OrdersTaken), 2);
    assert!(!control.is_over());
}

#[test]
fn events_that_nobody_takes_are_dropped_and_counted_and_the_core_goes_on() {
    let mut house = house(1);
    let mut ends = house.seats.remove(0).take();
    for slot in 0..EVENT_ENTRIES + 5 {
        ends.outbox.event(Event::Changed { slot });
    }
    assert_eq!(ends.metrics.get(Counter::EventsSent), u64::from(EVENT_ENTRIES));
    assert_eq!(ends.metrics.get(Counter::EventsDropped), 5);
    let mut control = attach_control(&house.socket()).unwrap();
    assert_eq!(control.take(0), Ok(None), "old hints are skipped: the board tells all");
    ends.outbox.event(Event::Drained);
    assert_eq!(control.take(0), Ok(Some(Event::Drained)));
}

#[test]
fn a_second_control_plane_puts_the_first_one_out_and_observers_stay() {
    let house = house(1);
    let observer = attach_observer(&house.socket()).unwrap();
    let first = attach_control(&house.socket()).unwrap();
    let second = attach_control(&house.socket()).unwrap();
    assert!(soon(|| first.is_over()));
    assert!(!second.is_over() && !observer.is_over());
    assert_eq!(observer.view.stamp(), house.region.stamp());
    house.server.stop();
    assert!(soon(|| second.is_over() && observer.is_over()));
    assert!(matches!(attach_observer(&house.state.path().join(SOCKET_NAME)), Err(AttachError::NotRunning { .. })));
}

#[test]
fn orders_that_a_dead_control_plane_left_are_followed_by_those_of_the_next() {
    let mut house = house(1);
    attach_control(&house.socket()).unwrap().send(0, &Order::AssignmentRemoved { mirror: 1 }).unwrap();
    let mut ends = house.seats.remove(0).take();
    attach_control(&house.socket()).unwrap().send(0, &Order::Drain).unwrap();
    assert_eq!(ends.inbox.take(), Some(Order::AssignmentRemoved { mirror: 1 }));
    assert_eq!(ends.inbox.take(), Some(Order::Drain));
}

#[test]
fn an_observer_cannot_write_by_accident() {
    let house = house(1);
    let observer = attach_observer(&house.socket()).unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let readable = maps.lines().filter(|line| line.contains("twinlog-channel") && line.contains(" r--s "));
    assert!(readable.count() >= 1);
    drop(observer);
}

#[test]
fn the_socket_is_for_its_owner_and_also_found_behind_a_long_path() {
    let state = tempfile::tempdir().unwrap();
    let long = state.path().join("x".repeat(120));
    std::fs::create_dir(&long).unwrap();
    let (channel, _seats) = Channel::open(1, 1).unwrap();
    let server = ChannelServer::start(channel, &long).unwrap();
    let socket = long.join(SOCKET_NAME);
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    attach_observer(&socket).unwrap();
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert!(matches!(attach_observer(&socket), Err(AttachError::NotOurs { .. })));
    server.stop();
    assert_eq!(std::fs::read_dir(&long).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_client_that_says_nothing_or_nonsense_is_dropped_and_disturbs_nobody() {
    let house = house(1);
    let knock = || {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        connect(&socket, &unix_address(&house.socket()).unwrap().0).unwrap();
        socket
    };
    let (silent, wrong) = (knock(), knock());
    send(&wrong, b"X", SendFlags::empty()).unwrap();
    attach_control(&house.socket()).unwrap();
    let mut bytes = [0; 64];
    let (_, got) = recv(&wrong, &mut bytes, RecvFlags::empty()).unwrap();
    let reply = Reply::from_bytes(bytes[..got].try_into().unwrap()).unwrap();
    assert_eq!(reply.status, Status::NoSuchRole);
    assert_eq!(recv(&wrong, &mut bytes, RecvFlags::empty()).unwrap().1, 0);
    let before = Instant::now();
    assert_eq!(recv(&silent, &mut bytes, RecvFlags::empty()).unwrap().1, 0, "the end comes without an answer");
    assert!(before.elapsed() < Duration::from_secs(5));
}

#[test]
fn garbage_orders_are_counted_and_do_not_keep_the_next_from_being_taken() {
    let mut house = house(1);
    let mut ends = house.seats.remove(0).take();
    let region = house.region.clone();
    let mut rogue = region.order_producer(0);
    rogue.push(&[u64::MAX; 7]).unwrap();
    rogue.push(&Order::Drain.to_words()).unwrap();
    assert_eq!(ends.inbox.take(), Some(Order::Drain));
    assert_eq!(ends.metrics.get(Counter::OrdersRefused), 1);
}

/// What a core does at its ticks, until `holds`.
fn tick_until(ends: &mut CoreEnds, mut holds: impl FnMut(&mut CoreEnds) -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        ends.outbox.move_over([3].into_iter());
        ends.outbox.show_counters();
        ends.outbox.repair(3);
        ends.outbox.repair_header();
        if holds(ends) {
            return;
        }
        assert!(Instant::now() < end, "it never holds");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Attaches while the core ticks, for a new region waits for it.
fn attach_ticking(socket: &Path, ends: &mut CoreEnds) -> Control {
    let socket = socket.to_owned();
    let attaching = std::thread::spawn(move || attach_control(&socket).unwrap());
    tick_until(ends, |_| attaching.is_finished());
    attaching.join().unwrap()
}

#[test]
fn whatever_part_is_written_over_a_new_region_shows_what_the_core_knows() {
    type Area = fn(&Region) -> std::ops::Range<usize>;
    let parts: [(Part, Area); 5] = [
        (Part::Header, |_| 1..8),
        (Part::Page, |region| region.geometry().page(0)),
        (Part::OrderRing, |region| region.geometry().order_ring(0)),
        (Part::EventRing, |region| region.geometry().event_ring(0)),
        (Part::Slot, |region| region.geometry().board().start + 3 * 16..region.geometry().board().start + 4 * 16),
    ];
    for (part, area) in parts {
        let mut house = house(1);
        let mut ends = house.seats.remove(0).take();
        let (progress, counted) = (PartitionProgress::unknown(8, SlotState::Mirroring), ends.metrics.clone());
        ends.outbox.publish(3, &progress).unwrap();
        counted.add(Counter::Batches, 7);
        let (first, watching) = (attach_ticking(&house.socket(), &mut ends), attach_observer(&house.socket()).unwrap());
        assert_eq!(first.memory, Memory::default());
        let area = area(&house.region);
        let garbage = vec![0x77; area.len() * 8];
        rustix::io::pwrite(memfd_of(&house), &garbage, (area.start * 8) as u64).unwrap();
        tick_until(&mut ends, |ends| ends.inbox.take().is_none() && first.is_over() && watching.is_over());
        let mut second = attach_ticking(&house.socket(), &mut ends);
        let memory = second.memory;
        assert_eq!((memory.renewed, memory.standing), (1, Standing::Sound), "{part:?}");
        assert_eq!(memory.damage.map(|damage| damage.part), Some(part));
        assert!(now_ms() - memory.damaged_at_ms < 60_000);
        assert_ne!(second.region.stamp().generation, first.region.stamp().generation);
        assert_eq!(second.region.board().read(3), Ok(Seen::Value(progress)), "{part:?}");
        assert!(second.region.page(0).get(Counter::Batches) == 7, "{part:?}");
        second.send(0, &Order::Drain).unwrap();
        assert_eq!(ends.inbox.take(), Some(Order::Drain), "{part:?}");
        ends.outbox.event(Event::Drained);
        assert_eq!(second.take(0), Ok(Some(Event::Drained)), "{part:?}");
        assert!(attach_observer(&house.socket()).is_ok() && !second.is_over());
    }
}

#[test]
fn a_control_plane_that_saw_damage_gets_a_new_region_once_and_then_the_same_until_it_is_due() {
    let mut house = house(1);
    let mut ends = house.seats.remove(0).take();
    let first = attach_control(&house.socket()).unwrap();
    let damage = Damage::of(Part::Slot, 4);
    let mut ask = |generation| {
        let (socket, hello) = (house.socket(), Hello::Damaged { generation, damage });
        let attaching = std::thread::spawn(move || attach_control_as(&socket, hello).unwrap());
        tick_until(&mut ends, |_| attaching.is_finished());
        attaching.join().unwrap()
    };
    let of = |control: &Control| control.region.stamp().generation;
    let second = ask(of(&first));
    assert_ne!(of(&second), of(&first));
    assert_eq!((second.memory.damage, second.memory.renewed), (Some(damage), 1));
    let third = ask(of(&first));
    assert_eq!(of(&third), of(&second), "what was said of the region before is old");
    assert_eq!(third.memory.standing, Standing::Sound);
    let fourth = ask(of(&second));
    assert_eq!((of(&fourth), fourth.memory.standing), (of(&second), Standing::Waiting), "not twice in a second");
    tick_until(&mut ends, |_| fourth.is_over());
    assert_eq!(attach_ticking(&house.socket(), &mut ends).memory.renewed, 2);
}

#[test]
fn a_core_that_hangs_does_not_keep_the_others_from_a_new_region() {
    let mut house = house(2);
    let (_hangs, mut ends) = (house.seats.remove(0).take(), house.seats.remove(0).take());
    let first = attach_control(&house.socket()).unwrap();
    let area = house.region.geometry().event_ring(1);
    rustix::io::pwrite(memfd_of(&house), &[0x77; 8], (area.start * 8) as u64).unwrap();
    tick_until(&mut ends, |_| first.is_over());
    assert_eq!(attach_control(&house.socket()).unwrap().memory.renewed, 1);
}

/// The region's file, as a broken control plane has it.
fn memfd_of(house: &House) -> OwnedFd {
    let wanted = house.region.stamp().generation.to_ne_bytes();
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| {
            open(entry.unwrap().path(), OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()
        })
        .find(|file| {
            let mut generation = [0; 8];
            rustix::io::pread(file, &mut generation, 16) == Ok(8) && generation == wanted
        })
        .unwrap()
}
