//! Asks a source that is itself a mirror where its topics come from, and those where theirs do, until our own cluster is found or
//! nothing is left to ask.
//!
//! Everything is bounded: depth, clusters, time. What cannot be asked is noted and stops nothing.

use crate::limits::{BOOTSTRAP_SERVERS_MAX, TRAIL_CLUSTERS_MAX, TRAIL_DEPTH_MAX, TRAIL_TIME};
use crate::mirror::loops::{Trail, Upstream};
use crate::mirror::settings::{self, BOOTSTRAP_SERVERS, Settings};
use crate::source::SourceError;
use crate::source::connection::Connection;
use crate::source::topics::{self, Answer, Wanted};
use std::collections::{BTreeSet, VecDeque};
use tokio::time::{Instant, timeout_at};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::list_mirrors::{ListMirrorsRequest, ListedMirror};

/// As [`topics::ask`], with the trail of the topics in the answer.
///
/// # Errors
/// As [`topics::ask`]; a trail that cannot be followed is no error.
pub async fn ask(servers: &[String], wanted: &Wanted, own: &str) -> Result<Answer, SourceError> {
    let mut answer = topics::ask(servers, wanted).await?;
    answer.trail = follow(servers, &answer, own).await;
    Ok(answer)
}

/// The trail of the topics in an answer of `servers`.
pub async fn follow(servers: &[String], answer: &Answer, own: &str) -> Trail {
    let mut trail = Trail { own: own.to_owned(), ..Trail::default() };
    if !answer.has_mirrors || answer.topics.is_empty() {
        return trail;
    }
    let topics: BTreeSet<&String> = answer.topics.keys().collect();
    let deadline = Instant::now() + TRAIL_TIME;
    let mut seen: BTreeSet<String> = [answer.cluster_id.clone()].into();
    let mut left = VecDeque::from([(answer.cluster_id.clone(), servers.to_vec(), 1)]);
    while let Some((cluster, servers, depth)) = left.pop_front() {
        let note = |why: &str| format!("loops through cluster {cluster} were not looked for: {why}");
        if depth > TRAIL_DEPTH_MAX || trail.mirrors.len() >= TRAIL_CLUSTERS_MAX {
            trail.notes.push(note("it is too far away"));
            continue;
        }
        let listed = match timeout_at(deadline, mirrors_of(&servers)).await {
            Ok(Ok(listed)) => listed,
            Ok(Err(cause)) => {
                trail.notes.push(note(&cause.to_string()));
                continue;
            }
            Err(_elapsed) => {
                trail.notes.push(note(&format!("there was no time left within {TRAIL_TIME:?}")));
                continue;
            }
        };
        let mut here = Vec::new();
        for ListedMirror { mirror_name: mirror, source_bootstrap, source_cluster_id, topic_names, .. } in listed {
            let names: BTreeSet<String> = topic_names.into_iter().filter(|name| topics.contains(name)).collect();
            if names.is_empty() {
                continue;
            }
            if source_cluster_id != own && seen.insert(source_cluster_id.clone()) {
                left.push_back((source_cluster_id.clone(), servers_in(source_bootstrap), depth + 1));
            }
            here.push(Upstream { mirror, source_cluster_id, topics: names });
        }
        trail.mirrors.insert(cluster, here);
    }
    trail
}

/// The mirrors of a cluster; one that is no mirror itself has none.
async fn mirrors_of(servers: &[String]) -> Result<Vec<ListedMirror>, SourceError> {
    let mut connection = Connection::open(servers).await?;
    if !connection.has_mirrors() {
        return Ok(Vec::new());
    }
    if connection.version_of::<ListMirrorsRequest>().is_none_or(|version| version < TOPIC_NAMES_SINCE) {
        return Err(SourceError::Unsupported("its ListMirrors tells no topics".to_owned()));
    }
    let answer = connection.ask(&ListMirrorsRequest { include_topic_names: true }).await?;
    match ErrorCode(answer.error_code) {
        ErrorCode::NONE => Ok(answer.mirrors),
        code => Err(SourceError::Refused { what: "to list its mirrors", code }),
    }
}

/// The version of ListMirrors that tells topics.
const TOPIC_NAMES_SINCE: i16 = 1;

fn servers_in(bootstrap: String) -> Vec<String> {
    let settings = Settings::from([(BOOTSTRAP_SERVERS.to_owned(), bootstrap)]);
    settings::bootstrap_servers(&settings).into_iter().take(BOOTSTRAP_SERVERS_MAX).collect()
}
