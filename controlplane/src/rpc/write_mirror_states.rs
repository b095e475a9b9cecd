//! pure: WriteMirrorStates: another node asks for changes of recorded states, or hands in where mirroring ended.
//!
//! A written state is a wish or a report. A wish (PAUSING, STOPPING, MIRRORING after PAUSED, FAILED back to the state before)
//! takes the step that the operator's request would take, and the orders to the data plane follow. A report of what only
//! the data plane of this node can know (records flow, nothing is fetched any more, files are finished) changes nothing:
//! the board says so when it is so. FAILED is taken from anybody, and lasts until the board shows that records flow. What
//! does not follow the present state changes nothing either and is no error, as the drafts have it.
//!
//! Writers are fenced by leader epoch and by state epoch; `read_mirror_states.rs` tells both.

use crate::mirror::catalog::{Catalog, Desired, LastMirrored, Partition, Standing, Topic};
use crate::mirror::event::{Detail, MirrorEvent};
use crate::mirror::machine::{self, Event, To};
use crate::plane::view::View;
use crate::rpc::topic_selection::by_name;
use crate::rpc::{Refusal, Refused};
use std::collections::BTreeSet;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::write_mirror_states::{
    PartitionData, PartitionResult, TopicResult, WriteMirrorStatesRequest, WriteMirrorStatesResponse,
};
use twinlog_proto::mirror_state::MirrorState;

/// In the first layout, which has no epochs, "never" is 0.
const FIRST_LAYOUT: i16 = 0;
/// Stands for the topic as a whole.
const WHOLE_TOPIC: i32 = -1;
/// "No check", "leave it alone", "no new epoch".
const NONE: i32 = -1;

/// Decides.
#[must_use]
pub fn decide(
    request: &WriteMirrorStatesRequest,
    version: i16,
    catalog: &Catalog,
    view: &View<'_>,
) -> (Vec<MirrorEvent>, WriteMirrorStatesResponse) {
    let name = &request.mirror_name;
    let Some(mirror) = catalog.mirror(name) else {
        return (Vec::new(), WriteMirrorStatesResponse::refused(Refusal::unknown_mirror(name)));
    };
    let (mut events, mut topics, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for asked in &request.topics {
        let topic = mirror.topics.get(&asked.name).map(AsRef::as_ref);
        let mut partitions = Vec::with_capacity(asked.partitions.len());
        for write in &asked.partitions {
            let place = Place { mirror: name, name: &asked.name, topic, index: write.partition_index };
            let taken = match seen.insert((&asked.name, write.partition_index)) {
                true => place.take(write, version, view),
                false => {
                    Err(place.refusal(ErrorCode::INVALID_REQUEST, "is written twice in one request; the first counts"))
                }
            };
            partitions.push(match taken {
                Ok(taken) => {
                    events.extend(taken.events);
                    result(write.partition_index, taken.state_epoch, 0, taken.unchanged_because)
                }
                Err(refusal) => result(write.partition_index, NONE, refusal.code.0, Some(refusal.message)),
            });
        }
        if topic.is_none() && partitions.is_empty() {
            let why = Some(format!("mirror {name} has no topic {}", asked.name));
            partitions.push(result(WHOLE_TOPIC, NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0, why));
        }
        topics.push(TopicResult { name: asked.name.clone(), partitions });
    }
    removed(request, catalog, &mut events, &mut topics);
    (events, WriteMirrorStatesResponse { topics, ..WriteMirrorStatesResponse::default() })
}

/// Topics that leave the mirror are stopped, as by StopMirrorTopics; each has an entry for the topic as a whole.
fn removed(
    request: &WriteMirrorStatesRequest,
    catalog: &Catalog,
    events: &mut Vec<MirrorEvent>,
    topics: &mut Vec<TopicResult>,
) {
    let asked = request.removed_topics.iter().map(|topic| (Uuid::ZERO, topic.as_str()));
    for (topic, found) in by_name(catalog, Some(&request.mirror_name), asked) {
        let (code, why) = match found {
            Ok((_, known)) => {
                let failed = known.partitions.values().any(|p| p.standing.state == MirrorState::Failed);
                if known.facts.desired != Desired::Stop || failed {
                    let (mirror, topic) = (request.mirror_name.clone(), topic.clone());
                    events.push(MirrorEvent::Wanted { mirror, topic, desired: Desired::Stop, event: Event::Stop });
                }
                (0, None)
            }
            Err(refusal) => (refusal.code.0, Some(refusal.message)),
        };
        topics.push(TopicResult { name: topic, partitions: vec![result(WHOLE_TOPIC, NONE, code, why)] });
    }
}

fn result(partition_index: i32, state_epoch: i32, error_code: i16, error_message: Option<String>) -> PartitionResult {
    PartitionResult { partition_index, state_epoch, error_code, error_message }
}

/// The leader epoch below which writers are fenced: the highest of what the board shows and of earlier writers; -1 while
/// neither is known.
#[must_use]
pub fn fencing_epoch(topic: &Topic, index: i32, view: &View<'_>) -> i32 {
    let writers = topic.partitions.get(&index).map_or(NONE, |known| known.standing.writer_epoch);
    view.progress(topic, index).map_or(NONE, |seen| seen.leader_epoch).max(writers)
}

/// What came of one write.
struct Taken {
    events: Vec<MirrorEvent>,
    /// The new one; -1 when the state did not change.
    state_epoch: i32,
    unchanged_because: Option<String>,
}

/// The partition that one write is about.
struct Place<'a> {
    mirror: &'a str,
    name: &'a str,
    topic: Option<&'a Topic>,
    index: i32,
}

impl Place<'_> {
    fn refusal(&self, code: ErrorCode, why: &str) -> Refusal {
        Refusal::new(code, format!("partition {}-{} {why}", self.name, self.index))
    }

    fn take(&self, write: &PartitionData, version: i16, view: &View<'_>) -> Result<Taken, Refusal> {
        let known = self.topic.and_then(|topic| Some((topic, topic.partitions.get(&self.index)?)));
        let Some((topic, partition)) = known else {
            let why = format!("is not in mirror {}; `twinlog mirrors describe` shows its partitions", self.mirror);
            return Err(self.refusal(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, &why));
        };
        let wanted = MirrorState::from_code(write.state)
            .map_err(|unknown| self.refusal(ErrorCode::INVALID_REQUEST, &format!("is given state {unknown}")))?;
        let position = self.position(write, version, partition)?;
        let attempt = self.attempt(write)?;
        self.fence(write, partition, fencing_epoch(topic, self.index, view))?;

        let (mut events, mut state_epoch, mut unchanged_because) = (Vec::new(), NONE, None);
        if wanted != MirrorState::Unknown {
            match meaning(&partition.standing, wanted) {
                Meaning::Step(event) => {
                    let detail = match event {
                        Event::Failed => failure(write, attempt),
                        _ => Detail::None,
                    };
                    state_epoch = epoch_after(partition, event);
                    events.push(MirrorEvent::detailed(self.mirror, self.name, self.index, event, detail));
                }
                Meaning::Nothing(why) => {
                    let (now, wanted) = (partition.standing.state.name(), wanted.name());
                    unchanged_because = Some(format!("{now} does not become {wanted} by this: {why}"));
                }
                Meaning::NeedsMore => {
                    let why = "needs more than a state to start; send StartMirrorTopics (`twinlog topics start`)";
                    return Err(self.refusal(ErrorCode::INVALID_CLUSTER_MIRROR_STATES, why));
                }
            }
        }
        let here = || (self.mirror.to_owned(), self.name.to_owned(), self.index);
        if let Some(last) = position {
            let (mirror, topic, partition) = here();
            events.push(MirrorEvent::Position { mirror, topic, partition, last });
        }
        if write.leader_epoch > partition.standing.writer_epoch && !events.is_empty() {
            let (mirror, topic, partition) = here();
            events.push(MirrorEvent::WriterEpoch { mirror, topic, partition, epoch: write.leader_epoch });
        }
        Ok(Taken { events, state_epoch, unchanged_because })
    }

    fn fence(&self, write: &PartitionData, partition: &Partition, leader_epoch: i32) -> Result<(), Refusal> {
        let state_epoch = partition.standing.state_epoch;
        if write.leader_epoch != NONE && leader_epoch > write.leader_epoch {
            let why = format!("has leader epoch {leader_epoch}, the writer has {}; read again", write.leader_epoch);
            return Err(self.refusal(ErrorCode::FENCED_LEADER_EPOCH, &why));
        }
        if write.state_epoch != NONE && state_epoch > write.state_epoch {
            let why = format!("has state epoch {state_epoch}, the writer expects {}; read again", write.state_epoch);
            return Err(self.refusal(ErrorCode::FENCED_STATE_EPOCH, &why));
        }
        Ok(())
    }

    /// The position to record, if the write carries one.
    fn position(
        &self,
        write: &PartitionData,
        version: i16,
        known: &Partition,
    ) -> Result<Option<LastMirrored>, Refusal> {
        let refuse = |why: &str| Err(self.refusal(ErrorCode::INVALID_REQUEST, why));
        if version == FIRST_LAYOUT {
            // Every write carries the field there, and 0 is how a writer says that it has none.
            let offset = write.last_mirrored_offset;
            return Ok((offset > 0).then_some(LastMirrored { offset, epoch: NONE }));
        }
        match (write.last_mirror_offset, write.last_mirror_epoch) {
            (offset, epoch) if offset < -1 || epoch < NONE => refuse("is given a position below -1"),
            (-1, NONE) => Ok(None),
            (-1, epoch) => match known.last_mirrored {
                Some(known) => Ok(Some(LastMirrored { epoch, ..known })),
                None => refuse("has no position yet, and an epoch without an offset makes none"),
            },
            (offset, epoch) => Ok(Some(LastMirrored { offset, epoch })),
        }
    }

    /// The number of failures that the writer counted; `None` to count here.
    fn attempt(&self, write: &PartitionData) -> Result<Option<i16>, Refusal> {
        match (write.retry_attempt, i16::try_from(write.retry_attempt)) {
            (NONE, _) => Ok(None),
            (0.., Ok(attempt)) => Ok(Some(attempt)),
            _ => Err(self.refusal(ErrorCode::INVALID_REQUEST, "is given a retry attempt outside -1 to 32767")),
        }
    }
}

fn failure(write: &PartitionData, attempt: Option<i16>) -> Detail {
    let message = write.error_message.clone().unwrap_or_else(|| "another node reported it without a reason".to_owned());
    Detail::Reported { message, retryable: !write.non_retryable, attempt }
}

/// What a written state comes to.
enum Meaning {
    Step(Event),
    Nothing(&'static str),
    NeedsMore,
}

fn meaning(now: &Standing, wanted: MirrorState) -> Meaning {
    use MirrorState as S;
    let before_failure = match now.previous {
        S::Unknown => S::Preparing,
        previous => previous,
    };
    let event = match (now.state, wanted) {
        (_, S::EpochFencing) => return Meaning::Nothing("it is shown, never recorded"),
        (S::Failed, S::Failed) => Event::Failed,
        (now, wanted) if now == wanted => return Meaning::Nothing("it is the state already"),
        (S::Unknown | S::Stopped, S::Preparing | S::Initializing) => return Meaning::NeedsMore,
        (S::Failed, wanted) if wanted == before_failure => Event::Retry,
        (S::Paused, S::Mirroring) => Event::Resume,
        (_, S::Pausing) => Event::Pause,
        (_, S::Stopping) => Event::Stop,
        (_, S::Failed) => Event::Failed,
        (S::Preparing, S::Mirroring) | (S::Pausing, S::Paused) | (S::Stopping, S::Stopped) => {
            return Meaning::Nothing("the data plane of this node says so itself when it is so");
        }
        _ => return Meaning::Nothing("the one does not follow the other"),
    };
    match machine::step(now.state, event) {
        Ok(_) => Meaning::Step(event),
        Err(_refused) => Meaning::Nothing("the one does not follow the other"),
    }
}

/// The state epoch once the event was taken.
fn epoch_after(partition: &Partition, event: Event) -> i32 {
    // A stop of what the data plane never heard of is complete at once.
    let stopping = matches!(machine::step(partition.standing.state, event), Ok((To::State(MirrorState::Stopping), _)));
    let steps = if stopping && partition.placement.is_none() { 2 } else { 1 };
    partition.standing.state_epoch.wrapping_add(steps)
}

impl Refused for WriteMirrorStatesResponse {
    fn refused(refusal: Refusal) -> Self {
        Self { error_code: refusal.code.0, error_message: Some(refusal.message), ..Self::default() }
    }
}
