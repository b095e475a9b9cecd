//! Real twinlog processes on loopback: both planes under `twinlog up`, or each by itself; killed, restarted, and asked through the
//! command line as a person would.

use crate::command::{Ran, twinlog};
use crate::place;
use crate::process::{children_named, log_to, mortal, signal, until, wait};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

const READY_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(30);
const INTERNAL_TOPICS: &str = "mirror.internal.topics=";
/// How long `up` may take to start a plane again.
const REVIVE_LIMIT: Duration = Duration::from_secs(30);

/// Program names of the planes.
pub const DATA_PLANE: &str = "twinlog-dataplane";
/// See [`DATA_PLANE`].
pub const CONTROL_PLANE: &str = "twinlog-controlplane";

/// Folders and addresses of one twinlog installation.
#[derive(Debug, Clone)]
pub struct Site {
    /// Everything of this site lies here.
    pub dir: PathBuf,
    /// Where clients of the control plane go.
    pub listen: String,
    /// Metrics address.
    pub metrics: String,
}

impl Site {
    /// A new site in `dir`.
    ///
    /// # Panics
    /// When the folder cannot be made.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        std::fs::create_dir_all(&dir).expect("a folder for the site");
        let [listen, metrics] = place::free_ports();
        Self { dir, listen: format!("127.0.0.1:{listen}"), metrics: format!("127.0.0.1:{metrics}") }
    }

    /// The mirrored partitions.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// What is ours.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    fn flag(path: &Path) -> String {
        path.to_str().expect("paths of tests are UTF-8").to_owned()
    }

    /// Arguments of `twinlog up` for this site.
    #[must_use]
    pub fn up_arguments(&self) -> Vec<String> {
        let (data, state) = (Self::flag(&self.data()), Self::flag(&self.state()));
        let words = [
            "up",
            "--data",
            &data,
            "--state",
            &state,
            "--listen",
            &self.listen,
            "--metrics",
            &self.metrics,
            "--cores",
            "1",
        ];
        let mut words: Vec<String> = words.map(str::to_owned).into();
        if self.config().is_file() {
            words.extend(["--config".to_owned(), Self::flag(&self.config())]);
        }
        words
    }

    /// The configuration file, which `up` is given when there is one.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.dir.join("twinlog.toml")
    }

    /// Runs `twinlog` with `arguments` against this site's control plane.
    #[must_use]
    pub fn cli(&self, arguments: &[&str]) -> Ran {
        let mut all = arguments.to_vec();
        all.extend(["--bootstrap-server", &self.listen]);
        twinlog(&all)
    }

    /// [`Site::cli`] with `--json`, parsed.
    #[must_use]
    pub fn ask(&self, arguments: &[&str]) -> Value {
        let mut all = arguments.to_vec();
        all.push("--json");
        self.cli(&all).json()
    }

    /// Creates the mirror `name` of the broker at `source` and starts `topics`.
    ///
    /// # Panics
    /// When either is refused.
    pub fn mirror(&self, name: &str, source: &str, topics: &[&str]) {
        self.mirror_with(name, source, topics, &[]);
    }

    /// [`Site::mirror`] with settings of the mirror, `key=value` each. The source's internal topics come along only when asked for.
    ///
    /// # Panics
    /// When either is refused.
    pub fn mirror_with(&self, name: &str, source: &str, topics: &[&str], settings: &[&str]) {
        let mut create = vec!["mirrors", "create", name, "--source", source];
        if !settings.iter().any(|s| s.starts_with(INTERNAL_TOPICS)) {
            create.extend(["--set", "mirror.internal.topics=none"]);
        }
        settings.iter().for_each(|s| create.extend(["--set", s]));
        self.cli(&create).done();
        let mut start = vec!["topics", "start", name, "--wait", "--timeout", "60s"];
        topics.iter().for_each(|t| start.extend(["--topic", t]));
        self.cli(&start).done();
    }

    /// What the metrics address answers for `path`, headers included.
    ///
    /// # Panics
    /// When it does not answer.
    #[must_use]
    pub fn http(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.metrics).expect("the metrics address");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.metrics).expect("asked");
        let mut all = String::new();
        stream.read_to_string(&mut all).expect("answered");
        all
    }

    /// Sum of a metric over its labels.
    ///
    /// # Panics
    /// When there is no such metric.
    #[must_use]
    pub fn metric(&self, name: &str) -> f64 {
        let page = self.http("/metrics");
        let named = |l: &&str| l.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        let values: Vec<f64> = page.lines().filter(named).filter_map(|l| l.rsplit_once(' ')?.1.parse().ok()).collect();
        assert!(!values.is_empty(), "no metric {name} in {page}");
        values.iter().sum()
    }

    /// One partition's entry in `mirrors describe --json`.
    ///
    /// # Errors
    /// When it is not there.
    pub fn partition(&self, mirror: &str, topic: &str, partition: i64) -> Result<Value, String> {
        find_partition(&self.ask(&["mirrors", "describe", mirror]), mirror, topic, partition)
    }

    /// Waits until every partition's `flushedOffset` is what `ends` says.
    ///
    /// # Panics
    /// When that takes longer than `limit`, or a partition fails.
    pub fn caught_up(&self, mirror: &str, ends: &[(String, i64, i64)], limit: Duration) {
        until("the mirror catches up", limit, || {
            let described = self.ask(&["mirrors", "describe", mirror]);
            for (topic, partition, end) in ends {
                let row = find_partition(&described, mirror, topic, *partition)?;
                assert_ne!(row["state"], "FAILED", "{topic}-{partition} failed: {row}");
                if row["destinationOffset"] != *end || row["flushedOffset"] != *end {
                    return Err(format!("{topic}-{partition} wants {end}: {row}"));
                }
            }
            Ok(())
        });
    }

    /// Waits until all of a mirror, `partitions` in number, is here and on the disk.
    ///
    /// # Panics
    /// When it is not in time.
    pub fn has_everything(&self, mirror: &str, partitions: usize, limit: Duration) {
        let whole = |row: &&Value| row["lagRecords"] == 0 && row["flushedOffset"] == row["destinationOffset"];
        until("the mirror has everything", limit, || {
            let described = self.ask(&["mirrors", "describe", mirror]);
            let topics = described[0]["topics"].as_array().into_iter().flatten();
            let rows = topics.flat_map(|topic| topic["partitions"].as_array().into_iter().flatten());
            match rows.filter(whole).count() {
                done if done == partitions => Ok(()),
                done => Err(format!("{done} of {partitions}")),
            }
        });
    }
}

fn find_partition(described: &Value, mirror: &str, topic: &str, partition: i64) -> Result<Value, String> {
    let named = |list: &Value, key: &str, name: &Value| {
        list.as_array().into_iter().flatten().find(|v| v[key] == *name).cloned()
    };
    let found = named(described, "mirror", &mirror.into())
        .and_then(|m| named(&m["topics"], "topic", &topic.into()))
        .and_then(|t| named(&t["partitions"], "partition", &partition.into()));
    found.ok_or_else(|| format!("{mirror}: no {topic}-{partition} in {described}"))
}

/// A running `twinlog up`.
#[derive(Debug)]
pub struct House {
    /// Where it runs.
    pub site: Site,
    child: Child,
}

impl House {
    /// Starts both planes in `dir` and waits for the ready line.
    ///
    /// # Panics
    /// When it does not come.
    #[must_use]
    pub fn up(site: &Site) -> Self {
        let out = site.dir.join("up.out");
        std::fs::remove_file(&out).ok();
        let mut command = mortal(place::binary("twinlog"));
        command.args(site.up_arguments());
        log_to(&mut command, &site.dir.join("up.err"));
        command.stdout(std::fs::File::create(&out).expect("up.out made"));
        let mut child = command.spawn().expect("twinlog starts");
        until("twinlog up is ready", READY_LIMIT, || {
            let said = std::fs::read_to_string(&out).unwrap_or_default();
            let tail = || std::fs::read_to_string(site.dir.join("up.err")).unwrap_or_default();
            if let Ok(Some(status)) = child.try_wait() {
                panic!("twinlog up ended ({status}): {said}{}", tail());
            }
            let wanted =
                format!("twinlog ready listen={} metrics={} data={}", site.listen, site.metrics, site.data().display());
            if said.trim_end() == wanted { Ok(()) } else { Err(format!("wanted {wanted:?}, got {said:?}\n{}", tail())) }
        });
        Self { site: site.clone(), child }
    }

    /// Process id of a plane, a direct child of `up`.
    ///
    /// # Panics
    /// When there is none in time.
    #[must_use]
    pub fn plane(&self, name: &str) -> u32 {
        until("the plane runs", REVIVE_LIMIT, || match children_named(self.child.id(), name).as_slice() {
            [one] => Ok(*one),
            other => Err(format!("{name}: {other:?}")),
        })
    }

    /// SIGKILLs a plane; gives the id that is gone.
    pub fn kill_plane(&self, name: &str) -> u32 {
        let pid = self.plane(name);
        signal(pid, Signal::KILL);
        pid
    }

    /// Waits until `up` has started another process for the plane that was `gone`.
    ///
    /// # Panics
    /// When it does not.
    pub fn revived(&self, name: &str, gone: u32) -> u32 {
        until("the plane is started again", REVIVE_LIMIT, || match children_named(self.child.id(), name).as_slice() {
            [one] if *one != gone => Ok(*one),
            other => Err(format!("{name}: {other:?}, gone {gone}")),
        })
    }

    /// What the planes and `up` wrote to standard error.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.site.dir.join("up.err")).unwrap_or_default()
    }

    /// Clean stop (SIGTERM).
    ///
    /// # Panics
    /// When it does not end with exit code 0.
    pub fn down(mut self) {
        signal(self.child.id(), Signal::TERM);
        let status =
            wait(&mut self.child, STOP_LIMIT).unwrap_or_else(|why| panic!("twinlog up: {why}\n{}", self.log()));
        assert_eq!(status.code(), Some(0), "a clean stop: {}", self.log());
    }

    /// SIGKILL for `up` itself; its planes end by themselves.
    pub fn kill(mut self) {
        signal(self.child.id(), Signal::KILL);
        self.child.wait().ok();
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|s| s.is_none()) {
            signal(self.child.id(), Signal::KILL);
            self.child.wait().ok();
        }
    }
}

/// One plane run by itself, without `up`.
#[derive(Debug)]
pub struct Plane {
    child: Child,
}

impl Plane {
    /// Starts the data plane of `site`.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn data(site: &Site) -> Self {
        Self::start(site, DATA_PLANE, &["--cores", "1"])
    }

    /// Starts the control plane of `site`.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn control(site: &Site) -> Self {
        Self::start(site, CONTROL_PLANE, &["--listen", &site.listen, "--metrics", &site.metrics])
    }

    /// Starts the control plane of `site`; it kills itself when it passes `step`.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn control_until(site: &Site, step: &str) -> Self {
        let extra = ["--listen", &site.listen, "--metrics", &site.metrics];
        Self::start_with(site, CONTROL_PLANE, &extra, &[("TWINLOG_KILL_AT", step)])
    }

    /// Waits until it has ended by SIGKILL.
    ///
    /// # Errors
    /// When it still runs after `limit`, or ended otherwise.
    pub fn is_killed(mut self, limit: Duration) -> Result<(), String> {
        let status = wait(&mut self.child, limit)?;
        if status.signal() == Some(Signal::KILL.as_raw()) { Ok(()) } else { Err(format!("it ended with {status}")) }
    }

    fn start(site: &Site, name: &str, extra: &[&str]) -> Self {
        Self::start_with(site, name, extra, &[])
    }

    fn start_with(site: &Site, name: &str, extra: &[&str], variables: &[(&str, &str)]) -> Self {
        for dir in [site.data(), site.state()] {
            std::fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        }
        let mut command = mortal(place::binary(name));
        command.arg("--data").arg(site.data()).arg("--state").arg(site.state()).args(extra);
        command.envs(variables.iter().copied());
        log_to(&mut command, &site.dir.join(format!("{name}.log")));
        Self { child: command.spawn().expect("the plane starts") }
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        signal(self.child.id(), Signal::KILL);
        self.child.wait().ok();
    }

    /// SIGTERM.
    ///
    /// # Panics
    /// When it does not end with exit code 0.
    pub fn stop(mut self) {
        signal(self.child.id(), Signal::TERM);
        let status = wait(&mut self.child, STOP_LIMIT).unwrap_or_else(|why| panic!("a plane: {why}"));
        assert_eq!(status.code(), Some(0), "a clean stop");
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        signal(self.child.id(), Signal::KILL);
        self.child.wait().ok();
    }
}
