//! A pass proves: Fetch responses of stock Kafka give the same events however they are cut, ours equal stock's byte for byte, no
//! damage panics, and the walk allocates nothing.

mod common;
#[path = "common/counting_allocator.rs"]
#[allow(unsafe_code)]
mod counting_allocator;

use common::{Random, golden};
use counting_allocator::asked;
use twinlog_proto::error::DecodeError;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::fetch::encode::{AbortedTransaction, Endpoint, FetchFrame};
use twinlog_proto::messages::fetch::walker::{FetchEvent, FetchWalker};
use twinlog_proto::messages::fetch::{
    CurrentLeader, EpochEnd, PartitionHead, PartitionTail, ResponseHead, TopicRef, VERSION_MAX, VERSION_MIN,
};

#[global_allocator]
static ALLOCATOR: counting_allocator::Counting = counting_allocator::Counting;

const CORRELATION: i32 = 0x0102_0304;

/// The golden body of a version behind a response header; no length.
fn golden_frame(version: i16) -> Vec<u8> {
    let mut frame = CORRELATION.to_be_bytes().to_vec();
    if version >= 12 {
        frame.push(0);
    }
    frame.extend(golden(&format!("fetch-response/fetch-v{version}.bin")));
    frame
}

/// An event with what it borrows.
#[derive(Debug, Clone, PartialEq)]
enum Seen {
    Response(ResponseHead),
    Partition(Option<String>, PartitionHead),
    Records(Vec<u8>),
    PartitionEnd(PartitionTail),
    Node(i32, String, u16),
    End(usize),
}

/// The events of a frame given in pieces; neighbouring runs of records are joined.
fn walk(version: i16, frame_bytes: usize, pieces: &[&[u8]]) -> Result<Vec<Seen>, DecodeError> {
    let mut walker = FetchWalker::new(version, frame_bytes)?;
    let mut seen = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let before = walker.records_remaining();
            let (taken, event) = walker.feed(rest)?;
            rest = &rest[taken..];
            match event {
                FetchEvent::NeedMore => break,
                FetchEvent::Response(head) => seen.push(Seen::Response(head)),
                FetchEvent::Partition(head) => {
                    assert_eq!(walker.records_remaining(), head.records_bytes as usize);
                    seen.push(Seen::Partition(walker.topic_name().map(str::to_owned), head));
                }
                FetchEvent::Records(bytes) => {
                    assert_eq!(walker.records_remaining(), before - bytes.len());
                    match seen.last_mut() {
                        Some(Seen::Records(all)) => all.extend_from_slice(bytes),
                        _ => seen.push(Seen::Records(bytes.to_vec())),
                    }
                }
                FetchEvent::PartitionEnd(tail) => seen.push(Seen::PartitionEnd(tail)),
                FetchEvent::Node(node) => {
                    seen.push(Seen::Node(node.id, walker.host().unwrap_or_default().to_owned(), node.port));
                }
                FetchEvent::End { trailing_bytes } => {
                    seen.push(Seen::End(trailing_bytes));
                    assert_eq!((rest.len(), walker.frame_remaining()), (0, 0));
                    return Ok(seen);
                }
            }
        }
        assert!(rest.is_empty(), "a walker that needs more took everything");
    }
    Ok(seen)
}

fn whole(version: i16) -> Vec<Seen> {
    let frame = golden_frame(version);
    walk(version, frame.len(), &[&frame]).unwrap()
}

#[test]
fn golden_responses_say_what_their_readme_says() {
    for version in VERSION_MIN..=VERSION_MAX {
        let seen = whole(version);
        let Seen::Response(head) = &seen[0] else { panic!("{:?}", seen[0]) };
        assert_eq!((head.correlation_id, head.error), (CORRELATION, ErrorCode(0)));
        let heads: Vec<_> = seen
            .iter()
            .filter_map(|each| if let Seen::Partition(name, head) = each { Some((name.clone(), *head)) } else { None })
            .collect();
        let tails: Vec<_> = seen
            .iter()
            .filter_map(|each| if let Seen::PartitionEnd(tail) = each { Some(*tail) } else { None })
            .collect();
        let regions: Vec<_> = seen
            .iter()
            .filter_map(|each| if let Seen::Records(bytes) = each { Some(bytes.len()) } else { None })
            .collect();
        assert_eq!((heads.len(), tails.len()), (6, 6));
        assert_eq!(regions, [221, 221]);
        for topic in 0..2 {
            let [first, second, third] = [0, 1, 2].map(|i| heads[topic * 3 + i].1);
            let name = (version < 13).then(|| format!("topic-{topic}"));
            assert_eq!((&heads[topic * 3].0, matches!(first.topic, TopicRef::Id(_))), (&name, version >= 13));
            assert_eq!((first.index, first.records_bytes, first.preferred_read_replica), (0, 221, -1));
            assert_eq!((second.records_bytes, second.preferred_read_replica), (0, if version >= 11 { 4 } else { -1 }));
            assert_eq!((third.error, third.records_bytes), (ErrorCode(6), 0));
            let flexible = version >= 12;
            assert_eq!(tails[topic * 3], PartitionTail::default());
            let diverging = flexible.then_some(EpochEnd { epoch: 2, end_offset: 50 });
            assert_eq!(tails[topic * 3 + 1], PartitionTail { diverging, current_leader: None });
            let current_leader = flexible.then_some(CurrentLeader { id: 3, epoch: 8 });
            assert_eq!(tails[topic * 3 + 2], PartitionTail { diverging: None, current_leader });
        }
        assert_eq!(seen.iter().any(|each| matches!(each, Seen::Node(3, ..))), version >= 16);
        assert_eq!(seen.last(), Some(&Seen::End(0)));
    }
}

#[test]
fn golden_responses_give_the_same_events_when_cut_at_every_byte() {
    for version in VERSION_MIN..=VERSION_MAX {
        let frame = golden_frame(version);
        let expected = whole(version);
        for cut in 0..=frame.len() {
            let (a, b) = frame.split_at(cut);
            assert_eq!(walk(version, frame.len(), &[a, b]).unwrap(), expected, "version {version} cut at {cut}");
        }
        for size in 1..=7 {
            let pieces: Vec<&[u8]> = frame.chunks(size).collect();
            assert_eq!(walk(version, frame.len(), &pieces).unwrap(), expected, "version {version} in pieces of {size}");
        }
    }
}

#[test]
fn a_frame_that_ends_too_early_is_refused_and_a_prefix_only_waits() {
    for version in VERSION_MIN..=VERSION_MAX {
        let frame = golden_frame(version);
        let expected = whole(version);
        for cut in 0..frame.len() {
            assert!(walk(version, cut, &[&frame[..cut]]).is_err(), "version {version}: a frame of {cut} bytes");
            let seen = walk(version, frame.len(), &[&frame[..cut]]).unwrap();
            assert!(!seen.iter().any(|each| matches!(each, Seen::End(_))) && seen.len() <= expected.len());
        }
    }
}

#[test]
fn no_flipped_bit_panics_or_allocates() {
    for version in VERSION_MIN..=VERSION_MAX {
        let mut frame = golden_frame(version);
        for bit in 0..frame.len() * 8 {
            frame[bit / 8] ^= 1 << (bit % 8);
            let (_result, asked) = asked(|| drain(version, &frame));
            assert_eq!(asked.bytes, 0, "version {version} bit {bit}");
            frame[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn damaged_responses_end_the_same_however_they_are_cut() {
    for seed in 0..4000 {
        let mut random = Random::new(seed);
        let version = VERSION_MIN + (seed % 15) as i16;
        let mut frame = golden_frame(version);
        random.damage(&mut frame);
        let whole = walk(version, frame.len(), &[&frame]);
        let cut = walk(version, frame.len(), &random.pieces(&frame));
        assert_eq!(cut, whole, "seed {seed}");
    }
}

/// Walks to the end or to an error and drops the events.
fn drain(version: i16, frame: &[u8]) -> Result<(), DecodeError> {
    let mut walker = FetchWalker::new(version, frame.len())?;
    let mut rest = frame;
    loop {
        let (taken, event) = walker.feed(rest)?;
        rest = &rest[taken..];
        match event {
            FetchEvent::NeedMore => panic!("a frame of which all bytes were fed needs no more"),
            FetchEvent::End { .. } => return Ok(()),
            _ => {}
        }
    }
}

#[test]
fn what_we_write_equals_stock_but_for_null_batches() {
    for version in VERSION_MIN..=VERSION_MAX {
        let stock = golden_frame(version);
        let seen = whole(version);
        let (ours, null_batches_at) = rewrite(version, &seen);
        assert_eq!(i32::from_be_bytes(ours[..4].try_into().unwrap()) as usize, stock.len());
        let mut ours = ours[4..].to_vec();
        // Stock wrote null for partition 2: one byte less in value, all ones before version 12.
        for end in null_batches_at {
            let bytes = if version >= 12 { &mut ours[end - 5..end - 4] } else { &mut ours[end - 8..end - 4] };
            bytes.copy_from_slice(if version >= 12 { &[0] } else { &[0xff; 4] });
        }
        assert_eq!(ours, stock, "version {version}");
    }
}

/// Writes the golden events again; also tells where the batches of partitions 2 belong, the frame's length counted.
fn rewrite(version: i16, seen: &[Seen]) -> (Vec<u8>, Vec<usize>) {
    let Seen::Response(head) = seen[0] else { panic!("{:?}", seen[0]) };
    let mut out = Vec::new();
    let mut frame = FetchFrame::begin(&mut out, version, &head, 2).unwrap();
    let (mut regions, mut ends, mut inserted) = (Vec::new(), Vec::new(), 0);
    let mut nodes = Vec::new();
    for (i, each) in seen.iter().enumerate() {
        match each {
            Seen::Partition(name, head) => {
                if head.index == 0 {
                    let id = if let TopicRef::Id(id) = head.topic { id } else { Uuid::ZERO };
                    frame.topic(id, name.as_deref().unwrap_or(""), 3);
                }
                let one = [AbortedTransaction { producer_id: 9, first_offset: 1 }];
                let aborted = [None, Some(&one[..]), Some(&[][..])][head.index as usize];
                let at = frame.partition(head, aborted);
                if let Some(Seen::Records(bytes)) = seen.get(i + 1) {
                    regions.push((at, bytes.clone()));
                    inserted += bytes.len();
                }
                if head.index == 2 {
                    ends.push(at + inserted);
                }
            }
            Seen::PartitionEnd(tail) => {
                frame.partition_end(tail);
                if ends.len() == regions.len() {
                    frame.topic_end();
                }
            }
            Seen::Node(id, host, port) => nodes.push((*id, host.clone(), *port)),
            Seen::Response(_) | Seen::Records(_) | Seen::End(_) => {}
        }
    }
    let nodes: Vec<_> =
        nodes.iter().map(|(id, host, port)| Endpoint { id: *id, host, port: *port, rack: Some("r") }).collect();
    frame.end(&nodes).unwrap();
    for (at, bytes) in regions.iter().rev() {
        out.splice(at..at, bytes.iter().copied());
    }
    (out, ends)
}

#[test]
fn bytes_after_the_last_field_are_passed_over_and_counted() {
    let mut frame = golden_frame(17);
    frame.extend([9, 9, 9]);
    for size in [1, 5, frame.len()] {
        let pieces: Vec<&[u8]> = frame.chunks(size).collect();
        assert_eq!(walk(17, frame.len(), &pieces).unwrap().last(), Some(&Seen::End(3)));
    }
}

#[test]
fn unknown_tags_are_passed_over_and_their_order_is_checked() {
    let body = |tags: &[u8]| {
        let mut frame = vec![0, 0, 0, 1];
        frame.extend_from_slice(tags);
        frame.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
        walk(12, frame.len(), &[&frame])
    };
    assert_eq!(body(&[2, 5, 1, 0xee, 9, 2, 0xee, 0xee]).unwrap().last(), Some(&Seen::End(0)));
    for wrong in [&[2, 5, 0, 5, 0][..], &[2, 6, 0, 5, 0], &[1, 5, 0x7f], &[0xff, 0xff, 0xff, 0xff, 0x1f]] {
        assert!(body(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_count_that_the_frame_cannot_hold_is_refused_before_anything_is_read() {
    let mut frame = vec![0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    frame.extend([0xff, 0xff, 0xff, 0xff, 0x0f]);
    let error = walk(13, frame.len(), &[&frame]).unwrap_err();
    assert_eq!(error.at, frame.len());
    assert!(walk(4, 12, &[&[0, 0, 0, 1, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff]]).is_err());
    assert!(walk(4, 12, &[&[0, 0, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]]).is_err(), "no null topics");
}

#[test]
fn versions_outside_of_4_to_18_are_refused() {
    for version in [-1, 0, 3, 19] {
        assert!(FetchWalker::new(version, 100).is_err());
        let head = ResponseHead { correlation_id: 1, throttle_ms: 0, error: ErrorCode(0), session_id: 0 };
        assert!(FetchFrame::begin(&mut Vec::new(), version, &head, 0).is_err());
    }
}
