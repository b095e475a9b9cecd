//! The command-line tools of stock releases.

use super::HEAP;
use crate::place;
use crate::process::mortal;
use std::path::PathBuf;
use std::process::{Command, Output};

/// `kafka-dump-log` of the default release over `files`, records decoded down to the last one. The tool reports mismatches in its
/// output, not by its exit code: see [`dump_complaints`].
///
/// # Panics
/// When the tool itself fails.
#[must_use]
pub fn dump_log(files: &[PathBuf], extra: &[&str]) -> String {
    let list: Vec<_> = files.iter().map(|f| f.to_str().expect("paths of tests are UTF-8")).collect();
    let list = list.join(",");
    let mut arguments = vec!["--files", &list];
    arguments.extend(extra);
    let out = run(place::KAFKA_VERSION, "dump-log", &arguments);
    assert!(out.status.success(), "kafka-dump-log failed: {}", text(&out));
    text(&out)
}

/// The lines of [`dump_log`]'s output that report something wrong. "Non-consecutive offsets" is left out: the tool says so of every gap,
/// and of every segment that does not begin at 0.
#[must_use]
pub fn dump_complaints(output: &str) -> Vec<String> {
    const SIGNS: [&str; 8] = [
        "mismatch",
        "Mismatch",
        "invalid bytes",
        "Found timestamp",
        "out of order",
        "isvalid: false",
        "Exception",
        "corrupt",
    ];
    output.lines().filter(|l| SIGNS.iter().any(|s| l.contains(s))).map(str::to_owned).collect()
}

/// Runs a tool, or any main class, of a stock release.
///
/// # Panics
/// When Java cannot be started.
#[must_use]
pub fn run(version: &str, tool: &str, arguments: &[&str]) -> Output {
    let mut command = java_tool(version);
    command.arg(tool_class(tool)).args(arguments);
    command.output().expect("java starts")
}

/// A Java command line for a short-lived program on the release's class path.
#[must_use]
pub fn java_tool(version: &str) -> Command {
    let mut command = mortal("java");
    command
        .args([HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"])
        .arg(log4j("log4j2-tools.properties"));
    command.args(class_archive(version)).arg("-cp").arg(class_path(version));
    command
}

/// The option that names the release's class archive, where `tests/setup/kafka` made one. Java leaves one that is not its own aside.
pub(super) fn class_archive(version: &str) -> Option<String> {
    let archive = place::jars(version).with_file_name("classes.jsa");
    archive.exists().then(|| format!("-XX:SharedArchiveFile={}", archive.display()))
}

/// Class path of a release.
#[must_use]
pub fn class_path(version: &str) -> String {
    format!("{}/*", place::jars(version).display())
}

pub(super) fn log4j(file: &str) -> String {
    format!("-Dlog4j2.configurationFile={}", place::repository().join("tests/kafka").join(file).display())
}

/// Main classes of 4.4; older releases moved some of them.
fn tool_class(tool: &str) -> &str {
    match tool {
        "storage" => "kafka.tools.StorageTool",
        "acls" => "org.apache.kafka.tools.AclCommand",
        "topics" => "org.apache.kafka.tools.TopicCommand",
        "configs" => "org.apache.kafka.tools.ConfigCommand",
        "get-offsets" => "org.apache.kafka.tools.GetOffsetShell",
        "delete-records" => "org.apache.kafka.tools.DeleteRecordsCommand",
        "dump-log" => "org.apache.kafka.tools.DumpLogSegments",
        "transactions" => "org.apache.kafka.tools.TransactionsCommand",
        "console-consumer" => "org.apache.kafka.tools.consumer.ConsoleConsumer",
        other => other,
    }
}

pub(super) fn text(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}
