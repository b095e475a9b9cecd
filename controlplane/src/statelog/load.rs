//! The state log to a catalog, at the start of the process.

use crate::error::Fatal;
use crate::limits::{CATALOG_MEMORY_SHARE, MEMORY_LOOK_BYTES};
use crate::memory::Memory;
use crate::mirror::catalog::Catalog;
use crate::statelog::batch::KeyValue;
use crate::statelog::record;
use crate::statelog::replay::{self, Replayed, Taker, Unreadable};
use crate::statelog::writer;
use std::fs::File;
use std::path::Path;
use std::time::Instant;
use tracing::info;
use twinlog_proto::error::DecodeError;

/// A catalog and the log that it came from.
#[derive(Debug)]
pub struct Loaded {
    /// What the log says.
    pub catalog: Catalog,
    /// What was found in it.
    pub replayed: Replayed,
    /// Bytes that the log would have right after a compaction, estimated.
    pub compacted_bytes: u64,
}

/// Replays the log below `state`; an absent one is empty.
///
/// # Errors
/// When it cannot be read, is damaged before its end, holds what this version does not understand, or more than `memory` can hold.
pub fn load(state: &Path, memory: Memory) -> Result<Loaded, Fatal> {
    let path = writer::log_path(state);
    let unreadable = |why: Unreadable| {
        let shown = path.display();
        match why {
            Unreadable::Io(cause) => Fatal::new(
                format_args!("cannot read the state log {shown}"),
                cause,
                "check that the user of this process owns --state",
            ),
            Unreadable::Damaged(what) => Fatal::new(
                format_args!("the state log {shown} is damaged"),
                what,
                "restore it from a copy; `twinlog dump` shows what is readable",
            ),
            Unreadable::Record { offset, cause } => Fatal::new(
                format_args!("the state log {shown} cannot be read at offset {offset}"),
                cause,
                "was it written by a newer release? run that one, or restore the log from a copy",
            ),
            Unreadable::NoRoom(why) => Fatal::new(
                format_args!("the state log {shown} holds more than this host has memory for"),
                why,
                "give the control plane more memory, or mirror fewer partitions with one control plane",
            ),
        }
    };
    let began = Instant::now();
    let mut loading = Loading { catalog: Catalog::default(), memory, looked_at: 0 };
    let replayed = match File::open(&path) {
        Ok(file) => replay::replay(&file, &mut loading).map_err(unreadable)?,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Replayed::default(),
        Err(cause) => return Err(unreadable(Unreadable::Io(cause))),
    };
    let catalog = loading.catalog;
    info!(
        offset = replayed.next_offset,
        records = replayed.records,
        mirrors = catalog.mirrors().count(),
        partitions = catalog.partitions().count(),
        ms = began.elapsed().as_millis() as u64,
        "replayed the state log"
    );
    let compacted_bytes = compacted_bytes(&catalog, &replayed);
    Ok(Loaded { catalog, replayed, compacted_bytes })
}

/// What of the log is still true takes about its share of the records; so a long log is compacted soon after a start.
fn compacted_bytes(catalog: &Catalog, replayed: &Replayed) -> u64 {
    let live = (catalog.facts() as u64).min(replayed.records);
    let share = u128::from(replayed.size_bytes) * u128::from(live) / u128::from(replayed.records.max(1));
    u64::try_from(share).unwrap_or(replayed.size_bytes)
}

struct Loading {
    catalog: Catalog,
    memory: Memory,
    looked_at: u64,
}

impl Taker for Loading {
    fn take(&mut self, _: i64, found: &KeyValue) -> Result<(), DecodeError> {
        record::decode(found)?.iter().for_each(|fact| self.catalog.apply(fact));
        Ok(())
    }

    fn batch_is_over(&mut self, position: u64) -> Result<(), String> {
        if position - self.looked_at < MEMORY_LOOK_BYTES {
            return Ok(());
        }
        self.looked_at = position;
        let (used, max) = ((self.memory.used_bytes)(), self.memory.bytes_max / 100 * CATALOG_MEMORY_SHARE);
        if used <= max {
            return Ok(());
        }
        let mib = |bytes: u64| bytes >> 20;
        Err(format!(
            "after {} MiB of it {} MiB are in use, and {} MiB ({CATALOG_MEMORY_SHARE} % of what there is) are the most",
            mib(position),
            mib(used),
            mib(max)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statelog::snapshot;

    const ROOMY: Memory = Memory { bytes_max: u64::MAX, used_bytes: || 0 };

    fn state(records: &[KeyValue]) -> tempfile::TempDir {
        let state = tempfile::tempdir().unwrap();
        let empty = load(state.path(), ROOMY).unwrap();
        let mut log = writer::open(state.path(), &empty.replayed).unwrap();
        for record in records {
            log.append(1, std::slice::from_ref(record)).unwrap();
        }
        state
    }

    fn unknown(n: u8, bytes: usize) -> KeyValue {
        KeyValue { key: vec![0x30, n], value: Some(vec![n; bytes]) }
    }

    #[test]
    fn a_log_that_memory_cannot_hold_is_refused_by_name_and_one_that_it_can_hold_is_not() {
        let bytes = usize::try_from(MEMORY_LOOK_BYTES).unwrap() / 2;
        let state = state(&[unknown(1, bytes), unknown(2, bytes), unknown(3, bytes)]);
        let tight = Memory { bytes_max: 100 << 20, used_bytes: || 1 << 30 };
        let why = load(state.path(), tight).unwrap_err().to_string();
        assert!(why.contains("__mirror_state") && why.contains("1024 MiB are in use"), "{why}");
        assert_eq!(load(state.path(), ROOMY).unwrap().catalog.foreign().count(), 3);
    }

    #[test]
    fn a_log_of_repetitions_is_worth_a_compaction_and_a_compact_one_is_not() {
        let kept = [unknown(1, 1000), unknown(2, 1000)];
        let repeated: Vec<KeyValue> = (0..40).map(|n| kept[n % 2].clone()).collect();
        let long = load(state(&repeated).path(), ROOMY).unwrap();
        assert!(long.compacted_bytes < long.replayed.size_bytes / 10, "{long:?}");
        let short = load(state(&kept).path(), ROOMY).unwrap();
        assert_eq!(short.compacted_bytes, short.replayed.size_bytes);
        assert!(!snapshot::is_due(short.replayed.size_bytes, short.compacted_bytes));
    }

    #[test]
    fn a_record_of_a_known_type_that_means_nothing_is_refused_with_its_offset_and_an_unknown_type_is_kept() {
        let strange = KeyValue { key: vec![0, 2, 0, 1, b'm'], value: Some(vec![0, 9]) };
        let state = state(&[unknown(7, 5), strange]);
        let why = load(state.path(), ROOMY).unwrap_err().to_string();
        assert!(why.contains("at offset 1") && why.contains("newer release"), "{why}");
    }
}
