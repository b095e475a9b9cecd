//! pure: StartMirrorTopics: topics by name and by pattern, with what the source says about them.

mod anew;

use crate::follow::{exclusion, internal_starts};
use crate::mirror::catalog::{Catalog, Desired, Mirror, Topic};
use crate::mirror::event::{MirrorEvent, SourceTopic};
use crate::mirror::internal::{self, is_internal, is_internal_name};
use crate::mirror::patterns::Patterns;
use crate::mirror::settings;
use crate::plane::view::View;
use crate::rpc::topic_selection::{ELSEWHERE, joined, not_handed_over};
use crate::rpc::{Refusal, Refused};
use crate::source::SourceError;
use crate::source::topics::{Answer, Wanted};
use std::collections::BTreeMap;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::ids::{Uuid, is_legal_name};
use twinlog_proto::messages::start_mirror_topics::{StartMirrorTopicsRequest, StartMirrorTopicsResponse, TopicResult};
use twinlog_proto::mirror_state::MirrorState;

/// What the source is to be asked.
#[derive(Debug, Clone)]
pub struct Question {
    /// Where.
    pub servers: Vec<String>,
    /// What.
    pub wanted: Wanted,
}

/// Checks everything that needs no source.
///
/// # Errors
/// Why there is no point in asking.
pub fn question(request: &StartMirrorTopicsRequest, catalog: &Catalog) -> Result<Question, Refusal> {
    let Some(mirror) = catalog.mirror(&request.mirror_name) else {
        return Err(Refusal::unknown_mirror(&request.mirror_name));
    };
    patterns(&request.exclude_patterns)?;
    let include = patterns(&request.include_patterns)?;
    if request.from_scratch && !include.is_empty() {
        let why = "a start from scratch throws away what was mirrored, so it takes topics by name only; leave the patterns out";
        return Err(Refusal::new(ErrorCode::INVALID_REQUEST, why));
    }
    let names = request.topics.iter().map(|topic| topic.topic_name.clone()).filter(|name| is_legal_name(name));
    let mut names: Vec<String> = names.collect();
    if internal::are_followed(&mirror.facts.settings) {
        names.extend(internal::FOLLOWED.map(str::to_owned));
    }
    let wanted = if include.is_empty() { Wanted::Named(names) } else { Wanted::Matching { names, include } };
    Ok(Question { servers: settings::bootstrap_servers(&mirror.facts.settings), wanted })
}

/// Decides, given what the source said.
#[must_use]
pub fn decide(
    request: &StartMirrorTopicsRequest,
    source: Result<Answer, SourceError>,
    catalog: &Catalog,
    view: &View<'_>,
) -> (Vec<MirrorEvent>, StartMirrorTopicsResponse) {
    match Start::new(request, source, catalog, view).and_then(Start::decide) {
        Ok(decided) => decided,
        Err(refusal) => (Vec::new(), StartMirrorTopicsResponse::refused(refusal)),
    }
}

/// The request together with everything that it is decided from.
struct Start<'a> {
    request: &'a StartMirrorTopicsRequest,
    /// `None` when the source cannot be asked now.
    source: Option<Answer>,
    mirror: &'a Mirror,
    catalog: &'a Catalog,
    view: &'a View<'a>,
    include: Patterns,
    exclude: Patterns,
    slots_free: usize,
    /// What is thrown away, in words.
    thrown_away: Vec<String>,
}

impl<'a> Start<'a> {
    fn new(
        request: &'a StartMirrorTopicsRequest,
        source: Result<Answer, SourceError>,
        catalog: &'a Catalog,
        view: &'a View<'a>,
    ) -> Result<Self, Refusal> {
        let Some(mirror) = catalog.mirror(&request.mirror_name) else {
            return Err(Refusal::unknown_mirror(&request.mirror_name));
        };
        let (include, exclude) = (patterns(&request.include_patterns)?, patterns(&request.exclude_patterns)?);
        let source = match source {
            Ok(answer) => Some(answer),
            // Topics by name can wait for the source; which topics match a pattern only the source knows.
            Err(cause) if cause.is_unreachable() && include.is_empty() => None,
            Err(cause) => return Err(Refusal::new(cause.code(), cause.to_string())),
        };
        if let Some(answer) = source.as_ref().filter(|answer| answer.cluster_id != mirror.facts.source_cluster_id) {
            let message = format!(
                "the source now answers as cluster {}, but mirror {} was made for cluster {}; check bootstrap.servers",
                answer.cluster_id, request.mirror_name, mirror.facts.source_cluster_id
            );
            return Err(Refusal::new(ErrorCode::INVALID_REQUEST, message));
        }
        let slots_free = (view.slots_max as usize).saturating_sub(catalog.slots().len());
        Ok(Self { request, source, mirror, catalog, view, include, exclude, slots_free, thrown_away: Vec::new() })
    }

    fn decide(mut self) -> Result<(Vec<MirrorEvent>, StartMirrorTopicsResponse), Refusal> {
        let mut events = self.pattern_events()?;
        let first = !internal::has_topics(self.mirror);
        let mut results: BTreeMap<String, Option<Refusal>> = BTreeMap::new();
        let named = self.request.topics.iter().map(|topic| (topic.topic_name.clone(), topic.topic_id));
        for (name, id) in named.chain(self.matching()).collect::<Vec<_>>() {
            if results.contains_key(&name) {
                continue;
            }
            let outcome = self.one(&name, id);
            let (event, refusal) = match outcome {
                Ok(event) => (event, None),
                Err(refusal) => (None, Some(refusal)),
            };
            events.extend(event);
            results.insert(name, refusal);
        }
        events.extend(self.internal(first, &events));
        let response = StartMirrorTopicsResponse {
            error_message: self.told(joined(results.values().flatten())),
            mirror_name: self.request.mirror_name.clone(),
            topics: results
                .into_iter()
                .map(|(name, refusal)| TopicResult { name, error_code: refusal.map_or(0, |refusal| refusal.code.0) })
                .collect(),
            ..StartMirrorTopicsResponse::default()
        };
        Ok((events, response))
    }

    /// The patterns as they will be, and what follows from them for topics that flow. From then on they decide for this request too.
    fn pattern_events(&mut self) -> Result<Vec<MirrorEvent>, Refusal> {
        let (more, less) = (&self.request.include_patterns, &self.request.exclude_patterns);
        // A start by name takes back a stop by the same name.
        let named = self.request.topics.iter().map(|topic| topic.topic_name.clone());
        let asked: Vec<String> = more.iter().cloned().chain(named).collect();
        // All together must be usable too: they are what discovery goes by later, when nobody is there to be told.
        let merged = |old: &[String], add: &[String], remove: &[String]| -> Result<Vec<String>, Refusal> {
            let mut all: Vec<String> = old.iter().filter(|pattern| !remove.contains(pattern)).cloned().collect();
            all.extend(add.iter().filter(|pattern| !old.contains(pattern)).cloned());
            patterns(&all).map(|_usable| all)
        };
        let facts = &self.mirror.facts;
        let (include, exclude) = (merged(&facts.include, more, less)?, merged(&facts.exclude, less, &asked)?);
        self.exclude = patterns(&exclude)?;
        if (&include, &exclude) == (&facts.include, &facts.exclude) {
            return Ok(Vec::new());
        }
        let mirror = self.request.mirror_name.clone();
        let mut events = exclusion::stops(&mirror, self.mirror, &self.exclude);
        events.push(MirrorEvent::Patterns { mirror, include, exclude });
        Ok(events)
    }

    /// What a person should know besides what is refused.
    fn told(&self, refused: Option<String>) -> Option<String> {
        let notes = self.source.iter().flat_map(|answer| &answer.trail.notes).filter(|_| refused.is_none());
        let more: Vec<&str> = self.thrown_away.iter().chain(notes).map(String::as_str).collect();
        let more = (!more.is_empty()).then(|| Refusal::new(ErrorCode::NONE, more.join("; ")).message);
        let both: Vec<String> = refused.into_iter().chain(more).collect();
        (!both.is_empty()).then(|| both.join("; "))
    }

    /// The internal topics that come along with the topics that these events start.
    fn internal(&mut self, first: bool, events: &[MirrorEvent]) -> Vec<MirrorEvent> {
        let starts = events.iter().any(|event| matches!(event, MirrorEvent::Started { .. } | MirrorEvent::Anew { .. }));
        let Some(answer) =
            self.source.as_ref().filter(|_| starts && internal::are_followed(&self.mirror.facts.settings))
        else {
            return Vec::new();
        };
        let by_name = |event: &MirrorEvent| match event {
            MirrorEvent::Started { topic, .. } | MirrorEvent::Anew { topic, .. } => Some(topic.name.clone()),
            _ => None,
        };
        let named: Vec<String> = events.iter().filter_map(by_name).collect();
        let view = self.view;
        let goes_on = |topic: &Topic| topic.handed_over.is_none() && unchanged(topic, view).is_ok();
        let name = &self.request.mirror_name;
        // What does not fit or has another owner is told at the next refresh.
        let (more, _) = internal_starts::starts(self.catalog, name, answer, first, &mut self.slots_free, goes_on);
        more.into_iter().filter(|event| by_name(event).is_none_or(|name| !named.contains(&name))).collect()
    }

    /// The source's topics that match the patterns and are not Kafka's own.
    fn matching(&self) -> Vec<(String, Uuid)> {
        let Some(answer) = &self.source else { return Vec::new() };
        let known = answer.topics.iter().filter_map(|(name, topic)| Some((name, topic.as_ref().ok()?)));
        known
            .filter(|(_, topic)| !is_internal(topic))
            .filter(|(name, _)| self.include.matches(name) && !self.exclude.matches(name))
            .map(|(name, _)| (name.clone(), Uuid::ZERO))
            .collect()
    }

    fn one(&mut self, name: &str, id: Uuid) -> Result<Option<MirrorEvent>, Refusal> {
        let refuse = |code, why: String| Err(Refusal::new(code, format!("topic {name}: {why}")));
        if !is_legal_name(name) {
            return refuse(ErrorCode::INVALID_TOPIC_EXCEPTION, "this is no topic name".to_owned());
        }
        // Those that came along with the others and were stopped by name come back by name.
        let comes_back = internal::FOLLOWED.contains(&name) && self.mirror.topics.contains_key(name);
        if is_internal_name(name) && !comes_back {
            let why = "topics that begin with __ are a cluster's own and are not mirrored by name".to_owned();
            return refuse(ErrorCode::INVALID_TOPIC_EXCEPTION, why);
        }
        if self.exclude.matches(name) && !comes_back {
            let why = "an exclude pattern of the mirror or of this request matches it, and that wins; take the pattern out of \
                       mirror.topics.exclude, or start it as a pattern";
            return refuse(ErrorCode::INVALID_REQUEST, why.to_owned());
        }
        let owner = self.catalog.owner_of(name);
        let known = owner.filter(|(mirror, _)| *mirror == self.request.mirror_name).map(|(_, topic)| topic);
        if let Some(topic) = known {
            not_handed_over(name, topic)?;
        }
        let source = match &self.source {
            None => None,
            Some(answer) => match answer.topics.get(name) {
                None | Some(Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)) => {
                    let why = "the source does not have it; check the name".to_owned();
                    return refuse(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, why);
                }
                Some(Err(code)) => return refuse(*code, format!("the source says {code}")),
                Some(Ok(topic)) => Some(topic.clone()),
            },
        };
        if let Some(topic) = source.as_ref().filter(|topic| !id.is_zero() && topic.id != id) {
            return refuse(ErrorCode::INCONSISTENT_TOPIC_ID, format!("its id at the source is {}, not {id}", topic.id));
        }
        let trail = self.source.as_ref().map(|answer| &answer.trail);
        let ours = &self.mirror.facts.source_cluster_id;
        if let Some(told) = trail.and_then(|trail| trail.would_loop(&self.request.mirror_name, ours, name)) {
            return Err(Refusal::new(ErrorCode::INVALID_REQUEST, told));
        }
        if let Some((_, theirs)) = owner.filter(|(mirror, _)| *mirror != self.request.mirror_name) {
            let code = match &source {
                Some(ours) if ours.id != theirs.facts.id => ErrorCode::INCONSISTENT_TOPIC_ID,
                _ => ErrorCode::TOPIC_ALREADY_IN_CLUSTER_MIRROR,
            };
            return refuse(code, ELSEWHERE.to_owned());
        }
        match (known, source) {
            (known, source) if self.request.from_scratch => self.anew(name, known, source),
            (None, None) => {
                let (mirror, topic) = (self.request.mirror_name.clone(), name.to_owned());
                Ok(Some(MirrorEvent::StartedUnresolved { mirror, topic }))
            }
            (None, Some(source)) => self.start(name, source, 0),
            (Some(known), source) => self.again(name, known, source),
        }
    }

    /// A topic that the mirror has already.
    fn again(
        &mut self,
        name: &str,
        known: &Topic,
        source: Option<SourceTopic>,
    ) -> Result<Option<MirrorEvent>, Refusal> {
        let refuse = |code, why: String| Err(Refusal::new(code, format!("topic {name}: {why}")));
        if let Some(new) = source.as_ref().filter(|new| !known.facts.id.is_zero() && new.id != known.facts.id) {
            let why = format!(
                "it was created again at the source: its id is {}, here {}; stop it, then start it with --from-scratch, which \
                 throws the old copy away",
                new.id, known.facts.id
            );
            return refuse(ErrorCode::INCONSISTENT_TOPIC_ID, why);
        }
        let state_of = |wanted: fn(MirrorState) -> bool| {
            known.partitions.iter().find(|(_, p)| wanted(p.standing.state)).map(|(index, p)| (*index, p.standing.state))
        };
        match known.facts.desired {
            Desired::Pause => {
                return refuse(ErrorCode::MIRROR_TOPIC_NOT_STOPPED, "it is paused; resume it".to_owned());
            }
            Desired::Mirror => {
                use MirrorState as S;
                // Another node may have stopped partitions one by one.
                let waits = |state| matches!(state, S::Failed | S::Initializing | S::Stopped | S::Unknown);
                let grew = source.as_ref().is_some_and(|new| new.partition_count > known.facts.partition_count);
                if source.is_none() || (state_of(waits).is_none() && !grew) {
                    return Ok(None);
                }
                self.unchanged_since_stop(name, known)?;
            }
            Desired::Stop => {
                let moving = |state| !matches!(state, MirrorState::Stopped | MirrorState::Unknown);
                if let Some((index, state)) = state_of(moving) {
                    let why = format!("partition {index} is {}, not STOPPED yet; wait, then start again", state.name());
                    return refuse(ErrorCode::INVALID_CLUSTER_MIRROR_STATES, why);
                }
                self.unchanged_since_stop(name, known)?;
            }
        }
        let recorded = || SourceTopic {
            name: name.to_owned(),
            id: known.facts.id,
            partition_count: known.facts.partition_count,
            settings: known.facts.settings,
            internal: false,
        };
        match source {
            Some(source) => self.start(name, source, known.partitions.len()),
            None if known.facts.id.is_zero() => {
                let (mirror, topic) = (self.request.mirror_name.clone(), name.to_owned());
                Ok(Some(MirrorEvent::StartedUnresolved { mirror, topic }))
            }
            // Everything is known from the last time; the data plane goes on as soon as the source is back.
            None => self.start(name, recorded(), known.partitions.len()),
        }
    }

    /// Mirroring goes on only where it ended: a log that somebody else wrote to has to be taken back first.
    fn unchanged_since_stop(&self, name: &str, known: &Topic) -> Result<(), Refusal> {
        unchanged(known, self.view)
            .map_err(|why| Refusal::new(ErrorCode::INVALID_CLUSTER_MIRROR_STATES, format!("topic {name}: {why}")))
    }

    fn start(&mut self, name: &str, source: SourceTopic, have: usize) -> Result<Option<MirrorEvent>, Refusal> {
        let more = (source.partition_count as usize).saturating_sub(have);
        if more > self.slots_free {
            let message = format!(
                "topic {name}: {more} partitions are more than the {} that this data plane still takes; raise its slots",
                self.slots_free
            );
            return Err(Refusal::new(ErrorCode::POLICY_VIOLATION, message));
        }
        self.slots_free -= more;
        Ok(Some(MirrorEvent::Started { mirror: self.request.mirror_name.clone(), topic: source }))
    }
}

fn unchanged(topic: &Topic, view: &View<'_>) -> Result<(), String> {
    let stopped = topic.partitions.iter().filter(|(_, partition)| partition.standing.state == MirrorState::Stopped);
    for (index, partition) in stopped {
        let (Some(last), Some(seen)) = (partition.last_mirrored, view.progress(topic, *index)) else { continue };
        if seen.leo >= 0 && seen.leo != last.offset {
            return Err(format!(
                "partition {index} ends at offset {} but mirroring ended at {}: it was written to after the stop; take it back \
                 with `twinlog reclaim`, or throw it away with --from-scratch",
                seen.leo, last.offset
            ));
        }
    }
    Ok(())
}

fn patterns(given: &[String]) -> Result<Patterns, Refusal> {
    Patterns::compile(given).map_err(|bad| Refusal::new(ErrorCode::INVALID_REGULAR_EXPRESSION, bad.to_string()))
}

impl Refused for StartMirrorTopicsResponse {
    fn refused(refusal: Refusal) -> Self {
        Self { error_code: refusal.code.0, error_message: Some(refusal.message), ..Self::default() }
    }
}
