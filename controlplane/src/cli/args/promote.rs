//! pure: the command line of `twinlog promote`.

use super::{Ask, duration, mirror_name};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// `twinlog promote`.
#[derive(Debug, Args)]
pub struct Promote {
    /// The mirror.
    #[arg(value_parser = mirror_name)]
    pub mirror: String,
    /// The server.properties of the node that takes the topics; it must not run, and have no topics of its own.
    #[arg(long, value_name = "FILE.properties", required_unless_present = "adopt")]
    pub to: Option<PathBuf>,
    /// The broker that takes the topics, which runs on this host and goes on running; needs a PLAINTEXT listener.
    #[arg(long, value_name = "HOST:PORT", requires = "log_dir", conflicts_with_all = ["to", "start", "start_command", "release", "cluster_id"])]
    pub adopt: Option<String>,
    /// The log directory of that broker that the topics go into.
    #[arg(long, value_name = "DIR", requires = "adopt")]
    pub log_dir: Option<PathBuf>,
    /// Where copies for that broker are made, on the file system of its log directory [default: the folder above that].
    #[arg(long, value_name = "DIR", requires = "adopt")]
    pub stage: Option<PathBuf>,
    /// Start the broker afterwards, and check what it serves.
    #[arg(long)]
    pub start: bool,
    /// How the broker is started; the properties file comes last [default: KAFKA_HOME/bin/kafka-server-start.sh, or the one on PATH].
    #[arg(long, value_name = "COMMAND")]
    pub start_command: Option<String>,
    /// Only look and judge, while mirroring goes on; exit code 1 when something blocks.
    #[arg(long, conflicts_with_all = ["start", "undo"])]
    pub dry_run: bool,
    /// Wait for the source as long as it takes.
    #[arg(long)]
    pub wait: bool,
    /// How long the source and the stop are waited for.
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub timeout: Duration,
    /// Only this topic, with the internal ones; may be given again [default: all].
    #[arg(long)]
    pub topic: Vec<String>,
    /// Refuse what would lose records, instead of saying how many.
    #[arg(long)]
    pub no_forced: bool,
    /// Lay a new node out for this release [default: so that 4.0 to 4.4 all take it].
    #[arg(long, value_name = "X.Y")]
    pub release: Option<String>,
    /// The cluster id that a new node gets and a formatted one must have [default: a random one].
    #[arg(long, value_name = "ID")]
    pub cluster_id: Option<String>,
    /// Take everything back and mirror on; possible until a broker was started.
    #[arg(long, conflicts_with = "start")]
    pub undo: bool,
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
