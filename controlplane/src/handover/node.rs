//! pure: the node that is to serve handed-over topics, as its `server.properties` describes it.
//!
//! Names, defaults and forms are Kafka's. Every key that keeps the node from being laid out is a problem of its own, so that a person
//! mends all of them at once; keys that do not matter here are not looked at. Reading the file is `layout.rs`.

mod defaults;
mod listeners;
mod quorum;
mod settings;

pub use listeners::Listener;
pub use quorum::Quorum;

use crate::handover::problem::Problem;
use settings::Settings;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use twinlog_proto::properties;

/// A node that is broker and controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its server.properties.
    pub properties: PathBuf,
    /// Its id.
    pub id: i32,
    /// How it learns who votes.
    pub quorum: Quorum,
    /// The listener of its controller.
    pub controller: Listener,
    /// Its other listeners.
    pub listeners: Vec<Listener>,
    /// Its log directories; absolute, in their order.
    pub log_dirs: Vec<PathBuf>,
    /// Where the metadata log lies: one of the log directories, or one of its own.
    pub metadata_log_dir: PathBuf,
    /// The class that judges requests; none when everybody may do everything.
    pub authorizer: Option<String>,
    /// What holds for topics that say nothing themselves, as far as the file tells.
    pub topic_defaults: BTreeMap<String, String>,
}

impl Node {
    /// Reads the text of a server.properties; `path` is its name in problems.
    ///
    /// # Errors
    /// Everything that keeps the node from being laid out.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, Vec<Problem>> {
        let pairs = properties::parse(bytes).map_err(|cause| {
            vec![Problem::new(path.display(), cause, "write it as Java properties, as kafka-server-start reads them")]
        })?;
        let topic_defaults = defaults::topics(&pairs);
        let mut settings = Settings::new(path, pairs);
        check_roles(&mut settings);
        let id = node_id(&mut settings);
        let quorum = quorum::read(&mut settings, id);
        let listeners = listeners::read(&mut settings);
        let dirs = log_dirs(&mut settings);
        let authorizer = settings.text("authorizer.class.name");
        match (id, quorum, listeners, dirs) {
            (Some(id), Some(quorum), Some((controller, listeners)), Some((log_dirs, metadata_log_dir)))
                if settings.problems.is_empty() =>
            {
                let properties = path.to_owned();
                Ok(Self {
                    properties,
                    id,
                    quorum,
                    controller,
                    listeners,
                    log_dirs,
                    metadata_log_dir,
                    authorizer,
                    topic_defaults,
                })
            }
            _ => Err(settings.problems),
        }
    }

    /// Where clients on this host reach it without TLS and SASL, as `HOST:PORT`; none when no listener allows that.
    #[must_use]
    pub fn plaintext(&self) -> Option<String> {
        self.listeners.iter().find_map(Listener::plaintext)
    }

    /// Every directory that has a `meta.properties`: the log directories, and the one of the metadata log when it is another.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        let own = (!self.log_dirs.contains(&self.metadata_log_dir)).then_some(&self.metadata_log_dir);
        self.log_dirs.iter().chain(own).map(PathBuf::as_path)
    }
}

fn check_roles(settings: &mut Settings<'_>) {
    const KEY: &str = "process.roles";
    const BOTH: &str = "give the server.properties of a node with process.roles=broker,controller";
    let Some(roles) = settings.list(KEY) else {
        return settings
            .missing(KEY, "set process.roles=broker,controller: brokers without KRaft ended with Kafka 4.0");
    };
    if let Some(unknown) = roles.iter().find(|role| !matches!(role.as_str(), "broker" | "controller")) {
        settings.problem(KEY, format_args!("{unknown} is no role"), BOTH);
    } else if !roles.iter().any(|role| role == "broker") {
        settings.problem(KEY, "the node is no broker, so it cannot serve topics", BOTH);
    } else if !roles.iter().any(|role| role == "controller") {
        let why = "the controller runs in another process, whose metadata log is not laid out here";
        settings.problem(KEY, why, BOTH);
    }
}

/// `node.id`, or its older name `broker.id`.
fn node_id(settings: &mut Settings<'_>) -> Option<i32> {
    let (key, text) = match (settings.text("node.id"), settings.text("broker.id")) {
        (Some(id), Some(older)) if id != older => {
            settings.problem("node.id", format_args!("it is {id}, but broker.id is {older}"), "remove broker.id");
            return None;
        }
        (Some(id), _) => ("node.id", id),
        (None, Some(id)) => ("broker.id", id),
        (None, None) => {
            settings.missing("node.id", "set the id of the node, 0 or above");
            return None;
        }
    };
    let id = text.parse().ok().filter(|id| *id >= 0);
    if id.is_none() {
        settings.problem(key, format_args!("{text} is no id"), "set a number, 0 or above");
    }
    id
}

/// The log directories, and that of the metadata log.
fn log_dirs(settings: &mut Settings<'_>) -> Option<(Vec<PathBuf>, PathBuf)> {
    let key = if settings.text("log.dirs").is_some() { "log.dirs" } else { "log.dir" };
    let Some(names) = settings.list(key) else {
        settings.missing("log.dirs", "set it: the default below /tmp is no place for what is to stay");
        return None;
    };
    let mut dirs = Vec::new();
    for name in names {
        let dir = absolute(settings, key, &name)?;
        if dirs.contains(&dir) {
            settings.problem(key, format_args!("{name} is named twice"), "name each directory once");
        }
        dirs.push(dir);
    }
    let metadata = match settings.text("metadata.log.dir") {
        Some(name) => absolute(settings, "metadata.log.dir", &name)?,
        None => dirs.first()?.clone(),
    };
    Some((dirs, metadata))
}

fn absolute(settings: &mut Settings<'_>, key: &str, name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    if path.is_absolute() {
        return Some(path.components().collect());
    }
    let why = format_args!("{name} depends on the directory in which the broker is started");
    settings.problem(key, why, "write an absolute path");
    None
}

#[cfg(test)]
mod tests;
