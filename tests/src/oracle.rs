//! The Java helper (`tests/java`): what a stock client does and sees. One process, asked a line at a time.

use crate::kafka::{class_path, java_tool};
use crate::place;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

/// A running helper.
#[derive(Debug)]
pub struct Oracle {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// What a consumer saw of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Topic.
    pub topic: String,
    /// Partition index.
    pub partition: i64,
    /// Log start offset the broker gave.
    pub start: i64,
    /// End offset the broker gave for the isolation level.
    pub end: i64,
    /// Records delivered.
    pub count: i64,
    /// First and last offset delivered, -1 when none.
    pub offsets: (i64, i64),
    /// SHA-256 over offsets, timestamps, keys, values and headers.
    pub digest: String,
}

impl Oracle {
    /// Starts a helper on the jars of the default release; compiles it when its sources are newer.
    ///
    /// # Panics
    /// When Java or its compiler fails.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[], Stdio::inherit())
    }

    /// A helper whose warnings and errors go to a file of their own.
    ///
    /// # Panics
    /// See above, and when the file cannot be made.
    #[must_use]
    pub fn warning_to(file: &Path) -> Self {
        let log = std::fs::File::create(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        Self::start_with(&["-Dtwinlog.log.level=WARN"], log.into())
    }

    fn start_with(options: &[&str], log: Stdio) -> Self {
        let classes = compiled();
        let mut command = java_tool(place::KAFKA_VERSION);
        // The class archive holds for a path that begins with the jars.
        let path = format!("{}:{}", class_path(place::KAFKA_VERSION), classes.display());
        command.env("CLASSPATH", "").arg("-cp").arg(path).args(options).arg("Oracle");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().expect("java starts");
        let ask = child.stdin.take().expect("standard input is piped");
        let answers = BufReader::new(child.stdout.take().expect("standard output is piped"));
        Self { child, ask, answers }
    }

    /// Asks; gives what stands under `ok`.
    ///
    /// # Errors
    /// The helper's own words when the stock client failed.
    ///
    /// # Panics
    /// When the helper died.
    pub fn try_ask(&mut self, request: &Value) -> Result<Value, String> {
        writeln!(self.ask, "{request}").unwrap_or_else(|e| panic!("the Java helper is gone: {e}"));
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap_or_else(|e| panic!("the Java helper is gone: {e}"));
        let mut answer: Value =
            serde_json::from_str(&line).unwrap_or_else(|e| panic!("the Java helper ended ({e}): {line:?}"));
        match answer.get("error") {
            Some(why) => Err(format!("{request}: {why}")),
            None => Ok(answer["ok"].take()),
        }
    }

    /// Asks; a failure of the stock client fails the test.
    ///
    /// # Panics
    /// See above.
    pub fn ask(&mut self, request: &Value) -> Value {
        self.try_ask(request).unwrap_or_else(|why| panic!("a stock client failed: {why}"))
    }

    /// Makes a topic; gives its id.
    ///
    /// # Panics
    /// When the broker refuses.
    pub fn create(&mut self, boot: &str, topic: &str, partitions: i32, config: &Value) -> String {
        let made = self
            .ask(&json!({"do": "create", "boot": boot, "topic": topic, "partitions": partitions, "config": config}));
        made["id"].as_str().expect("an id").to_owned()
    }

    /// Produces as `request` says (see `Produce.java`); `boot` and `topic` are filled in.
    ///
    /// # Panics
    /// When the stock producer fails.
    pub fn produce(&mut self, boot: &str, topic: &str, mut request: Value) -> Value {
        request["do"] = "produce".into();
        request["boot"] = boot.into();
        request["topic"] = topic.into();
        self.ask(&request)
    }

    /// What a consumer of the isolation level sees of `topics`, from their log starts to their ends.
    ///
    /// # Panics
    /// When a partition does not come to its end.
    pub fn read(&mut self, boot: &str, topics: &[&str], isolation: &str) -> Vec<Seen> {
        let got = self.ask(&json!({"do": "read", "boot": boot, "topics": topics, "isolation": isolation}));
        let number = |v: &Value, key: &str| v[key].as_i64().unwrap_or_else(|| panic!("{key} in {v}"));
        let text = |v: &Value, key: &str| v[key].as_str().unwrap_or_else(|| panic!("{key} in {v}")).to_owned();
        let rows = got.as_array().expect("a list");
        rows.iter()
            .map(|v| Seen {
                topic: text(v, "topic"),
                partition: number(v, "partition"),
                start: number(v, "start"),
                end: number(v, "end"),
                count: number(v, "count"),
                offsets: (number(v, "first"), number(v, "last")),
                digest: text(v, "digest"),
            })
            .collect()
    }

    /// Per partition of `topic`: (log start, end, last stable offset).
    ///
    /// # Panics
    /// When the topic is unknown.
    pub fn offsets(&mut self, boot: &str, topic: &str) -> Vec<(i64, i64, i64)> {
        let got = self.ask(&json!({"do": "describe", "boot": boot, "topics": [topic]}));
        let partitions = got[0]["partitions"].as_array().expect("partitions");
        let number = |v: &Value, key: &str| v[key].as_i64().expect("a number");
        partitions.iter().map(|p| (number(p, "start"), number(p, "end"), number(p, "lso"))).collect()
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Folder with the compiled helper; a broker loads plugins from it.
///
/// # Panics
/// When the compiler fails.
#[must_use]
pub fn compiled() -> PathBuf {
    static COMPILING: Mutex<()> = Mutex::new(());
    let _alone = COMPILING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let sources = place::repository().join("tests/java");
    let classes = place::target().join("tests-java").join(place::KAFKA_VERSION);
    let files: Vec<_> = std::fs::read_dir(&sources)
        .unwrap_or_else(|e| panic!("{}: {e}", sources.display()))
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.extension().is_some_and(|x| x == "java"))
        .collect();
    let newest = files.iter().filter_map(|f| modified(f)).max();
    if modified(&classes.join("Oracle.class")) > newest {
        return classes;
    }
    std::fs::create_dir_all(&classes).unwrap_or_else(|e| panic!("{}: {e}", classes.display()));
    let mut javac = Command::new("javac");
    javac
        .args(["-nowarn", "-Xlint:-deprecation", "-d"])
        .arg(&classes)
        .arg("-cp")
        .arg(class_path(place::KAFKA_VERSION))
        .args(&files);
    let out = javac.output().expect("javac starts: run `make test` for the set-up");
    assert!(out.status.success(), "javac failed: {}", String::from_utf8_lossy(&out.stderr));
    classes
}

fn modified(file: &Path) -> Option<std::time::SystemTime> {
    file.metadata().ok()?.modified().ok()
}
