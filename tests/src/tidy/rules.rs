//! pure: the rules for single files.

use super::Source;
use super::code::{bare, functions, markers, without_tests};

const FILE_LINES_SOFT: usize = 400;
const FILE_LINES_HARD: usize = 700;
const FUNCTION_LINES: usize = 70;

/// Files that may pass the soft limit, each with its reason.
const LONG: [(&str, &str); 1] =
    [("dataplane/src/buffers.rs", "the unsafe code of the data plane stays in one file, with what makes it sound")];

/// The only files that may name the io_uring runtime: leaving it must stay cheap.
const RUNTIME: [&str; 4] = [
    "dataplane/src/buffers.rs",
    "dataplane/src/core/runtime.rs",
    "dataplane/src/disk/uring.rs",
    "dataplane/src/wire/uring.rs",
];

/// What a pure file may not do: input, output, clocks, threads, waiting, globals.
const IMPURE: [&str; 14] = [
    "std::fs",
    "TcpStream",
    "TcpListener",
    "ToSocketAddrs",
    "std::process::Command",
    "std::thread",
    "std::io::stdin",
    "Instant::now",
    "SystemTime::now",
    ".await",
    "async fn",
    "static mut",
    "thread_local!",
    "tokio",
];

/// Words that stand for unfinished work, and paths of one machine. Written in halves, so that this file keeps its own rule.
const LEFTOVERS: [(&str, &str); 6] =
    [("TO", "DO"), ("FIX", "ME"), ("X", "XX"), ("/wo", "rk/"), ("/ro", "ot/"), ("/ho", "me/")];

/// Rules for every text file.
pub(super) fn any_file(source: &Source) -> Vec<String> {
    let mut broken = Vec::new();
    for (a, b) in LEFTOVERS {
        let word = format!("{a}{b}");
        if let Some(line) = source.text.lines().position(|l| contains_word(l, &word)) {
            broken.push(format!(
                "{}:{}: '{word}' has no place here: finish it, or say it without",
                source.path,
                line + 1
            ));
        }
    }
    let lines = source.text.lines().count();
    let code = [".rs", ".java", ".py", ".sh"].iter().any(|x| source.path.ends_with(x));
    let excused = LONG.iter().any(|(path, _)| *path == source.path);
    if code && (lines > FILE_LINES_HARD || lines > FILE_LINES_SOFT && !excused) {
        broken.push(format!("{}: {lines} lines, {FILE_LINES_SOFT} are enough: split it by duty", source.path));
    }
    broken
}

/// `word` in `line`, not as a part of a longer word; a path counts anywhere.
fn contains_word(line: &str, word: &str) -> bool {
    let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        if word.starts_with('/') {
            return !line[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '.' || c == '-');
        }
        !joins(line[..at].chars().next_back()) && !joins(line[at + word.len()..].chars().next())
    })
}

/// Rules for Rust files.
pub(super) fn rust_file(source: &Source) -> Vec<String> {
    let path = &source.path;
    let mut broken = Vec::new();
    if !source.text.starts_with("//! ") {
        broken.push(format!(
            "{path}: begins without a module comment: say what it is for, who calls it, what it must never do"
        ));
    }
    let (code, marks) = (bare(&source.text), markers(&source.text));
    for (name, line, length) in functions(&code) {
        if length > FUNCTION_LINES {
            broken.push(format!(
                "{path}:{line}: {name} has {length} lines, {FUNCTION_LINES} are the most: take steps out of it"
            ));
        }
    }
    for leftover in ["dbg!", "todo!", "unimplemented!"] {
        if code.contains(leftover) {
            broken.push(format!("{path}: {leftover} is left over"));
        }
    }
    let runtime = without_tests(&code).contains("tokio_uring");
    if runtime && !RUNTIME.contains(&path.as_str()) && !is_test(path) {
        broken.push(format!("{path}: names tokio_uring; only {RUNTIME:?} may"));
    } else if runtime != marks.contains(&"runtime") && !is_test(path) {
        broken.push(format!("{path}: the marker `runtime` and the name tokio_uring go together"));
    }
    if has_unsafe(&code) != marks.contains(&"unsafe") {
        broken.push(format!("{path}: the marker `unsafe` and unsafe code go together"));
    }
    if marks.contains(&"pure") {
        let shipped = without_tests(&code);
        for word in IMPURE.iter().filter(|w| ends_in_code(shipped, w)) {
            broken.push(format!("{path}: says it is pure, but uses {word}"));
        }
    }
    broken
}

/// `word` in `code`, and not as the beginning of a longer word (a field `awaited` waits for nothing).
fn ends_in_code(code: &str, word: &str) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| !code[at + word.len()..].starts_with(goes_on))
}

/// A file of tests only.
fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("tests.rs")
}

fn has_unsafe(code: &str) -> bool {
    ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"].iter().any(|w| code.contains(w))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let source = Source { path: path.to_owned(), text: text.to_owned() };
        [any_file(&source), rust_file(&source)].concat()
    }

    #[test]
    fn every_rule_bites() {
        let long = format!("//! A file.\nfn long() {{\n{}}}\n", "    work();\n".repeat(FUNCTION_LINES));
        let wide = format!("//! A file.\n{}", "const A: u8 = 1;\n".repeat(FILE_LINES_SOFT));
        let cases = [
            ("dataplane/src/a.rs", "fn a() {}\n", "module comment"),
            ("dataplane/src/a.rs", "//! A.\nuse tokio_uring::fs;\n", "names tokio_uring"),
            (
                "dataplane/src/buffers.rs",
                "//! unsafe: b.\nuse tokio_uring::fs;\nfn a() { unsafe { b() } }\n",
                "`runtime`",
            ),
            ("dataplane/src/a.rs", "//! A.\nfn a() { unsafe { b() } }\n", "`unsafe`"),
            ("dataplane/src/a.rs", "//! pure: a.\nfn a() { std::fs::read(p); }\n", "pure"),
            ("dataplane/src/a.rs", "//! pure: a.\nfn a() { b().await; }\n", "pure"),
            ("dataplane/src/a.rs", "//! A.\nfn a() { dbg!(1); }\n", "left over"),
            ("dataplane/src/a.rs", &format!("//! A.\n// {}{}: more\n", "TO", "DO"), "no place"),
            ("dataplane/src/a.rs", &format!("//! A.\n// see {}{}x\n", "/wo", "rk/"), "no place"),
            ("dataplane/src/a.rs", &long, "70 are the most"),
            ("dataplane/src/a.rs", &wide, "split it"),
        ];
        for (path, text, sign) in cases {
            let all = found(path, text);
            assert!(all.len() == 1 && all[0].contains(sign), "{sign}: {all:?}");
        }
        assert!(found("dataplane/src/a.rs", "//! pure: a.\nfn a() { self.awaited.take(); }\n").is_empty());
        assert!(
            found(
                "dataplane/src/buffers.rs",
                "//! unsafe runtime: b.\nuse tokio_uring::fs;\nfn a() { unsafe { b() } }\n"
            )
            .is_empty()
        );
    }
}
