//! pure: the command line of `twinlog-bench`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::units::parse_bytes;

/// Measure twinlog: an embedded source, the floor, whole runs.
#[derive(Debug, Parser)]
#[command(name = "twinlog-bench", version, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the embedded source: a Kafka broker whose topics are computed from a seed
    Serve(Serve),
    /// Measure the floor: receive, check and write in one loop, the denominator of every other figure
    Floor(Floor),
    /// Mirror the embedded source (or a real one) through both planes, measure, and compare the bytes
    Run(Run),
}

/// What the embedded source holds.
#[derive(Debug, Clone, Args)]
pub struct Content {
    /// Number of partitions of each topic
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub partitions: u32,
    /// Number of topics; with more than one they are called NAME-00000, NAME-00001 and so on
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub topics: u32,
    /// How many of the topics (the first ones) hold data [default: all]
    #[arg(long, value_name = "TOPICS")]
    pub topics_with_data: Option<u32>,
    /// Bytes of all partitions together at the start, rounded up to whole batches
    #[arg(long, default_value = "2GiB", value_parser = parse_bytes)]
    pub bytes: u64,
    /// Bytes of every record batch, header included
    #[arg(long, default_value = "64KiB", value_parser = parse_bytes)]
    pub batch_bytes: u64,
    /// Bytes of a record's value
    #[arg(long, default_value = "1000", value_parser = parse_bytes)]
    pub record_bytes: u64,
    /// Everything random is drawn from it
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Name of the topic
    #[arg(long, default_value = "bench")]
    pub topic: String,
}

/// `twinlog-bench serve`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Commands on standard input:
  pace RATE SECONDS   make batches fetchable at RATE bytes per second, on a fixed schedule; the answer on standard
                      output says when each is due: `pace start_ns=N rate=N batch_bytes=N first=K batches=N`, and
                      `pace done` after the last. Paced batch k (counted from K) goes to partition k mod PARTITIONS, which
                      counts through all topics that hold data.
  quit                end

Examples:
  twinlog-bench serve --listen 127.0.0.1:9092 --partitions 4 --bytes 1GiB
  twinlog-bench serve --listen 127.0.0.1:9092 --topics 5000 --partitions 10 --topics-with-data 10 --bytes 1GiB
  twinlog-bench serve --bytes 0 --rate 50MB --duration 10 --batch-bytes 16KiB")]
pub struct Serve {
    /// Where to listen; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// What the source holds.
    #[command(flatten)]
    pub content: Content,
    /// The leader epoch stamped on every batch
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..))]
    pub leader_epoch: i32,
    /// Make batches fetchable at this many bytes per second, after the start (or after --start-file appears)
    #[arg(long, requires = "duration", value_parser = parse_bytes)]
    pub rate: Option<u64>,
    /// For how many seconds
    #[arg(long, requires = "rate")]
    pub duration: Option<f64>,
    /// Begin the paced phase when this file appears
    #[arg(long, requires = "rate")]
    pub start_file: Option<PathBuf>,
    /// Pin the serving threads to this core
    #[arg(long)]
    pub core: Option<usize>,
    /// End when standard input ends
    #[arg(long)]
    pub until_stdin_ends: bool,
}

/// Files that the floor writes: one for each partition of the large profile, as the mirror has them. With one file the floor stays
/// further below what fio writes.
pub const FILES: u16 = 8;

/// The floor's receive buffer: a larger one does not make it faster and falls out of cache.
pub const RECEIVE_BUFFER_BYTES: u32 = 4 << 20;

/// Pieces of memory that the floor works with unless told otherwise: as many as a core of the data plane has.
pub const PIECES: u16 = 32;

/// `twinlog-bench floor`.
#[derive(Debug, Clone, Args)]
pub struct Floor {
    /// What the source holds.
    #[command(flatten)]
    pub content: Content,
    /// Which parts to run
    #[arg(long, value_enum, default_value = "all")]
    pub mode: FloorMode,
    /// Folder on the disk to write to; the file has no name and is gone afterwards
    #[arg(long, default_value = ".")]
    pub dir: PathBuf,
    /// A running `serve` with the same content; by default one is started
    #[arg(long)]
    pub source: Option<SocketAddr>,
    /// Pin the loop to this core [default: the last one]
    #[arg(long)]
    pub core: Option<usize>,
    /// Pin the source to this core [default: the first one]
    #[arg(long)]
    pub source_core: Option<usize>,
    /// Pieces of 1 MiB: one receives while the others are written, so it is also the depth of the writes
    #[arg(long, default_value_t = PIECES, value_parser = clap::value_parser!(u16).range(2..=512))]
    pub pieces: u16,
    /// Files that the pieces are written to in turn
    #[arg(long, default_value_t = FILES, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub files: u16,
    /// Bytes of the socket's receive buffer (SO_RCVBUF)
    #[arg(long, default_value_t = RECEIVE_BUFFER_BYTES, value_parser = clap::value_parser!(u32).range(65_536..=1 << 30))]
    pub receive_buffer: u32,
    /// Measure this many times; the median by rate is reported
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// One JSON document instead of a line
    #[arg(long)]
    pub json: bool,
}

/// Which parts of the floor run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FloorMode {
    /// Receive, check, write
    All,
    /// Receive and check
    Receive,
    /// Write
    Write,
}

impl FloorMode {
    /// For people and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "receive, check, write",
            Self::Receive => "receive, check",
            Self::Write => "write",
        }
    }
}

/// `twinlog-bench run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The last line on standard output is `verdict: identical (N batches, M bytes)` or `verdict: DIFFERENT ...`; exit code 1 when
anything differs.

Examples:
  twinlog-bench run demo
  twinlog-bench run small --bytes 1GiB --json
  twinlog-bench run demo --source kafka-1:9092 --topic orders
  twinlog-bench run floor-ratio large --runs 5
  twinlog-bench run control --topics 5000 --partitions 10")]
pub struct Run {
    /// Sizes: demo 2 GiB of 64 KiB batches in 8 partitions, large 4 GiB of 1 MiB batches in 8, small 2 GiB of 4 KiB batches in 200;
    /// floor-ratio measures the floor and the mirror in turn; control measures the control plane with many partitions
    #[arg(value_enum)]
    pub profile: Profile,
    /// Which sizes floor-ratio compares
    #[arg(value_enum, required_if_eq("profile", "floor-ratio"))]
    pub sizes: Option<Sizes>,
    /// Bytes of all partitions together
    #[arg(long, value_parser = parse_bytes)]
    pub bytes: Option<u64>,
    /// Number of partitions; with control, of each topic
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub partitions: Option<u32>,
    /// Bytes of every record batch
    #[arg(long, value_parser = parse_bytes)]
    pub batch_bytes: Option<u64>,
    /// Bytes of a record's value
    #[arg(long, value_parser = parse_bytes)]
    pub record_bytes: Option<u64>,
    /// Everything random is drawn from it
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Mirror this cluster instead of the embedded source
    #[arg(long, value_name = "HOST:PORT")]
    pub source: Option<String>,
    /// Topics of --source; by default all that are not internal
    #[arg(long, requires = "source")]
    pub topic: Vec<String>,
    /// Folder on the disk to mirror to [default: TMPDIR, else /var/tmp, else here]
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Leave the mirrored files and logs where they are
    #[arg(long)]
    pub keep: bool,
    /// Bytes per second of the paced phase, 0 for none
    #[arg(long, default_value = "50MB", value_parser = parse_bytes)]
    pub pace: u64,
    /// Seconds of the paced phase
    #[arg(long, default_value_t = 5.0)]
    pub pace_seconds: f64,
    /// How often the data plane makes what it wrote durable
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub flush_interval_ms: u64,
    /// Topics of control [default: 5000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub topics: Option<u32>,
    /// Records of the state log of control
    #[arg(long, default_value_t = 1_000_000)]
    pub records: u64,
    /// Which parts of control run
    #[arg(long, value_enum, default_value = "all")]
    pub part: ControlPart,
    /// Passes of floor-ratio
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// One JSON document instead of a table; the verdict is in it too
    #[arg(long)]
    pub json: bool,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// For a first look
    Demo,
    /// Large batches
    Large,
    /// Small batches over many partitions
    Small,
    /// The floor and the mirror in turn
    FloorRatio,
    /// The control plane with a long log and many partitions
    Control,
}

/// Parts of the control profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ControlPart {
    /// Both
    All,
    /// Loading a long state log
    Log,
    /// Many partitions of the embedded source
    Cluster,
}

/// Sizes of batches and partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sizes {
    /// 1 MiB batches in 8 partitions
    Large,
    /// 4 KiB batches in 200 partitions
    Small,
}

impl Run {
    /// The content of the embedded source.
    #[must_use]
    pub fn content(&self) -> Content {
        let (bytes, partitions, batch_bytes) = match (self.profile, self.sizes) {
            (Profile::Large, _) | (Profile::FloorRatio, Some(Sizes::Large)) => (4 << 30, 8, 1 << 20),
            (Profile::Small, _) | (Profile::FloorRatio, Some(Sizes::Small)) => (2 << 30, 200, 4 << 10),
            _ => (2 << 30, 8, 64 << 10),
        };
        Content {
            partitions: self.partitions.unwrap_or(partitions),
            topics: 1,
            topics_with_data: None,
            bytes: self.bytes.unwrap_or(bytes),
            batch_bytes: self.batch_bytes.unwrap_or(batch_bytes),
            record_bytes: self.record_bytes.unwrap_or(1000),
            seed: self.seed,
            topic: "bench".to_owned(),
        }
    }
}
