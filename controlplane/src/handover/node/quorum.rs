//! pure: who votes in the quorum of a node that is to stand alone.

use super::settings::Settings;

const VOTERS: &str = "controller.quorum.voters";
const BOOTSTRAP: &str = "controller.quorum.bootstrap.servers";

/// How the node learns who votes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quorum {
    /// It is told by `controller.quorum.voters`: itself alone.
    Static,
    /// Voters stand in its metadata, where `kafka-storage format --standalone` put them.
    Dynamic,
}

/// Reads both keys; `id` is the node's, when it is known.
pub(super) fn read(settings: &mut Settings<'_>, id: Option<i32>) -> Option<Quorum> {
    let Some(voters) = settings.list(VOTERS) else {
        if settings.list(BOOTSTRAP).is_some() {
            return Some(Quorum::Dynamic);
        }
        let id = id.map_or_else(|| "ID".to_owned(), |id| id.to_string());
        let remedy = format_args!("set {VOTERS}={id}@HOST:PORT with the address of the node's controller listener");
        settings.missing(VOTERS, remedy);
        return None;
    };
    let mut others = Vec::new();
    for voter in &voters {
        let Some(number) = voter_id(voter) else {
            settings.problem(VOTERS, format_args!("{voter} is no voter"), "write each as ID@HOST:PORT");
            return None;
        };
        if id.is_some_and(|id| id != number) {
            others.push(voter.as_str());
        }
    }
    let id = id?;
    let remedy = format_args!("hand over to a node that votes alone, {VOTERS}={id}@HOST:PORT; add others afterwards");
    if !others.is_empty() {
        let why = format_args!("{} vote too, whose metadata logs are not laid out here", others.join(", "));
        settings.problem(VOTERS, why, remedy);
    } else if voters.len() > 1 {
        settings.problem(VOTERS, "it names the node twice", remedy);
    }
    Some(Quorum::Static)
}

/// The id in `ID@HOST:PORT`.
fn voter_id(voter: &str) -> Option<i32> {
    let (id, address) = voter.split_once('@')?;
    let (host, port) = address.rsplit_once(':')?;
    let _port: u16 = port.parse().ok()?;
    id.parse().ok().filter(|id| *id >= 0 && !host.is_empty())
}
