//! The moment of the hand-over, topic by topic: the copies are renamed into the log directory, and the broker is told to make the topic.

use super::progress::TOPIC_POINTS;
use super::{Adopting, broker};
use crate::client::Client;
use crate::failure::Failure;
use crate::handover::check;
use crate::handover::journal::Topic;
use crate::handover::promote::Say;
use crate::steps;
use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::alter_replica_log_dirs::{
    AlterReplicaLogDir, AlterReplicaLogDirTopic, AlterReplicaLogDirsRequest,
};
use twinlog_proto::messages::create_topics::CreateTopicsRequest;
use twinlog_proto::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic};
use twinlog_proto::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use twinlog_proto::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use twinlog_proto::storage::{names, partition_metadata};

/// How long the broker may take to write the id of a topic into its directories.
const NOTICE_TIME_MAX: Duration = Duration::from_secs(30);
/// How often it is looked whether it has.
const POLL: Duration = Duration::from_millis(100);
/// Resource type of a topic in requests about settings.
const RESOURCE_TOPIC: i8 = 2;

/// What became of the request that makes a topic.
enum Made {
    /// It has this id.
    Here(Uuid),
    /// One of its name is there already.
    Exists,
}

impl Adopting {
    /// Hands over every topic that the broker does not have yet.
    pub(super) fn create(&mut self, say: Say<'_>) -> Result<(), Failure> {
        let mut client = broker::connect(&self.adoption.address)?;
        let topics = self.journal.topics.clone();
        for topic in &topics {
            let done = self.adoption.topic(&topic.topic).is_some_and(|known| known.topic_id.is_some());
            if !done {
                self.create_one(&mut client, topic, say)?;
            }
        }
        Ok(())
    }

    fn create_one(&mut self, client: &mut Client, topic: &Topic, say: Say<'_>) -> Result<(), Failure> {
        if self.adoption.several_dirs {
            self.prefer_dir(client, topic)?;
        }
        let was_placed = self.adoption.topic(&topic.topic).is_some_and(|known| known.placed);
        if was_placed && let Some(id) = self.is_ours(client, topic)? {
            return self.note(topic, id, None);
        }
        if let Some(known) = self.adoption.topic(&topic.topic) {
            known.placed = true;
        }
        self.save()?;
        let begun = Instant::now();
        self.place(&topic.topic, false)?;
        steps::passed_by_name(TOPIC_POINTS[0]);
        let made = self.make(client, topic)?;
        let id = match made {
            Made::Here(id) => Some(id),
            Made::Exists => self.is_ours(client, topic)?,
        };
        let Some(id) = id else {
            self.take_unnoticed(topic)?;
            return Err(Failure::new(
                format_args!("topic {} is not handed over", topic.topic),
                "the broker has a topic of this name meanwhile, as a client makes one that asks for it (auto.create.topics.enable)",
                "keep clients away, delete that topic at the broker, and run the same command again; nothing of the mirror is lost",
            ));
        };
        steps::passed_by_name(TOPIC_POINTS[1]);
        self.await_ends(topic)?;
        let readable_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        say(&format!("topic {} is the broker's after {readable_ms} ms", topic.topic));
        self.note(topic, id, Some(readable_ms))
    }

    /// Writes down that the broker has the topic, once its log starts are right.
    fn note(&mut self, topic: &Topic, id: Uuid, readable_ms: Option<u64>) -> Result<(), Failure> {
        let mut client = broker::connect(&self.adoption.address)?;
        let begun = Instant::now();
        while let Err(why) = self.in_use(topic, id) {
            if begun.elapsed() >= NOTICE_TIME_MAX {
                return Err(why);
            }
            sleep(POLL);
        }
        raise_log_starts(&mut client, topic)?;
        if let Some(known) = self.adoption.topic(&topic.topic) {
            known.topic_id = Some(id.to_string());
            known.readable_ms = readable_ms;
        }
        self.save()?;
        steps::passed_by_name(TOPIC_POINTS[2]);
        Ok(())
    }

    fn make(&self, client: &mut Client, topic: &Topic) -> Result<Made, Failure> {
        let count = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
        let topics = vec![broker::creatable(&topic.topic, count, &topic.all_configs(), self.journal.node_id)];
        let pending = |cause: &dyn std::fmt::Display| {
            let remedy = "run the same command again: it finds out whether the topic was made";
            Failure::new(format_args!("topic {} is being handed over", topic.topic), cause, remedy)
        };
        let request = CreateTopicsRequest { topics, ..Default::default() };
        let answer = client.ask(&request).map_err(|cause| pending(&cause))?;
        let refused = |words: String| {
            Failure::new(
                format_args!("the broker does not make topic {}", topic.topic),
                words,
                "mend what it names, then run the same command again, or take everything back with --undo",
            )
        };
        let Some(result) = answer.topics.into_iter().next() else {
            return Err(refused("it says nothing of it".to_owned()));
        };
        match ErrorCode(result.error_code) {
            ErrorCode::NONE => Ok(Made::Here(result.topic_id)),
            ErrorCode::TOPIC_ALREADY_EXISTS => Ok(Made::Exists),
            // These do not say whether the topic is made after all, and then the copies are its logs.
            code if code.is_retriable() || code == ErrorCode::UNKNOWN_SERVER_ERROR => Err(pending(&code)),
            code => {
                // A directory without a topic would be put aside at the broker's next start.
                self.take_unnoticed(topic)?;
                Err(refused(result.error_message.unwrap_or_else(|| code.to_string())))
            }
        }
    }

    /// The id of the topic at the broker, when it was made by this command: its partitions are our copies, into which the broker writes the
    /// id a little later than it answers, and it has all settings.
    fn is_ours(&self, client: &mut Client, topic: &Topic) -> Result<Option<Uuid>, Failure> {
        let begun = Instant::now();
        loop {
            let wanted = MetadataRequestTopic { name: Some(topic.topic.clone()), ..Default::default() };
            let topics = Some(vec![wanted]);
            let request = MetadataRequest { topics, allow_auto_topic_creation: false, ..Default::default() };
            let answer = client.ask(&request).map_err(broker::unasked)?;
            let known = answer
                .topics
                .into_iter()
                .find(|found| ErrorCode(found.error_code) != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
            let Some(known) = known else { return Ok(None) };
            let is_like = known.error_code == 0 && known.partitions.len() == topic.partitions.len();
            if is_like && self.in_use(topic, known.topic_id).is_ok() {
                return Ok(has_settings(client, topic)?.then_some(known.topic_id));
            }
            if begun.elapsed() >= NOTICE_TIME_MAX {
                return Ok(None);
            }
            sleep(POLL);
        }
    }

    /// Takes the copies out again, unless the broker has noticed them: those are the logs of a topic then.
    fn take_unnoticed(&self, topic: &Topic) -> Result<(), Failure> {
        let dirs = topic
            .partitions
            .iter()
            .map(|p| self.adoption.log_dir.join(names::partition_dir(&topic.topic, p.partition)));
        let is_noticed = dirs.into_iter().any(|dir| dir.join(names::PARTITION_METADATA).exists());
        if is_noticed { Ok(()) } else { self.place(&topic.topic, true) }
    }

    /// Whether the broker uses the copies as the logs of the topic with this id.
    fn in_use(&self, topic: &Topic, id: Uuid) -> Result<(), Failure> {
        for partition in &topic.partitions {
            let dir = self.adoption.log_dir.join(names::partition_dir(&topic.topic, partition.partition));
            let path = dir.join(names::PARTITION_METADATA);
            let found = fs::read(&path).ok().and_then(|bytes| partition_metadata::parse(&bytes).ok());
            // The last segment of a copy begins where it ends.
            let end = partition.end_offset.unwrap_or(partition.last_mirrored_offset);
            let is_copy = dir.join(names::file_name(end, names::FileKind::Log)).exists();
            if found != Some(id) || !is_copy {
                let found = found.map_or_else(|| "no topic".to_owned(), |id| id.to_string());
                return Err(Failure::new(
                    format_args!("{} is not the log of topic {}", dir.display(), topic.topic),
                    format_args!("the broker uses it for {found}, and the topic has id {id}"),
                    "delete the topic at the broker, then run the same command again; nothing of the mirror is lost",
                ));
            }
        }
        Ok(())
    }

    /// Waits until every partition answers with the end of its copy.
    fn await_ends(&self, topic: &Topic) -> Result<(), Failure> {
        let mut journal = self.journal.clone();
        journal.topics = vec![topic.clone()];
        let ends = check::ends(&journal, &self.adoption.address)?;
        for partition in &topic.partitions {
            let wanted = partition.end_offset.unwrap_or(partition.last_mirrored_offset);
            let found = ends.get(&(topic.topic.clone(), partition.partition));
            if !found.is_some_and(|found| found.as_ref().is_ok_and(|end| *end >= wanted)) {
                return Err(Failure::new(
                    format_args!(
                        "{} is not served as it was handed over",
                        names::partition_dir(&topic.topic, partition.partition)
                    ),
                    format_args!("it ends at {wanted}, and the broker says {found:?}"),
                    "look into the broker's log; delete the topic there, then run the same command again",
                ));
            }
        }
        Ok(())
    }

    /// Tells a broker with several log directories in which one the partitions of a topic are to be that it does not have yet.
    fn prefer_dir(&self, client: &mut Client, topic: &Topic) -> Result<(), Failure> {
        let partitions: Vec<i32> = topic.partitions.iter().map(|partition| partition.partition).collect();
        let of = AlterReplicaLogDirTopic { name: topic.topic.clone(), partitions };
        let path = self.adoption.log_dir.display().to_string();
        let request = AlterReplicaLogDirsRequest { dirs: vec![AlterReplicaLogDir { path, topics: vec![of] }] };
        let answer = client.ask(&request).map_err(broker::unasked)?;
        let codes = answer.results.iter().flat_map(|result| &result.partitions).map(|p| ErrorCode(p.error_code));
        // It remembers the directory although it says that there is no replica.
        let fine = |code: &ErrorCode| matches!(*code, ErrorCode::NONE | ErrorCode::REPLICA_NOT_AVAILABLE);
        match codes.into_iter().find(|code| !fine(code)) {
            None => Ok(()),
            Some(code) => Err(Failure::new(
                format_args!("the broker does not take topic {} in {}", topic.topic, self.adoption.log_dir.display()),
                code,
                "give --log-dir a log directory that it can use",
            )),
        }
    }
}

/// Whether the topic has the settings that it was to be made with.
fn has_settings(client: &mut Client, topic: &Topic) -> Result<bool, Failure> {
    let resource = DescribeConfigsResource {
        resource_type: RESOURCE_TOPIC,
        resource_name: topic.topic.clone(),
        configuration_keys: None,
    };
    let request = DescribeConfigsRequest { resources: vec![resource], ..DescribeConfigsRequest::default() };
    let answer = client.ask(&request).map_err(broker::unasked)?;
    let there: BTreeMap<String, Option<String>> = answer
        .results
        .into_iter()
        .flat_map(|result| result.configs)
        .map(|config| (config.name, config.value))
        .collect();
    Ok(topic.all_configs().into_iter().all(|(name, value)| there.get(&name) == Some(&Some(value))))
}

/// Log starts within the first segment: a broker that runs cannot be told by a checkpoint.
fn raise_log_starts(client: &mut Client, topic: &Topic) -> Result<(), Failure> {
    let within = topic.partitions.iter().filter(|partition| {
        partition.segments.first().is_none_or(|first| first.base_offset < partition.log_start_offset)
    });
    let wanted: BTreeMap<i32, i64> =
        within.map(|partition| (partition.partition, partition.log_start_offset)).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let partition = |(index, offset): (&i32, &i64)| DeleteRecordsPartition { partition_index: *index, offset: *offset };
    let of = DeleteRecordsTopic { name: topic.topic.clone(), partitions: wanted.iter().map(partition).collect() };
    let answer = client
        .ask(&DeleteRecordsRequest { topics: vec![of], ..DeleteRecordsRequest::default() })
        .map_err(broker::unasked)?;
    for result in answer.topics.iter().flat_map(|topic| &topic.partitions) {
        if result.error_code != 0
            || wanted.get(&result.partition_index).is_some_and(|start| *start > result.low_watermark)
        {
            return Err(Failure::new(
                format_args!(
                    "{} does not begin where the mirror begins",
                    names::partition_dir(&topic.topic, result.partition_index)
                ),
                format_args!("it begins at {}: {}", result.low_watermark, ErrorCode(result.error_code)),
                "run the same command again; the topic is served meanwhile, with records that the source has deleted",
            ));
        }
    }
    Ok(())
}
