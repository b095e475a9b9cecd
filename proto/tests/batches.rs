//! A pass proves: batches are found the same however the bytes are cut, damaged ones are never passed, nothing is allocated.

mod common;
#[path = "common/counting_allocator.rs"]
#[allow(unsafe_code)]
mod counting_allocator;

use common::{Random, SEGMENTS, batches, segment_file};
use counting_allocator::asked;
use twinlog_proto::records::batch::HEADER_BYTES;
use twinlog_proto::records::batches::{BatchError, BatchEvent, BatchLimits, BatchWalker, EndMarker};

#[global_allocator]
static ALLOCATOR: counting_allocator::Counting = counting_allocator::Counting;

const LIMITS: BatchLimits = BatchLimits { batch_bytes_max: 1 << 20 };

/// Feeds the pieces and calls `see` with every event and the number of bytes taken before it.
fn walk(walker: &mut BatchWalker, pieces: &[&[u8]], mut see: impl FnMut(usize, BatchEvent)) -> Result<(), BatchError> {
    let mut taken = 0;
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let fed = walker.feed(rest)?;
            rest = &rest[fed.consumed..];
            taken += fed.consumed;
            match fed.event {
                Some(event) => see(taken, event),
                None => break,
            }
        }
        assert!(rest.is_empty(), "without an event the whole piece is taken");
    }
    Ok(())
}

fn events(pieces: &[&[u8]]) -> Vec<(usize, BatchEvent)> {
    let mut seen = Vec::new();
    walk(&mut BatchWalker::new(LIMITS), pieces, |taken, event| seen.push((taken, event))).unwrap();
    seen
}

#[test]
fn golden_batches_are_found_the_same_when_cut_at_every_byte() {
    for base in SEGMENTS {
        let log = segment_file(base, "log");
        let whole = events(&[&log]);
        for cut in 0..=log.len() {
            let (a, b) = log.split_at(cut);
            assert_eq!(events(&[a, b]), whole, "segment {base} cut at {cut}");
        }
        let single: Vec<&[u8]> = log.chunks(1).collect();
        assert_eq!(events(&single), whole, "segment {base} byte by byte");
    }
}

#[test]
fn the_golden_markers_are_read() {
    let markers: Vec<_> = SEGMENTS
        .iter()
        .flat_map(|base| batches(&segment_file(*base, "log")))
        .filter_map(|seen| seen.marker.map(|marker| (seen.header.base_offset, marker)))
        .collect();
    let marker = |commit, coordinator_epoch| EndMarker { commit, coordinator_epoch };
    assert_eq!(markers, [(30, marker(true, 7)), (31, marker(false, 7)), (1154, marker(false, 8))]);
}

#[test]
fn a_flipped_bit_is_an_error_or_lies_outside_of_the_checksum() {
    for base in SEGMENTS {
        let mut log = segment_file(base, "log");
        let first = batches(&log)[0].header.size_bytes();
        for bit in 0..first * 8 {
            log[bit / 8] ^= 1 << (bit % 8);
            let mut whole = false;
            let result = walk(&mut BatchWalker::new(LIMITS), &[&log[..first]], |_, event| {
                whole |= matches!(event, BatchEvent::Batch { .. });
            });
            // Base offset and leader epoch are not under the checksum; a longer length field waits for bytes.
            let unprotected = matches!(bit / 8, 0..8 | 12..16);
            assert_eq!(whole, unprotected && result.is_ok(), "bit {bit}");
            log[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn damaged_batches_end_the_same_however_they_are_cut() {
    let logs = SEGMENTS.map(|base| segment_file(base, "log"));
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let mut log = logs[seed as usize % logs.len()][..3000].to_vec();
        random.damage(&mut log);
        let outcome = |pieces: &[&[u8]]| {
            let mut walker = BatchWalker::new(LIMITS);
            let mut seen = Vec::new();
            let result = walk(&mut walker, pieces, |taken, event| seen.push((taken, event)));
            (seen, result)
        };
        assert_eq!(outcome(&random.pieces(&log)), outcome(&[&log]), "seed {seed}");
    }
}

#[test]
fn a_proper_prefix_of_a_batch_is_pending_and_never_a_batch() {
    let log = segment_file(0, "log");
    let size = batches(&log)[0].header.size_bytes();
    for cut in 0..size {
        let mut walker = BatchWalker::new(LIMITS);
        walk(&mut walker, &[&log[..cut]], |_, event| assert!(matches!(event, BatchEvent::Header(_)))).unwrap();
        assert_eq!(walker.pending_bytes(), cut);
        assert_eq!(walker.header_bytes(), &log[..cut.min(HEADER_BYTES)]);
        assert_eq!(walker.remaining_bytes(), (cut >= HEADER_BYTES).then(|| size - cut));
    }
}

#[test]
fn a_batch_of_20_mb_passes_in_pieces_without_an_allocation() {
    const SIZE: usize = 20_000_061;
    let mut batch = vec![0x5a_u8; SIZE];
    batch[..HEADER_BYTES].copy_from_slice(&segment_file(0, "log")[..HEADER_BYTES]);
    batch[8..12].copy_from_slice(&(SIZE as i32 - 12).to_be_bytes());
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    let mut walker = BatchWalker::new(BatchLimits { batch_bytes_max: 32 << 20 });
    let mut found = 0;
    let ((), asked) = asked(|| {
        for piece in batch.chunks((1 << 20) - 7) {
            walk(&mut walker, &[piece], |_, event| found += usize::from(matches!(event, BatchEvent::Batch { .. })))
                .unwrap();
        }
    });
    assert_eq!((found, asked.bytes), (1, 0));
    let refused = BatchWalker::new(LIMITS).feed(&batch).unwrap_err();
    assert!(matches!(refused, BatchError::Size { batch_length: 20_000_049, .. }), "{refused}");
}

#[test]
fn a_batch_without_records_ends_with_its_header() {
    let mut batch = segment_file(0, "log")[..HEADER_BYTES].to_vec();
    batch[8..12].copy_from_slice(&49_i32.to_be_bytes());
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    let seen = events(&[&batch]);
    assert!(matches!(seen[..], [(61, BatchEvent::Header(_)), (61, BatchEvent::Batch { .. })]));
}

#[test]
fn formats_and_sizes_that_cannot_be_are_named_as_soon_as_they_are_seen() {
    let log = segment_file(0, "log");
    let patched = |at: usize, bytes: &[u8]| {
        let mut batch = log[..17].to_vec();
        batch[at..at + bytes.len()].copy_from_slice(bytes);
        BatchWalker::new(LIMITS).feed(&batch).unwrap_err()
    };
    assert_eq!(patched(16, &[1]), BatchError::OldFormat { base_offset: 0, magic: 1 });
    assert_eq!(patched(16, &[3]), BatchError::UnknownMagic { base_offset: 0, magic: 3 });
    for length in [i32::MIN, -1, 0, 13, 48, (1 << 20) - 11, i32::MAX] {
        assert!(
            matches!(patched(8, &length.to_be_bytes()), BatchError::Size { batch_length, .. } if batch_length == length)
        );
    }
}

#[test]
fn offsets_that_no_log_can_hold_are_refused() {
    let log = segment_file(0, "log");
    for (at, bytes) in [(0, &i64::MAX.to_be_bytes()[..]), (0, &(-1_i64).to_be_bytes()), (23, &(-1_i32).to_be_bytes())] {
        let mut batch = log.clone();
        batch[at..at + bytes.len()].copy_from_slice(bytes);
        assert!(matches!(BatchWalker::new(LIMITS).feed(&batch), Err(BatchError::Offsets { .. })));
    }
}

#[test]
fn after_an_error_only_a_reset_goes_on() {
    let log = segment_file(0, "log");
    let mut walker = BatchWalker::new(LIMITS);
    let error = walker.feed(&[0xff; 61]).unwrap_err();
    assert_eq!(walker.feed(&log), Err(error));
    walker.reset();
    assert!(walker.feed(&log).unwrap().event.is_some());
}
