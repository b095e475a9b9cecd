//! `twinlog-tune`: what the host has, what the data plane wants, and why.

use clap::{Parser, Subcommand};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use tuning::facts::Facts;
use tuning::root::Root;
use tuning::{report, rules};

/// Checks a Linux host against what the twinlog data plane needs. Changes nothing.
#[derive(Debug, Parser)]
#[command(
    name = "twinlog-tune",
    version,
    after_help = "Examples:\n  twinlog-tune check\n  twinlog-tune check --json\n\nExit codes: 0 all good, 1 findings, 2 usage, 3 cannot tell"
)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Look at the host: name, now, wanted, why, risk for each rule.
    Check {
        /// One JSON document instead of a table.
        #[arg(long)]
        json: bool,
        /// A folder that stands for `/`, such as a recorded host.
        #[arg(long, value_name = "DIR")]
        root: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    let Verb::Check { json, root } = Args::parse().verb;
    let root = root.map_or_else(Root::host, |folder| Root::at(&folder));
    match check(&root, json) {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            let text = format!("twinlog-tune: {why}\n");
            // Nothing is left to tell when stderr is gone too.
            drop(io::stderr().write_all(text.as_bytes()));
            ExitCode::from(3)
        }
    }
}

fn check(root: &Root, json: bool) -> Result<u8, String> {
    let findings = rules::check(&Facts::read(root)?);
    let text = if json {
        serde_json::to_string_pretty(&findings).map_err(|cause| format!("cannot print JSON: {cause}"))? + "\n"
    } else {
        report::table(&findings)
    };
    io::stdout().write_all(text.as_bytes()).map_err(|cause| format!("cannot print: {cause}"))?;
    Ok(report::exit_code(&findings))
}
