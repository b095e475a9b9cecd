//! `twinlog up`: both planes as children, each started again alone when it dies.
//!
//! A plane says on its stdout that it serves (`ready key=value ...`); its logs go to stderr untouched. When `up` itself is killed the
//! system ends the planes. Nothing here reads or writes a file of the planes.

mod log;
mod plane;
mod tied;

pub(super) use tied::run as run_tied;

use super::args::Up;
use crate::config::{Config, Flags};
use crate::failure::{Exit, Failure};
use crate::programs::sibling;
use plane::{Plane, PlaneEvent};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How long a clean stop may take: the data plane finishes every segment file.
const STOP_TIMEOUT: Duration = Duration::from_secs(110);

/// How long the control plane waits for the data plane at the start: a folder that is in use is refused by one plane, in one line.
const HEAD_START: Duration = Duration::from_secs(1);

/// Runs until a signal, or until a plane cannot even start.
///
/// # Errors
/// When the configuration is not usable. When a plane ends before it ever served, its own line is on stderr and its exit code is ours.
pub(super) fn run(args: &Up) -> Result<ExitCode, Failure> {
    let settings = Settings::read(args)?;
    log::init(args.log_format)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|cause| {
        Failure::new("twinlog up cannot start", cause, "look at the limits of open files and processes (ulimit -a)")
    })?;
    runtime.block_on(supervise(settings))
}

/// What the planes are started with.
struct Settings {
    dataplane: Plane,
    controlplane: Plane,
    data: String,
}

impl Settings {
    fn read(args: &Up) -> Result<Self, Failure> {
        let current = std::env::current_dir().map_err(|cause| {
            Failure::new("the working directory is not usable", cause, "start twinlog in a folder that exists")
        })?;
        let flags = Flags {
            data: args.data.clone(),
            state: args.state.clone(),
            listen: args.listen.clone(),
            metrics: args.metrics.clone(),
        };
        let config = match &args.config {
            None => Config::from_flags(&flags, &current)?,
            Some(file) => Config::parse(file, &text_of(file)?, &flags, &current)?,
        };
        let data = config.data.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(",");
        let mut common = vec!["--data".to_owned(), data.clone()];
        common.extend(["--state".to_owned(), config.state.display().to_string()]);
        common.extend(["--log-format".to_owned(), args.log_format.as_str().to_owned()]);
        if let Some(file) = &args.config {
            common.extend(["--config".to_owned(), current.join(file).display().to_string()]);
        }
        let mut dataplane = common.clone();
        if let Some(cores) = &args.cores {
            dataplane.extend(["--cores".to_owned(), cores.clone()]);
        }
        let mut controlplane = common;
        controlplane.extend(["--listen".to_owned(), config.listen.to_string()]);
        controlplane.extend(["--metrics".to_owned(), config.metrics.to_string()]);
        Ok(Self {
            dataplane: Plane::new("twinlog-dataplane", sibling("twinlog-dataplane")?, dataplane),
            controlplane: Plane::new("twinlog-controlplane", sibling("twinlog-controlplane")?, controlplane),
            data,
        })
    }
}

fn text_of(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|cause| {
        Failure::new(
            format_args!("the configuration file {} cannot be read", file.display()),
            cause,
            "give the path of a TOML file with --config",
        )
    })
}

async fn supervise(settings: Settings) -> Result<ExitCode, Failure> {
    let Settings { mut dataplane, mut controlplane, data } = settings;
    let stop_signal = |kind, name: &str| {
        signal(kind).map_err(|cause| Failure::new(format_args!("{name} cannot be handled"), cause, "report this"))
    };
    let mut terminate = stop_signal(SignalKind::terminate(), "SIGTERM")?;
    let mut interrupt = stop_signal(SignalKind::interrupt(), "SIGINT")?;
    dataplane.start()?;
    if let Ok(Some(code)) = tokio::time::timeout(HEAD_START, early_end(&mut dataplane)).await {
        return never_served(code, "data");
    }
    if let Err(failure) = controlplane.start() {
        dataplane.stop(STOP_TIMEOUT).await;
        return Err(failure);
    }
    let mut told = false;
    loop {
        let ended = tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            event = dataplane.next() => (event, "data"),
            event = controlplane.next() => (event, "control"),
        };
        if let (PlaneEvent::EndedEarly { code }, _) = ended {
            dataplane.stop(STOP_TIMEOUT).await;
            controlplane.stop(STOP_TIMEOUT).await;
            return never_served(code, ended.1);
        }
        if !told && dataplane.serves() && controlplane.serves() {
            told = true;
            announce(&controlplane, &data)?;
        }
    }
    tokio::join!(dataplane.stop(STOP_TIMEOUT), controlplane.stop(STOP_TIMEOUT));
    Ok(ExitCode::SUCCESS)
}

/// Waits until the plane serves, or ends before it ever did: its exit code then.
async fn early_end(plane: &mut Plane) -> Option<Option<i32>> {
    while !plane.serves() {
        if let PlaneEvent::EndedEarly { code } = plane.next().await {
            return Some(code);
        }
    }
    None
}

/// A plane that ends by itself has said why, in one line; a second line of ours would only hide it.
fn never_served(code: Option<i32>, plane: &str) -> Result<ExitCode, Failure> {
    match code {
        Some(2) => Ok(ExitCode::from(Exit::Usage as u8)),
        Some(_) => Ok(ExitCode::from(Exit::Failed as u8)),
        None => {
            Err(Failure::new(format_args!("the {plane} plane did not start"), "it was killed", "see the kernel's log"))
        }
    }
}

/// The one line on stdout that scripts wait for.
fn announce(controlplane: &Plane, data: &str) -> Result<(), Failure> {
    let line = format!(
        "twinlog ready listen={} metrics={} data={data}\n",
        controlplane.told("listen").unwrap_or("unknown"),
        controlplane.told("metrics").unwrap_or("unknown"),
    );
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|cause| Failure::new("stdout cannot be written", cause, "give twinlog up a stdout that stays open"))
}
