//! One column: a source, a mirror of it, and the stock broker that takes it over. Rows are read in `rows.rs` and beside it; this file makes
//! what they look at, once for all of them.

use super::column::{Cell, Column, Mode, Row};
use super::source::{self, Before, LIMIT, Source, TIERED, names};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use twinlog_tests::command::{Ran, twinlog};
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka::Broker;
use twinlog_tests::oracle::Oracle;
use twinlog_tests::{librdkafka, place};

/// What librdkafka is asked by.
const SCRIPT: &str = "fidelity.py";

/// A column on its way.
pub(super) struct World {
    /// Which.
    pub(super) column: Column,
    /// The stock client.
    pub(super) oracle: Oracle,
    /// The other client's version, where it is installed.
    pub(super) librdkafka: Option<String>,
    /// The source, which still runs when the first rows are read.
    pub(super) source: Source,
    /// What its clients saw before.
    pub(super) before: Before,
    /// Why the topic in remote storage was refused at first.
    pub(super) tiered: Result<String, String>,
    /// The broker that took over.
    pub(super) node: Broker,
    /// Its address.
    pub(super) boot: String,
    /// What was found so far.
    pub(super) cells: BTreeMap<Row, Cell>,
    /// Its folder.
    pub(super) scratch: tempfile::TempDir,
}

impl World {
    /// Makes the source, mirrors it, and hands it over. The broker serves when this returns.
    pub(super) fn handed_over(column: Column) -> Self {
        let scratch = place::scratch("matrix");
        let version = || librdkafka::ask(SCRIPT, &["version", "{}"]).unwrap_or_else(|why| panic!("{why}"));
        let librdkafka = librdkafka::python().and_then(|_| version().as_str().map(str::to_owned));
        let mut oracle = Oracle::start();
        let node = Broker::prepare(source::spec(column, &scratch.path().join("node")).unformatted());
        let boot = node.address();
        let source = Source::new(column, &scratch.path().join("source"), &mut oracle);
        let before = source.look(&mut oracle);
        let site = Site::new(scratch.path().join("site"));
        let house = House::up(&site);
        let mirrored: Vec<&str> = names().into_iter().chain([TIERED]).collect();
        site.mirror_with("dr", &source.boot, &mirrored, &["mirror.internal.topics=standby"]);
        let mut ends: Vec<_> =
            before.extents.iter().map(|e| (e.topic.clone(), i64::from(e.partition), e.end)).collect();
        let tiered_end = before.tiered["end"].as_i64().expect("a log end");
        ends.push((TIERED.to_owned(), 0, tiered_end));
        site.caught_up("dr", &ends, LIMIT);
        site.cli(&["mirrors", "sync", "dr"]).done();
        let tiered = tiered(&site, &node, &mut oracle);
        let node = match column.mode {
            Mode::Standby => promoted(&site, node, column),
        };
        house.down();
        Self { column, oracle, librdkafka, source, before, tiered, node, boot, cells: BTreeMap::new(), scratch }
    }

    /// What librdkafka makes of the same; nothing where it is not installed.
    pub(super) fn also(&self, verb: &str, mut ask: Value) -> Result<Option<Value>, String> {
        ask["boot"] = self.boot.as_str().into();
        self.librdkafka.as_ref().map(|_| librdkafka::ask(SCRIPT, &[verb, &ask.to_string()])).transpose()
    }

    /// The clients that look.
    pub(super) fn clients(&self) -> String {
        let other = self.librdkafka.as_ref().map_or_else(String::new, |version| format!(", librdkafka {version}"));
        format!("Java {}{other}", place::KAFKA_VERSION)
    }

    /// Notes what a row is; why it is not as it should be, when it is not.
    pub(super) fn found(&mut self, row: Row, read: impl FnOnce(&mut Self) -> Result<Cell, String>) {
        let cell = read(self).unwrap_or_else(Cell::Wrong);
        self.cells.insert(row, cell);
    }
}

/// `twinlog promote` into a node, with `more`.
fn promote(site: &Site, node: &Broker, more: &[&str]) -> Ran {
    let (properties, state) = (text(&node.dir().join("server.properties")), text(&site.state()));
    let words = ["promote", "dr", "--to", &properties, "--state", &state, "--bootstrap-server", &site.listen];
    twinlog(&[&words, more].concat())
}

/// Hands over into a node that nobody formatted, for the features of its release, and starts it.
fn promoted(site: &Site, mut node: Broker, column: Column) -> Broker {
    let release = column.release.rsplit_once('.').map_or(column.release, |(release, _)| release);
    promote(site, &node, &["--release", release]).done();
    node.resume();
    node
}

/// Why a topic in remote storage is refused. The remedy: with a setting of its own here it goes over as a local topic.
fn tiered(site: &Site, node: &Broker, oracle: &mut Oracle) -> Result<String, String> {
    let ran = promote(site, node, &["--dry-run", "--json"]);
    let told: Value = serde_json::from_str(&ran.stdout).map_err(|cause| format!("{cause}: {ran:?}"))?;
    let mut blockers = told["blockers"].as_array().into_iter().flatten().filter_map(|found| found["what"].as_str());
    let why = blockers.find(|what| what.contains(TIERED)).ok_or_else(|| format!("not refused: {told}"))?;
    let local = json!({"remote.storage.enable": "false"});
    oracle.try_ask(&json!({"do": "settings", "boot": site.listen, "topic": TIERED, "set": local}))?;
    Ok(why.to_owned())
}

/// A path for a command line.
fn text(path: &Path) -> String {
    path.to_str().expect("paths of tests are UTF-8").to_owned()
}
