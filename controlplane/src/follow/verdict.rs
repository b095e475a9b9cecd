//! pure: what a source says that ends the mirroring of a topic or of all of them, in the words of the data plane, which may see
//! the same earlier.
//!
//! A verdict is not retried by itself and not taken back by records that still flow: a person has to say that things are in
//! order again, by a start. Paused topics are judged when they are resumed.

use crate::mirror::catalog::{Catalog, Desired, Topic};
use crate::mirror::event::{Detail, MirrorEvent};
use crate::mirror::machine::Event;
use crate::plane::events::told;
use twinlog_proto::channel::progress::FaultCode;
use twinlog_proto::ids::Uuid;
use twinlog_proto::mirror_state::MirrorState;

/// The source does not have the topic any more.
#[must_use]
pub fn gone() -> String {
    let told = told(FaultCode::UNKNOWN_TOPIC);
    format!("{told}; the copy stays as it is: stop the topic, or start it again once the source has it back")
}

/// The source has another topic of that name.
#[must_use]
pub fn recreated(there: Uuid, here: Uuid) -> String {
    let told = told(FaultCode::RECREATED);
    format!(
        "{told} (there {there}, here {here}); the copy stays as it is: stop the topic, move its \
         folders away if they are to be kept, and start it with --from-scratch"
    )
}

/// The topic comes back to where it is mirrored to.
#[must_use]
pub fn circle(told: &str) -> String {
    format!("loop: {told}, then start it again")
}

/// The servers belong to another cluster.
#[must_use]
pub fn other_cluster(there: &str, ours: &str) -> String {
    let told = told(FaultCode::CLUSTER);
    format!("{told} (they are {there}, the source is {ours}); correct bootstrap.servers, then start the topics again")
}

/// A verdict without its details: a source that answers otherwise each time is not judged anew each time.
fn kind(message: &str) -> &str {
    message.split_once(" (").map_or(message, |(kind, _)| kind)
}

/// The events that judge one topic; none when that was done already.
pub fn on_topic<'a>(
    mirror: &'a str,
    name: &'a str,
    topic: &'a Topic,
    message: &'a str,
) -> impl Iterator<Item = MirrorEvent> + 'a {
    let flows = topic.facts.desired == Desired::Mirror;
    let partitions = topic.partitions.iter().filter(move |_| flows);
    partitions.filter_map(move |(index, partition)| {
        let standing = &partition.standing;
        let said = standing.state == MirrorState::Failed
            && standing.by_source
            && standing.message.as_deref().is_some_and(|said| message.starts_with(said) || kind(said) == kind(message));
        let moves = !matches!(standing.state, MirrorState::Unknown | MirrorState::Stopped);
        (moves && !said).then(|| {
            let detail = Detail::Verdict(message.to_owned());
            MirrorEvent::detailed(mirror, name, *index, Event::Failed, detail)
        })
    })
}

/// The events that judge everything that a mirror has.
#[must_use]
pub fn on_mirror(catalog: &Catalog, mirror: &str, message: &str) -> Vec<MirrorEvent> {
    let Some(known) = catalog.mirror(mirror) else { return Vec::new() };
    let topics = known.topics.iter().filter(|(_, topic)| !topic.facts.id.is_zero());
    topics.flat_map(|(name, topic)| on_topic(mirror, name, topic, message)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_that_change_with_each_answer_make_no_other_verdict() {
        let id = |n: u8| Uuid([n; 16]);
        assert_eq!(kind(&recreated(id(1), id(2))), kind(&recreated(id(3), id(2))));
        assert_eq!(kind(&other_cluster("a", "c")), kind(&other_cluster("b", "c")));
        let kinds = [recreated(id(1), id(2)), other_cluster("a", "c"), gone(), circle("a -> b"), circle("a -> c")];
        for (n, one) in kinds.iter().enumerate() {
            assert!(kinds[n + 1..].iter().all(|other| kind(one) != kind(other)), "{one}");
        }
    }
}
