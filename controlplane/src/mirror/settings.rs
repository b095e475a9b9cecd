//! pure: the settings of a mirror: which keys there are, what their values may be, which of them are secret.
//!
//! They are Kafka's client keys and the mirror keys of the design, so that a Java properties file can be passed on as it
//! is. What cannot be honoured yet is refused by name instead of being ignored.

use crate::limits::{
    BOOTSTRAP_SERVERS_MAX, FETCH_BYTES_MAX, FETCH_PAUSE_MS_MAX, FETCH_WAIT_MS_MAX, KEY_CHARS_SHOWN,
    RECEIVE_BUFFER_BYTES_MAX, REFRESH_INTERVAL_MS_MAX, REFRESH_INTERVAL_MS_MIN, SETTING_CHARS_MAX, SETTINGS_MAX,
    SOCKET_TIMEOUT_MS_MAX,
};
use crate::mirror::acl_rules::Rules;
use crate::mirror::patterns::Patterns;
use crate::mirror::re2;

mod values;

pub use values::{MASKED, Settings};

/// The addresses of the source.
pub const BOOTSTRAP_SERVERS: &str = "bootstrap.servers";
/// The addresses of a running destination.
pub const DESTINATION_SERVERS: &str = "destination.bootstrap.servers";
/// The cluster id that the source must have.
pub const SOURCE_CLUSTER_ID: &str = "mirror.source.cluster.id";

/// Patterns of topics that start by themselves.
pub const INCLUDE: &str = "mirror.topics.include";
/// Patterns of topics that are not mirrored, however they were named.
pub const EXCLUDE: &str = "mirror.topics.exclude";
/// Whether the internal topics that a standby needs are mirrored.
pub const INTERNAL_TOPICS: &str = "mirror.internal.topics";
/// How often the source is asked for what is new.
pub const REFRESH_INTERVAL: &str = "mirror.metadata.refresh.interval.ms";

/// What a value may be.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Any text.
    Text,
    /// Any text, never shown.
    Secret,
    /// `HOST:PORT`, separated by commas.
    Servers,
    /// RE2 patterns of whole names, separated by commas.
    Patterns,
    /// A number in this range, both ends included.
    Number(i64, i64),
    /// Rules of access rules, separated by commas.
    AclRules,
    /// One of these, upper and lower case alike.
    OneOf(&'static [&'static str]),
}

const INT_MAX: i64 = i32::MAX as i64;

/// All keys, sorted.
const KEYS: &[(&str, Kind)] = &[
    (BOOTSTRAP_SERVERS, Kind::Servers),
    ("client.id", Kind::Text),
    (DESTINATION_SERVERS, Kind::Servers),
    ("mirror.acls.include", Kind::AclRules),
    ("mirror.fetch.backoff.ms", Kind::Number(0, FETCH_PAUSE_MS_MAX)),
    ("mirror.fetch.max.bytes", Kind::Number(1, FETCH_BYTES_MAX)),
    ("mirror.fetch.min.bytes", Kind::Number(0, INT_MAX)),
    ("mirror.fetch.response.max.bytes", Kind::Number(1, FETCH_BYTES_MAX)),
    ("mirror.fetch.wait.max.ms", Kind::Number(0, FETCH_WAIT_MS_MAX)),
    ("mirror.groups.exclude", Kind::Patterns),
    ("mirror.groups.include", Kind::Patterns),
    (INTERNAL_TOPICS, Kind::OneOf(&["standby", "none"])),
    (REFRESH_INTERVAL, Kind::Number(REFRESH_INTERVAL_MS_MIN as i64, REFRESH_INTERVAL_MS_MAX as i64)),
    ("mirror.socket.receive.buffer.bytes", Kind::Number(-1, RECEIVE_BUFFER_BYTES_MAX)),
    ("mirror.socket.timeout.ms", Kind::Number(1, SOCKET_TIMEOUT_MS_MAX)),
    (SOURCE_CLUSTER_ID, Kind::Text),
    ("mirror.sync.acls.interval.ms", Kind::Number(0, INT_MAX)),
    ("mirror.sync.configs.interval.ms", Kind::Number(0, INT_MAX)),
    ("mirror.sync.groups.interval.ms", Kind::Number(0, INT_MAX)),
    ("mirror.sync.quotas.interval.ms", Kind::Number(0, INT_MAX)),
    ("mirror.topic.properties.exclude", Kind::Patterns),
    ("mirror.topic.properties.include", Kind::Patterns),
    (EXCLUDE, Kind::Patterns),
    (INCLUDE, Kind::Patterns),
    ("request.timeout.ms", Kind::Number(1, SOCKET_TIMEOUT_MS_MAX)),
    ("sasl.jaas.config", Kind::Secret),
    ("sasl.mechanism", Kind::Text),
    ("security.protocol", Kind::OneOf(&["PLAINTEXT"])),
    ("socket.connection.setup.timeout.max.ms", Kind::Number(1, INT_MAX)),
    ("socket.connection.setup.timeout.ms", Kind::Number(1, SOCKET_TIMEOUT_MS_MAX)),
    ("ssl.ca.location", Kind::Text),
    ("ssl.endpoint.identification.algorithm", Kind::Text),
    ("ssl.key.password", Kind::Secret),
    ("ssl.keystore.certificate.chain", Kind::Text),
    ("ssl.keystore.key", Kind::Secret),
    ("ssl.keystore.location", Kind::Text),
    ("ssl.keystore.password", Kind::Secret),
    ("ssl.keystore.type", Kind::Text),
    ("ssl.truststore.certificates", Kind::Text),
    ("ssl.truststore.location", Kind::Text),
    ("ssl.truststore.password", Kind::Secret),
    ("ssl.truststore.type", Kind::Text),
];

/// A setting that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadSetting(pub String);

/// Checks the settings that a create brings.
///
/// # Errors
/// The first key that is unknown or whose value cannot be used, by name.
pub fn checked<'a>(given: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> Result<Settings, BadSetting> {
    let mut settings = Settings::default();
    for (key, value) in given {
        let kind = kind(key)?;
        // A null is how Kafka's clients say "the default".
        let Some(value) = value else { continue };
        check(key, kind, value)?;
        if settings.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(BadSetting(format!("the setting `{key}` is given twice")));
        }
    }
    if settings.len() > SETTINGS_MAX {
        return Err(BadSetting(format!("{} settings are more than {SETTINGS_MAX}", settings.len())));
    }
    if !settings.contains_key(BOOTSTRAP_SERVERS) {
        return Err(BadSetting(format!("`{BOOTSTRAP_SERVERS}` is missing; give the source cluster's HOST:PORT list")));
    }
    Ok(settings)
}

/// What the value of `key` may be.
fn kind(key: &str) -> Result<Kind, BadSetting> {
    match KEYS.iter().find(|(known, _)| *known == key) {
        Some((_, kind)) => Ok(*kind),
        None => {
            let nearest = KEYS.iter().map(|(known, _)| (distance(key, known), *known)).min();
            // Beyond that it is not the same word any more.
            let near = nearest.filter(|(distance, known)| *distance <= known.len() / 3);
            let hint = near.map_or("remove it".to_owned(), |(_, known)| format!("did you mean `{known}`?"));
            let key: String = key.chars().take(KEY_CHARS_SHOWN).collect();
            Err(BadSetting(format!("unknown mirror setting `{key}`; {hint}")))
        }
    }
}

/// How many characters differ: put in, left out, or another one.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().take(KEY_CHARS_SHOWN).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in b.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Whether there is such a key.
///
/// # Errors
/// That there is none, with the nearest one.
pub fn known(key: &str) -> Result<(), BadSetting> {
    kind(key).map(|_kind| ())
}

/// The entries of the value of a key whose values are lists; `None` when they are not.
#[must_use]
pub fn entries(key: &str, value: &str) -> Option<Vec<String>> {
    match kind(key).ok()? {
        Kind::Patterns | Kind::AclRules => Some(re2::split(value)),
        Kind::Servers => Some(servers(value)),
        Kind::Text | Kind::Secret | Kind::Number(..) | Kind::OneOf(_) => None,
    }
}

/// Whether the data plane goes by the setting; what only the control plane follows must not move a stream.
#[must_use]
pub fn is_of_data_plane(key: &str) -> bool {
    const OURS: [&str; 7] = [
        "mirror.topics.",
        "mirror.topic.",
        "mirror.groups.",
        "mirror.acls.",
        "mirror.sync.",
        "mirror.metadata.",
        "destination.",
    ];
    key != INTERNAL_TOPICS && !OURS.iter().any(|prefix| key.starts_with(prefix))
}

/// Whether the value of `key` must not be shown.
#[must_use]
pub fn is_secret(key: &str) -> bool {
    // A key that is not known any more is treated as a secret rather than shown.
    KEYS.iter().find(|(known, _)| *known == key).is_none_or(|(_, kind)| matches!(kind, Kind::Secret))
}

/// The addresses of the source, as `HOST:PORT`.
#[must_use]
pub fn bootstrap_servers(settings: &Settings) -> Vec<String> {
    servers(settings.get(BOOTSTRAP_SERVERS).map_or("", String::as_str))
}

/// The addresses of a running destination, as `HOST:PORT`; none for a standby.
#[must_use]
pub fn destination_servers(settings: &Settings) -> Vec<String> {
    servers(settings.get(DESTINATION_SERVERS).map_or("", String::as_str))
}

fn servers(list: &str) -> Vec<String> {
    list.split(',').map(|server| server.trim().to_owned()).filter(|server| !server.is_empty()).collect()
}

/// The value of a key whose values are numbers from 0 on; `None` when it is not set.
#[must_use]
pub fn number(settings: &Settings, key: &str) -> Option<u64> {
    settings.get(key)?.trim().parse().ok()
}

fn check(key: &str, kind: Kind, value: &str) -> Result<(), BadSetting> {
    let bad = |why: String| Err(BadSetting(format!("the setting `{key}` {why}")));
    if value.chars().count() > SETTING_CHARS_MAX {
        return bad(format!("is longer than {SETTING_CHARS_MAX} characters"));
    }
    match kind {
        Kind::Text | Kind::Secret => Ok(()),
        Kind::Patterns => match Patterns::compile(&re2::split(value)) {
            Ok(_) => Ok(()),
            Err(cause) => bad(format!("is not usable: {cause}")),
        },
        Kind::Number(min, max) => match value.trim().parse::<i64>() {
            Ok(number) if (min..=max).contains(&number) => Ok(()),
            _ => bad(format!("must be a number from {min} to {max}, not {value:?}")),
        },
        Kind::AclRules => Rules::parse(value).map(|_| ()).or_else(|why| bad(format!("cannot be used: {why}"))),
        Kind::OneOf(choices) if choices.iter().any(|choice| choice.eq_ignore_ascii_case(value.trim())) => Ok(()),
        Kind::OneOf(choices) => bad(format!("can only be {} in this version, not {value:?}", choices.join(", "))),
        Kind::Servers => {
            let servers = servers(value);
            if servers.is_empty() || servers.len() > BOOTSTRAP_SERVERS_MAX {
                return bad(format!("must list 1 to {BOOTSTRAP_SERVERS_MAX} addresses as HOST:PORT"));
            }
            match servers.iter().find(|server| !is_server(server)) {
                Some(server) => bad(format!("must list addresses as HOST:PORT, not {server:?}")),
                None => Ok(()),
            }
        }
    }
}

fn is_server(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let bracketed = host.starts_with('[') && host.ends_with(']');
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    let host_is_legal = bracketed || (!host.is_empty() && host.bytes().all(legal));
    host_is_legal && port.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_all(given: &[(&str, Option<&str>)]) -> Result<Settings, BadSetting> {
        checked(given.iter().copied())
    }

    #[test]
    fn the_addresses_are_all_that_is_needed() {
        let settings = check_all(&[(BOOTSTRAP_SERVERS, Some("a.b:9092, [::1]:9093")), ("client.id", None)]).unwrap();
        assert_eq!(bootstrap_servers(&settings), ["a.b:9092", "[::1]:9093"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let servers = (BOOTSTRAP_SERVERS, Some("a:1"));
        for (given, name) in [
            (vec![servers, ("compression.typo", Some("x"))], "compression.typo`; remove it"),
            (vec![servers, ("mirror.topic.include", Some("x"))], "did you mean `mirror.topics.include`?"),
            (vec![servers, (INCLUDE, Some("a,(b"))], "(b"),
            (vec![servers, (REFRESH_INTERVAL, Some("99"))], REFRESH_INTERVAL),
            (vec![("client.id", Some("x"))], BOOTSTRAP_SERVERS),
            (vec![(BOOTSTRAP_SERVERS, Some("nohost"))], "nohost"),
            (vec![(BOOTSTRAP_SERVERS, Some("a:0"))], "a:0"),
            (vec![(BOOTSTRAP_SERVERS, Some("http://a:9092"))], "http"),
            (vec![servers, ("mirror.fetch.max.bytes", Some("many"))], "mirror.fetch.max.bytes"),
            (vec![servers, ("security.protocol", Some("SASL_SSL"))], "SASL_SSL"),
            (vec![servers, servers], "twice"),
        ] {
            let BadSetting(text) = check_all(&given).unwrap_err();
            assert!(text.contains(name), "{text}");
        }
    }

    #[test]
    fn the_distance_counts_what_differs() {
        for (a, b, wanted) in
            [("", "abc", 3), ("abc", "abc", 0), ("abd", "abc", 1), ("bc", "abc", 1), ("acb", "abc", 2)]
        {
            assert_eq!((distance(a, b), distance(b, a)), (wanted, wanted), "{a} {b}");
        }
    }

    #[test]
    fn a_bad_secret_is_refused_without_being_repeated() {
        let long = format!("hunter2{}", "x".repeat(SETTING_CHARS_MAX));
        let servers = (BOOTSTRAP_SERVERS, Some("a:1"));
        for (key, _) in KEYS.iter().filter(|(_, kind)| matches!(kind, Kind::Secret)) {
            let BadSetting(text) = check_all(&[servers, (key, Some(&long))]).unwrap_err();
            assert!(text.contains(key) && !text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn passwords_are_secret_and_so_is_what_is_not_known() {
        assert!(is_secret("sasl.jaas.config") && is_secret("ssl.key.password") && is_secret("some.old.key"));
        assert!(!is_secret(BOOTSTRAP_SERVERS));
    }
}
