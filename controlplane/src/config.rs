//! pure: text and flags to a configuration of final types, every bound checked, once.
//!
//! One file serves both planes: `[node]` and `[controlplane]` are read here, the sections of the others are only known by
//! name. A flag wins over the file.

use crate::error::Fatal;
use crate::limits;
use crate::metrics::Detail;
use crate::mirror::authorizer::Authorizer;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use twinlog_proto::security::acl::TEXT_BYTES_MAX;

/// Where the Kafka protocol is served when nothing else is said.
pub const LISTEN_DEFAULT: &str = "127.0.0.1:9192";
/// Where metrics are served when nothing else is said.
pub const METRICS_DEFAULT: &str = "127.0.0.1:9644";
/// Data directories of one node.
pub const DATA_DIRECTORIES_MAX: usize = 64;

/// What the control plane was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The directories that partitions are placed in; absolute.
    pub data: Vec<PathBuf>,
    /// Our own files; absolute.
    pub state: PathBuf,
    /// The Kafka protocol.
    pub listen: SocketAddr,
    /// Metrics and health, over HTTP.
    pub metrics: SocketAddr,
    /// When a failed partition is tried again.
    pub retry: RetryRules,
    /// How often sources are asked for new topics and partitions.
    pub refresh_interval: Duration,
    /// How callers are judged.
    pub authorizer: Authorizer,
    /// Metrics for each topic and each partition.
    pub metrics_detail: Detail,
}

/// When a failed partition is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryRules {
    /// The first limit of the delay, in milliseconds.
    pub initial_ms: u64,
    /// The last limit of the delay, in milliseconds.
    pub max_ms: u64,
    /// Attempts; 0 = none.
    pub attempts_max: i16,
}

/// What the command line gave; a `None` leaves it to the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--data`, split at commas.
    pub data: Vec<PathBuf>,
    /// `--state`.
    pub state: Option<PathBuf>,
    /// `--listen`.
    pub listen: Option<String>,
    /// `--metrics`.
    pub metrics: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    #[serde(default)]
    node: NodeText,
    #[serde(default)]
    controlplane: ControlPlaneText,
    /// Read by the data plane.
    #[serde(default, rename = "dataplane")]
    _dataplane: toml::Table,
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
struct ControlPlaneText {
    listen: Option<String>,
    metrics: Option<String>,
    retry_initial_ms: Option<u64>,
    retry_max_ms: Option<u64>,
    retry_attempts_max: Option<i16>,
    refresh_interval_ms: Option<u64>,
    authorizer: Option<String>,
    #[serde(default)]
    super_users: Vec<String>,
    #[serde(default)]
    metrics_per_topic: bool,
    #[serde(default)]
    metrics_per_partition: bool,
}

impl Config {
    /// Reads the text of a configuration file (named `file` in errors) and lets the flags win.
    ///
    /// # Errors
    /// A key that is not known, or a value outside of its bound, by name.
    pub fn parse(file: &Path, text: &str, flags: &Flags, current: &Path) -> Result<Self, Fatal> {
        let what = format!("the configuration file {} is not usable", file.display());
        let parsed: FileText = toml::from_str(text).map_err(|cause| {
            let cause = cause.to_string();
            Fatal::new(&what, cause.trim().replace('\n', " | "), "correct that line; the manual lists all keys")
        })?;
        Self::from_parts(parsed, flags, current)
    }

    /// A configuration from flags alone.
    ///
    /// # Errors
    /// As [`Config::parse`].
    pub fn from_flags(flags: &Flags, current: &Path) -> Result<Self, Fatal> {
        Self::from_parts(FileText::default(), flags, current)
    }

    fn from_parts(text: FileText, flags: &Flags, current: &Path) -> Result<Self, Fatal> {
        let missing = |what: &str, flag: &str| {
            Fatal::new(format_args!("no {what} is given"), "nothing has a default place", format_args!("add {flag}"))
        };
        let data = if flags.data.is_empty() { text.node.data } else { flags.data.clone() };
        if data.is_empty() {
            return Err(missing("data directory", "--data DIR[,DIR] or `data` in section [node]"));
        }
        if data.len() > DATA_DIRECTORIES_MAX {
            let why = format!("{} directories are more than {DATA_DIRECTORIES_MAX}", data.len());
            return Err(Fatal::new("--data is not usable", why, "give fewer directories"));
        }
        let state = flags.state.clone().or(text.node.state);
        let Some(state) = state else {
            return Err(missing("state directory", "--state DIR or `state` in section [node]"));
        };
        let data: Vec<PathBuf> = data.iter().map(|folder| current.join(folder)).collect();
        let state = current.join(state);
        apart(&data, &state)?;
        let cp = text.controlplane;
        let retry = RetryRules {
            initial_ms: cp.retry_initial_ms.unwrap_or(limits::RETRY_INITIAL_MS),
            max_ms: cp.retry_max_ms.unwrap_or(limits::RETRY_MAX_MS),
            attempts_max: cp.retry_attempts_max.unwrap_or(limits::RETRY_ATTEMPTS_MAX),
        };
        if retry.initial_ms == 0 || retry.initial_ms > retry.max_ms || retry.attempts_max < 0 {
            return Err(Fatal::new(
                "the retry keys of section [controlplane] are not usable",
                format_args!("{retry:?}"),
                "choose 1 <= retry_initial_ms <= retry_max_ms and retry_attempts_max >= 0",
            ));
        }
        let refresh_ms = cp.refresh_interval_ms.unwrap_or(limits::REFRESH_INTERVAL_MS);
        let bounds = limits::REFRESH_INTERVAL_MS_MIN..=limits::REFRESH_INTERVAL_MS_MAX;
        if !bounds.contains(&refresh_ms) {
            let what = "`refresh_interval_ms` of section [controlplane] is not usable";
            let remedy = format!("choose {} to {}", bounds.start(), bounds.end());
            return Err(Fatal::new(what, format_args!("{refresh_ms} is too short or too long"), remedy));
        }
        Ok(Self {
            data,
            state,
            listen: address("listen", flags.listen.as_deref().or(cp.listen.as_deref()).unwrap_or(LISTEN_DEFAULT))?,
            metrics: address("metrics", flags.metrics.as_deref().or(cp.metrics.as_deref()).unwrap_or(METRICS_DEFAULT))?,
            retry,
            refresh_interval: Duration::from_millis(refresh_ms),
            authorizer: authorizer(cp.authorizer.as_deref(), cp.super_users)?,
            metrics_detail: Detail { topics: cp.metrics_per_topic, partitions: cp.metrics_per_partition },
        })
    }
}

/// A stock broker does not start on a log directory with a folder in it that is no partition.
fn apart(data: &[PathBuf], state: &Path) -> Result<(), Fatal> {
    match data.iter().find(|folder| state.starts_with(folder)) {
        None => Ok(()),
        Some(folder) => Err(Fatal::new(
            format_args!("the state directory {} is not usable", state.display()),
            format_args!(
                "it lies in the data directory {}, which could then be no broker's log directory",
                folder.display()
            ),
            "give two folders side by side",
        )),
    }
}

/// The users are looked at in any case, so that a mistake shows before it matters.
fn authorizer(kind: Option<&str>, super_users: Vec<String>) -> Result<Authorizer, Fatal> {
    let unusable = |why: String, remedy: &str| {
        Err(Fatal::new("the authorizer keys of section [controlplane] are not usable", why, remedy))
    };
    if super_users.len() > limits::SUPER_USERS_MAX {
        let why = format!("{} super users are more than {}", super_users.len(), limits::SUPER_USERS_MAX);
        return unusable(why, "name fewer, and give the others rights with `twinlog acls add`");
    }
    for user in &super_users {
        let name = user.strip_prefix("User:").unwrap_or_default();
        if name.is_empty() || name == "*" || user.len() > TEXT_BYTES_MAX {
            return unusable(format!("super user {user:?} is no principal"), "write User:NAME, as User:admin");
        }
    }
    match kind {
        None | Some("none") => Ok(Authorizer::None),
        Some("acl") => Ok(Authorizer::Acl { super_users: super_users.into_iter().collect() }),
        Some(other) => unusable(format!("there is no authorizer {other:?}"), "choose \"none\" or \"acl\""),
    }
}

fn address(key: &str, text: &str) -> Result<SocketAddr, Fatal> {
    let text = text.replace("localhost", "127.0.0.1");
    text.parse().map_err(|cause| {
        Fatal::new(
            format_args!("`{key}` is not an address: {text:?}"),
            cause,
            "write IP:PORT, for example 127.0.0.1:9192 (port 0 lets the system choose)",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, flags: &Flags) -> Result<Config, Fatal> {
        Config::parse(Path::new("twinlog.toml"), text, flags, Path::new("/here"))
    }

    #[test]
    fn the_file_that_is_shipped_says_what_the_defaults_are() {
        let shipped = parse(include_str!("../../deploy/twinlog.toml"), &Flags::default()).unwrap();
        let folders = "[node]\ndata = ['/var/lib/twinlog/data']\nstate = '/var/lib/twinlog/state'";
        assert_eq!(shipped, parse(folders, &Flags::default()).unwrap());
    }

    #[test]
    fn an_authorizer_is_chosen_and_a_super_user_that_is_no_principal_is_named() {
        let with = |keys: &str| {
            parse(&format!("[node]\ndata = ['d']\nstate = 's'\n[controlplane]\n{keys}"), &Flags::default())
        };
        assert_eq!(with("authorizer = 'none'").unwrap().authorizer, Authorizer::None);
        let acl = with("authorizer = 'acl'\nsuper_users = ['User:admin']").unwrap().authorizer;
        assert_eq!(acl, Authorizer::Acl { super_users: ["User:admin".to_owned()].into() });
        for (keys, name) in [
            ("authorizer = 'ranger'", "ranger"),
            ("super_users = ['admin']", "admin"),
            ("super_users = ['Usr:admin']", "Usr:admin"),
            ("super_users = ['User:*']", "User:*"),
            ("super_users = ['User:']", "User:"),
        ] {
            let error = with(keys).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("[controlplane]"), "{error}");
        }
    }

    #[test]
    fn flags_win_over_the_file_and_paths_become_absolute() {
        let text =
            "[node]\ndata = ['d1', '/d2']\nstate = 's'\n[controlplane]\nlisten = '127.0.0.1:1'\n[dataplane]\ncores = 2";
        let config = parse(text, &Flags { listen: Some("localhost:7".into()), ..Flags::default() }).unwrap();
        assert_eq!(config.data, [PathBuf::from("/here/d1"), PathBuf::from("/d2")]);
        assert_eq!(config.state, PathBuf::from("/here/s"));
        assert_eq!(config.listen.to_string(), "127.0.0.1:7");
        assert_eq!(config.metrics.to_string(), METRICS_DEFAULT);
    }

    #[test]
    fn an_unknown_key_or_section_is_named() {
        for (text, name) in [
            ("[node]\ndata = ['d']\nstate = 's'\n[controlplane]\nlissten = 'x'", "lissten"),
            ("[controlplan]\nlisten = 'x'", "controlplan"),
        ] {
            let error = parse(text, &Flags::default()).unwrap_err().to_string();
            assert!(error.contains(name) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn what_has_no_default_must_be_given() {
        assert!(parse("", &Flags::default()).unwrap_err().to_string().contains("--data"));
        let flags = Flags { data: vec!["d".into()], ..Flags::default() };
        assert!(Config::from_flags(&flags, Path::new("/")).unwrap_err().to_string().contains("--state"));
        let flags = Flags { state: Some("s".into()), listen: Some("nowhere".into()), ..flags };
        assert!(Config::from_flags(&flags, Path::new("/")).unwrap_err().to_string().contains("listen"));
    }

    #[test]
    fn the_state_directory_lies_outside_the_data_directories() {
        let tried = |data: &str, state: &str| {
            parse(&format!("[node]\ndata = ['/d0', '{data}']\nstate = '{state}'"), &Flags::default())
        };
        for (data, state) in [("/d", "/d"), ("/d", "/d/s"), ("d", "/here/d/./s"), ("d/", "d")] {
            let refused = tried(data, state).unwrap_err().to_string();
            assert!(refused.contains("two folders side by side"), "{data} {state}: {refused}");
        }
        for (data, state) in [("/d", "/s"), ("/s/d", "/s"), ("/d", "/data")] {
            tried(data, state).unwrap();
        }
    }
}
