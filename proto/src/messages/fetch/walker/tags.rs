//! pure: the steps through tagged sections and the node endpoints within one.

use super::super::{
    CurrentLeader, EpochEnd, HOST_BYTES_MAX, NODE_ENDPOINTS_FROM, TAG_CURRENT_LEADER, TAG_DIVERGING_EPOCH,
    TAG_NODE_ENDPOINTS,
};
use super::{FetchEvent, FetchWalker, Step, Turn, whole};
use crate::error::{DecodeError, Malformed};
use crate::reader::Reader;

/// The struct that a tagged section ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Header,
    Aborted,
    Partition,
    Topic,
    Response,
    Node,
}

/// Where in a tagged section the walk is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tags {
    left: u32,
    /// One more than the last tag: the smallest that may follow.
    next_min: u64,
    tag: u32,
    /// What is left of the tag after the fields that we read.
    rest_bytes: usize,
}

/// A tag and a size.
const TAG_BYTES_MIN: usize = 2;
const DIVERGING_EPOCH_BYTES: usize = 12;
const CURRENT_LEADER_BYTES: usize = 8;
/// An id, a host, a port, a rack and tags.
const NODE_BYTES_MIN: usize = 11;

impl FetchWalker {
    fn tags(&mut self, scope: Scope) -> &mut Tags {
        if scope == Scope::Node { &mut self.inner_tags } else { &mut self.outer_tags }
    }

    pub(super) fn tag_count<'p>(&mut self, rest: &mut &'p [u8], scope: Scope) -> Result<Turn<'p>, DecodeError> {
        let count = whole!(self.input.uvarint(rest));
        let left = self.not_null(self.input.count(count.into(), TAG_BYTES_MIN)?)?;
        *self.tags(scope) = Tags { left, ..Tags::default() };
        Ok(Turn::Next(Step::Tag(scope)))
    }

    pub(super) fn next_tag<'p>(&mut self, scope: Scope) -> Result<Turn<'p>, DecodeError> {
        if let Some(left) = self.tags(scope).left.checked_sub(1) {
            self.tags(scope).left = left;
            return Ok(Turn::Next(Step::TagNumber(scope)));
        }
        Ok(Turn::Next(match scope {
            Scope::Header => Step::Head,
            Scope::Aborted => Step::Aborted,
            Scope::Partition => Step::PartitionEnd,
            Scope::Topic => Step::Topic,
            Scope::Response => Step::Trailing,
            Scope::Node => Step::NodeEnd,
        }))
    }

    pub(super) fn tag_number<'p>(&mut self, rest: &mut &'p [u8], scope: Scope) -> Result<Turn<'p>, DecodeError> {
        let tag = whole!(self.input.uvarint(rest));
        let tags = self.tags(scope);
        if u64::from(tag) < tags.next_min {
            return Err(self.input.error(Malformed::TagOrder));
        }
        tags.next_min = u64::from(tag) + 1;
        tags.tag = tag;
        Ok(Turn::Next(Step::TagSize(scope)))
    }

    pub(super) fn tag_size<'p>(&mut self, rest: &mut &'p [u8], scope: Scope) -> Result<Turn<'p>, DecodeError> {
        let size = whole!(self.input.uvarint(rest)) as usize;
        self.input.require(size)?;
        let by_tag = match (scope, self.tags(scope).tag) {
            (Scope::Partition, TAG_DIVERGING_EPOCH) => Some((Step::DivergingEpoch, DIVERGING_EPOCH_BYTES)),
            (Scope::Partition, TAG_CURRENT_LEADER) => Some((Step::CurrentLeader, CURRENT_LEADER_BYTES)),
            (Scope::Response, TAG_NODE_ENDPOINTS) if self.version >= NODE_ENDPOINTS_FROM => {
                self.input.enter_tag(size)?;
                return Ok(Turn::Next(Step::NodeCount));
            }
            _ => None,
        };
        let Some((step, fields_bytes)) = by_tag else {
            self.input.begin_skip(size)?;
            return Ok(Turn::Next(Step::Tag(scope)));
        };
        // The struct has tags of its own after its fields.
        let Some(rest_bytes) = size.checked_sub(fields_bytes).filter(|rest| *rest > 0) else {
            return Err(self.input.error(Malformed::Truncated { missing: fields_bytes + 1 - size }));
        };
        self.tags(scope).rest_bytes = rest_bytes;
        Ok(Turn::Next(step))
    }

    pub(super) fn diverging_epoch<'p>(&mut self, rest: &mut &'p [u8]) -> Result<Turn<'p>, DecodeError> {
        let bytes: [u8; DIVERGING_EPOCH_BYTES] = whole!(self.input.fixed(rest));
        let mut fields = Reader::new("Fetch response", &bytes);
        let end = EpochEnd { epoch: fields.read_i32()?, end_offset: fields.read_i64()? };
        self.tail.diverging = (end.epoch >= 0).then_some(end);
        self.input.begin_skip(self.outer_tags.rest_bytes)?;
        Ok(Turn::Next(Step::Tag(Scope::Partition)))
    }

    pub(super) fn current_leader<'p>(&mut self, rest: &mut &'p [u8]) -> Result<Turn<'p>, DecodeError> {
        let bytes: [u8; CURRENT_LEADER_BYTES] = whole!(self.input.fixed(rest));
        let mut fields = Reader::new("Fetch response", &bytes);
        let leader = CurrentLeader { id: fields.read_i32()?, epoch: fields.read_i32()? };
        self.tail.current_leader = (leader.id >= 0 || leader.epoch >= 0).then_some(leader);
        self.input.begin_skip(self.outer_tags.rest_bytes)?;
        Ok(Turn::Next(Step::Tag(Scope::Partition)))
    }

    pub(super) fn node<'p>(&mut self, rest: &mut &'p [u8]) -> Result<Turn<'p>, DecodeError> {
        match self.step {
            Step::NodeCount => {
                let count = whole!(self.input.length(rest, true));
                self.nodes_left = self.not_null(self.input.count(count, NODE_BYTES_MIN)?)?;
                Ok(Turn::Next(Step::Node))
            }
            Step::Node => {
                let Some(left) = self.nodes_left.checked_sub(1) else {
                    self.input.leave_tag();
                    return Ok(Turn::Next(Step::Tag(Scope::Response)));
                };
                self.nodes_left = left;
                Ok(Turn::Next(Step::NodeId))
            }
            Step::NodeId => {
                self.node.id = i32::from_be_bytes(whole!(self.input.fixed(rest)));
                Ok(Turn::Next(Step::HostLength))
            }
            _ if self.node_is_usable => Ok(Turn::Tell(FetchEvent::Node(self.node), Step::Node)),
            _ => Ok(Turn::Next(Step::Node)),
        }
    }

    pub(super) fn endpoint<'p>(&mut self, rest: &mut &'p [u8]) -> Result<Turn<'p>, DecodeError> {
        match self.step {
            Step::HostLength => {
                let length = whole!(self.input.length(rest, true));
                let Some(bytes) = self.input.bytes(length)? else {
                    return Err(self.input.error(Malformed::UnexpectedNull));
                };
                self.node_is_usable = (1..=HOST_BYTES_MAX).contains(&bytes);
                if self.node_is_usable {
                    self.text.begin(bytes);
                    return Ok(Turn::Next(Step::Host));
                }
                self.input.begin_skip(bytes)?;
                Ok(Turn::Next(Step::Port))
            }
            Step::Host => {
                if !self.input.text(rest, &mut self.text.bytes[..self.text.len], &mut self.text.filled)? {
                    return Ok(Turn::Starved);
                }
                self.node_is_usable = self.text.as_str().is_some_and(|host| host.bytes().all(|b| b.is_ascii_graphic()));
                Ok(Turn::Next(Step::Port))
            }
            Step::Port => {
                let port = i32::from_be_bytes(whole!(self.input.fixed(rest)));
                self.node.port = u16::try_from(port).unwrap_or(0);
                self.node_is_usable &= self.node.port != 0 && self.node.id >= 0;
                Ok(Turn::Next(Step::RackLength))
            }
            _ => {
                let length = whole!(self.input.length(rest, true));
                let bytes = self.input.bytes(length)?.unwrap_or(0);
                self.input.begin_skip(bytes)?;
                Ok(Turn::Next(Step::TagCount(Scope::Node)))
            }
        }
    }
}
