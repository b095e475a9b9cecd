//! A pass proves: a start from scratch takes what rests and nothing else, and says what is lost.

use super::start_mirror_topics;
use super::tests::{answer, source, start_request, world};
use crate::mirror::event::MirrorEvent;
use crate::plane::view::View;
use crate::plane::view::tests::Board;
use crate::source::SourceError;
use twinlog_proto::channel::progress::{PartitionProgress, SlotState, identity};
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::start_mirror_topics::StartMirrorTopicsRequest;

#[test]
fn a_start_from_scratch_takes_what_rests_says_what_is_lost_and_waits_for_a_source() {
    let catalog = world();
    let slot = catalog.partition("m", "stopped", 0).unwrap().placement.as_ref().unwrap().slot;
    let seen = PartitionProgress {
        leo: 12,
        log_start: 3,
        ..PartitionProgress::unknown(identity(Uuid([4; 16]), 0), SlotState::Stopped)
    };
    let board = Board([(slot, seen)].into());
    let request = |names: &[&str]| StartMirrorTopicsRequest { from_scratch: true, ..start_request(names, &[]) };
    let decide =
        |names: &[&str], source| start_mirror_topics::decide(&request(names), source, &catalog, &View::new(&board, 0));
    // Another id and an end that moved are no obstacle: that is what it is for.
    let source = answer(&[source("stopped", 9, 1), source("new", 6, 1), source("flows", 1, 1), source("paused", 2, 1)]);
    let (events, told) = decide(&["stopped", "new", "flows", "paused"], Ok(source));
    let codes: Vec<_> = told.topics.iter().map(|topic| (topic.name.as_str(), topic.error_code)).collect();
    assert_eq!(codes, [("flows", 1146), ("new", 0), ("paused", 1146), ("stopped", 0)]);
    let begun: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            MirrorEvent::Anew { topic, .. } => Some(topic.name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(begun, ["stopped", "new"]);
    let words = told.error_message.unwrap();
    assert!(words.contains("partition 0 offsets 3 to 12 (exclusive)") && words.contains("stop the topic"), "{words}");
    let (events, told) = decide(&["stopped", "new"], Err(SourceError::Unreachable("s:1: refused".into())));
    assert!(events.is_empty() && told.topics.iter().all(|topic| topic.error_code == 7), "{told:?}");
    let pattern = StartMirrorTopicsRequest { from_scratch: true, ..start_request(&[], &["new"]) };
    let refused = start_mirror_topics::question(&pattern, &catalog).unwrap_err();
    assert!(refused.message.contains("by name"), "{refused:?}");
}
