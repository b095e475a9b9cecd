//! pure: walks a Fetch response that arrives in pieces cut at any byte.
//!
//! The frame is a sequence of small elements (fixed fields, varints, short texts) and record regions. An element that lies
//! whole in a piece is read there; one that a piece cuts through is completed in a carry of 32 bytes. Regions are handed out as
//! they come, borrowed from the piece. No length or count is believed before it was compared with what is left of the frame, and
//! nothing is ever allocated.

use super::{
    FLEXIBLE_FROM, HOST_BYTES_MAX, NodeEndpoint, PartitionHead, PartitionTail, ResponseHead, TOPIC_ID_FROM, TopicRef,
    VERSION_MAX, VERSION_MIN,
};
use crate::error::{DecodeError, Malformed};
use crate::error_code::ErrorCode;

mod fields;
mod input;
mod tags;

use input::{Input, WHAT};
use tags::{Scope, Tags};

/// A step of the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchEvent<'p> {
    /// The whole piece was taken; feed the next one.
    NeedMore,
    /// The response's own fields.
    Response(ResponseHead),
    /// The fields before a partition's batches.
    Partition(PartitionHead),
    /// The next bytes of the partition's batches, never empty.
    Records(&'p [u8]),
    /// The partition is complete.
    PartitionEnd(PartitionTail),
    /// Where a node listens. Endpoints that cannot be connected to are left out.
    Node(NodeEndpoint),
    /// The frame's last byte was taken.
    End {
        /// Bytes after the fields of the response, which were passed over.
        trailing_bytes: usize,
    },
}

/// The resumable walk through one frame.
#[derive(Debug, Clone)]
pub struct FetchWalker {
    version: i16,
    step: Step,
    input: Input,
    correlation_id: i32,
    topics_left: u32,
    partitions_left: u32,
    aborted_left: u32,
    nodes_left: u32,
    records_left: usize,
    trailing_bytes: usize,
    topic: TopicRef,
    head: PartitionHead,
    tail: PartitionTail,
    node: NodeEndpoint,
    node_is_usable: bool,
    text: Text,
    /// Tagged sections nest once: a node endpoint lies within a tag of the response.
    outer_tags: Tags,
    inner_tags: Tags,
}

/// The next element of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    CorrelationId,
    Head,
    TopicCount,
    Topic,
    TopicId,
    TopicNameLength,
    TopicName,
    PartitionCount,
    Partition,
    PartitionFields,
    AbortedCount,
    Aborted,
    PreferredReplica,
    RecordsLength,
    Records,
    PartitionEnd,
    TagCount(Scope),
    Tag(Scope),
    TagNumber(Scope),
    TagSize(Scope),
    NodeCount,
    Node,
    NodeId,
    HostLength,
    Host,
    Port,
    RackLength,
    NodeEnd,
    DivergingEpoch,
    CurrentLeader,
    Trailing,
    End,
    Ended,
}

/// What a step came to.
enum Turn<'p> {
    /// The element is not complete yet.
    Starved,
    /// On to the next step.
    Next(Step),
    /// On to the next step after telling the caller.
    Tell(FetchEvent<'p>, Step),
}

/// A short text of the frame: the topic's name, later a node's host.
#[derive(Debug, Clone, Copy)]
struct Text {
    bytes: [u8; HOST_BYTES_MAX],
    len: usize,
    filled: usize,
}

impl Text {
    fn begin(&mut self, len: usize) {
        (self.len, self.filled) = (len, 0);
    }

    /// The text, once it is whole.
    fn as_str(&self) -> Option<&str> {
        if self.filled < self.len {
            return None;
        }
        core::str::from_utf8(&self.bytes[..self.len]).ok()
    }
}

/// A partition of which nothing is known yet.
fn empty_head(topic: TopicRef) -> PartitionHead {
    PartitionHead {
        topic,
        index: -1,
        error: ErrorCode(0),
        high_watermark: -1,
        last_stable_offset: -1,
        log_start_offset: -1,
        preferred_read_replica: -1,
        records_bytes: 0,
    }
}

/// Goes on with the value, or leaves the step as it is until more bytes are there.
macro_rules! whole {
    ($value:expr) => {
        match $value? {
            Some(value) => value,
            None => return Ok(Turn::Starved),
        }
    };
}
use whole;

impl FetchWalker {
    /// Starts at the correlation id of a frame of `frame_bytes`, which its length field gave.
    ///
    /// # Errors
    /// When `version` is not one of 4 to 18.
    pub fn new(version: i16, frame_bytes: usize) -> Result<Self, DecodeError> {
        if !(VERSION_MIN..=VERSION_MAX).contains(&version) {
            return Err(DecodeError { what: WHAT, at: 0, why: Malformed::Version { found: version.into() } });
        }
        let topic = TopicRef::Name;
        Ok(Self {
            version,
            step: Step::CorrelationId,
            input: Input::new(frame_bytes),
            correlation_id: 0,
            topics_left: 0,
            partitions_left: 0,
            aborted_left: 0,
            nodes_left: 0,
            records_left: 0,
            trailing_bytes: 0,
            topic,
            head: empty_head(topic),
            tail: PartitionTail::default(),
            node: NodeEndpoint { id: -1, port: 0 },
            node_is_usable: false,
            text: Text { bytes: [0; HOST_BYTES_MAX], len: 0, filled: 0 },
            outer_tags: Tags::default(),
            inner_tags: Tags::default(),
        })
    }

    /// Takes bytes up to the next event and tells how many. Bytes beyond the frame are never taken.
    ///
    /// # Errors
    /// When the bytes are no Fetch response, or after the end or an error: the connection is of no more use.
    pub fn feed<'p>(&mut self, piece: &'p [u8]) -> Result<(usize, FetchEvent<'p>), DecodeError> {
        let mut rest = piece;
        loop {
            let turn = match self.turn(&mut rest) {
                Ok(turn) => turn,
                Err(error) => {
                    self.step = Step::Ended;
                    return Err(error);
                }
            };
            match turn {
                Turn::Starved => return Ok((piece.len() - rest.len(), FetchEvent::NeedMore)),
                Turn::Next(step) => self.step = step,
                Turn::Tell(event, step) => {
                    self.step = step;
                    return Ok((piece.len() - rest.len(), event));
                }
            }
        }
    }

    /// Bytes of the current record region that are still to come.
    #[must_use]
    pub fn records_remaining(&self) -> usize {
        self.records_left
    }

    /// Bytes of the frame that are still to come.
    #[must_use]
    pub fn frame_remaining(&self) -> usize {
        self.input.left()
    }

    /// The name of the partition's topic, up to version 12.
    #[must_use]
    pub fn topic_name(&self) -> Option<&str> {
        (self.version < TOPIC_ID_FROM).then(|| self.text.as_str()).flatten()
    }

    /// The host of the node that was just told of.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.text.as_str()
    }

    fn is_flexible(&self) -> bool {
        self.version >= FLEXIBLE_FROM
    }

    /// `section` when the version has tagged sections, else `plain`.
    fn tags_or(&self, section: Scope, plain: Step) -> Step {
        if self.is_flexible() { Step::TagCount(section) } else { plain }
    }

    fn turn<'p>(&mut self, rest: &mut &'p [u8]) -> Result<Turn<'p>, DecodeError> {
        if !self.input.skip(rest) {
            return Ok(Turn::Starved);
        }
        match self.step {
            Step::CorrelationId => {
                self.correlation_id = i32::from_be_bytes(whole!(self.input.fixed(rest)));
                Ok(Turn::Next(self.tags_or(Scope::Header, Step::Head)))
            }
            Step::Head => self.response_head(rest),
            Step::TopicCount | Step::Topic | Step::TopicId | Step::TopicNameLength | Step::TopicName => {
                self.topic(rest)
            }
            Step::PartitionCount | Step::Partition | Step::PartitionFields => self.partition(rest),
            Step::AbortedCount | Step::Aborted | Step::PreferredReplica => self.before_records(rest),
            Step::RecordsLength | Step::Records => self.records(rest),
            Step::PartitionEnd => Ok(Turn::Tell(FetchEvent::PartitionEnd(self.tail), Step::Partition)),
            Step::TagCount(scope) => self.tag_count(rest, scope),
            Step::Tag(scope) => self.next_tag(scope),
            Step::TagNumber(scope) => self.tag_number(rest, scope),
            Step::TagSize(scope) => self.tag_size(rest, scope),
            Step::NodeCount | Step::Node | Step::NodeId | Step::NodeEnd => self.node(rest),
            Step::HostLength | Step::Host | Step::Port | Step::RackLength => self.endpoint(rest),
            Step::DivergingEpoch => self.diverging_epoch(rest),
            Step::CurrentLeader => self.current_leader(rest),
            Step::Trailing => {
                self.trailing_bytes = self.input.left();
                self.input.begin_skip(self.trailing_bytes)?;
                Ok(Turn::Next(Step::End))
            }
            Step::End => Ok(Turn::Tell(FetchEvent::End { trailing_bytes: self.trailing_bytes }, Step::Ended)),
            Step::Ended => Err(self.input.error(Malformed::Rule("the frame has ended"))),
        }
    }
}
