//! pure: topics that a mirror never had and that come with their directories: judged by what the source says, as a start is.

use crate::mirror::catalog::{Catalog, LastMirrored, Mirror};
use crate::mirror::event::{MirrorEvent, SourceTopic, TakenUp};
use crate::mirror::internal::{self, is_internal_name};
use crate::mirror::settings;
use crate::plane::view::View;
use crate::rpc::Refusal;
use crate::source::SourceError;
use crate::source::topics::{Answer, Wanted};
use std::collections::BTreeSet;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::ids::is_legal_name;
use twinlog_proto::messages::record_hand_over::{RecordHandOverRequest, TopicData};

/// What is known besides the catalog.
#[derive(Debug)]
pub struct Around {
    /// What the source said of the topics; nothing when no topic is new.
    pub source: Result<Answer, SourceError>,
    /// The data directories.
    pub directories: Vec<String>,
}

/// What the source is to be asked because of topics that the mirror does not have, and where; `None` when there are none.
#[must_use]
pub fn question(request: &RecordHandOverRequest, catalog: &Catalog) -> Option<(Vec<String>, Wanted)> {
    let mirror = catalog.mirror(&request.mirror_name)?;
    let is_new = |topic: &&TopicData| !topic.partitions.is_empty() && catalog.owner_of(&topic.topic_name).is_none();
    let names: Vec<String> = request.topics.iter().filter(is_new).map(|topic| topic.topic_name.clone()).collect();
    (!names.is_empty()).then(|| (settings::bootstrap_servers(&mirror.facts.settings), Wanted::Named(names)))
}

/// Judges new topics one after the other: each takes slots.
pub(super) struct TakeUp<'a> {
    name: &'a str,
    mirror: &'a Mirror,
    around: &'a Around,
    slots_free: usize,
}

impl<'a> TakeUp<'a> {
    pub(super) fn new(
        name: &'a str,
        mirror: &'a Mirror,
        around: &'a Around,
        catalog: &Catalog,
        view: &View<'_>,
    ) -> Self {
        let slots_free = (view.slots_max as usize).saturating_sub(catalog.slots().len());
        Self { name, mirror, around, slots_free }
    }

    /// What follows for one topic.
    pub(super) fn topic(&mut self, asked: &TopicData, to: &str) -> Result<MirrorEvent, Refusal> {
        let name = &asked.topic_name;
        let source = self.at_source(asked)?;
        let partitions = self.partitions(asked, &source)?;
        let refuse = |code, why: String| Err(Refusal::new(code, format!("topic {name}: {why}")));
        if partitions.len() > self.slots_free {
            let (more, free) = (partitions.len(), self.slots_free);
            let why =
                format!("{more} partitions are more than the {free} that this data plane still takes; raise its slots");
            return refuse(ErrorCode::POLICY_VIOLATION, why);
        }
        self.slots_free -= partitions.len();
        Ok(MirrorEvent::TakenUp { mirror: self.name.to_owned(), topic: source, to: to.to_owned(), partitions })
    }

    /// The topic as the source has it, which must be the same.
    fn at_source(&self, asked: &TopicData) -> Result<SourceTopic, Refusal> {
        let name = &asked.topic_name;
        let refuse = |code, why: String| Err(Refusal::new(code, format!("topic {name}: {why}")));
        let followed =
            internal::FOLLOWED.contains(&name.as_str()) && internal::are_followed(&self.mirror.facts.settings);
        if !is_legal_name(name) || (is_internal_name(name) && !followed) {
            let why = "topics that begin with __ are a cluster's own, and this mirror does not follow them".to_owned();
            return refuse(ErrorCode::INVALID_TOPIC_EXCEPTION, why);
        }
        let answer = match &self.around.source {
            Ok(answer) => answer,
            Err(cause) => return refuse(cause.code(), cause.to_string()),
        };
        let ours = &self.mirror.facts.source_cluster_id;
        if answer.cluster_id != *ours {
            let why =
                format!("the source answers as cluster {}, but the mirror was made for {ours}", answer.cluster_id);
            return refuse(ErrorCode::INVALID_REQUEST, format!("{why}; check bootstrap.servers"));
        }
        let source = match answer.topics.get(name) {
            Some(Ok(source)) => source,
            Some(Err(code)) if *code != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => {
                return refuse(*code, format!("the source says {code}"));
            }
            _ => return refuse(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "the source does not have it".to_owned()),
        };
        if asked.topic_id != source.id {
            let why = format!("its id at the source is {}, not {}; was it created again?", source.id, asked.topic_id);
            return refuse(ErrorCode::INCONSISTENT_TOPIC_ID, why);
        }
        match answer.trail.would_loop(self.name, ours, name) {
            Some(told) => Err(Refusal::new(ErrorCode::INVALID_REQUEST, told)),
            None => Ok(source.clone()),
        }
    }

    /// All partitions from 0 on, each in a directory that there is.
    fn partitions(&self, asked: &TopicData, source: &SourceTopic) -> Result<Vec<TakenUp>, Refusal> {
        let (name, count) = (&asked.topic_name, asked.partitions.len());
        let refuse = |why: String| Err(Refusal::new(ErrorCode::INVALID_REQUEST, format!("topic {name}: {why}")));
        let indexes: BTreeSet<usize> =
            asked.partitions.iter().filter_map(|one| usize::try_from(one.partition_index).ok()).collect();
        if !indexes.iter().copied().eq(0..count) {
            return refuse("its partitions are not those from 0 on, each once".to_owned());
        }
        if count > usize::try_from(source.partition_count).unwrap_or(0) {
            return refuse(format!("it comes with {count} partitions, and the source has {}", source.partition_count));
        }
        let mut partitions = Vec::with_capacity(count);
        for one in &asked.partitions {
            let (partition, offset, directory) = (one.partition_index, one.last_mirrored_offset, &one.data_directory);
            if offset < 0 {
                return refuse(format!("partition {partition} cannot end at {offset}"));
            }
            if !self.around.directories.contains(directory) {
                return refuse(format!("{directory:?} is none of the data directories"));
            }
            let last = LastMirrored { offset, epoch: one.last_mirror_epoch };
            partitions.push(TakenUp { partition, directory: directory.clone(), last });
        }
        Ok(partitions)
    }
}
