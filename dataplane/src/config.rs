//! pure: text and flags to a configuration of final types, every bound checked, once.
//!
//! One file serves both planes: `[node]` and `[dataplane]` are read here, the other section is only known by name. A flag wins
//! over the file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::core::pin::CoreChoice;
use crate::limits::{
    CONNECTIONS_PER_BROKER, CONNECTIONS_PER_BROKER_MAX, FLUSH_BYTES, FLUSH_INTERVAL_MS, FLUSH_INTERVAL_MS_MAX,
    PIECES_PER_CORE, PIECES_PER_CORE_MAX, PIECES_PER_CORE_MIN,
};

/// What the data plane was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The directories that hold partitions; absolute.
    pub data: Vec<PathBuf>,
    /// Our own files; absolute.
    pub state: PathBuf,
    /// Which cores to run on.
    pub cores: CoreChoice,
    /// How long mirrored bytes may stay without a sync.
    pub flush_interval: Duration,
    /// How many bytes of one core may.
    pub flush_bytes: u64,
    /// Connections to one source broker, per core.
    pub connections_per_broker: u32,
    /// Receive buffers of 1 MiB, per core.
    pub pieces_per_core: usize,
    /// Writes go past the page cache where the filesystem allows it.
    pub direct_io: bool,
}

/// What the command line gave; a `None` leaves it to the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--data`, split at commas.
    pub data: Vec<PathBuf>,
    /// `--state`.
    pub state: Option<PathBuf>,
    /// `--cores`.
    pub cores: Option<String>,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file's text is wrong; the cause names the line and the key.
    #[error("the configuration file {} is not usable: {cause}; correct that line", file.display())]
    Text {
        /// The file.
        file: PathBuf,
        /// What is wrong, in one line.
        cause: String,
    },
    /// A value outside of its bounds.
    #[error("{key} = {value} is not usable: {bounds}")]
    Value {
        /// The key or flag.
        key: &'static str,
        /// The value found.
        value: String,
        /// What is allowed.
        bounds: String,
    },
    /// Something that has no default is missing.
    #[error("no {what} is given: add {remedy}")]
    Missing {
        /// What.
        what: &'static str,
        /// The flag or key.
        remedy: &'static str,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    #[serde(default)]
    node: NodeText,
    #[serde(default)]
    dataplane: DataPlaneText,
    /// Read by the control plane.
    #[serde(default, rename = "controlplane")]
    _controlplane: toml::Table,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeText {
    #[serde(default)]
    data: Vec<PathBuf>,
    state: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DataPlaneText {
    cores: Option<CoresText>,
    flush_interval_ms: Option<u64>,
    flush_bytes: Option<u64>,
    connections_per_broker: Option<u32>,
    pieces_per_core: Option<usize>,
    direct_io: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum CoresText {
    Count(u32),
    List(String),
}

impl Config {
    /// Reads the text of a configuration file (named `file` in errors) and lets the flags win. Relative paths count from
    /// `current`.
    ///
    /// # Errors
    /// A key that is not known, or a value outside of its bounds, by name.
    pub fn parse(file: &Path, text: &str, flags: &Flags, current: &Path) -> Result<Self, ConfigError> {
        let parsed: FileText = toml::from_str(text).map_err(|cause| {
            let cause = cause.to_string().trim().replace('\n', " | ");
            ConfigError::Text { file: file.to_owned(), cause }
        })?;
        Self::from_parts(parsed, flags, current)
    }

    /// A configuration from flags alone.
    ///
    /// # Errors
    /// As [`Config::parse`].
    pub fn from_flags(flags: &Flags, current: &Path) -> Result<Self, ConfigError> {
        Self::from_parts(FileText::default(), flags, current)
    }

    fn from_parts(text: FileText, flags: &Flags, current: &Path) -> Result<Self, ConfigError> {
        let data = if flags.data.is_empty() { text.node.data } else { flags.data.clone() };
        if data.is_empty() {
            let remedy = "--data DIR[,DIR] or `data` in section [node]";
            return Err(ConfigError::Missing { what: "data directory", remedy });
        }
        let Some(state) = flags.state.clone().or(text.node.state) else {
            let remedy = "--state DIR or `state` in section [node]";
            return Err(ConfigError::Missing { what: "state directory", remedy });
        };
        let plane = text.dataplane;
        let cores = match (&flags.cores, plane.cores) {
            (Some(text), _) => CoreChoice::parse(text)?,
            (None, Some(CoresText::Count(count))) => CoreChoice::parse(&count.to_string())?,
            (None, Some(CoresText::List(text))) => CoreChoice::parse(&text)?,
            (None, None) => CoreChoice::Count(1),
        };
        let interval_ms = plane.flush_interval_ms.unwrap_or(FLUSH_INTERVAL_MS);
        within("flush_interval_ms", interval_ms, 1, FLUSH_INTERVAL_MS_MAX)?;
        let flush_bytes = plane.flush_bytes.unwrap_or(FLUSH_BYTES);
        within("flush_bytes", flush_bytes, 1, u64::MAX)?;
        let connections = plane.connections_per_broker.unwrap_or(CONNECTIONS_PER_BROKER);
        within("connections_per_broker", connections.into(), 1, CONNECTIONS_PER_BROKER_MAX.into())?;
        let pieces = plane.pieces_per_core.unwrap_or(PIECES_PER_CORE);
        within("pieces_per_core", pieces as u64, PIECES_PER_CORE_MIN as u64, PIECES_PER_CORE_MAX as u64)?;
        Ok(Self {
            data: data.iter().map(|folder| current.join(folder)).collect(),
            state: current.join(state),
            cores,
            flush_interval: Duration::from_millis(interval_ms),
            flush_bytes,
            connections_per_broker: connections,
            pieces_per_core: pieces,
            direct_io: plane.direct_io.unwrap_or(true),
        })
    }
}

fn within(key: &'static str, value: u64, min: u64, max: u64) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::Value { key, value: value.to_string(), bounds: format!("{min} to {max} is allowed") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(Path::new("/c/twinlog.toml"), text, &Flags::default(), Path::new("/c"))
    }

    #[test]
    fn the_file_that_is_shipped_says_what_the_defaults_are() {
        let shipped = parse(include_str!("../../deploy/twinlog.toml")).unwrap();
        let folders = "[node]\ndata = [\"/var/lib/twinlog/data\"]\nstate = \"/var/lib/twinlog/state\"";
        assert_eq!(shipped, parse(folders).unwrap());
    }

    #[test]
    fn a_file_with_the_other_planes_section_reads_and_relative_paths_count_from_the_working_directory() {
        let config = parse(
            "[node]\ndata = [\"d\"]\nstate = \"/s\"\n[dataplane]\ncores = 2\nflush_interval_ms = 50\n\
             [controlplane]\nlisten = \"x\"",
        )
        .unwrap();
        assert_eq!(config.data, [Path::new("/c/d")]);
        assert_eq!((config.cores, config.flush_interval), (CoreChoice::Count(2), Duration::from_millis(50)));
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let error = parse("[node]\ndata = [\"d\"]\nstate = \"s\"\n[dataplane]\nflush_intervall_ms = 1").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("flush_intervall_ms") && text.contains("line 5") && !text.contains('\n'), "{text}");
    }

    #[test]
    fn a_flag_wins_over_the_file() {
        let flags = Flags { data: vec!["e".into()], state: None, cores: Some("0-1".to_owned()) };
        let text = "[node]\ndata = [\"d\"]\nstate = \"s\"\n[dataplane]\ncores = 1";
        let config = Config::parse(Path::new("f"), text, &flags, Path::new("/c")).unwrap();
        assert_eq!((config.data, config.cores), (vec![PathBuf::from("/c/e")], CoreChoice::List(vec![0, 1])));
    }

    #[test]
    fn what_is_missing_or_out_of_bounds_is_named_with_its_remedy() {
        assert!(parse("").unwrap_err().to_string().contains("--data"));
        assert!(parse("[node]\ndata = [\"d\"]").unwrap_err().to_string().contains("--state"));
        let text = "[node]\ndata = [\"d\"]\nstate = \"s\"\n[dataplane]\nconnections_per_broker = 0";
        assert!(parse(text).unwrap_err().to_string().contains("connections_per_broker = 0"));
    }
}
