//! pure: the command line of `twinlog reclaim`.

use super::{Ask, mirror_name};
use clap::Args;
use std::path::PathBuf;

/// `twinlog reclaim`.
#[derive(Debug, Args)]
pub struct Reclaim {
    /// The mirror.
    #[arg(value_parser = mirror_name)]
    pub mirror: String,
    /// The server.properties of the node that has the topics; its broker must be stopped, unless --clone is given.
    #[arg(long, value_name = "FILE.properties")]
    pub from: PathBuf,
    /// Only this topic; may be given again [default: all].
    #[arg(long)]
    pub topic: Vec<String>,
    /// Save what is thrown away there, as segment files.
    #[arg(long, value_name = "DIR")]
    pub save_aside: Option<PathBuf>,
    /// The node is the mirror's former source: cut its topics where mirroring from it ended, which the control plane there says, at the
    /// cluster that took over. The mirror here reads from that cluster.
    #[arg(long, value_name = "HOST:PORT")]
    pub lmo_from: Option<String>,
    /// With --lmo-from: also throw away partitions of which the other side never had a record.
    #[arg(long, requires = "lmo_from")]
    pub allow_empty: bool,
    /// Give up what was mirrored of these topics: their directories stay with the broker, and they can be started from scratch.
    #[arg(long, requires = "topic", conflicts_with_all = ["save_aside", "lmo_from"])]
    pub from_scratch: bool,
    /// Take copies: the directories stay with the broker as they are, which may run and go on serving them.
    #[arg(long, conflicts_with_all = ["save_aside", "from_scratch"])]
    pub clone: bool,
    /// Only look, and list what would be thrown away; exit code 1 when something blocks.
    #[arg(long)]
    pub dry_run: bool,
    /// The state directory of `twinlog up`.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/twinlog/state")]
    pub state: PathBuf,
    /// Where the control plane is.
    #[command(flatten)]
    pub ask: Ask,
}
