//! pure: the command line of `twinlog topics`.

use super::{Ask, duration};
use clap::{Args, Subcommand};
use std::time::Duration;

/// `twinlog topics`.
#[derive(Debug, Subcommand)]
pub enum Topics {
    /// Start mirroring topics.
    #[command(
        after_help = "Examples:\n  twinlog topics start dr --topic orders --wait\n  twinlog topics start dr --include 'orders-.*' --exclude 'orders-tmp.*'"
    )]
    Start(TopicsArgs),
    /// Stop mirroring topics and record where mirrored data ends.
    #[command(after_help = "Example:\n  twinlog topics stop dr --topic orders --wait --timeout 60s")]
    Stop(TopicsArgs),
    /// Let records wait at the source; the topics stay read-only here.
    #[command(after_help = "Example:\n  twinlog topics pause dr --topic orders --wait")]
    Pause(TopicsArgs),
    /// Go on where a pause began.
    #[command(after_help = "Example:\n  twinlog topics resume dr --include 'orders-.*'")]
    Resume(TopicsArgs),
}

/// The topics a command is about.
#[derive(Debug, Args)]
pub struct TopicsArgs {
    /// The mirror.
    pub mirror: String,
    /// A topic by name; may be given again.
    #[arg(long)]
    pub topic: Vec<String>,
    /// Topics whose whole name matches (RE2 syntax); may be given again.
    #[arg(long, value_name = "REGEX")]
    pub include: Vec<String>,
    /// Topics to leave out, whatever else names them; may be given again.
    #[arg(long, value_name = "REGEX")]
    pub exclude: Vec<String>,
    /// Start only: cut everything that is here and mirror anew.
    #[arg(long)]
    pub from_scratch: bool,
    /// Wait until every partition is there (MIRRORING after start and resume, STOPPED after stop, PAUSED after pause).
    #[arg(long)]
    pub wait: bool,
    /// How long to wait.
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub timeout: Duration,
    /// Where the control plane is.
    #[command(flatten)]
    pub ask: Ask,
}
