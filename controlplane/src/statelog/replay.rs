//! Reads the state log from its beginning: forgives a torn tail, refuses a torn middle.
//!
//! Called once, before the first request. A batch that is cut off or damaged with nothing valid after it is what a crash
//! in the middle of an append leaves behind: it was never answered, and it is cut away. The same with a valid batch
//! after it is damage to what has been promised: the process does not start, and says where.

use crate::error::Fatal;
use crate::limits::COMMIT_CHANGES_MAX;
use crate::statelog::batch::{self, Batch};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// What was found in the log.
#[derive(Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The whole batches, in order.
    pub batches: Vec<Batch>,
    /// Where the next batch belongs, as an offset.
    pub next_offset: i64,
    /// Where the next batch belongs, as a position in the file.
    pub size_bytes: u64,
    /// Bytes of a torn tail behind it.
    pub torn_bytes: u64,
}

/// Reads the file at `path`; an absent file is an empty log.
///
/// # Errors
/// When it cannot be read, or is damaged before its end.
pub fn read(path: &Path) -> Result<Replayed, Fatal> {
    let mut bytes = Vec::new();
    let fatal = |why: &dyn std::fmt::Display| {
        Fatal::new(
            format_args!("cannot read the state log {}", path.display()),
            why,
            "check that the user of this process owns --state",
        )
    };
    match File::open(path) {
        Ok(mut file) => file.read_to_end(&mut bytes).map_err(|cause| fatal(&cause))?,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => 0,
        Err(cause) => return Err(fatal(&cause)),
    };
    parse(&bytes).map_err(|damage| {
        Fatal::new(
            format_args!("the state log {} is damaged", path.display()),
            damage,
            "restore it from a copy; `twinlog dump` shows what is readable",
        )
    })
}

/// Splits the bytes of a log into batches.
///
/// # Errors
/// The position and cause of damage that is followed by a valid batch.
pub fn parse(bytes: &[u8]) -> Result<Replayed, String> {
    let mut batches: Vec<Batch> = Vec::new();
    let mut at = 0;
    let mut next_offset = 0;
    while at < bytes.len() {
        let why = match batch::decode(&bytes[at..]) {
            // Only the first batch may start anywhere: compaction keeps the numbering.
            Ok(batch) if batch.base_offset == next_offset || at == 0 => {
                at += batch.size_bytes;
                next_offset = batch.next_offset;
                batches.push(batch);
                continue;
            }
            // A whole batch is never what a torn append leaves behind.
            Ok(batch) => {
                let found = batch.base_offset;
                return Err(format!("offset {next_offset} at position {at}: the batch here starts at offset {found}"));
            }
            Err(cause) => cause,
        };
        if let Some(later) = next_valid(&bytes[at..], next_offset) {
            return Err(format!(
                "offset {next_offset} at position {at}: {why}, but a whole batch follows at position {}",
                at + later
            ));
        }
        break;
    }
    Ok(Replayed { batches, next_offset, size_bytes: at as u64, torn_bytes: (bytes.len() - at) as u64 })
}

/// The position of a whole batch after the first byte, whose offset could follow `expected`.
fn next_valid(bytes: &[u8], expected: i64) -> Option<usize> {
    // A torn append was one commit; offsets further away than a few of them are bytes that look like a batch by chance.
    const OFFSETS_AHEAD_MAX: i64 = 1 << 32;
    const _: () = assert!((COMMIT_CHANGES_MAX as i64) < OFFSETS_AHEAD_MAX, "one commit is within reach");
    (1..bytes.len().saturating_sub(batch::HEADER_BYTES - 1)).find(|at| {
        let candidate = &bytes[*at..];
        let base = candidate.first_chunk().map_or(-1, |offset| i64::from_be_bytes(*offset));
        candidate[16] == 2
            && (expected..expected.saturating_add(OFFSETS_AHEAD_MAX)).contains(&base)
            && batch::check(candidate).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statelog::batch::KeyValue;

    fn log(batches: usize) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = Vec::new();
        let mut ends = vec![0];
        for i in 0..batches {
            let record = |n: u8| KeyValue { key: vec![0, 2, n], value: Some(vec![n; 40]) };
            batch::encode(&mut bytes, 2 * i as i64, 5, &[record(i as u8), record(9)]);
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    #[test]
    fn a_log_torn_at_any_byte_replays_the_batches_before_it() {
        let (bytes, ends) = log(3);
        for length in 0..=bytes.len() {
            let whole = ends.iter().filter(|end| **end <= length).count() - 1;
            let replayed = parse(&bytes[..length]).unwrap();
            assert_eq!(replayed.batches.len(), whole, "cut at {length}");
            assert_eq!(replayed.size_bytes as usize, ends[whole]);
            assert_eq!(replayed.torn_bytes as usize, length - ends[whole]);
            assert_eq!(replayed.next_offset, 2 * whole as i64);
        }
    }

    #[test]
    fn damage_before_a_whole_batch_is_refused_with_its_offset_and_in_the_last_batch_is_a_torn_tail() {
        let (bytes, ends) = log(3);
        for at in 0..bytes.len() {
            let epoch = ends.iter().any(|end| (end + 12..end + 16).contains(&at));
            if epoch {
                continue; // not under the checksum, and not used
            }
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            let result = parse(&damaged);
            if at >= ends[2] + 8 {
                assert_eq!(result.unwrap().batches.len(), 2, "byte {at}");
            } else if at >= 8 {
                let message = result.unwrap_err();
                let offset = 2 * (ends.iter().filter(|end| **end <= at).count() - 1);
                assert!(message.starts_with(&format!("offset {offset} at position")), "byte {at}: {message}");
            }
        }
    }

    #[test]
    fn a_tail_of_zeros_or_noise_is_forgiven() {
        let (mut bytes, ends) = log(2);
        bytes.extend_from_slice(&[0; 5000]);
        assert_eq!(parse(&bytes).unwrap().size_bytes as usize, ends[2]);
        bytes.extend((0..5000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8));
        assert_eq!(parse(&bytes).unwrap().size_bytes as usize, ends[2]);
    }
}
