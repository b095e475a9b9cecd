//! What the broker serves afterwards, asked as any client would; and that it will know no producers of the source after a crash either.

use super::{Adopting, broker, groups};
use crate::client::Client;
use crate::failure::Failure;
use crate::handover::check::{self, Checked};
use crate::handover::journal::Journal;
use crate::handover::preflight::Finding;
use crate::handover::promote::Say;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use twinlog_proto::messages::describe_producers::{DescribeProducersRequest, TopicRequest};
use twinlog_proto::storage::{checkpoint, names};

/// How often the broker's checkpoint is read.
const POLL: Duration = Duration::from_millis(200);
/// How long a broker takes by default between two checkpoints.
const INTERVAL_DEFAULT: Duration = Duration::from_secs(60);
/// What is waited beyond that.
const INTERVAL_MARGIN: Duration = Duration::from_secs(30);
/// The longest interval that is waited for.
const INTERVAL_MAX: Duration = Duration::from_secs(600);

impl Adopting {
    /// Compares.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub fn check(&self) -> Result<Checked, Failure> {
        let mut client = broker::connect(&self.adoption.address)?;
        let journal = self.as_served();
        let mut checked = check::check_partitions(&journal, &self.adoption.address)?;
        no_producers(&mut client, &journal, &mut checked)?;
        checked.failures.extend(groups::missing(&self.adoption)?);
        let names: Vec<String> = journal.topics.iter().map(|topic| topic.topic.clone()).collect();
        let put_aside = broker::leftovers(&self.adoption.log_dir, &names)?;
        let put_aside = put_aside.into_iter().filter(|name| name.ends_with("-stray"));
        checked.failures.extend(put_aside.map(|name| format!("the broker put aside {name}")));
        let of: std::collections::BTreeSet<&str> = self.adoption.offsets.iter().map(|of| of.group.as_str()).collect();
        checked.groups = of.len();
        checked.committed_offsets = self.adoption.offsets.len();
        checked.equal_offsets = self.adoption.offsets.iter().filter(|of| of.committed).count();
        checked.ok = checked.failures.is_empty();
        Ok(checked)
    }

    /// The journal with the ids that the topics have now; any leader epoch is well.
    fn as_served(&self) -> Journal {
        let mut journal = self.journal.clone();
        for topic in &mut journal.topics {
            let known = self.adoption.topics.iter().find(|known| known.topic == topic.topic);
            topic.topic_id = known.and_then(|known| known.topic_id.clone()).unwrap_or_default();
            topic.partitions.iter_mut().for_each(|partition| partition.epoch_max = -1);
        }
        journal
    }

    /// Waits until the broker's own checkpoints say that it would not read the copies again after a crash, where it would find the producers
    /// of the source; and that it would know log starts within a segment, before which are records that the source has deleted.
    pub(super) fn settle(&mut self, say: Say<'_>) -> Result<(), Failure> {
        let (_, found) = broker::look(&self.adoption.address, &self.adoption.log_dir, &[], None, self.state())?;
        let interval = |key: &str| {
            let told = found.settings.get(key).and_then(|ms| ms.parse().ok());
            told.map_or(INTERVAL_DEFAULT, Duration::from_millis).min(INTERVAL_MAX)
        };
        let recovery = interval("log.flush.offset.checkpoint.interval.ms");
        say(&format!(
            "waiting for the broker's next checkpoint of its recovery points (within {recovery:?}); the topics are served"
        ));
        let at_risk = "a broker that crashes finds the producers of the source again";
        self.await_checkpoint(recovery, Self::unsettled, at_risk);
        if self.unsettled_start().is_some() {
            let starts = interval("log.flush.start.offset.checkpoint.interval.ms");
            say(&format!(
                "waiting for the broker's next checkpoint of its log starts (within {starts:?}); the topics are served"
            ));
            let at_risk = "a broker that crashes serves records again that the source has deleted";
            self.await_checkpoint(starts, Self::unsettled_start, at_risk);
        }
        Ok(())
    }

    /// Waits as long as `unsettled` says of something that it is not written; notes what is `at_risk` when it never is.
    fn await_checkpoint(&mut self, interval: Duration, unsettled: fn(&Self) -> Option<String>, at_risk: &str) {
        let begun = Instant::now();
        while let Some(why) = unsettled(self) {
            if begun.elapsed() > interval + INTERVAL_MARGIN {
                let what = format!("{why}: until that is written, {at_risk}");
                self.adoption
                    .findings
                    .push(Finding::new(what, "look into the broker's log, or restart it cleanly once"));
                break;
            }
            sleep(POLL);
        }
    }

    /// The first partition whose recovery point is not known to lie behind what was mirrored.
    fn unsettled(&self) -> Option<String> {
        let path = self.adoption.log_dir.join(names::RECOVERY_POINTS);
        let known = known(&path);
        for topic in &self.journal.topics {
            for partition in &topic.partitions {
                let end = partition.end_offset.unwrap_or(partition.last_mirrored_offset);
                if known.get(&(topic.topic.clone(), partition.partition)).is_none_or(|point| *point < end) {
                    let name = names::partition_dir(&topic.topic, partition.partition);
                    return Some(format!("{} says nothing of {name} up to {end}", path.display()));
                }
            }
        }
        None
    }

    /// The first partition whose log start lies within a segment that is there, and is not written down.
    fn unsettled_start(&self) -> Option<String> {
        let path = self.adoption.log_dir.join(names::LOG_STARTS);
        let known = known(&path);
        for topic in &self.journal.topics {
            for partition in &topic.partitions {
                let (start, first) = (partition.log_start_offset, partition.segments.first());
                let Some(first) = first.filter(|first| first.base_offset < start) else { continue };
                let name = names::partition_dir(&topic.topic, partition.partition);
                let segment = names::file_name(first.base_offset, names::FileKind::Log);
                let is_there = self.adoption.log_dir.join(&name).join(segment).exists();
                let is_known = known.get(&(topic.topic.clone(), partition.partition)).is_some_and(|at| *at >= start);
                if is_there && !is_known {
                    return Some(format!("{} does not say that {name} begins at {start}", path.display()));
                }
            }
        }
        None
    }
}

/// What a checkpoint of the broker says; nothing when it is not there yet.
fn known(path: &Path) -> BTreeMap<(String, i32), i64> {
    let entries = fs::read(path).ok().and_then(|bytes| checkpoint::parse(&bytes).ok()).unwrap_or_default();
    entries.into_iter().map(|entry| ((entry.topic, entry.partition), entry.offset)).collect()
}

/// Nobody has written to a partition that still ends where it was handed over, so no producer may be known of it.
fn no_producers(client: &mut Client, journal: &Journal, checked: &mut Checked) -> Result<(), Failure> {
    let request = |topic: &crate::handover::journal::Topic| TopicRequest {
        name: topic.topic.clone(),
        partition_indexes: topic.partitions.iter().map(|partition| partition.partition).collect(),
    };
    let topics = journal.topics.iter().map(request).collect();
    let answer = client.ask(&DescribeProducersRequest { topics }).map_err(broker::unasked)?;
    let ends: BTreeMap<(&str, i32), i64> =
        checked.partitions.iter().map(|row| ((row.topic.as_str(), row.partition), row.log_end_offset)).collect();
    let mut known = Vec::new();
    for topic in &answer.topics {
        let handed = journal.topics.iter().find(|handed| handed.topic == topic.name);
        for found in topic.partitions.iter().filter(|found| !found.active_producers.is_empty()) {
            let partition =
                handed.and_then(|topic| topic.partitions.iter().find(|p| p.partition == found.partition_index));
            let end = partition.map(|p| p.end_offset.unwrap_or(p.last_mirrored_offset));
            if end.is_some() && end == ends.get(&(topic.name.as_str(), found.partition_index)).copied() {
                let name = names::partition_dir(&topic.name, found.partition_index);
                known
                    .push(format!("{name}: the broker knows {} producers of the source", found.active_producers.len()));
            }
        }
    }
    checked.failures.extend(known);
    Ok(())
}
