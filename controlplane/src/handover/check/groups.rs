//! Offsets of groups, as their coordinators answer them.

use super::asking::Asking;
use super::{Checked, LATEST, READ_UNCOMMITTED, list};
use crate::failure::Failure;
use crate::handover::journal::{Journal, Partition, Topic};
use crate::handover::offsets::{self, Expected};
use std::collections::BTreeMap;
use std::path::Path;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::list_groups::ListGroupsRequest;
use twinlog_proto::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse};
use twinlog_proto::storage::coordinator::CONSUMER_OFFSETS;

/// Groups that are asked for at once.
const REQUEST_GROUPS_MAX: usize = 50;
/// Offsets of theirs; a group that has more is asked for alone.
const REQUEST_OFFSETS_MAX: usize = 20_000;

/// Group, topic, partition; what was committed with its leader epoch.
type Answered = BTreeMap<(String, String, i32), (i64, i32)>;
/// What was handed over of each group.
type ByGroup = BTreeMap<String, Vec<Expected>>;
/// An offset that is another one, and what it is.
type Unlike = (Expected, Option<(i64, i32)>);

/// None lies beyond its log, and all are what was handed over, but for groups that went on since then.
pub(super) fn check(
    broker: &mut Asking,
    journal: &Journal,
    state: &Path,
    checked: &mut Checked,
) -> Result<(), Failure> {
    let written = offsets::load(state, &journal.mirror).unwrap_or_else(|why| {
        checked.failures.push(format!("offsets of groups are not compared: {why}"));
        offsets::Written::default()
    });
    let mut groups: ByGroup = listed(broker, checked)?.into_iter().map(|group| (group, Vec::new())).collect();
    for expected in written.offsets {
        groups.entry(expected.0.clone()).or_default().push(expected);
    }
    checked.groups = groups.len();
    let ends: BTreeMap<(String, i32), i64> =
        checked.partitions.iter().map(|row| ((row.topic.clone(), row.partition), row.log_end_offset)).collect();
    let mut unlike = Vec::new();
    for page in pages(groups, written.is_more) {
        let answered = fetched(broker, page.keys().cloned().collect(), checked)?;
        checked.committed_offsets += answered.len();
        for ((group, topic, partition), (offset, _)) in &answered {
            if ends.get(&(topic.clone(), *partition)).is_some_and(|end| offset > end) {
                checked.failures.push(format!("group {group} is at {offset} of {topic}-{partition}, beyond its end"));
            }
        }
        let others = compare(page, &answered, &mut unlike, checked);
        // When all of them were written down, one that was not is a new one.
        checked.uncompared_offsets += if written.is_more { others } else { 0 };
    }
    judge(broker, journal, unlike, checked)
}

/// The groups in pages, none of which has too many offsets for one answer. `unknown`: a group may have more than is known of it.
fn pages(groups: ByGroup, unknown: bool) -> Vec<ByGroup> {
    let mut pages: Vec<ByGroup> = Vec::new();
    let mut offsets = 0;
    for (group, expected) in groups {
        let more = if unknown { REQUEST_OFFSETS_MAX } else { expected.len() };
        offsets += more;
        if pages.last().is_none_or(|page| page.len() >= REQUEST_GROUPS_MAX || offsets > REQUEST_OFFSETS_MAX) {
            pages.push(ByGroup::new());
            offsets = more;
        }
        if let Some(page) = pages.last_mut() {
            page.insert(group, expected);
        }
    }
    pages
}

/// Adds those that are otherwise; gives how many were answered that nothing was known of.
fn compare(page: ByGroup, answered: &Answered, unlike: &mut Vec<Unlike>, checked: &mut Checked) -> usize {
    let mut known = 0;
    for of in page.into_values().flatten() {
        let Expected(group, topic, partition, offset, epoch) = &of;
        let found = answered.get(&(group.clone(), topic.clone(), *partition)).copied();
        known += usize::from(found.is_some());
        match found {
            Some(found) if found == (*offset, *epoch) => checked.equal_offsets += 1,
            found => unlike.push((of, found)),
        }
    }
    answered.len() - known
}

/// What is otherwise is a failure, unless its group went on.
fn judge(broker: &mut Asking, journal: &Journal, unlike: Vec<Unlike>, checked: &mut Checked) -> Result<(), Failure> {
    if unlike.is_empty() {
        return Ok(());
    }
    let written = has_written(broker, journal)?;
    for (of, found) in unlike {
        let Expected(group, topic, partition, offset, epoch) = of;
        match found {
            Some((now, _)) if written && now > offset => checked.advanced_offsets += 1,
            Some((now, with)) => checked.failures.push(format!(
                "group {group} is at {now} (epoch {with}) of {topic}-{partition}, and {offset} (epoch {epoch}) was handed over"
            )),
            None => checked
                .failures
                .push(format!("group {group} has no offset of {topic}-{partition}, and {offset} was handed over")),
        }
    }
    Ok(())
}

/// Whether anybody has committed since the hand-over, the coordinators themselves included.
fn has_written(broker: &mut Asking, journal: &Journal) -> Result<bool, Failure> {
    let ends = list(broker, journal, LATEST, READ_UNCOMMITTED)?;
    let topics = journal.topics.iter().filter(|topic: &&Topic| topic.topic == CONSUMER_OFFSETS);
    let partitions = topics.flat_map(|topic| topic.partitions.iter().map(move |p| (topic.topic.clone(), p)));
    let grown = |(topic, p): (String, &Partition)| match ends.get(&(topic, p.partition)) {
        Some(Ok(end)) => *end > p.end_offset.unwrap_or(p.last_mirrored_offset),
        _ => false,
    };
    Ok(partitions.into_iter().any(grown))
}

/// The groups, once the coordinators have read their topics.
fn listed(broker: &mut Asking, checked: &mut Checked) -> Result<Vec<String>, Failure> {
    let listed = loop {
        let answer = broker.ask(&ListGroupsRequest::default())?;
        if !ErrorCode(answer.error_code).is_retriable() || !broker.wait() {
            break answer;
        }
    };
    if listed.error_code != 0 {
        checked.failures.push(format!("groups are not listed: {}", ErrorCode(listed.error_code)));
    }
    Ok(listed.groups.into_iter().map(|group| group.group_id).collect())
}

/// All offsets of these groups.
fn fetched(broker: &mut Asking, groups: Vec<String>, checked: &mut Checked) -> Result<Answered, Failure> {
    let wanted = |group_id| OffsetFetchRequestGroup { group_id, topics: None, ..Default::default() };
    let groups = groups.into_iter().map(wanted).collect();
    let request = OffsetFetchRequest { groups, ..Default::default() };
    let is_loading =
        |answer: &OffsetFetchResponse| answer.groups.iter().any(|g| ErrorCode(g.error_code).is_retriable());
    let answer = loop {
        let answer = broker.ask(&request)?;
        if !is_loading(&answer) || !broker.wait() {
            break answer;
        }
    };
    let mut answered = Answered::new();
    for found in answer.groups {
        if found.error_code != 0 {
            checked.failures.push(format!("group {}: {}", found.group_id, ErrorCode(found.error_code)));
        }
        for topic in found.topics {
            for p in topic.partitions.into_iter().filter(|p| p.committed_offset >= 0) {
                let key = (found.group_id.clone(), topic.name.clone(), p.partition_index);
                answered.insert(key, (p.committed_offset, p.committed_leader_epoch));
            }
        }
    }
    Ok(answered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(group: &str, partition: i32, offset: i64, epoch: i32) -> Expected {
        Expected(group.into(), "t".into(), partition, offset, epoch)
    }

    #[test]
    fn an_offset_is_equal_with_its_epoch_only_and_one_that_is_missing_is_told() {
        let all = vec![expected("g", 0, 7, 2), expected("g", 1, 7, 2), expected("g", 2, 7, 2), expected("g", 3, 7, -1)];
        let answered = |partition, offset, epoch| (("g".to_owned(), "t".to_owned(), partition), (offset, epoch));
        let answered = [answered(0, 7, 2), answered(1, 8, 2), answered(3, 7, 0), answered(4, 1, 0)].into();
        let (mut checked, mut unlike) = (Checked::default(), Vec::new());
        let others = compare([("g".to_owned(), all)].into(), &answered, &mut unlike, &mut checked);
        let unlike: Vec<_> = unlike.into_iter().map(|(of, found)| (of.2, found)).collect();
        assert_eq!((checked.equal_offsets, others), (1, 1));
        assert_eq!(unlike, [(1, Some((8, 2))), (2, None), (3, Some((7, 0)))]);
    }

    #[test]
    fn a_page_has_as_many_groups_as_an_answer_can_hold() {
        let groups = |offsets: usize| -> ByGroup {
            let all = |group: usize| (0..offsets).map(|at| expected(&group.to_string(), at as i32, 0, 0)).collect();
            (0..101).map(|group| (format!("{group:03}"), all(group))).collect()
        };
        let sizes = |pages: Vec<ByGroup>| -> Vec<usize> { pages.iter().map(BTreeMap::len).collect() };
        assert_eq!(sizes(pages(groups(1), false)), [50, 50, 1]);
        assert_eq!(sizes(pages(groups(REQUEST_OFFSETS_MAX / 40), false)), [40, 40, 21]);
        assert_eq!(pages(groups(1), true).len(), 101);
    }
}
