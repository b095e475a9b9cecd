//! `twinlog-dataplane`: the process that fetches and stores records.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use dataplane::allocator::CountingAllocator;
use dataplane::config::{Config, Flags};
use dataplane::node;
use dataplane::steps;
use dataplane::surgery::{self, SurgeryError, Work, clone, hand_over};
use tracing_subscriber::EnvFilter;
use twinlog_proto::log_level::{self, BadLogLevel};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Mirrors record batches from Kafka clusters into segment files. Started by `twinlog up`, or by hand.
#[derive(Debug, Parser)]
#[command(name = "twinlog-dataplane", version, args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    surgery: Option<Surgery>,
    /// Configuration file, sections [node] and [dataplane].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directories that hold partitions.
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    data: Vec<PathBuf>,
    /// Directory for everything else.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// A number of cores, or a list of processors such as 0,2 or 4-7.
    #[arg(long, value_name = "LIST|N")]
    cores: Option<String>,
    /// Form of the log lines on stderr.
    #[arg(long, value_enum, default_value_t = LogFormat::Human)]
    log_format: LogFormat,
}

/// Work on the directories of partitions while no data plane has them.
#[derive(Debug, Subcommand)]
enum Surgery {
    /// Recover the log and finish its files, so that a stock broker loads it as it is.
    Finish {
        /// The partition's directory.
        dir: PathBuf,
    },
    /// Cut the log so that it ends at an offset (lowered to the start of the batch that holds it), and finish its files.
    Cut {
        /// The partition's directory.
        dir: PathBuf,
        /// The new log end.
        #[arg(long, value_name = "OFFSET")]
        offset: i64,
    },
    /// Read the whole log and say what is wrong with it; changes nothing.
    Check {
        /// The partition's directory.
        dir: PathBuf,
    },
    /// Give stopped partitions to a stopped broker's log directories, or take them back, as a plan of `twinlog promote` says.
    HandOver {
        /// The plan.
        plan: PathBuf,
        /// Inherited descriptors of the log directories' lock files; without any the locks are taken.
        #[arg(long, value_name = "N", value_delimiter = ',')]
        lock_fd: Vec<i32>,
    },
    /// Copy partitions that are being written to, as a plan of `twinlog drill` or `twinlog reclaim` says; changes nothing of them.
    Clone {
        /// The plan.
        plan: PathBuf,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogFormat {
    Human,
    Json,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Err(why) = start_log(args.log_format) {
        return refuse(&why);
    }
    if let Some(surgery) = &args.surgery {
        return operate(surgery).map_or_else(|why| refuse(&why), |()| ExitCode::SUCCESS);
    }
    let config = match read(&args) {
        Ok(config) => config,
        Err(why) => return refuse(&*why),
    };
    match node::run(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => refuse(&why),
    }
}

fn operate(surgery: &Surgery) -> Result<(), SurgeryError> {
    match surgery {
        Surgery::Finish { dir } => surgery::run(dir, Work::Finish),
        Surgery::Cut { dir, offset } => surgery::run(dir, Work::Cut(*offset)),
        Surgery::Check { dir } => surgery::run(dir, Work::Check),
        Surgery::HandOver { plan, lock_fd } => {
            steps::arm().map_err(SurgeryError::NoSuchStep)?;
            hand_over::run(plan, lock_fd)
        }
        Surgery::Clone { plan } => clone::run(plan),
    }
}

fn read(args: &Args) -> Result<Config, Box<dyn std::error::Error>> {
    let flags = Flags { data: args.data.clone(), state: args.state.clone(), cores: args.cores.clone() };
    let current = std::env::current_dir()?;
    let Some(file) = &args.config else { return Ok(Config::from_flags(&flags, &current)?) };
    let text = std::fs::read_to_string(file)
        .map_err(|cause| format!("the configuration file {} cannot be read: {cause}", file.display()))?;
    Ok(Config::parse(file, &text, &flags, &current)?)
}

fn start_log(format: LogFormat) -> Result<(), BadLogLevel> {
    let set = std::env::var_os(log_level::VARIABLE).map(|value| value.to_string_lossy().into_owned());
    let filter = EnvFilter::new(log_level::directives(set.as_deref(), "info")?);
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    match format {
        LogFormat::Human => log.with_ansi(coloured()).init(),
        LogFormat::Json => log.json().init(),
    }
    Ok(())
}

/// Colours are for terminals, and for people who want them (no-color.org).
fn coloured() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// One clear line for people, whatever the log's form and filter; in one piece, for the other plane writes to the same stream.
fn refuse(why: &dyn std::error::Error) -> ExitCode {
    drop(std::io::stderr().write_all(format!("twinlog-dataplane: {why}\n").as_bytes()));
    ExitCode::FAILURE
}
