//! pure: the source's internal topics that a standby needs: its groups, its transactions, its share groups.
//!
//! They come with the mirror's topics and not by pattern, end when the last of these is stopped, and are never counted among them.

use crate::mirror::catalog::{Catalog, Desired, Topic};
use crate::mirror::event::MirrorEvent;
use crate::mirror::internal::FOLLOWED;
use crate::mirror::settings::INTERNAL_TOPICS;
use crate::source::topics::Answer;

/// Starts of internal topics that the source has, with partitions that fit, and what people should know of the others. Those that
/// were stopped start again only with the mirror's `first` topic.
#[must_use]
pub fn starts(
    catalog: &Catalog,
    mirror: &str,
    answer: &Answer,
    first: bool,
    slots_free: &mut usize,
    goes_on: impl Fn(&Topic) -> bool,
) -> (Vec<MirrorEvent>, Vec<String>) {
    let (mut events, mut notes) = (Vec::new(), Vec::new());
    for name in FOLLOWED {
        let Some(Ok(topic)) = answer.topics.get(name) else { continue };
        let owner = catalog.owner_of(name);
        if owner.is_some_and(|(other, _)| other != mirror) {
            // Who may describe this mirror may not always describe that one.
            notes.push(format!(
                "{name} is mirrored by another mirror, and a name exists once; set {INTERNAL_TOPICS}=none for one of the two"
            ));
            continue;
        }
        let have = match owner {
            Some((_, known)) => {
                let again = first && known.facts.desired == Desired::Stop && known.facts.id == topic.id;
                if !again || !goes_on(known) {
                    continue;
                }
                known.partitions.len()
            }
            None => 0,
        };
        let more = (topic.partition_count as usize).saturating_sub(have);
        if more > *slots_free {
            notes.push(format!(
                "topic {name} waits: {more} partitions and {slots_free} free slots; raise the data plane's"
            ));
            continue;
        }
        *slots_free -= more;
        events.push(MirrorEvent::Started { mirror: mirror.to_owned(), topic: topic.clone() });
    }
    (events, notes)
}
