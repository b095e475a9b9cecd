//! pure: builds one Fetch request after the other in the same memory, so that a steady state allocates nothing.

use std::rc::Rc;

use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic, ForgottenTopic};

use super::session::{Ask, Want};

/// The topics of one connection, numbered.
#[derive(Debug)]
pub struct TopicName {
    /// The name, for versions below 13.
    pub name: Rc<str>,
    /// The id, from version 13 on.
    pub id: Uuid,
}

/// The request and the parts that it does not need at the moment.
#[derive(Debug, Default)]
pub struct FetchBuilder {
    request: FetchRequest,
    spare: Vec<FetchTopic>,
    /// The number of the topic that was listed last, and of the one forgotten last.
    listed: Option<u32>,
    forgotten: Option<u32>,
}

impl FetchBuilder {
    /// Empties the request.
    pub fn clear(&mut self) {
        self.spare.append(&mut self.request.topics);
        self.request.forgotten_topics_data.clear();
        (self.listed, self.forgotten) = (None, None);
    }

    /// Lists a partition. Partitions of one topic come one after the other.
    pub fn list(&mut self, number: u32, topic: &TopicName, index: i32, want: Want) {
        if self.listed != Some(number) {
            self.listed = Some(number);
            let mut entry = self.spare.pop().unwrap_or_default();
            entry.topic.clear();
            entry.topic.push_str(&topic.name);
            entry.topic_id = topic.id;
            entry.partitions.clear();
            self.request.topics.push(entry);
        }
        if let Some(entry) = self.request.topics.last_mut() {
            entry.partitions.push(FetchPartition {
                partition: index,
                current_leader_epoch: want.leader_epoch,
                fetch_offset: want.offset,
                last_fetched_epoch: want.last_epoch,
                partition_max_bytes: want.max_bytes,
                ..FetchPartition::default()
            });
        }
    }

    /// Names a partition that leaves the session. Partitions of one topic come one after the other.
    pub fn forget(&mut self, number: u32, topic: &TopicName, index: i32) {
        if self.forgotten != Some(number) {
            self.forgotten = Some(number);
            let entry =
                ForgottenTopic { topic: topic.name.to_string(), topic_id: topic.id, ..ForgottenTopic::default() };
            self.request.forgotten_topics_data.push(entry);
        }
        if let Some(entry) = self.request.forgotten_topics_data.last_mut() {
            entry.partitions.push(index);
        }
    }

    /// The request, with its own fields set.
    pub fn finish(&mut self, ask: Ask, wait_ms: i32, bytes_min: i32, bytes_max: i32) -> &FetchRequest {
        self.request.max_wait_ms = wait_ms;
        self.request.min_bytes = bytes_min;
        self.request.max_bytes = bytes_max;
        self.request.isolation_level = READ_UNCOMMITTED;
        self.request.session_id = ask.session_id;
        self.request.session_epoch = ask.session_epoch;
        &self.request
    }
}

/// A mirror takes everything: with the other level it would hang behind open transactions.
const READ_UNCOMMITTED: i8 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_of_a_topic_share_its_entry_and_a_cleared_request_is_empty() {
        let topics =
            [TopicName { name: "a".into(), id: Uuid([1; 16]) }, TopicName { name: "b".into(), id: Uuid([2; 16]) }];
        let want = Want { leader_epoch: 3, offset: 40, last_epoch: 2, max_bytes: 100 };
        let mut builder = FetchBuilder::default();
        for _round in 0..2 {
            builder.clear();
            builder.list(0, &topics[0], 0, want);
            builder.list(0, &topics[0], 1, want);
            builder.list(1, &topics[1], 7, want);
            builder.forget(1, &topics[1], 8);
            let request = builder.finish(Ask { session_id: 5, session_epoch: 6 }, 500, 1, 1000);
            assert_eq!(request.topics.iter().map(|t| t.partitions.len()).collect::<Vec<_>>(), [2, 1]);
            assert_eq!(request.topics[1].partitions[0].partition, 7);
            assert_eq!(request.topics[1].partitions[0].fetch_offset, 40);
            assert_eq!(request.topics[1].topic, "b");
            assert_eq!(request.forgotten_topics_data[0].partitions, [8]);
            assert_eq!((request.session_id, request.session_epoch, request.replica_id), (5, 6, -1));
        }
    }
}
