//! The `twinlog-bench` command.

use std::io::{self, Write};
use std::process::ExitCode;

use bench::args::{Cli, Command, Floor};
use clap::Parser;
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let filter = EnvFilter::try_from_env("TWINLOG_LOG").unwrap_or_else(|_unset| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    let result = match Cli::parse().command {
        Command::Serve(args) => bench::serve::run(&args).map_err(|cause| cause.to_string()).map(|()| ExitCode::SUCCESS),
        Command::Floor(args) => floor(&args).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|message| {
        // Nowhere is left to say that standard error is gone.
        writeln!(io::stderr(), "twinlog-bench: {message}").unwrap_or_default();
        ExitCode::FAILURE
    })
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
