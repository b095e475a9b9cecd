//! pure: what is wrong with the node, for people and for load balancers.
//!
//! *Reasons* are about this node and make it unhealthy. *Warnings* are about mirrors: a failed partition or a source that is
//! down is for its operator to mend, and no reason to take the node out of service; and about what was wrong lately.

use crate::metrics::Facts;
use crate::overview::Overview;
use serde::Serialize;
use std::fmt::Write;
use twinlog_proto::mirror_state::MirrorState;

/// A file system with less than this share free is worth a warning ...
const FREE_SHARE_LOW: f64 = 0.10;
/// ... and with less than this a reason.
const FREE_SHARE_NONE: f64 = 0.01;

/// How the node is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Nothing is wrong with the node.
    pub healthy: bool,
    /// Changes are taken, and a data plane carries them out.
    pub ready: bool,
    /// What is wrong with the node.
    pub reasons: Vec<String>,
    /// What is wrong with mirrors.
    pub warnings: Vec<String>,
}

/// Whether the node can do its work: what is in the way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Obstacles {
    /// Why there is no data plane.
    pub no_data_plane: Option<String>,
    /// Why changes cannot be made durable, or not be told to the data plane.
    pub no_changes: Vec<String>,
    /// What else is wrong.
    pub others: Vec<String>,
}

impl Obstacles {
    /// All of them, a line each.
    #[must_use]
    pub fn lines(&self, facts: &Facts) -> Vec<String> {
        let absent = self.no_data_plane.iter().map(|why| format!("the data plane is not there: {why}"));
        let hanging = facts.silent_cores.iter().map(|core| format!("core {core} of the data plane hangs"));
        let full = facts.disks.iter().filter(|disk| disk.free_share() < FREE_SHARE_NONE);
        let full = full
            .map(|disk| format!("the disk of {} is full: {} MiB are left", disk.path.display(), disk.free_bytes >> 20));
        absent
            .chain(self.no_changes.iter().cloned())
            .chain(self.others.iter().cloned())
            .chain(hanging)
            .chain(full)
            .collect()
    }
}

impl Health {
    /// Of a node with these obstacles, disks and mirrors; `facts.troubles` are the lines of the obstacles.
    #[must_use]
    pub fn of(obstacles: &Obstacles, facts: &Facts, overviews: &[Overview]) -> Self {
        let ready = obstacles.no_data_plane.is_none() && obstacles.no_changes.is_empty();
        let reasons = facts.troubles.clone();
        Self { healthy: reasons.is_empty(), ready, reasons, warnings: warnings(facts, overviews) }
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = if self.healthy { "healthy\n".to_owned() } else { "unhealthy\n".to_owned() };
        for line in self.reasons.iter().cloned().chain(self.warnings.iter().map(|line| format!("warning: {line}"))) {
            // A string takes everything.
            writeln!(text, "{line}").unwrap_or_default();
        }
        text
    }
}

fn warnings(facts: &Facts, overviews: &[Overview]) -> Vec<String> {
    let mut all: Vec<String> = facts.memory.warning.iter().cloned().collect();
    for m in overviews {
        let failed = m.in_state(MirrorState::Failed);
        if failed > 0 {
            let first = m
                .failed
                .first()
                .map_or_else(String::new, |first| format!("; {}-{}: {}", first.topic, first.partition, first.why));
            all.push(format!(
                "mirror {}: {failed} partitions FAILED, {} not tried again{first}",
                m.mirror, m.not_retried
            ));
        }
        for (fault, count) in &m.suffering {
            all.push(format!("mirror {}: {} ({count} partitions)", m.mirror, fault.meaning()));
        }
    }
    for disk in &facts.disks {
        let share = disk.free_share();
        if (FREE_SHARE_NONE..FREE_SHARE_LOW).contains(&share) {
            all.push(format!("the disk of {} has {:.0} % left", disk.path.display(), share * 100.0));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Disk;
    use crate::overview::Failed;

    #[test]
    fn the_node_is_unhealthy_for_its_own_reasons_only() {
        let failed = Failed { topic: "t".into(), partition: 3, why: "gap".into(), retried: false };
        let mirror = Overview {
            mirror: "m".into(),
            states: [(MirrorState::Failed, 1)].into(),
            not_retried: 1,
            failed: vec![failed],
            ..Overview::default()
        };
        let disk = |free_bytes| Disk { path: "/d".into(), size_bytes: 1_000 << 20, free_bytes };
        let mut facts = Facts { disks: vec![disk(50 << 20)], ..Facts::default() };
        let mut obstacles = Obstacles::default();
        facts.troubles = obstacles.lines(&facts);
        let health = Health::of(&obstacles, &facts, std::slice::from_ref(&mirror));
        assert!(health.healthy && health.ready, "{health:?}");
        let text = health.text();
        assert!(
            text.starts_with("healthy\nwarning: mirror m: 1 partitions FAILED, 1 not tried again; t-3: gap\n"),
            "{text}"
        );
        assert!(text.contains("the disk of /d has 5 % left"), "{text}");

        facts.disks = vec![disk(5 << 20)];
        facts.silent_cores = vec![0];
        facts.troubles = obstacles.lines(&facts);
        let health = Health::of(&obstacles, &facts, &[]);
        assert!(!health.healthy && health.ready, "it still takes orders");
        assert_eq!(
            health.text(),
            "unhealthy\ncore 0 of the data plane hangs\nthe disk of /d is full: 5 MiB are left\n"
        );

        obstacles.no_data_plane = Some("it ended".into());
        facts.troubles = obstacles.lines(&facts);
        assert!(!Health::of(&obstacles, &facts, &[]).ready);
    }
}
