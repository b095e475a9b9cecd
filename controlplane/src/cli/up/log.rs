//! The few log lines of `twinlog up` itself, on stderr among those of the planes and in the same format.

use super::Failure;
use crate::cli::args::LogFormat;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The environment variable with the level, as the planes read it.
const LEVEL_VARIABLE: &str = "TWINLOG_LOG";

/// Begins to log.
///
/// # Errors
/// When the level is not understood.
pub(super) fn init(format: LogFormat) -> Result<(), Failure> {
    let filter = EnvFilter::builder()
        .with_env_var(LEVEL_VARIABLE)
        .with_default_directive(LevelFilter::INFO.into())
        .from_env()
        .map_err(|cause| {
            Failure::new(format_args!("{LEVEL_VARIABLE} is not usable"), cause, "set it to info or debug")
        })?;
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
