//! Offsets of groups, as their coordinators answer them.

use super::{Checked, LATEST, POLL, READ_UNCOMMITTED, SETTLE_TIME_MAX, list, unasked};
use crate::cli::Failure;
use crate::client::Client;
use crate::handover::journal::Journal;
use crate::handover::offsets::{self, Expected};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread::sleep;
use std::time::Instant;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::list_groups::ListGroupsRequest;
use twinlog_proto::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup};
use twinlog_proto::storage::coordinator::CONSUMER_OFFSETS;

/// Group, topic, partition; what was committed with its leader epoch.
type Answered = BTreeMap<(String, String, i32), (i64, i32)>;

/// None lies beyond its log, and all are what was handed over, but for groups that went on since then.
pub(super) fn check(
    client: &mut Client,
    journal: &Journal,
    state: &Path,
    checked: &mut Checked,
) -> Result<(), Failure> {
    let expected = match offsets::load(state, &journal.mirror) {
        Ok(expected) => expected.unwrap_or_default(),
        Err(why) => {
            checked.failures.push(format!("offsets of groups are not compared: {why}"));
            Vec::new()
        }
    };
    let mut groups = listed(client, checked)?;
    groups.extend(expected.iter().map(|of| of.0.clone()));
    checked.groups = groups.len();
    let answered = fetched(client, groups, checked)?;
    checked.committed_offsets = answered.len();
    let ends: BTreeMap<(&str, i32), i64> =
        checked.partitions.iter().map(|row| ((row.topic.as_str(), row.partition), row.log_end_offset)).collect();
    for ((group, topic, partition), (offset, _)) in &answered {
        if ends.get(&(topic.as_str(), *partition)).is_some_and(|end| offset > end) {
            checked.failures.push(format!("group {group} is at {offset} of {topic}-{partition}, beyond its end"));
        }
    }
    let unlike = compare(&expected, &answered, checked);
    if unlike.is_empty() {
        return Ok(());
    }
    let written = has_written(client, journal)?;
    for (of, found) in unlike {
        let Expected(group, topic, partition, offset, epoch) = of;
        match found {
            Some((now, _)) if written && now > *offset => checked.advanced_offsets += 1,
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

/// Those that are otherwise, with what they are.
fn compare<'e>(
    expected: &'e [Expected],
    answered: &Answered,
    checked: &mut Checked,
) -> Vec<(&'e Expected, Option<(i64, i32)>)> {
    let mut unlike = Vec::new();
    for of in expected {
        let Expected(group, topic, partition, offset, epoch) = of;
        let found = answered.get(&(group.clone(), topic.clone(), *partition)).copied();
        match found {
            Some(found) if found == (*offset, *epoch) => checked.equal_offsets += 1,
            found => unlike.push((of, found)),
        }
    }
    unlike
}

/// Whether anybody has committed since the hand-over, the coordinators themselves included.
fn has_written(client: &mut Client, journal: &Journal) -> Result<bool, Failure> {
    let ends = list(client, journal, LATEST, READ_UNCOMMITTED)?;
    let topics = journal.topics.iter().filter(|topic| topic.topic == CONSUMER_OFFSETS);
    let partitions = topics.flat_map(|topic| topic.partitions.iter().map(move |p| (topic.topic.clone(), p)));
    let grown = |(topic, p): (String, &crate::handover::journal::Partition)| match ends.get(&(topic, p.partition)) {
        Some(Ok(end)) => *end > p.end_offset.unwrap_or(p.last_mirrored_offset),
        _ => false,
    };
    Ok(partitions.into_iter().any(grown))
}

/// The groups, once the coordinators have read their topics.
fn listed(client: &mut Client, checked: &mut Checked) -> Result<BTreeSet<String>, Failure> {
    let begun = Instant::now();
    let listed = loop {
        let answer = client.ask(&ListGroupsRequest::default()).map_err(unasked)?;
        let loading = ErrorCode(answer.error_code).is_retriable();
        if !loading || begun.elapsed() >= SETTLE_TIME_MAX {
            break answer;
        }
        sleep(POLL);
    };
    if listed.error_code != 0 {
        checked.failures.push(format!("groups are not listed: {}", ErrorCode(listed.error_code)));
    }
    Ok(listed.groups.into_iter().map(|group| group.group_id).collect())
}

/// All offsets of these groups.
fn fetched(client: &mut Client, groups: BTreeSet<String>, checked: &mut Checked) -> Result<Answered, Failure> {
    let (begun, mut answered) = (Instant::now(), Answered::new());
    for group_id in groups {
        let wanted = OffsetFetchRequestGroup { group_id, topics: None, ..Default::default() };
        let request = OffsetFetchRequest { groups: vec![wanted], ..Default::default() };
        let answer = loop {
            let answer = client.ask(&request).map_err(unasked)?;
            let loading = answer.groups.iter().any(|group| ErrorCode(group.error_code).is_retriable());
            if !loading || begun.elapsed() >= SETTLE_TIME_MAX {
                break answer;
            }
            sleep(POLL);
        };
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
    }
    Ok(answered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_equal_with_its_epoch_only_and_one_that_is_missing_is_told() {
        let expected = |partition, offset, epoch| Expected("g".into(), "t".into(), partition, offset, epoch);
        let all = [expected(0, 7, 2), expected(1, 7, 2), expected(2, 7, 2), expected(3, 7, -1)];
        let answered = |partition, offset, epoch| (("g".to_owned(), "t".to_owned(), partition), (offset, epoch));
        let answered = [answered(0, 7, 2), answered(1, 8, 2), answered(3, 7, 0), answered(4, 1, 0)].into();
        let mut checked = Checked::default();
        let unlike = compare(&all, &answered, &mut checked);
        let unlike: Vec<_> = unlike.into_iter().map(|(of, found)| (of.2, found)).collect();
        assert_eq!((checked.equal_offsets, unlike), (1, vec![(1, Some((8, 2))), (2, None), (3, Some((7, 0)))]));
    }
}
