//! pure: the command line of `twinlog drill`.

use super::{Ask, duration, mirror_name};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// `twinlog drill`.
#[derive(Debug, Args)]
pub struct Drill {
    /// The mirror.
    #[arg(value_parser = mirror_name)]
    pub mirror: String,
    /// Only this topic, with the internal ones; may be given again [default: all].
    #[arg(long)]
    pub topic: Vec<String>,
    /// How a broker is started; its properties file comes last [default: KAFKA_HOME/bin/kafka-server-start.sh, or the one on PATH].
    #[arg(long, value_name = "COMMAND")]
    pub start_command: Option<String>,
    /// Lay the node out for this release [default: so that 4.0 to 4.4 all take it].
    #[arg(long, value_name = "X.Y")]
    pub release: Option<String>,
    /// Make the drill's folder in this one, on the data directory's file system [default: the folder that the data directory is in].
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Copy what cannot be linked, however much that is, so that DIR may be on another file system.
    #[arg(long)]
    pub copy: bool,
    /// Leave the drill's folder; its broker is ended all the same.
    #[arg(long)]
    pub keep: bool,
    /// How long the broker may take to serve, and to take a record.
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
    /// Only remove what earlier drills left (their brokers, too), those kept included.
    #[arg(long, conflicts_with_all = ["topic", "start_command", "release", "keep", "report"])]
    pub clean: bool,
    /// The state directory of `twinlog up`.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/twinlog/state")]
    pub state: PathBuf,
    /// Write the report as JSON there too.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Where the control plane is.
    #[command(flatten)]
    pub ask: Ask,
}
