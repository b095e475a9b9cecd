//! What a broker wrote down beside the logs of a former source: how far each was closed in order, and how far its cleaner went.

use super::Preflight;
use super::progress::Taken;
use crate::handover::journal::Journal;
use crate::handover::preflight::Finding;
use crate::handover::target;
use std::fs;
use std::io;
use std::path::Path;
use twinlog_proto::storage::coordinator::{CONSUMER_OFFSETS, TRANSACTION_STATE};
use twinlog_proto::storage::{checkpoint, names};

/// The line of a partition in a checkpoint file of a log directory.
pub(super) fn checkpointed(log_dir: &Path, file: &str, topic: &str, partition: i32) -> io::Result<Option<i64>> {
    let bytes = match fs::read(log_dir.join(file)) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    let entries = if bytes.is_empty() { Vec::new() } else { checkpoint::parse(&bytes).map_err(io::Error::other)? };
    Ok(entries.iter().find(|entry| entry.topic == topic && entry.partition == partition).map(|entry| entry.offset))
}

/// From where on a log may be torn: from its recovery point, when the broker did not close it in order.
pub(super) fn verify_from(log_dir: &Path, is_clean: bool, topic: &str, partition: i32) -> io::Result<i64> {
    if is_clean {
        return Ok(-1);
    }
    Ok(checkpointed(log_dir, names::RECOVERY_POINTS, topic, partition)?.unwrap_or(0))
}

/// What the broker's cleaner may have done to what stays. It never looks at the last segment, so when that begins below the cut, all that
/// made it remove something stays too. Otherwise a record may be gone because of one that is thrown away.
fn cleaned(
    (log_dir, is_clean): (&Path, bool),
    (topic, partition): (&str, i32),
    last_base: i64,
    cut: i64,
) -> io::Result<Cleaned> {
    let to = checkpointed(log_dir, names::CLEANER_OFFSETS, topic, partition)?;
    let coordinators = [CONSUMER_OFFSETS, TRANSACTION_STATE].contains(&topic);
    Ok(match to {
        Some(to) if to > cut && last_base > cut => Cleaned::Beyond(to),
        Some(_) if !is_clean && last_base > cut => Cleaned::Unknown,
        None if !is_clean && coordinators && last_base > cut => Cleaned::Unknown,
        Some(to) if to > 0 => Cleaned::Below(to),
        _ => Cleaned::No,
    })
}

/// What a cleaner did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cleaned {
    /// Nothing.
    No,
    /// It worked up to this offset, and what replaced what it removed stays.
    Below(i64),
    /// It worked up to this offset, above the cut.
    Beyond(i64),
    /// It may have worked above the cut: the broker runs or was killed, and its own note may be old.
    Unknown,
}

/// Adds the topics that a cleaner has spoilt, before anybody reads their logs: what was removed would be taken for something else.
pub(super) fn spoilt(journal: &Journal, judged: &mut Preflight) {
    let mut looked = Preflight { partitions: judged.partitions.clone(), ..Preflight::default() };
    cleaners(journal, &mut looked);
    judged.blockers.append(&mut looked.blockers);
}

/// Adds what cleaners of the node have done to what stays.
pub(super) fn cleaners(journal: &Journal, judged: &mut Preflight) {
    for at in 0..judged.partitions.len() {
        let taken = &judged.partitions[at];
        let known =
            journal.topics.iter().filter(|topic| topic.topic == taken.topic).flat_map(|topic| &topic.partitions);
        let last = known.filter(|known| known.partition == taken.partition).filter_map(|known| known.segments.last());
        let last_base = last.map(|segment| segment.base_offset).max().unwrap_or(0);
        match cleaner(taken, last_base) {
            Ok(None) => {}
            Ok(Some(warning)) => judged.warnings.push(warning),
            Err(blocker) => judged.blockers.push(blocker),
        }
    }
}

fn cleaner(taken: &Taken, last_base: i64) -> Result<Option<Finding>, Finding> {
    let (log_dir, cut) = (&taken.log_dir, taken.last_mirrored_offset);
    let name = names::partition_dir(&taken.topic, taken.partition);
    let is_clean = target::is_marked_clean(log_dir);
    let found = cleaned((log_dir, is_clean), (&taken.topic, taken.partition), last_base, cut).map_err(|cause| {
        let what = format!("{} cannot be used: {cause}", log_dir.join(names::CLEANER_OFFSETS).display());
        Finding::new(what, "restore the file, or take it away when no topic of the node is compacted")
    })?;
    let lost = "a record that stays may be gone because of one that does not";
    let remedy = "leave the topic out: name the others with --topic, and mirror it from scratch";
    match found {
        Cleaned::No => Ok(None),
        Cleaned::Below(to) => Ok(Some(Finding::new(
            format!(
                "the broker's cleaner has worked on {name} up to offset {to}; what it removed is not mirrored again"
            ),
            "mirror the topic from scratch if it is wanted byte for byte",
        ))),
        Cleaned::Beyond(to) => {
            let what = format!("the broker's cleaner has worked on {name} up to offset {to}, beyond the cut at {cut}");
            Err(Finding::new(format!("{what}: {lost}"), remedy))
        }
        Cleaned::Unknown => {
            let what =
                format!("the broker runs or was killed: its cleaner may have worked on {name} beyond the cut at {cut}");
            Err(Finding::new(format!("{what}: {lost}"), remedy))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleaner_that_went_beyond_the_cut_or_may_have_is_told_from_one_that_did_not() {
        let dir = tempfile::tempdir().unwrap();
        let at = |clean, topic, last_base, cut| cleaned((dir.path(), clean), (topic, 0), last_base, cut).unwrap();
        assert_eq!(at(true, "t", 50, 40), Cleaned::No, "there is no file");
        assert_eq!(at(false, "t", 50, 40), Cleaned::No);
        assert_eq!(at(false, CONSUMER_OFFSETS, 50, 40), Cleaned::Unknown);
        fs::write(dir.path().join(names::CLEANER_OFFSETS), "").unwrap();
        assert_eq!(at(true, "t", 50, 40), Cleaned::No, "nothing was ever cleaned");
        fs::write(dir.path().join(names::CLEANER_OFFSETS), "0\n1\nt 0 45\n").unwrap();
        assert_eq!(at(true, "t", 50, 40), Cleaned::Beyond(45));
        assert_eq!(at(true, "t", 50, 45), Cleaned::Below(45));
        assert_eq!(at(false, "t", 50, 45), Cleaned::Unknown);
        assert_eq!(at(false, "t", 45, 45), Cleaned::Below(45), "it never looks at the last segment");
        assert_eq!(at(true, "u", 50, 40), Cleaned::No);
    }

    #[test]
    fn a_log_that_was_closed_in_order_is_not_read_and_another_from_its_recovery_point_on() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(names::RECOVERY_POINTS), "0\n1\nt 1 77\n").unwrap();
        let from = |clean, partition| verify_from(dir.path(), clean, "t", partition).unwrap();
        assert_eq!((from(true, 1), from(false, 1), from(false, 0)), (-1, 77, 0));
    }
}
