//! The answer to a Fetch, from the socket into the logs; never held in memory as a whole.
//!
//! Heads are read by small receives while regions are large, so that little of a region is copied; a large region goes from
//! the socket straight into leases, at the place where the log can write it without a copy. While regions are small, as much
//! as the inbox holds is received at once, and each region is copied into its log's stage.

use std::rc::Rc;
use std::time::{Duration, Instant};

use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::fetch::walker::{FetchEvent, FetchWalker};
use twinlog_proto::messages::fetch::{PartitionHead, PartitionTail, TopicRef};

use super::custody::Region;
use super::partition::Partition;
use super::pump::Pump;
use crate::core::shared::now_ms;
use crate::disk::Disk;
use crate::fault::RetryCause;
use crate::limits::{
    BATCH_BYTES_MAX, CLOSING_MAX, DIRECT_REGION_BYTES_MIN, FETCH_HEADS_BYTES_MAX, HEAD_BYTES, INBOX_BYTES, PIECE_BYTES,
    THROTTLE_MS_MAX,
};
use crate::log::{AppendStop, RegionRules};
use crate::metrics::{Counter, Delay};
use crate::wire::Transport;
use crate::wire::leaders::Leader;

/// What is remembered over the course of one answer.
#[derive(Debug, Default)]
struct Answer {
    session_id: i32,
    throttle_ms: i32,
    /// The partition whose fields are being read.
    current: Option<u32>,
    /// Partitions that somebody else leads now; the brokers' endpoints come after them.
    moved: Vec<(u32, Leader)>,
    strangers: u64,
    /// The error that the whole answer is.
    refused: ErrorCode,
}

impl<T: Transport, D: Disk> Pump<T, D> {
    /// One request and its answer.
    pub(super) async fn fetch(&mut self) -> Result<(), RetryCause> {
        let (version, awaited) = self.send_fetch().await?;
        let sent_at = Instant::now();
        let frame_bytes_max = self.settings().response_bytes_max as usize + BATCH_BYTES_MAX + FETCH_HEADS_BYTES_MAX;
        let at_once = self.at_once();
        let Some(conn) = &mut self.conn else { return Err(RetryCause::Closed) };
        let bytes = conn.begin_answer(frame_bytes_max, at_once).await?;
        self.crew.shared.metrics.delay(Delay::Fetch, sent_at.elapsed());
        self.asked_at.answered_ms = now_ms();
        let walker = FetchWalker::new(version, bytes)?;
        let answer = self.take_answer(walker, awaited).await;
        if let Some(conn) = &mut self.conn {
            self.crew.shared.metrics.add(Counter::ReceivedBytes, conn.take_received_bytes());
            conn.end_answer();
        }
        let answer = answer?;
        self.crew.shared.metrics.add(Counter::FetchResponses, 1);
        if !answer.refused.is_none() {
            return self.whole_refused(answer.refused);
        }
        self.session.answered(answer.session_id);
        self.meet_the_silent();
        for (member, leader) in answer.moved {
            let partition = Rc::clone(&self.members[member as usize].partition);
            self.crew.lead(&partition, leader);
        }
        if answer.throttle_ms > 0 {
            let pause_ms = u64::from(answer.throttle_ms.unsigned_abs()).min(THROTTLE_MS_MAX);
            self.port.pause(Duration::from_millis(pause_ms)).await;
        }
        if answer.strangers > 0 { Err(RetryCause::Strangers { count: answer.strangers }) } else { Ok(()) }
    }

    fn at_once(&self) -> usize {
        if self.large { HEAD_BYTES } else { INBOX_BYTES }
    }

    async fn take_answer(&mut self, mut walker: FetchWalker, awaited: i32) -> Result<Answer, RetryCause> {
        let mut answer = Answer::default();
        loop {
            if walker.records_remaining() > 0 {
                self.take_region(&mut walker, answer.current).await?;
                continue;
            }
            let at_once = self.at_once();
            let Some(conn) = &mut self.conn else { return Err(RetryCause::Closed) };
            let (taken, event) = walker.feed(conn.unread())?;
            match event {
                FetchEvent::NeedMore => {
                    conn.consume(taken);
                    conn.refill(at_once.min(walker.frame_remaining().max(1))).await?;
                    continue;
                }
                FetchEvent::Response(head) => {
                    conn.consume(taken);
                    if head.correlation_id != awaited {
                        return Err(RetryCause::Correlation { awaited, found: head.correlation_id });
                    }
                    (answer.session_id, answer.throttle_ms) = (head.session_id, head.throttle_ms);
                    answer.refused = head.error;
                }
                FetchEvent::Partition(head) => {
                    conn.consume(taken);
                    answer.current = self.take_head(&walker, &head, &mut answer);
                }
                FetchEvent::PartitionEnd(tail) => {
                    conn.consume(taken);
                    if let Some(member) = answer.current.take() {
                        self.take_tail(member, tail, &mut answer);
                    }
                }
                FetchEvent::Node(node) => {
                    conn.consume(taken);
                    let host = walker.host().unwrap_or_default();
                    self.crew.with_brokers(|brokers| brokers.learn(node.id, host, node.port.into()));
                }
                // Regions are taken above, where their bytes go into leases.
                FetchEvent::Records(_) => conn.consume(taken),
                FetchEvent::End { .. } => {
                    conn.consume(taken);
                    return Ok(answer);
                }
            }
        }
    }

    fn take_head(&mut self, walker: &FetchWalker, head: &PartitionHead, answer: &mut Answer) -> Option<u32> {
        let topic = match head.topic {
            TopicRef::Id(id) => self.topic_by_id(id),
            TopicRef::Name => walker.topic_name().and_then(|name| self.topic_by_name(name)),
        };
        let member = self.member(topic, head.index).filter(|&m| self.asked(m).is_some());
        let Some(member) = member else {
            answer.strangers += 1;
            return None;
        };
        if head.records_bytes > 0 {
            self.large = head.records_bytes as usize >= DIRECT_REGION_BYTES_MIN;
        }
        self.meet(member, head);
        Some(member)
    }

    fn take_tail(&mut self, member: u32, tail: PartitionTail, answer: &mut Answer) {
        if let Some(diverging) = tail.diverging {
            self.diverged(member, diverging);
        }
        if let Some(leader) = tail.current_leader.filter(|leader| leader.id >= 0) {
            answer.moved.push((member, Leader { broker: leader.id, epoch: leader.epoch }));
        }
    }

    /// Takes the records of one partition, wherever they belong.
    async fn take_region(&mut self, walker: &mut FetchWalker, member: Option<u32>) -> Result<(), RetryCause> {
        let opened = member.and_then(|member| {
            let asked = self.take_asked(member)?;
            let entry = &self.members[member as usize];
            let rules = RegionRules { epoch_max: epoch_max(asked.leader_epoch), now_ms: now_ms() };
            let partition = Rc::clone(&entry.partition);
            let region = partition
                .open_region(asked, rules, Instant::now())
                .filter(|_| self.sits_here(&self.members[member as usize]))?;
            Some((member, partition, region))
        });
        let Some((member, partition, region)) = opened else { return self.skip(walker).await };
        let taken = if walker.records_remaining() >= DIRECT_REGION_BYTES_MIN {
            self.take_large(walker, &partition, region).await
        } else {
            self.take_small(walker, &partition, region).await
        };
        let (stop, result) = match taken {
            Ok(stop) => (stop, Ok(())),
            Err(cause) => (None, Err(cause)),
        };
        self.region_over(member, region, stop);
        result?;
        self.skip(walker).await
    }

    /// Receives straight into leases. Returns early when the log stops or is taken away.
    async fn take_large(
        &mut self,
        walker: &mut FetchWalker,
        partition: &Partition<D>,
        region: Region,
    ) -> Result<Option<AppendStop>, RetryCause> {
        while walker.records_remaining() > 0 {
            let mut lease = match self.crew.shared.home.pool.try_take() {
                Some(lease) => lease,
                None => {
                    self.crew.shared.metrics.add(Counter::BufferWaits, 1);
                    self.crew.shared.home.pool.take().await
                }
            };
            wait_for_closing(partition, region).await;
            let Some(start) = partition.within(region, |log| log.residue()) else { return Ok(None) };
            let Some(conn) = &mut self.conn else { return Err(RetryCause::Closed) };
            let mut end = (start + walker.records_remaining()).min(PIECE_BYTES);
            let came = conn.unread().len().min(end - start);
            lease[start..start + came].copy_from_slice(&conn.unread()[..came]);
            conn.consume(came);
            let mut result = Ok(());
            if start + came < end {
                let (filled, bytes, back) = conn.fill(lease, start + came..end).await;
                (result, lease, end) = (filled, back, start + came + bytes);
            }
            if end > start {
                walker.feed(&lease[start..end])?;
            }
            let appended = partition.within(region, |log| log.append(lease, start..end));
            result?;
            match appended {
                Some(Ok(())) => {}
                Some(Err(stop)) => return Ok(Some(stop)),
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Copies what the inbox holds. Returns early when the log stops or is taken away.
    async fn take_small(
        &mut self,
        walker: &mut FetchWalker,
        partition: &Partition<D>,
        region: Region,
    ) -> Result<Option<AppendStop>, RetryCause> {
        self.crew.shared.home.pool.stage_available().await;
        while walker.records_remaining() > 0 {
            let left = walker.records_remaining();
            let at_once = if self.large { left + HEAD_BYTES } else { INBOX_BYTES };
            wait_for_closing(partition, region).await;
            let Some(conn) = &mut self.conn else { return Err(RetryCause::Closed) };
            if conn.unread().is_empty() {
                conn.refill(at_once.min(INBOX_BYTES)).await?;
            }
            let piece = &conn.unread()[..conn.unread().len().min(left)];
            let bytes = piece.len();
            walker.feed(piece)?;
            let staged = partition.within(region, |log| log.stage(piece));
            conn.consume(bytes);
            match staged {
                Some(Ok(())) => {}
                Some(Err(stop)) => return Ok(Some(stop)),
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Receives the rest of a region that nobody takes.
    async fn skip(&mut self, walker: &mut FetchWalker) -> Result<(), RetryCause> {
        while walker.records_remaining() > 0 {
            let left = walker.records_remaining();
            let Some(conn) = &mut self.conn else { return Err(RetryCause::Closed) };
            if conn.unread().is_empty() {
                conn.refill(left.min(INBOX_BYTES)).await?;
            }
            let bytes = conn.unread().len().min(left);
            walker.feed(&conn.unread()[..bytes])?;
            conn.consume(bytes);
            self.crew.shared.metrics.add(Counter::RefetchedBytes, bytes as u64);
        }
        Ok(())
    }
}

/// Segments that roll faster than the disk closes them must not pile up in memory.
async fn wait_for_closing<D: Disk>(partition: &Partition<D>, region: Region) {
    while partition.within(region, |log| log.closing()).unwrap_or(0) > CLOSING_MAX {
        tokio::time::sleep(CLOSING_PAUSE).await;
    }
}

/// Between two looks at segments that are being closed.
const CLOSING_PAUSE: Duration = Duration::from_millis(1);

/// Without an epoch in the metadata every epoch is taken.
fn epoch_max(leader_epoch: i32) -> i32 {
    if leader_epoch < 0 { i32::MAX } else { leader_epoch }
}
