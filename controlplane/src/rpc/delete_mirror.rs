//! pure: DeleteMirror: forgets a mirror whose topics are all stopped. Files stay.

use crate::limits::LEFT_ACLS_SHOWN_MAX;
use crate::mirror::catalog::{Catalog, Desired, Mirror, Topic};
use crate::mirror::event::MirrorEvent;
use crate::mirror::internal::is_internal_name;
use crate::rpc::{Refusal, Refused};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::delete_mirror::{DeleteMirrorRequest, DeleteMirrorResponse};
use twinlog_proto::mirror_state::MirrorState;

/// Decides.
#[must_use]
pub fn decide(request: &DeleteMirrorRequest, catalog: &Catalog) -> (Vec<MirrorEvent>, DeleteMirrorResponse) {
    let name = &request.mirror_name;
    let refusal = match catalog.mirror(name) {
        None => Some(Refusal::unknown_mirror(name)),
        Some(mirror) => unfinished(name, mirror).or_else(|| away(name, mirror, request.even_handed_over)),
    };
    match refusal {
        Some(refusal) => (Vec::new(), DeleteMirrorResponse::refused(refusal)),
        None => {
            let left_acls = catalog.mirror(name).map(left).unwrap_or_default();
            let response = DeleteMirrorResponse { left_acls, ..DeleteMirrorResponse::default() };
            (vec![MirrorEvent::Deleted { mirror: name.clone() }], response)
        }
    }
}

/// What the destination was given stays there: whoever works with it by now lives by these rules.
fn left(mirror: &Mirror) -> Vec<String> {
    let given = mirror.given_acls.iter();
    given.take(LEFT_ACLS_SHOWN_MAX).map(|(binding, cluster_id)| format!("{binding} at {cluster_id}")).collect()
}

fn unfinished(name: &str, mirror: &Mirror) -> Option<Refusal> {
    // Internal topics stop with the last of the others: nobody can stop those that sort before them.
    let mut left = mirror.topics.iter().filter(|(_, topic)| topic.facts.desired != Desired::Stop);
    if let Some((topic, _)) = left.clone().find(|(name, _)| !is_internal_name(name)).or_else(|| left.next()) {
        let message = format!("mirror {name} still has topic {topic}; stop all its topics first");
        return Some(Refusal::new(ErrorCode::CLUSTER_MIRROR_NOT_EMPTY, message));
    }
    let stopped = |state| matches!(state, MirrorState::Stopped);
    let moving = mirror.topics.iter().find(|(_, topic)| topic.partitions.values().any(|p| !stopped(p.standing.state)));
    moving.map(|(topic, _)| {
        let message = format!("topic {topic} of mirror {name} is not STOPPED yet; wait until it is, then delete again");
        Refusal::new(ErrorCode::INVALID_CLUSTER_MIRROR_STATES, message)
    })
}

/// With the mirror goes where mirroring ended, without which nobody can tell the mirrored records from those of the broker.
fn away(name: &str, mirror: &Mirror, even_handed_over: bool) -> Option<Refusal> {
    let away = |topic: &Topic| Some(topic.handed_over.clone()?).filter(|_| !even_handed_over);
    let (topic, to) = mirror.topics.iter().find_map(|(topic, known)| Some((topic, away(known)?)))?;
    let message = format!(
        "topic {topic} of mirror {name} is handed over to {to}, and could not be taken back without the mirror; take it back \
         with `twinlog reclaim`, or say with `twinlog mirrors delete {name} --handed-over` that it never will be"
    );
    Some(Refusal::new(ErrorCode::INVALID_CLUSTER_MIRROR_STATES, message))
}

impl Refused for DeleteMirrorResponse {
    fn refused(refusal: Refusal) -> Self {
        Self { error_code: refusal.code.0, error_message: Some(refusal.message), ..Self::default() }
    }
}
