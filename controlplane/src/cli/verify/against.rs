//! A mirror against its source: every partition, from the larger log start to the smaller end.

use super::compare::{Comparison, Difference, Tally, What};
use super::local::LocalLog;
use super::report::{Compared, DIFFERENT, Differing, IDENTICAL, Range, SourceReport};
use super::source::{PartitionAt, Source};
use super::targets::{self, DataDirectory, Target};
use crate::failure::Failure;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use twinlog_proto::assignment::{Assignment, Desired};

/// Compares all partitions of the mirror.
///
/// # Errors
/// When a file cannot be read or the source cannot be asked: then nothing can be said.
pub(super) fn compare(assignment: &Assignment) -> Result<SourceReport, Failure> {
    let mut source = Source::new(assignment.bootstrap_servers.clone());
    let mut directories: HashMap<PathBuf, DataDirectory> = HashMap::new();
    let mut partitions = Vec::new();
    for topic in &assignment.topics {
        let removed = |index| {
            let mut all = topic.partitions.iter();
            all.any(|partition| partition.index == index && partition.desired == Desired::Remove.code())
        };
        for target in targets::of_mirror(assignment).filter(|target| target.topic == topic.name) {
            if removed(target.partition) {
                continue;
            }
            let data = target.directory.parent().unwrap_or(&target.directory).to_owned();
            let data = directories.entry(data).or_insert_with_key(|path| DataDirectory::read(path));
            let start = data.log_starts.get(&(target.topic.clone(), target.partition)).copied();
            let facts = Facts { start, in_use: data.in_use, compacted: topic.compacted };
            partitions.push(compare_one(&mut source, &target, facts)?);
        }
    }
    Ok(SourceReport::new(assignment.mirror_name.clone(), partitions))
}

/// What is known about a partition besides its files.
#[derive(Debug, Clone, Copy)]
struct Facts {
    /// Its log start, when that is not where its first segment begins.
    start: Option<i64>,
    /// A process writes there now.
    in_use: bool,
    /// Its source compacts it.
    compacted: bool,
}

fn compare_one(source: &mut Source, target: &Target, facts: Facts) -> Result<Compared, Failure> {
    let mut compared = Compared {
        topic: target.topic.clone(),
        partition: target.partition,
        directory: target.directory.display().to_string(),
        verdict: IDENTICAL,
        compared: Range { from: 0, to: 0 },
        batches: 0,
        bytes: 0,
        forgotten_batches: 0,
        rewritten_batches: 0,
        only_at_source: Vec::new(),
        only_here: Vec::new(),
        difference: None,
    };
    let topic_id = source.topic_id(&target.topic)?;
    if topic_id.is_none() || topic_id != target.topic_id {
        compared.verdict = DIFFERENT;
        let what = match topic_id {
            None => "the source has no such topic".to_owned(),
            Some(id) => format!("the topic was created again: its id at the source is {id}"),
        };
        compared.difference = Some(Differing { offset: 0, what, here: None, source: None });
        return Ok(compared);
    }
    let at = PartitionAt { topic: &target.topic, topic_id: topic_id.unwrap_or_default(), partition: target.partition };
    let unreadable = |cause: io::Error| {
        let what = format!("{} cannot be compared", target.directory.display());
        Failure::new(what, cause, "check the directory; a partition has files once it was started")
    };
    let local = LocalLog::open(&target.directory, facts.in_use).map_err(unreadable)?;
    // After the local end is known: a mirror that goes on meanwhile is never ahead of what the source says then.
    let (source_start, source_end) = source.offsets(at)?;
    let here = Range { from: facts.start.unwrap_or(0).max(local.first_base()), to: local.end_offset() };
    let there = Range { from: source_start, to: source_end };
    let from = here.from.max(there.from);
    let range = Range { from, to: here.to.min(there.to).max(from) };
    compared.compared = range;
    compared.only_here = outside(here, range);
    compared.only_at_source = outside(there, range);
    let (tally, difference) = batches(source, at, local, range, facts.compacted)?;
    compared.conclude(tally, difference);
    if let (None, Some(missing)) = (&compared.difference, not_covered(here, there)) {
        compared.verdict = DIFFERENT;
        compared.difference = Some(missing);
    }
    Ok(compared)
}

/// What cannot be by following the source, however far a mirror is: its log start is never above the source's, for that only
/// rises and was asked after ours; and its end is never above the source's, for that never falls but with lost data.
fn not_covered(here: Range, there: Range) -> Option<Differing> {
    let differing = |offset, what: What| Some(Differing { offset, what: what.text(), here: None, source: None });
    if here.from > there.from && there.from < there.to {
        return differing(there.from, What::BeginsLater(here.from));
    }
    (here.to > there.to && there.to >= 0).then_some(()).and_then(|()| differing(there.to, What::OnlyHere))
}

fn batches(
    source: &mut Source,
    at: PartitionAt<'_>,
    local: LocalLog,
    range: Range,
    compacted: bool,
) -> Result<(Tally, Option<Difference>), Failure> {
    if range.from == range.to {
        return Ok((Tally::default(), None));
    }
    let mut comparison = Comparison::new(local, range.from, range.to, compacted);
    source.feed(at, &mut comparison)?;
    comparison.finish().map_err(|cause| {
        Failure::new(format_args!("{}-{} cannot be compared", at.topic, at.partition), cause, "check the disk")
    })
}

/// The parts of `all` that lie before and after `part`.
fn outside(all: Range, part: Range) -> Vec<Range> {
    let before = Range { from: all.from, to: part.from.min(all.to) };
    let after = Range { from: part.to.max(all.from), to: all.to };
    [before, after].into_iter().filter(|range| range.from < range.to).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_one_side_has_lies_before_and_after_what_was_compared() {
        let range = |from, to| Range { from, to };
        assert_eq!(outside(range(0, 10), range(3, 8)), [range(0, 3), range(8, 10)]);
        assert_eq!(outside(range(3, 8), range(3, 8)), []);
        // Nothing in common.
        assert_eq!(outside(range(0, 3), range(5, 5)), [range(0, 3)]);
    }

    #[test]
    fn a_mirror_may_lag_and_have_what_the_source_dropped_but_not_begin_or_end_above_it() {
        let at = |here: (i64, i64), there: (i64, i64)| {
            let range = |(from, to)| Range { from, to };
            not_covered(range(here), range(there)).map(|d| (d.offset, d.what))
        };
        assert_eq!(at((0, 8), (0, 10)), None);
        assert_eq!(at((0, 8), (5, 8)), None);
        // Nothing is left at the source that could be missing here.
        assert_eq!(at((8, 8), (5, 5)).map(|d| d.0), Some(5));
        assert_eq!(at((5, 10), (3, 10)), Some((3, What::BeginsLater(5).text())));
        assert_eq!(at((0, 10), (0, 8)), Some((8, What::OnlyHere.text())));
    }
}
