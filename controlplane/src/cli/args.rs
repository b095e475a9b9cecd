//! pure: the command line, as section by section of the manual. Scripts rely on these names.

mod acls;
mod drill;
mod promote;
mod reclaim;
mod topics;

pub use acls::{Acls, Entry as AclEntry, ListAcls, Resource};
pub use drill::Drill;
pub use promote::Promote;
pub use reclaim::Reclaim;
pub use topics::{Topics, TopicsArgs};

use crate::programs::RUN_TIED;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Mirrors Kafka topics between clusters: same bytes, same offsets, same leader epochs, same topic ids.
#[derive(Debug, Parser)]
#[command(name = "twinlog", version, propagate_version = true, after_help = EXIT_CODES)]
pub struct Twinlog {
    /// The command.
    #[command(subcommand)]
    pub verb: Verb,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 refused or failed, 2 usage, 3 timed out";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run both planes in the foreground; SIGTERM or SIGINT stops them cleanly.
    #[command(after_help = "Example:\n  twinlog up --data /var/lib/twinlog/data --state /var/lib/twinlog/state")]
    Up(Up),
    /// Mirror an embedded source (or a real one) into a temporary folder, with progress, figures and a verdict.
    #[command(after_help = "Examples:\n  twinlog demo\n  twinlog demo --bytes 8GiB --partitions 16")]
    Demo(Demo),
    /// Create, list, describe, alter and delete mirrors.
    #[command(subcommand)]
    Mirrors(Mirrors),
    /// Start, pause, resume and stop the topics of a mirror.
    #[command(subcommand)]
    Topics(Topics),
    /// Last mirrored offsets (and epochs): where mirrored data ended when a topic was stopped.
    #[command(after_help = "Examples:\n  twinlog lmo\n  twinlog lmo dr --topic orders --topic payments:3")]
    Lmo(Lmo),
    /// Hand a mirror over to a stock broker that is not running yet: its topics, with their ids, offsets, groups and transactions.
    #[command(
        after_help = "Examples:\n  twinlog promote dr --to /etc/kafka/server.properties --dry-run\n  twinlog promote dr --adopt localhost:9092 --log-dir /var/lib/kafka/data --topic orders"
    )]
    Promote(Promote),
    /// Take a mirror back from the stopped broker that it was handed over to, cut where mirroring ended; mirroring goes on there.
    #[command(
        after_help = "Examples:\n  twinlog reclaim dr --from /etc/kafka/server.properties --dry-run\n  twinlog reclaim dr --from /etc/kafka/server.properties --lmo-from b.example:9192 --dry-run"
    )]
    Reclaim(Reclaim),
    /// Rehearse a hand-over on copies, with a broker that is started, checked, measured and thrown away; mirroring goes on.
    #[command(
        after_help = "Examples:\n  twinlog drill dr\n  twinlog drill dr --topic orders --start-command /opt/kafka/bin/kafka-server-start.sh --json"
    )]
    Drill(Drill),
    /// List, add and remove access control entries: who may do what.
    #[command(subcommand)]
    Acls(Acls),
    /// What an operator looks at first: planes, mirrors, lag, and what is wrong.
    #[command(after_help = "Examples:\n  twinlog status\n  twinlog status --watch --interval 2s")]
    Status(Status),
    /// Check log directories offline, or compare a mirror with its source batch by batch.
    #[command(
        after_help = "Examples:\n  twinlog verify /var/lib/twinlog/data\n  twinlog verify --mirror dr --state /var/lib/twinlog/state --against-source"
    )]
    Verify(Verify),
    /// Print any file that a broker or twinlog writes: segments, indexes, snapshots, checkpoints, state records.
    #[command(after_help = "Example:\n  twinlog dump data/orders-0/00000000000000000000.log")]
    Dump(Dump),
    /// Print shell completions.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write man pages, one for each command, into a folder.
    Man {
        /// The folder; it must exist.
        folder: PathBuf,
    },
    /// Become a plane that ends with its parent; for `up` only.
    #[command(name = RUN_TIED, hide = true)]
    RunTied {
        /// The process that must be the parent.
        parent: u32,
        /// The plane.
        program: PathBuf,
        /// Its command line.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

/// How logs are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line for people.
    Human,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// As the planes take it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Json => "json",
        }
    }
}

/// `twinlog up`.
#[derive(Debug, Args)]
pub struct Up {
    /// The configuration file of both planes.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folders for partition directories, one for each disk.
    #[arg(long, value_name = "DIR[,DIR...]", value_delimiter = ',')]
    pub data: Vec<PathBuf>,
    /// The folder for everything of our own.
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Where the Kafka protocol is served [default: 127.0.0.1:9192].
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Where /metrics and /health are served [default: 127.0.0.1:9644].
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics: Option<String>,
    /// Cores of the data plane: a number, or a list of CPUs such as 2-5,8 [default: 1].
    #[arg(long, value_name = "LIST|N")]
    pub cores: Option<String>,
    /// How logs are printed on stderr; their level is in the environment variable TWINLOG_LOG.
    #[arg(long, value_enum, default_value = "human")]
    pub log_format: LogFormat,
}

/// `twinlog demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// How much to mirror, such as 512MiB or 2GiB.
    #[arg(long, default_value = "2GiB")]
    pub bytes: String,
    /// Partitions of the embedded source's topic.
    #[arg(long, default_value_t = 8)]
    pub partitions: u32,
    /// Mirror the topics of this cluster instead of the embedded source.
    #[arg(long, value_name = "HOST:PORT")]
    pub source: Option<String>,
}

/// Where the control plane is, and how the answer is printed.
#[derive(Debug, Args, Clone)]
pub struct Ask {
    /// The control plane.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9192")]
    pub bootstrap_server: String,
    /// Client settings with Kafka's keys (security.protocol, ...).
    #[arg(long, value_name = "FILE.properties")]
    pub command_config: Option<PathBuf>,
    /// One JSON document with stable field names.
    #[arg(long)]
    pub json: bool,
}

/// `twinlog mirrors`.
#[derive(Debug, Subcommand)]
pub enum Mirrors {
    /// Create a mirror of a source cluster.
    #[command(
        after_help = "Example:\n  twinlog mirrors create dr --source kafka-1:9092,kafka-2:9092 --set mirror.fetch.wait.max.ms=500"
    )]
    Create {
        /// The mirror's name: 1 to 240 of letters, digits, `.`, `_`, `-`.
        name: String,
        /// Bootstrap servers of the source cluster.
        #[arg(long, value_name = "HOST:PORT[,HOST:PORT]")]
        source: Option<String>,
        /// Settings in a Java properties file.
        #[arg(long, value_name = "FILE.properties")]
        mirror_config: Option<PathBuf>,
        /// One setting; wins over the file.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
        #[command(flatten)]
        ask: Ask,
    },
    /// List mirrors.
    List {
        #[command(flatten)]
        ask: Ask,
    },
    /// Describe mirrors: state and offsets of each partition.
    #[command(
        after_help = "Examples:\n  twinlog mirrors describe\n  twinlog mirrors describe dr --topic orders --json\n\nMore than 200 partitions are shown as one row a topic, unless --partitions is given; --json always has all."
    )]
    Describe {
        /// One mirror; without it, all.
        name: Option<String>,
        /// Only this topic.
        #[arg(long)]
        topic: Vec<String>,
        /// A row for each partition, however many there are.
        #[arg(long)]
        partitions: bool,
        #[command(flatten)]
        ask: Ask,
    },
    /// Change settings of a mirror.
    #[command(after_help = "Example:\n  twinlog mirrors alter dr --set mirror.fetch.wait.max.ms=250")]
    Alter {
        /// The mirror.
        name: String,
        /// A setting; without a value it goes back to its default.
        #[arg(long, value_name = "KEY=VALUE", required = true)]
        set: Vec<String>,
        #[command(flatten)]
        ask: Ask,
    },
    /// Bring topics, their settings, group offsets, access rules and quotas in line with the source now, or show what that would change.
    #[command(
        after_help = "Examples:\n  twinlog mirrors sync dr --dry-run\n  twinlog mirrors sync dr --what topics,configs --json"
    )]
    Sync(SyncArgs),
    /// Delete a mirror all of whose topics are stopped; files stay.
    #[command(after_help = "Example:\n  twinlog topics stop dr --include '.*' --wait && twinlog mirrors delete dr")]
    Delete {
        /// The mirror.
        name: String,
        /// Also when topics are handed over to a broker: they are never taken back.
        #[arg(long)]
        handed_over: bool,
        #[command(flatten)]
        ask: Ask,
    },
}

/// `twinlog mirrors sync`.
#[derive(Debug, Args)]
pub struct SyncArgs {
    /// One mirror; without it, all.
    pub mirror: Option<String>,
    /// Change nothing, show what would be changed.
    #[arg(long)]
    pub dry_run: bool,
    /// Only these: topics, configs, groups, acls, quotas.
    #[arg(long, value_name = "KIND[,KIND...]", value_delimiter = ',')]
    pub what: Vec<String>,
    /// Where the control plane is.
    #[command(flatten)]
    pub ask: Ask,
}

/// `twinlog lmo`.
#[derive(Debug, Args)]
pub struct Lmo {
    /// One mirror; without it, all.
    pub mirror: Option<String>,
    /// A topic, or one partition of it; may be given again.
    #[arg(long, value_name = "TOPIC[:PARTITION]")]
    pub topic: Vec<String>,
    /// Where the control plane is.
    #[command(flatten)]
    pub ask: Ask,
}

/// `twinlog status`.
#[derive(Debug, Args)]
pub struct Status {
    /// Show it again and again: a live view on a terminal (q ends it), plain lines elsewhere.
    #[arg(long)]
    pub watch: bool,
    /// How often with --watch.
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub interval: Duration,
    /// Where the control plane is.
    #[command(flatten)]
    pub ask: Ask,
}

/// `twinlog verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// Data directories or single partition directories.
    #[arg(value_name = "DIR", required_unless_present = "mirror")]
    pub directories: Vec<PathBuf>,
    /// The partitions of this mirror, as its assignment in STATE names them.
    #[arg(long, requires = "state")]
    pub mirror: Option<String>,
    /// The state directory.
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Fetch everything again from the source and compare it batch by batch.
    #[arg(long, requires = "mirror")]
    pub against_source: bool,
    /// One JSON document with stable field names.
    #[arg(long)]
    pub json: bool,
}

/// `twinlog dump`.
#[derive(Debug, Args)]
pub struct Dump {
    /// The files.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Print the records within batches too.
    #[arg(long)]
    pub records: bool,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
}

/// The name of a mirror: files are named by it, before anybody is asked whether there is such a mirror.
fn mirror_name(text: &str) -> Result<String, String> {
    match twinlog_proto::ids::is_legal_name(text) {
        true => Ok(text.to_owned()),
        false => Err("no mirror has such a name: letters, digits, '.', '_' and '-' make one".to_owned()),
    }
}

/// A time such as `500ms`, `30s`, `5m` or `2h`.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 =
        number.parse().map_err(|cause| format!("{text:?} is no time: {cause}; write 30s, 500ms, 5m or 2h"))?;
    let millis = match unit {
        "ms" => 1,
        "s" | "" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(format!("{unit:?} is no unit of time; write 30s, 500ms, 5m or 2h")),
    };
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(|| format!("{text:?} is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Twinlog::command().debug_assert();
    }

    #[test]
    fn times_need_a_number_and_a_known_unit() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        for text in ["", "s", "3d", "99999999999999999999s", "18446744073709551615h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn verify_wants_directories_or_a_mirror_with_its_state() {
        assert!(Twinlog::try_parse_from(["twinlog", "verify"]).is_err());
        assert!(Twinlog::try_parse_from(["twinlog", "verify", "--mirror", "dr"]).is_err());
        assert!(
            Twinlog::try_parse_from(["twinlog", "verify", "--mirror", "dr", "--state", "s", "--against-source"])
                .is_ok()
        );
    }
}
