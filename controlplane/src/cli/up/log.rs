//! The few log lines of `twinlog up` itself, on stderr among those of the planes and in the same format.

use crate::cli::args::LogFormat;
use crate::failure::Failure;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;
use twinlog_proto::log_level;

/// Begins to log.
///
/// # Errors
/// When the level is not understood.
pub(super) fn init(format: LogFormat) -> Result<(), Failure> {
    let set = std::env::var_os(log_level::VARIABLE).map(|value| value.to_string_lossy().into_owned());
    let directives = log_level::directives(set.as_deref(), "info")
        .map_err(|why| Failure::new("the log cannot begin", why, "without it, info and above is logged"))?;
    let filter = EnvFilter::new(directives);
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    let begun = match format {
        LogFormat::Human => lines.with_ansi(coloured()).try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    begun.map_err(|cause| Failure::new("logging cannot begin", cause, "report this"))
}

/// Colours are for terminals, and for people who want them (no-color.org).
fn coloured() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
