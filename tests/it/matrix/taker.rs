//! The broker that takes over, and the command that hands over to it.

use super::column::{Column, Mode};
use super::source::{TIERED, spec};
use serde_json::{Value, json};
use std::path::Path;
use twinlog_tests::command::{Ran, twinlog};
use twinlog_tests::house::Site;
use twinlog_tests::kafka::Broker;
use twinlog_tests::oracle::Oracle;

/// A topic that a broker has before it takes others.
const OWN: &str = "own";

/// A broker that is to take over.
pub(super) struct Taker {
    column: Column,
    /// It; a standby does not run yet.
    pub(super) broker: Broker,
}

impl Taker {
    /// A node that nobody formatted, or a broker that runs and has a topic of its own.
    pub(super) fn new(column: Column, dir: &Path, oracle: &mut Oracle) -> Self {
        let spec = spec(column, dir);
        let broker = match column.mode {
            Mode::Standby => Broker::prepare(spec.unformatted()),
            Mode::Adopt => {
                // The command ends when the broker has noted how far its logs are on the disk, and where they begin.
                let spec = spec.property("log.flush.offset.checkpoint.interval.ms", "1000");
                let broker = Broker::start(spec.property("log.flush.start.offset.checkpoint.interval.ms", "1000"));
                let boot = broker.address();
                oracle.create(&boot, OWN, 1, &json!({}));
                let ask = json!({"do": "stream-start", "name": OWN, "boot": boot, "topic": OWN, "partitions": 1, "perBatch": 5});
                oracle.ask(&ask);
                broker
            }
        };
        Self { column, broker }
    }

    /// `twinlog promote`, with `more`.
    fn promote(&self, site: &Site, more: &[&str]) -> Ran {
        let (state, dir) = (text(&site.state()), self.broker.dir());
        let (properties, log_dir) = (text(&dir.join("server.properties")), text(&dir.join("data")));
        let address = self.broker.address();
        let to: &[&str] = match self.column.mode {
            Mode::Standby => &["--to", &properties],
            Mode::Adopt => &["--adopt", &address, "--log-dir", &log_dir],
        };
        let words = ["promote", "dr", "--state", &state, "--bootstrap-server", &site.listen];
        twinlog(&[&words, to, more].concat())
    }

    /// Hands over; a standby has the features of its release and is started, a broker that runs goes on serving its own topic, which is written
    /// all along. What the command warned of.
    pub(super) fn takes_over(&mut self, site: &Site, oracle: &mut Oracle) -> Vec<String> {
        let judged = self.promote(site, &["--dry-run", "--json"]).json();
        let warned = judged["warnings"].as_array().into_iter().flatten().filter_map(|found| found["what"].as_str());
        let warnings = warned.map(str::to_owned).collect();
        match self.column.mode {
            Mode::Standby => {
                let release = self.column.release.rsplit_once('.').map_or(self.column.release, |(release, _)| release);
                self.promote(site, &["--release", release]).done();
                self.broker.resume();
            }
            Mode::Adopt => {
                let pid = self.broker.pid();
                self.promote(site, &[]).done();
                assert_eq!(self.broker.pid(), pid, "the broker went on running");
                let written = oracle.ask(&json!({"do": "stream-stop", "name": OWN}));
                let there = oracle.read(&self.broker.address(), &[OWN], "read_committed")[0].count;
                assert!(there > 0 && written["records"] == there, "{written} to its own topic, {there} are there");
            }
        }
        warnings
    }

    /// Why a topic in remote storage is refused. The remedy: with a setting of its own here it goes over as a local topic.
    pub(super) fn tiered(&self, site: &Site, oracle: &mut Oracle) -> Result<String, String> {
        let ran = self.promote(site, &["--dry-run", "--json"]);
        let told: Value = serde_json::from_str(&ran.stdout).map_err(|cause| format!("{cause}: {ran:?}"))?;
        let mut blockers = told["blockers"].as_array().into_iter().flatten().filter_map(|found| found["what"].as_str());
        let why = blockers.find(|what| what.contains(TIERED)).ok_or_else(|| format!("not refused: {told}"))?;
        let local = json!({"remote.storage.enable": "false"});
        oracle.try_ask(&json!({"do": "settings", "boot": site.listen, "topic": TIERED, "set": local}))?;
        Ok(why.to_owned())
    }
}

/// A path for a command line.
fn text(path: &Path) -> String {
    path.to_str().expect("paths of tests are UTF-8").to_owned()
}
