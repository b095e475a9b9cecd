//! pure: a snapshot as lines for people.

use super::{Node, Snapshot, Summary, Wrong};
use crate::cli::{output, units};

/// How many wrong partitions of a mirror are named.
const NAMED_PARTITIONS_MAX: usize = 20;

/// A line, and whether it needs an operator's eye.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    words: String,
    look: Look,
}

/// How a line looks where there are colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Plain,
    Bold,
    Wrong,
    Warning,
}

impl Line {
    fn new(look: Look, words: impl Into<String>) -> Self {
        // What a source or a file system said must not reach the terminal as it is.
        let words: String = words.into().chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        Self { words, look }
    }

    /// The whole line.
    pub(super) fn text(&self, colours: bool) -> String {
        self.cut(usize::MAX, colours)
    }

    /// As much of the line as has room.
    pub(super) fn cut(&self, columns: usize, colours: bool) -> String {
        let words: String = self.words.chars().take(columns).collect();
        let code = match self.look {
            Look::Plain => return words,
            Look::Bold => "1",
            Look::Wrong => "31;1",
            Look::Warning => "33",
        };
        if colours { format!("\u{1b}[{code}m{words}\u{1b}[0m") } else { words }
    }
}

/// A line about something that is wrong with the showing itself.
pub(super) fn wrong(words: &str) -> Line {
    Line::new(Look::Wrong, words)
}

/// A plain line.
pub(super) fn plain(words: impl Into<String>) -> Line {
    Line::new(Look::Plain, words)
}

/// All lines.
pub(super) fn lines(snapshot: &Snapshot, now_ms: i64) -> Vec<Line> {
    let mut lines = Vec::new();
    what_is_wrong(&mut lines, snapshot);
    if let Some(node) = &snapshot.node {
        planes(&mut lines, node, now_ms);
    } else {
        lines.push(plain("control plane: serving"));
    }
    lines.push(plain(""));
    if snapshot.mirrors.is_empty() {
        lines.push(plain(
            "no mirrors, or none that you may describe; `twinlog mirrors create NAME --source HOST:PORT` makes one",
        ));
        return lines;
    }
    let heads = [
        "MIRROR",
        "SOURCE",
        "#TOPICS",
        "#PARTITIONS",
        "STATES",
        "#LAG",
        "#LAG BYTES",
        "#LAG TIME",
        "#RATE",
        "CATCH-UP",
    ];
    let rows: Vec<Vec<String>> = snapshot.mirrors.iter().map(row).collect();
    for (at, text) in output::table_lines(&heads, &rows).into_iter().enumerate() {
        lines.push(Line::new(if at == 0 { Look::Bold } else { Look::Plain }, text));
    }
    for (mirror, to, topics) in
        snapshot.mirrors.iter().flat_map(|m| m.handed_over.iter().map(move |(to, n)| (m, to, n)))
    {
        let text = format!(
            "{}: {topics} topics are handed over to {to}; `twinlog promote` again ends what was interrupted, `twinlog reclaim` takes them back",
            mirror.mirror
        );
        lines.push(plain(text));
    }
    for sync in
        snapshot.mirrors.iter().flat_map(|m| m.syncs.iter().filter_map(move |s| Some((m, s, s.last_error.as_ref()?))))
    {
        let (mirror, sync, why) = sync;
        lines.push(Line::new(Look::Warning, format!("{}: the sync of {} fails: {why}", mirror.mirror, sync.kind)));
    }
    lines
}

fn what_is_wrong(lines: &mut Vec<Line>, snapshot: &Snapshot) {
    if let Some(node) = &snapshot.node {
        lines.extend(node.reasons.iter().map(|why| Line::new(Look::Wrong, format!("WRONG: {why}"))));
    }
    for m in &snapshot.mirrors {
        if m.source_up == Some(false) {
            let text = format!(
                "WRONG: mirror {}: its source {} does not answer; check its brokers and the network",
                m.mirror,
                m.source_bootstrap.as_deref().unwrap_or("-")
            );
            lines.push(Line::new(Look::Wrong, text));
        }
        for one in m.wrong.iter().take(NAMED_PARTITIONS_MAX) {
            lines.push(wrong_partition(m, one));
        }
        let more = m.wrong.len().saturating_sub(NAMED_PARTITIONS_MAX);
        if more > 0 {
            let text = format!("{more} more partitions of {}; `twinlog mirrors describe {0}` shows all", m.mirror);
            lines.push(Line::new(Look::Wrong, text));
        }
        if m.sums.lag_unknown > 0 {
            let text = format!("mirror {}: nobody knows the lag of {} partitions", m.mirror, m.sums.lag_unknown);
            lines.push(Line::new(Look::Warning, text));
        }
    }
    for why in snapshot.node.iter().flat_map(|node| &node.warnings).filter(|why| !why.contains(" FAILED")) {
        lines.push(Line::new(Look::Warning, format!("warning: {why}")));
    }
    if lines.is_empty() {
        // Who may see nothing cannot be told that all is well.
        let seen = snapshot.node.is_some() || !snapshot.mirrors.is_empty();
        lines.push(plain(if seen { "nothing is wrong" } else { "what is wrong is not shown to you" }));
    }
    lines.push(plain(""));
}

fn wrong_partition(mirror: &Summary, one: &Wrong) -> Line {
    let tries = match one.retry_attempt {
        ..0 => "not tried again by itself".to_owned(),
        tries => format!("tried again {tries} times"),
    };
    let fault = one.why.split(':').next().unwrap_or_default();
    let text = format!(
        "{}: {}-{} is {}, {tries}: {}; {}",
        mirror.mirror,
        one.topic,
        one.partition,
        one.state,
        one.why,
        next(fault)
    );
    Line::new(Look::Wrong, text)
}

/// What to do next about a fault.
fn next(fault: &str) -> &'static str {
    match fault {
        "gap" => "the offsets are lost unless another copy has them",
        "recreated" => "stop the topic, then start it with --from-scratch",
        "diverged" => "`twinlog verify --against-source` shows where; decide before anything is cut",
        "old_format" => "rewrite the topic at the source",
        "checksum" | "malformed_batch" => "look at the leader that the log names, and at the network",
        "unknown_topic" => "start the topic again when it is back at the source",
        "not_authorized" | "authentication" => "give the mirror's principal READ and DESCRIBE",
        "unreachable" | "no_leader" => "check the source's brokers and the network",
        "disk_full" => "make space; it goes on by itself",
        "disk" => "look at the kernel's log",
        "directory" | "log_corrupt" => "`twinlog verify DIR` shows what is damaged",
        "cluster" => "correct bootstrap.servers: another cluster answers",
        "too_many_open_files" => "raise LimitNOFILE",
        _ => "docs/operations.md explains the faults",
    }
}

fn planes(lines: &mut Vec<Line>, node: &Node, now_ms: i64) {
    let health = if node.healthy { "healthy" } else { "UNHEALTHY" };
    lines.push(Line::new(Look::Bold, format!("twinlog {}, {health}", node.version)));
    for name in ["control", "data"] {
        let Some(plane) = node.planes.iter().find(|plane| plane.plane == name) else {
            lines.push(Line::new(Look::Wrong, format!("{name} plane: not there")));
            continue;
        };
        let up = units::known(plane.started_at_ms, |at| units::time((now_ms - at).max(0)));
        lines.push(plain(format!(
            "{name} plane: pid {}, up {up}, restarts {}, memory {}, open files {}",
            plane.pid,
            output::number(plane.restarts),
            units::known(plane.resident_bytes, units::bytes),
            output::number(plane.open_files)
        )));
    }
    for disk in &node.disks {
        let share = if disk.size_bytes > 0 { disk.free_bytes as f64 * 100.0 / disk.size_bytes as f64 } else { 100.0 };
        let look = if share < 10.0 { Look::Warning } else { Look::Plain };
        let (free, size) = (units::bytes(disk.free_bytes), units::bytes(disk.size_bytes));
        lines.push(Line::new(look, format!("disk {}: {free} of {size} free ({share:.0} %)", disk.path)));
    }
}

fn row(m: &Summary) -> Vec<String> {
    let source = match m.source_up {
        Some(true) => "answers",
        Some(false) => "SILENT",
        None => "-",
    };
    vec![
        m.mirror.clone(),
        source.to_owned(),
        m.topics.to_string(),
        m.sums.partitions.to_string(),
        m.sums.states(),
        output::number(m.sums.lag_records),
        units::known(m.sums.lag_bytes, units::bytes),
        units::known(m.sums.lag_ms, units::time),
        units::known(m.sums.bytes_per_second, units::rate),
        m.sums.catch_up(),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::Plane;
    use super::*;
    use crate::cli::sums::Sums;

    fn snapshot(wrong: usize) -> Snapshot {
        let one = |partition| Wrong {
            topic: "t".into(),
            partition,
            state: "FAILED".into(),
            retry_attempt: -1,
            why: "gap: lost\u{1b}[2J".into(),
        };
        let mirror = Summary {
            mirror: "m".into(),
            source_cluster_id: None,
            source_bootstrap: Some("h:1".into()),
            source_up: Some(false),
            source_answered_at_ms: None,
            topics: 1,
            handed_over: [("node 1 of cluster c".to_owned(), 3)].into(),
            sums: Sums { partitions: 30, lag_unknown: 2, ..Sums::default() },
            syncs: Vec::new(),
            wrong: (0..wrong as i32).map(one).collect(),
        };
        let plane = Plane {
            plane: "control".into(),
            pid: 7,
            started_at_ms: Some(1_000),
            restarts: Some(2),
            resident_bytes: None,
            open_files: None,
        };
        let node = Node {
            version: "0.1.0".into(),
            healthy: false,
            ready: false,
            reasons: vec!["the data plane is not there".into()],
            warnings: vec!["a disk".into()],
            planes: vec![plane],
            disks: Vec::new(),
        };
        Snapshot { node: Some(node), mirrors: vec![mirror] }
    }

    #[test]
    fn what_is_wrong_comes_first_with_what_to_do_and_without_control_characters() {
        let lines: Vec<String> = lines(&snapshot(25), 62_000).iter().map(|line| line.text(false)).collect();
        assert_eq!(lines[0], "WRONG: the data plane is not there");
        assert!(lines[1].contains("its source h:1 does not answer"), "{lines:?}");
        assert!(
            lines[2].starts_with("m: t-0 is FAILED, not tried again by itself: gap: lost?[2J; the offsets are lost")
        );
        assert!(lines[22].starts_with("5 more partitions of m"), "{lines:?}");
        assert!(lines.contains(&"control plane: pid 7, up 1 min 1 s, restarts 2, memory -, open files -".to_owned()));
        assert!(lines.contains(&"data plane: not there".to_owned()), "{lines:?}");
        let told = lines.iter().find(|line| line.contains("handed over"));
        assert!(
            told.is_some_and(|line| line.starts_with("m: 3 topics are handed over to node 1 of cluster c;")),
            "{lines:?}"
        );
    }

    #[test]
    fn colours_are_there_only_when_asked_for_and_a_cut_line_ends_them() {
        let line = wrong("0123456789");
        assert_eq!(
            (line.cut(4, false), line.cut(4, true)),
            ("0123".to_owned(), "\u{1b}[31;1m0123\u{1b}[0m".to_owned())
        );
    }
}
