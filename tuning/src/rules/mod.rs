//! pure: one file per rule, each from [`Facts`] to one [`Finding`].

mod governor;
mod huge_pages;
mod io_uring;
mod kernel_version;
mod max_map_count;
mod memlock;
mod open_files;
mod receive_buffer;
mod slow_start;

use crate::facts::Facts;
use serde::Serialize;

/// How one fact of the host stands to what the data plane wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The rule's name, as `--only` would take it.
    pub name: &'static str,
    /// Whether the host is as wanted.
    pub verdict: Verdict,
    /// What the host has now.
    pub now: String,
    /// What the rule wants.
    pub wanted: String,
    /// What it is good for.
    pub why: &'static str,
    /// What changing it may break.
    pub risk: &'static str,
    /// Whether the change needs a reboot to hold.
    pub needs_reboot: bool,
}

/// The three answers of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As wanted.
    Good,
    /// Not as wanted.
    Finding,
    /// The host does not say, so nobody can tell.
    Unknown,
}

/// Every rule's finding, in the order in which an operator would read them.
#[must_use]
pub fn check(facts: &Facts) -> Vec<Finding> {
    [
        kernel_version::check,
        io_uring::check,
        memlock::check,
        huge_pages::check,
        open_files::check,
        receive_buffer::check,
        slow_start::check,
        governor::check,
        max_map_count::check,
    ]
    .iter()
    .map(|rule| rule(facts))
    .collect()
}

/// What a rule says of itself, whatever the host is like.
struct About {
    name: &'static str,
    wanted: String,
    why: &'static str,
    risk: &'static str,
    needs_reboot: bool,
}

impl About {
    /// The finding for a fact that may be absent.
    fn judge<T: ToString>(self, fact: Option<T>, good: impl FnOnce(&T) -> bool) -> Finding {
        let (verdict, now) = match fact {
            None => (Verdict::Unknown, "not told by this host".to_owned()),
            Some(fact) if good(&fact) => (Verdict::Good, fact.to_string()),
            Some(fact) => (Verdict::Finding, fact.to_string()),
        };
        Finding {
            name: self.name,
            verdict,
            now,
            wanted: self.wanted,
            why: self.why,
            risk: self.risk,
            needs_reboot: self.needs_reboot,
        }
    }
}
