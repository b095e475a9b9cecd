//! `twinlog-controlplane`: flags, log, signals; everything else is in the library.

use clap::{Parser, ValueEnum};
use controlplane::config::{Config, Flags};
use controlplane::error::Fatal;
use controlplane::node::Node;
use controlplane::steps::{self, Step};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info, warn};
use tracing_subscriber::EnvFilter;
use twinlog_proto::log_level::{self, BadLogLevel};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The control plane of twinlog: answers mirror requests over the Kafka protocol and steers the data plane.
#[derive(Debug, Parser)]
#[command(name = "twinlog-controlplane", version)]
struct Args {
    /// Configuration file (twinlog.toml); flags win over it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of twinlog's own files.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Directories of the mirrored partitions.
    #[arg(long, value_name = "DIR[,DIR]", value_delimiter = ',')]
    data: Vec<PathBuf>,
    /// Where the Kafka protocol is served.
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<String>,
    /// Where /metrics and /health are served.
    #[arg(long, value_name = "IP:PORT")]
    metrics: Option<String>,
    /// Form of the log lines on stderr; what is logged is chosen by the variable TWINLOG_LOG.
    #[arg(long, value_enum, default_value_t = LogFormat::Human)]
    log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogFormat {
    /// For people.
    Human,
    /// One JSON document a line.
    Json,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let format = args.log_format;
    if let Err(why) = start_log(format) {
        drop(std::io::stderr().write_all(format!("twinlog-controlplane: {why}\n").as_bytes()));
        return ExitCode::FAILURE;
    }
    match steps::arm() {
        Ok(None) => {}
        Ok(Some(step)) => warn!(step = step.name(), "will kill itself: {} is set", steps::VARIABLE),
        Err(value) => {
            let names: Vec<&str> = Step::ALL.iter().map(|step| step.name()).collect();
            error!("{}={value} names no step; unset it, or choose one of: {}", steps::VARIABLE, names.join(" "));
            return ExitCode::FAILURE;
        }
    }
    let Err(fatal) = run(args) else { return ExitCode::SUCCESS };
    match format {
        // Not through the log, whose level may be set so that it says nothing.
        // In one piece, for the other plane writes to the same stream.
        LogFormat::Human => drop(std::io::stderr().write_all(format!("twinlog-controlplane: {fatal}\n").as_bytes())),
        LogFormat::Json => error!("{fatal}"),
    }
    ExitCode::FAILURE
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

fn run(args: Args) -> Result<(), Fatal> {
    let remedy = "see the cause";
    let current = std::env::current_dir().map_err(|cause| Fatal::new("no current directory", cause, remedy))?;
    let flags = Flags { data: args.data, state: args.state, listen: args.listen, metrics: args.metrics };
    let config = match &args.config {
        None => Config::from_flags(&flags, &current)?,
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|cause| {
                Fatal::new(format_args!("cannot read {}", path.display()), cause, "check the path given to --config")
            })?;
            Config::parse(path, &text, &flags, &current)?
        }
    };
    allow_open_files();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|cause| Fatal::new("cannot start the runtime", cause, remedy))?;
    let served = tokio::task::LocalSet::new().block_on(&runtime, serve(config));
    // Whatever a blocking thread still does has been answered to nobody.
    runtime.shutdown_background();
    served
}

/// As many as the system lets this process have: each client takes one. With fewer, connections are refused, and the log says so.
fn allow_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(cause) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        warn!(%cause, "the limit of open files stays as it is");
    }
}

async fn serve(config: Config) -> Result<(), Fatal> {
    let remedy = "see the cause";
    let mut terminate =
        signal(SignalKind::terminate()).map_err(|cause| Fatal::new("cannot wait for signals", cause, remedy))?;
    let mut interrupt =
        signal(SignalKind::interrupt()).map_err(|cause| Fatal::new("cannot wait for signals", cause, remedy))?;
    let node = Node::open(config).await?;
    let (listen, metrics) =
        node.addresses().map_err(|cause| Fatal::new("cannot tell the own addresses", cause, remedy))?;
    info!(%listen, %metrics, "serving");
    // `twinlog up` and scripts wait for this line.
    writeln!(std::io::stdout(), "ready listen={listen} metrics={metrics}")
        .map_err(|cause| Fatal::new("stdout cannot be written", cause, remedy))?;
    node.serve(async move {
        tokio::select! {
            _ = terminate.recv() => info!("stopping: SIGTERM"),
            _ = interrupt.recv() => info!("stopping: SIGINT"),
        }
    })
    .await;
    Ok(())
}
