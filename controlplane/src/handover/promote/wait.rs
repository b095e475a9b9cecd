//! Waiting for the source and for the stop.

use super::{HandOver, Say};
use crate::failure::Failure;
use crate::handover::facts::flows;
use crate::handover::preflight::{Loss, Mode};
use crate::handover::{control, survey};
use std::thread::sleep;
use std::time::{Duration, Instant};
use twinlog_proto::messages::describe_mirrors::{DescribedMirror, PartitionDetail};
use twinlog_proto::messages::stop_mirror_topics::{StopMirrorTopicsRequest, TopicData};

/// How often states and offsets are asked for.
const POLL: Duration = Duration::from_millis(100);
/// The least time for a stop: everything received is still written, synced and finished.
const STOP_TIME_MIN: Duration = Duration::from_secs(60);
/// Partitions that a message names.
const NAMED_MAX: usize = 10;

impl HandOver {
    /// Waits until the mirror has everything that the source has.
    pub(super) fn catch_up(&mut self, say: Say<'_>) -> Result<(), Failure> {
        if self.journal.mode == Mode::Forced {
            return Ok(());
        }
        say("waiting until the mirror has everything that the source has");
        let (mut client, names) = (control::connect(&self.order.control)?, self.names());
        let deadline = Instant::now() + self.order.timeout;
        loop {
            let described = survey::describe(&mut client, &self.order.mirror, &names)?;
            let behind: Vec<String> = partitions(&described)
                .filter_map(|(topic, p)| Some(format!("{topic}-{} {}", p.partition_index, lacks(p)?)))
                .collect();
            if behind.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline && !self.order.wait {
                let which = few(&behind);
                if self.order.no_forced {
                    let what = format_args!("the mirror is behind after {:?}", self.order.timeout);
                    self.journal.remove(&self.order.state)?;
                    return Err(Failure::timed_out(what, which));
                }
                say(&format!("the mirror is behind after {:?}: {which}", self.order.timeout));
                self.journal.loss = missing(&described);
                self.force(say);
                return Ok(());
            }
            sleep(POLL);
        }
    }

    /// Stops the topics and waits until it is recorded where mirroring ended.
    pub(super) fn stop(&mut self, say: Say<'_>) -> Result<(), Failure> {
        say("stopping the topics");
        let (mut client, names) = (control::connect(&self.order.control)?, self.names());
        let topics = names.iter().map(|name| TopicData { topic_name: name.clone(), ..TopicData::default() });
        let answer = client.ask(&StopMirrorTopicsRequest {
            mirror_name: self.order.mirror.clone(),
            topics: topics.collect(),
            patterns: Vec::new(),
        })?;
        let codes = answer.topics.iter().map(|topic| topic.error_code);
        control::accepted(codes, answer.error_code, answer.error_message, "the topics are not stopped")?;
        let deadline = Instant::now() + self.order.timeout.max(STOP_TIME_MIN);
        loop {
            let described = survey::describe(&mut client, &self.order.mirror, &names)?;
            let moving = partitions(&described).filter(|(_, p)| p.state != "STOPPED").map(|(topic, p)| {
                let why = p.error_message.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
                format!("{topic}-{} is {}{why}", p.partition_index, p.state)
            });
            let moving: Vec<String> = moving.collect();
            if moving.is_empty() {
                self.tell_loss(&described);
                return Ok(());
            }
            if Instant::now() >= deadline {
                let what = "not STOPPED in time; run the same command again, or take everything back with --undo";
                return Err(Failure::timed_out(what, few(&moving)));
            }
            sleep(POLL);
        }
    }

    /// What the source had when it last answered, less what is here.
    fn tell_loss(&mut self, described: &DescribedMirror) {
        let mut records = Some(0_i64);
        let mut unknown = 0;
        for (_, p) in partitions(described) {
            match (p.source_offset, p.last_mirror_offset) {
                (source @ 0.., last @ 0..) => records = records.map(|sum| sum + (source - last).max(0)),
                _ => unknown += 1,
            }
        }
        if unknown > 0 {
            records = None;
        }
        let before = self.journal.loss;
        let nothing = (records == Some(0)).then_some(0);
        let (bytes, ms) = match self.journal.mode {
            Mode::Planned => (nothing, nothing),
            // What the source had when it last answered says nothing about what was written there since: the time stays.
            Mode::Forced => (nothing.or(before.bytes), before.ms),
        };
        self.journal.loss = Loss { records, bytes, ms };
        self.journal.loss_unknown_partitions = unknown;
    }
}

/// What a partition lacks, in words; none when it has everything. Without an answer from its leader the end of the source is the one of then,
/// and the time since then goes on.
fn lacks(p: &PartitionDetail) -> Option<String> {
    match (p.lag, p.lag_ms) {
        _ if !flows(&p.state) => None,
        (0, 0) => None,
        (0, 1..) => Some(format!("had everything {} ms ago, and hears nothing of its leader", p.lag_ms)),
        (1.., _) => Some(format!("lacks {} records", p.lag)),
        _ => Some("lacks an unknown number of records".to_owned()),
    }
}

/// What all partitions lack that are waited for; unknown when it is of one of them.
fn missing(described: &DescribedMirror) -> Loss {
    let waited = || partitions(described).map(|(_, p)| p).filter(|p| flows(&p.state));
    let known = |value: i64| (value >= 0).then_some(value);
    Loss {
        records: waited().map(|p| known(p.lag)).sum(),
        bytes: waited().map(|p| known(p.lag_bytes)).sum(),
        ms: waited().map(|p| known(p.lag_ms)).try_fold(0, |longest, ms| Some(longest.max(ms?))),
    }
}

fn partitions(described: &DescribedMirror) -> impl Iterator<Item = (&str, &PartitionDetail)> {
    described.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |p| (topic.topic_name.as_str(), p)))
}

fn few(all: &[String]) -> String {
    let named = all.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlog_proto::messages::describe_mirrors::TopicPartitions;

    fn detail(state: &str, lag: i64, lag_bytes: i64, lag_ms: i64) -> PartitionDetail {
        PartitionDetail { state: state.into(), lag, lag_bytes, lag_ms, ..PartitionDetail::default() }
    }

    #[test]
    fn who_hears_nothing_of_the_source_does_not_know_that_nothing_is_missing() {
        assert_eq!(lacks(&detail("MIRRORING", 0, 0, 0)), None);
        for (lag, lag_ms, sign) in [(0, 70, "70 ms ago"), (7, 70, "lacks 7"), (-1, -1, "unknown"), (0, -1, "unknown")] {
            let told = lacks(&detail("MIRRORING", lag, -1, lag_ms)).unwrap();
            assert!(told.contains(sign), "{told}");
        }
        assert_eq!(lacks(&detail("PAUSED", 7, 9, 70)), None, "nothing comes in, so that there is nothing to wait for");
    }

    #[test]
    fn what_is_missing_is_unknown_when_it_is_of_one_partition() {
        let all = |partitions| {
            missing(&DescribedMirror {
                topics: vec![TopicPartitions { partitions, ..TopicPartitions::default() }],
                ..DescribedMirror::default()
            })
        };
        let (one, other) = (detail("MIRRORING", 7, 900, 50), detail("MIRRORING", 0, 0, 80));
        assert_eq!(all(vec![one.clone(), other]), Loss { records: Some(7), bytes: Some(900), ms: Some(80) });
        assert_eq!(all(vec![one, detail("PREPARING", -1, -1, -1)]), Loss::default());
    }
}
