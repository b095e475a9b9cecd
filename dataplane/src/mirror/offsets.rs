//! ListOffsets: where a partition begins and ends at its source, asked when there is no local log or ours does not fit.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use twinlog_proto::channel::progress::FaultCode;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};

use super::jobs;
use super::partition::{Need, Partition};
use super::pump::{Pump, asks_offsets};
use crate::disk::Disk;
use crate::fault::{Fault, RetryCause};
use crate::metrics::Counter;
use crate::wire::Transport;

/// A member, what it needs, and the answers so far.
struct Asked {
    member: u32,
    need: Need,
    earliest: Option<i64>,
    latest: Option<i64>,
}

impl<T: Transport, D: Disk> Pump<T, D> {
    /// Asks for the offsets that partitions of this connection need, and acts on the answers.
    pub(super) async fn ask_offsets(&mut self) -> Result<(), RetryCause> {
        let now = Instant::now();
        let mut asked: Vec<Asked> = Vec::new();
        let mut asking = std::mem::take(&mut self.asking);
        // Partitions of a topic stand beside each other in the request.
        asking.sort_unstable_by_key(|&member| (self.members[member as usize].topic, member));
        for member in asking {
            self.members[member as usize].is_asking = false;
            let entry = &self.members[member as usize];
            if self.sits_here(entry)
                && asks_offsets(&entry.partition, now)
                && let Some(need) = entry.partition.need(now)
            {
                asked.push(Asked { member, need, earliest: None, latest: None });
            }
        }
        let asked = self.ask_both(asked).await;
        let asked = match asked {
            Ok(asked) => asked,
            Err((cause, asked)) => {
                // They still need them, over the next connection.
                asked.iter().for_each(|asked| self.settle(asked.member, Instant::now()));
                return Err(cause);
            }
        };
        for asked in asked {
            let partition = Rc::clone(&self.members[asked.member as usize].partition);
            match (asked.need, asked.earliest, asked.latest) {
                (Need::Start, Some(start), _) if partition.need(now) == Some(Need::Start) => {
                    self.begin_at(&partition, start)
                }
                (Need::Range, Some(earliest), Some(latest)) => self.place_within(&partition, earliest, latest),
                // Refused: that was dealt with; or the partition wants something else by now.
                _ => {}
            }
            self.settle(asked.member, Instant::now());
        }
        Ok(())
    }

    /// Fills in what the source answers; on an error those that asked are given back.
    async fn ask_both(&mut self, mut asked: Vec<Asked>) -> Result<Vec<Asked>, (RetryCause, Vec<Asked>)> {
        let ranges = |asked: &Asked| asked.need == Need::Range;
        let earliest = self.ask_at(&mut asked, EARLIEST, |_| true, |asked, offset| asked.earliest = Some(offset)).await;
        if let Err(cause) = earliest {
            return Err((cause, asked));
        }
        match self.ask_at(&mut asked, LATEST, ranges, |asked, offset| asked.latest = Some(offset)).await {
            Ok(()) => Ok(asked),
            Err(cause) => Err((cause, asked)),
        }
    }

    async fn ask_at(
        &mut self,
        asked: &mut [Asked],
        timestamp: i64,
        concerns: impl Fn(&Asked) -> bool,
        take: impl Fn(&mut Asked, i64),
    ) -> Result<(), RetryCause> {
        let mut request = ListOffsetsRequest::default();
        for entry in asked.iter().filter(|entry| concerns(entry)) {
            let partition = &self.members[entry.member as usize].partition;
            let name: &str = &partition.place.topic;
            let wanted = ListOffsetsPartition {
                partition_index: partition.place.index,
                current_leader_epoch: partition.leader().map_or(-1, |leader| leader.epoch),
                timestamp,
            };
            match request.topics.last_mut().filter(|topic| topic.name == name) {
                Some(topic) => topic.partitions.push(wanted),
                None => request.topics.push(ListOffsetsTopic { name: name.to_owned(), partitions: vec![wanted] }),
            }
        }
        if request.topics.is_empty() {
            return Ok(());
        }
        let Some(conn) = &mut self.conn else { return Err(RetryCause::Closed) };
        let version = conn.versions().list_offsets;
        let answer = conn.call(version, &request).await?;
        let places: HashMap<u32, usize> = asked.iter().enumerate().map(|(at, entry)| (entry.member, at)).collect();
        for topic in &answer.topics {
            for found in &topic.partitions {
                let member = self.member(self.topic_by_name(&topic.name), found.partition_index);
                let entry = member.and_then(|member| places.get(&member)).map(|&at| &mut asked[at]);
                let Some(entry) = entry.filter(|entry| concerns(entry)) else { continue };
                match ErrorCode(found.error_code) {
                    ErrorCode::NONE if found.offset >= 0 => take(entry, found.offset),
                    ErrorCode::NONE => self.refused(entry.member, ErrorCode::OFFSET_NOT_AVAILABLE),
                    error => self.refused(entry.member, error),
                }
            }
        }
        Ok(())
    }

    fn begin_at(&self, partition: &Rc<Partition<D>>, start: i64) {
        let (shared, job) = (Rc::clone(&self.crew.shared), Rc::clone(partition));
        self.crew.job(partition, move || async move { jobs::make(&shared, &job, start).await });
    }

    /// The source said that our offset is none of its: below its start, above its end, or neither any more.
    fn place_within(&self, partition: &Rc<Partition<D>>, earliest: i64, latest: i64) {
        let ours = partition.look(|log| (log.next_offset(), log.progress().log_start, log.last_epoch()));
        let Some((next, log_start, last_epoch)) = ours else { return };
        partition.set_need(Need::Records);
        if earliest > next && last_epoch < 0 && log_start == next {
            // Nothing was ever mirrored, so nothing is missing.
            let (shared, job) = (Rc::clone(&self.crew.shared), Rc::clone(partition));
            self.crew.job(partition, move || async move { jobs::restart(&shared, &job, earliest).await });
        } else if earliest > next {
            self.crew.shared.metrics.add(Counter::Gaps, 1);
            let what = format!(
                "the source deleted offsets {next} to {earliest} of {partition:?} before they were mirrored; start the \
                 topic from scratch to mirror what is left"
            );
            self.crew.fail(partition, Fault::partition_at(FaultCode::GAP, next, earliest, what));
        } else if latest < next {
            let what = format!(
                "the source's log of {partition:?} ends at {latest}, ours at {next} (an unclean election there?); nothing \
                 was cut; start the topic from scratch to mirror what the source has now"
            );
            self.crew.fail(partition, Fault::partition_at(FaultCode::DIVERGED, latest, next, what));
        } else {
            self.crew.pause(partition);
        }
    }
}

const EARLIEST: i64 = -2;
const LATEST: i64 = -1;
