//! pure: a start from scratch: what was mirrored is thrown away, and the topic begins at the source's log start.

use super::Start;
use crate::limits::THROWN_AWAY_TOLD_MAX;
use crate::mirror::catalog::{Partition, Topic};
use crate::mirror::event::{MirrorEvent, SourceTopic};
use crate::plane::view::View;
use crate::rpc::Refusal;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::mirror_state::MirrorState;

impl Start<'_> {
    /// Everything that was mirrored is thrown away, and the topic is mirrored from the source's log start. Nothing of it may flow: a
    /// copy that is in order is not lost by a slip of the hand.
    pub(super) fn anew(
        &mut self,
        name: &str,
        known: Option<&Topic>,
        source: Option<SourceTopic>,
    ) -> Result<Option<MirrorEvent>, Refusal> {
        let refuse = |code, why: String| Err(Refusal::new(code, format!("topic {name}: {why}")));
        let Some(source) = source else {
            let why =
                "the source cannot be asked now, and nothing is thrown away before it answers; try again".to_owned();
            return refuse(ErrorCode::REQUEST_TIMED_OUT, why);
        };
        use MirrorState as S;
        let rests = |state| matches!(state, S::Stopped | S::Failed | S::Unknown | S::Initializing);
        let moving = known.and_then(|known| known.partitions.iter().find(|(_, p)| !rests(p.standing.state)));
        if let Some((index, partition)) = moving {
            let why = format!(
                "partition {index} is {}; stop the topic (`twinlog topics stop`), then start it from scratch",
                partition.standing.state.name()
            );
            return refuse(ErrorCode::MIRROR_TOPIC_NOT_STOPPED, why);
        }
        let have = known.map_or(0, |known| known.partitions.values().filter(|p| p.placement.is_some()).count());
        let Some(MirrorEvent::Started { mirror, topic }) = self.start(name, source, have)? else { return Ok(None) };
        self.thrown_away.extend(known.map(|known| thrown_away(name, known, self.view)));
        Ok(Some(MirrorEvent::Anew { mirror, topic }))
    }
}

/// What a start from scratch throws away of a topic, by what is known of it now.
fn thrown_away(name: &str, topic: &Topic, view: &View<'_>) -> String {
    let one = |(index, partition): (&i32, &Partition)| {
        let seen = view.progress(topic, *index).filter(|seen| seen.leo >= 0 && seen.log_start >= 0);
        match (seen, partition.last_mirrored) {
            (Some(seen), _) => format!("partition {index} offsets {} to {} (exclusive)", seen.log_start, seen.leo),
            (None, Some(last)) => format!("partition {index} offsets up to {} (exclusive)", last.offset),
            (None, None) => format!("partition {index} whatever its folder holds"),
        }
    };
    let mut told: Vec<String> = topic.partitions.iter().take(THROWN_AWAY_TOLD_MAX).map(one).collect();
    let more = topic.partitions.len().saturating_sub(THROWN_AWAY_TOLD_MAX);
    if more > 0 {
        told.push(format!("and {more} more (the data plane's log names each)"));
    }
    format!("topic {name} (id {}): thrown away: {}", topic.facts.id, told.join(", "))
}
