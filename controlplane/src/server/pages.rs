//! The pages of the HTTP address: what they are made of is gathered here, what they say is decided in `metrics` and `health`.

use crate::clock::now_ms;
use crate::driver::Driver;
use crate::health::{Health, Obstacles};
use crate::host::{Disk, Process};
use crate::limits::ANSWER_TEXT_CHARS_MAX;
use crate::metrics::{self, Detail, Facts};
use crate::overview::{self, Overview};
use crate::plane::attachment::Link;
use crate::plane::sender::Sender;
use crate::server::counters::Counters;
use crate::server::gate::Gate;
use crate::server::http::{Answer, Page};
use std::path::PathBuf;
use std::rc::Rc;
use twinlog_proto::messages::describe_mirrors::{DescribeMirrorsResponse, DiskDetail, NodeDetail, PlaneDetail};

/// Where everything that a page shows comes from. Clones show the same.
#[derive(Debug, Clone)]
pub struct Pages {
    /// Catalog and board.
    pub driver: Driver,
    /// The data plane.
    pub link: Rc<Link>,
    /// The way of orders.
    pub sender: Rc<Sender>,
    /// Open client connections.
    pub clients: Rc<Gate>,
    /// Why client connections ended.
    pub ended: Rc<Counters>,
    /// Data and state directories.
    pub folders: Rc<[PathBuf]>,
    /// Series that the configuration asks for.
    pub detail: Detail,
}

impl Pages {
    /// The answer to a page.
    #[must_use]
    pub fn render(&self, page: Page) -> Answer {
        match page {
            Page::Live => text("200 OK", "alive\n".to_owned()),
            Page::Metrics => {
                let (facts, overviews, _) = self.gather(true);
                Answer {
                    status: "200 OK",
                    content_type: "text/plain; version=0.0.4; charset=utf-8",
                    body: self.driver.read(|catalog, view| {
                        self.driver.book().read(|statuses| {
                            let work = (self.driver.tally(), statuses);
                            metrics::prometheus((catalog, view), &overviews, &facts, work, self.detail)
                        })
                    }),
                }
            }
            Page::Ready => {
                let health = self.health();
                match health.ready {
                    true => text("200 OK", "ready\n".to_owned()),
                    false => text(UNAVAILABLE, format!("not ready\n{}\n", health.reasons.join("\n"))),
                }
            }
            Page::Health { json } => {
                let health = self.health();
                let status = if health.healthy { "200 OK" } else { UNAVAILABLE };
                if !json {
                    return text(status, health.text());
                }
                let body = serde_json::to_string(&health).unwrap_or_else(|cause| format!("{{\"error\":\"{cause}\"}}"));
                Answer { status, content_type: "application/json", body: body + "\n" }
            }
        }
    }

    /// How the node is.
    #[must_use]
    pub fn health(&self) -> Health {
        let (facts, overviews, obstacles) = self.gather(false);
        Health::of(&obstacles, &facts, &overviews)
    }

    /// How the node is, for those who ask over the Kafka protocol and may know of the mirrors that `sees` tells.
    #[must_use]
    pub fn detail(&self, sees: &dyn Fn(&str) -> bool) -> NodeDetail {
        let (facts, mut overviews, obstacles) = self.gather(false);
        overviews.retain(|overview| sees(&overview.mirror));
        let health = Health::of(&obstacles, &facts, &overviews);
        let plane = |name: &str, process: &Process| PlaneDetail {
            name: name.to_owned(),
            pid: process.pid.into(),
            started_at_ms: process.started_at.map_or(-1, |seconds| (seconds * 1e3) as i64),
            restarts: number(process.restarts),
            resident_bytes: number(process.resident_bytes),
            open_files: number(process.open_fds),
        };
        let control = plane("control", &facts.control_plane);
        NodeDetail {
            software_version: env!("CARGO_PKG_VERSION").to_owned(),
            healthy: health.healthy,
            ready: health.ready,
            reasons: health.reasons.iter().map(|line| short(line)).collect(),
            warnings: health.warnings.iter().map(|line| short(line)).collect(),
            planes: [control].into_iter().chain(facts.data_plane.iter().map(|data| plane("data", data))).collect(),
            disks: facts.disks.iter().map(disk).collect(),
        }
    }

    /// Everything that pages are made of, with the numbers of the cores or without.
    #[must_use]
    pub fn gather(&self, cores: bool) -> (Facts, Vec<Overview>, Obstacles) {
        let attached = self.link.is_attached();
        let memory = self.link.memory(now_ms());
        let obstacles = Obstacles {
            no_data_plane: (!attached).then(|| self.link.absent_because()),
            no_changes: self.driver.trouble().into_iter().chain(self.sender.trouble()).collect(),
            others: memory.reason.iter().cloned().collect(),
        };
        let mut facts = Facts {
            data_plane: self.link.pid().map(Process::look),
            control_plane: Process::look(std::process::id()),
            attachments: self.link.planes(),
            memory,
            cores: if cores { self.link.core_numbers() } else { Vec::new() },
            silent_cores: self.link.silent_cores(),
            connections: self.clients.open(),
            ended: self.ended.all(),
            disks: self.folders.iter().filter_map(|folder| Disk::look(folder)).collect(),
            troubles: Vec::new(),
        };
        facts.troubles = obstacles.lines(&facts);
        let overviews = self.driver.read(overview::of_all);
        (facts, overviews, obstacles)
    }
}

/// Adds what this node knows and the catalog does not: how the sources answer, and how the node is to who may know that, with
/// warnings about the mirrors that `sees` tells.
pub fn add_node(response: &mut DescribeMirrorsResponse, driver: &Driver, node: bool, sees: &dyn Fn(&str) -> bool) {
    for mirror in &mut response.mirrors {
        if let Some(asked) = driver.tally().source(&mirror.mirror_name) {
            mirror.source_up = i8::from(asked.answers);
            mirror.source_answered_at_ms = asked.answered_at_ms.unwrap_or(-1);
        }
    }
    if node {
        response.nodes.extend(driver.node(sees));
    }
}

fn disk(disk: &Disk) -> DiskDetail {
    let number = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
    DiskDetail {
        path: disk.path.display().to_string(),
        size_bytes: number(disk.size_bytes),
        free_bytes: number(disk.free_bytes),
    }
}

fn number(value: Option<u64>) -> i64 {
    value.map_or(-1, |value| i64::try_from(value).unwrap_or(i64::MAX))
}

/// As many characters as an answer has room for.
fn short(line: &str) -> String {
    line.chars().take(ANSWER_TEXT_CHARS_MAX).collect()
}

const UNAVAILABLE: &str = "503 Service Unavailable";

fn text(status: &'static str, body: String) -> Answer {
    Answer { status, content_type: "text/plain; charset=utf-8", body }
}
