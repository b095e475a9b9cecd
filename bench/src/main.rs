//! The `twinlog-bench` command.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use bench::args::{Cli, Command, Floor, Profile, Run};
use clap::Parser;
use serde::Serialize;
use tracing_subscriber::EnvFilter;
use twinlog_proto::log_level;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let set = std::env::var_os(log_level::VARIABLE).map(|value| value.to_string_lossy().into_owned());
    let result = log_level::directives(set.as_deref(), "warn").map_err(|why| why.to_string()).and_then(|directives| {
        let filter = EnvFilter::new(directives);
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
        work()
    });
    result.unwrap_or_else(|message| {
        // Nowhere is left to say that standard error is gone.
        writeln!(io::stderr(), "twinlog-bench: {message}").unwrap_or_default();
        ExitCode::FAILURE
    })
}

fn work() -> Result<ExitCode, String> {
    match Cli::parse().command {
        Command::Serve(args) => bench::serve::run(&args).map_err(|cause| cause.to_string()).map(|()| ExitCode::SUCCESS),
        Command::Floor(args) => floor(&args).map(|()| ExitCode::SUCCESS),
        Command::Run(args) => run(&args),
    }
}

fn floor(args: &Floor) -> Result<(), String> {
    let mut runs = Vec::new();
    for _ in 0..args.runs {
        runs.push(bench::floor::measure(args).map_err(|cause| cause.to_string())?);
    }
    runs.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    let median = &runs[runs.len() / 2];
    let text = if args.json {
        serde_json::to_string_pretty(median).map_err(|cause| cause.to_string())?
    } else {
        median.to_string()
    };
    writeln!(io::stdout(), "{text}").map_err(|cause| cause.to_string())
}

fn run(args: &Run) -> Result<ExitCode, String> {
    bench::run::watch_for_interrupts();
    if args.profile == Profile::Control {
        let report = bench::control::measure(args).map_err(|cause| cause.to_string())?;
        writeln!(io::stdout(), "{}", show(args.json, &report)?).map_err(|cause| cause.to_string())?;
        return Ok(if report.is_within_goals() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let (text, is_identical) = if args.profile == Profile::FloorRatio {
        let ratio = bench::run::ratio::run(args).map_err(|cause| cause.to_string())?;
        (show(args.json, &ratio)?, ratio.verdict.is_identical())
    } else {
        let report = bench::run::measure(args, true).map_err(|cause| cause.to_string())?;
        (show(args.json, &report)?, report.verdict.is_identical())
    };
    writeln!(io::stdout(), "{text}").map_err(|cause| cause.to_string())?;
    Ok(if is_identical { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show<T: Serialize + fmt::Display>(json: bool, value: &T) -> Result<String, String> {
    if json { serde_json::to_string_pretty(value).map_err(|cause| cause.to_string()) } else { Ok(value.to_string()) }
}
