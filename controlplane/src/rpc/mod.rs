//! One file per request: (request, catalog, view) to a response and the events that make it true.
//!
//! All of them are pure. A handler that needs to know something of the source says so first (`question`), and is given
//! the source's answer as a value.

pub mod api_versions;
pub mod authorize;
pub mod create_acls;
pub mod create_mirror;
pub mod delete_acls;
pub mod delete_mirror;
pub mod describe_acls;
pub mod describe_cluster;
pub mod describe_configs;
pub mod describe_mirrors;
pub mod find_coordinator;
pub mod first_draft;
pub mod incremental_alter_configs;
pub mod last_mirrored_offsets;
pub mod list_mirrors;
pub mod list_offsets;
pub mod metadata;
pub mod node_configs;
pub mod pause_resume;
pub mod read_mirror_states;
pub mod record_hand_over;
pub mod refused_writes;
pub mod start_mirror_topics;
pub mod stop_mirror_topics;
pub mod sync_mirror;
pub mod topic_configs;
pub mod topic_selection;
pub mod weight;
pub mod write_mirror_states;

use crate::limits::{ANSWER_TEXT_CHARS_MAX, REFUSALS_WITH_WORDS_MAX};
use std::collections::BTreeSet;
use twinlog_proto::error_code::ErrorCode;

/// Who this node is, as the caller reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Our own cluster's id.
    pub cluster_id: String,
    /// Our node id.
    pub node_id: i32,
    /// The address that the caller used.
    pub host: String,
    /// The port that the caller used.
    pub port: i32,
}

/// A refusal: the code and the words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// For programs.
    pub code: ErrorCode,
    /// For people: what, why, remedy.
    pub message: String,
}

impl Refusal {
    /// A refusal. Words beyond what an answer can carry are left out, for they may hold whatever the caller sent.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        if let Some((at, _)) = message.char_indices().nth(ANSWER_TEXT_CHARS_MAX) {
            message.truncate(at);
            message.push_str(" ...");
        }
        Self { code, message }
    }

    /// There is no such mirror.
    #[must_use]
    pub fn unknown_mirror(mirror: &str) -> Self {
        let message = format!("there is no mirror {mirror}; `twinlog mirrors list` shows which there are");
        Self::new(ErrorCode::UNKNOWN_CLUSTER_MIRROR, message)
    }
}

/// The asked-for items, each only once by what `key` gives of it, so that no answer is far larger than its request and the
/// catalog together.
fn once<'r, T, K: Ord>(asked: &'r [T], key: impl Fn(&'r T) -> K) -> impl Iterator<Item = &'r T> {
    let mut seen = BTreeSet::new();
    asked.iter().filter(move |item| seen.insert(key(item)))
}

/// What `items` get, one each, when all of a request is refused and its answer has a place for each of them only: the code, and
/// words for the first ones, so that no answer is far larger than its request.
fn each<'r, T>(items: &'r [T], refusal: &'r Refusal) -> impl Iterator<Item = (&'r T, i16, Option<String>)> {
    let words = |at: usize| (at < REFUSALS_WITH_WORDS_MAX).then(|| refusal.message.clone());
    items.iter().enumerate().map(move |(at, item)| (item, refusal.code.0, words(at)))
}

/// An answer that can say that the whole request was refused.
pub trait Refused {
    /// The answer with this refusal.
    fn refused(refusal: Refusal) -> Self;
}

#[cfg(test)]
mod acl_tests;
#[cfg(test)]
mod alter_tests;
#[cfg(test)]
mod anew_tests;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod matrix;
#[cfg(test)]
mod read_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod write_tests;

/// The value of an authorized-operations field that was not asked for.
pub const OPERATIONS_NOT_ASKED: i32 = i32::MIN;
