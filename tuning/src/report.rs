//! pure: findings as a table for people and as one JSON document.

use crate::rules::{Finding, Verdict};
use std::fmt::Write as _;

/// One line per finding, and what is wanted below those that are not as wanted.
#[must_use]
pub fn table(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.verdict {
            Verdict::Good => "good   ",
            Verdict::Finding => "finding",
            Verdict::Unknown => "unknown",
        };
        writeln!(text, "{mark}  {:width$}  {}", finding.name, finding.now).expect("a String takes everything");
        if finding.verdict != Verdict::Good {
            let reboot = if finding.needs_reboot { "; needs a reboot" } else { "" };
            writeln!(text, "         {:width$}  wanted: {}", "", finding.wanted).expect("a String takes everything");
            writeln!(text, "         {:width$}  why: {}; risk: {}{reboot}", "", finding.why, finding.risk)
                .expect("a String takes everything");
        }
    }
    text
}

/// The exit code of `check`: 0 all good, 1 findings, 3 cannot tell.
#[must_use]
pub fn exit_code(findings: &[Finding]) -> u8 {
    if findings.iter().any(|finding| finding.verdict == Verdict::Finding) {
        1
    } else if findings.iter().any(|finding| finding.verdict == Verdict::Unknown) {
        3
    } else {
        0
    }
}
