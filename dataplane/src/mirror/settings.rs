//! pure: the settings of a mirror that concern fetching, from Kafka-style text to final types.
//!
//! Two generations of names are taken (`mirror.fetch.max.bytes` and `fetch.max.bytes`); the longer one wins. Settings that
//! concern other parts (topics, groups, ACLs) are not ours to judge.

use std::time::Duration;

use crate::limits::{
    BATCH_BYTES_MAX, CONNECT_PAUSE_MS_MAX, CONNECTIONS_PER_BROKER_MAX, FETCH_PARTITION_BYTES, FETCH_PAUSE_MS,
    FETCH_RESPONSE_BYTES, FETCH_WAIT_MS, FETCH_WAIT_MS_MAX, RECEIVE_BUFFER_BYTES, RECEIVE_BUFFER_BYTES_MAX,
    REQUEST_TIMEOUT_MS, SETUP_TIMEOUT_MS, TIMEOUT_MS_MAX,
};

/// How one mirror fetches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorSettings {
    /// How long an answer may take to begin.
    pub request_timeout: Duration,
    /// How long connecting may take, name resolution included.
    pub setup_timeout: Duration,
    /// How long the source may hold a Fetch request.
    pub fetch_wait_ms: i32,
    /// The first pause after an error.
    pub fetch_pause_ms: u64,
    /// The source may answer once it has so many bytes.
    pub fetch_bytes_min: i32,
    /// Bytes of records per response.
    pub response_bytes_max: i32,
    /// Bytes of records per partition.
    pub partition_bytes_max: i32,
    /// `SO_RCVBUF`; `None` leaves it to the kernel.
    pub receive_buffer_bytes: Option<u32>,
    /// Connections per source broker and core, when the mirror sets it.
    pub connections_per_broker: Option<u32>,
}

impl Default for MirrorSettings {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_millis(REQUEST_TIMEOUT_MS),
            setup_timeout: Duration::from_millis(SETUP_TIMEOUT_MS),
            fetch_wait_ms: FETCH_WAIT_MS,
            fetch_pause_ms: FETCH_PAUSE_MS,
            fetch_bytes_min: 1,
            response_bytes_max: FETCH_RESPONSE_BYTES,
            partition_bytes_max: FETCH_PARTITION_BYTES,
            receive_buffer_bytes: Some(RECEIVE_BUFFER_BYTES),
            connections_per_broker: None,
        }
    }
}

impl MirrorSettings {
    /// Whether connections made by `other` serve as they are: only what is asked over them differs.
    #[must_use]
    pub fn is_same_way(&self, other: &Self) -> bool {
        let asked = Self {
            fetch_wait_ms: other.fetch_wait_ms,
            fetch_pause_ms: other.fetch_pause_ms,
            fetch_bytes_min: other.fetch_bytes_min,
            response_bytes_max: other.response_bytes_max,
            partition_bytes_max: other.partition_bytes_max,
            ..self.clone()
        };
        asked == *other
    }
}

/// A setting that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSetting {
    /// Security that is not there yet.
    #[error("{key}={value} is not supported yet: this version connects with security.protocol=PLAINTEXT only")]
    Security {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
    },
    /// A value that is no number, or outside of its bounds.
    #[error("{key}={value} must be a whole number from {min} to {max}")]
    Number {
        /// The key as the mirror has it.
        key: &'static str,
        /// The value.
        value: String,
        /// The smallest value taken.
        min: i64,
        /// The largest value taken.
        max: i64,
    },
}

impl MirrorSettings {
    /// Reads the settings through `get`, which gives the value of a key.
    ///
    /// # Errors
    /// The first setting that cannot be followed.
    pub fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Self, BadSetting> {
        if let Some(protocol) = get(SECURITY_PROTOCOL).filter(|p| !p.trim().eq_ignore_ascii_case("PLAINTEXT")) {
            return Err(BadSetting::Security { key: SECURITY_PROTOCOL, value: protocol.to_owned() });
        }
        let defaults = Self::default();
        let number = |keys: &[&'static str], default: i64, min: i64, max: i64| number(&get, keys, default, min, max);
        let ms = |keys: &[&'static str], default: Duration| {
            Ok(Duration::from_millis(number(keys, default.as_millis() as i64, 1, TIMEOUT_MS_MAX)?.cast_unsigned()))
        };
        let int = |keys: &[&'static str], default: i32, min: i64, max: i64| {
            Ok(number(keys, default.into(), min, max)? as i32)
        };
        let receive_buffer = ["mirror.socket.receive.buffer.bytes", "socket.receive.buffer.bytes"];
        let receive_buffer =
            match number(&receive_buffer, i64::from(RECEIVE_BUFFER_BYTES), -1, RECEIVE_BUFFER_BYTES_MAX)? {
                ..=0 => None,
                bytes => Some(bytes as u32),
            };
        let connections = ["connections.per.broker", "mirror.num.replica.fetchers"];
        let connections = match number(&connections, 0, 0, CONNECTIONS_PER_BROKER_MAX.into())? {
            0 => None,
            count => Some(count as u32),
        };
        let bytes_max = i64::from(i32::MAX) - BATCH_BYTES_MAX as i64;
        Ok(Self {
            request_timeout: ms(
                &["mirror.socket.timeout.ms", "socket.timeout.ms", "request.timeout.ms"],
                defaults.request_timeout,
            )?,
            setup_timeout: ms(&["socket.connection.setup.timeout.ms"], defaults.setup_timeout)?,
            fetch_wait_ms: int(
                &["mirror.fetch.wait.max.ms", "fetch.wait.max.ms"],
                defaults.fetch_wait_ms,
                0,
                FETCH_WAIT_MS_MAX,
            )?,
            fetch_pause_ms: number(
                &["mirror.fetch.backoff.ms", "fetch.backoff.ms"],
                defaults.fetch_pause_ms as i64,
                0,
                CONNECT_PAUSE_MS_MAX as i64,
            )?
            .cast_unsigned(),
            fetch_bytes_min: int(
                &["mirror.fetch.min.bytes", "fetch.min.bytes"],
                defaults.fetch_bytes_min,
                0,
                i32::MAX.into(),
            )?,
            response_bytes_max: int(
                &["mirror.fetch.response.max.bytes", "fetch.response.max.bytes"],
                defaults.response_bytes_max,
                1,
                bytes_max,
            )?,
            partition_bytes_max: int(
                &["mirror.fetch.max.bytes", "fetch.max.bytes"],
                defaults.partition_bytes_max,
                1,
                bytes_max,
            )?,
            receive_buffer_bytes: receive_buffer,
            connections_per_broker: connections,
        })
    }
}

fn number<'a>(
    get: &impl Fn(&str) -> Option<&'a str>,
    keys: &[&'static str],
    default: i64,
    min: i64,
    max: i64,
) -> Result<i64, BadSetting> {
    let Some((key, value)) = keys.iter().find_map(|&key| get(key).map(|value| (key, value))) else {
        return Ok(default);
    };
    match value.trim().parse::<i64>() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        // The error names the key and the value; that it is no number needs no further cause.
        Ok(_) | Err(_) => Err(BadSetting::Number { key, value: value.to_owned(), min, max }),
    }
}

/// The largest fetch from one partition that holds a whole number of batches of `batch_bytes`; the broker would cut the last
/// one at the limit, and the cut part would travel twice.
#[must_use]
pub fn whole_batches(limit_bytes: i32, batch_bytes: Option<u32>) -> i32 {
    match batch_bytes.and_then(|bytes| i32::try_from(bytes).ok()) {
        Some(bytes) if bytes > 0 && bytes <= limit_bytes => limit_bytes - limit_bytes % bytes,
        _ => limit_bytes,
    }
}

const SECURITY_PROTOCOL: &str = "security.protocol";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<MirrorSettings, BadSetting> {
        MirrorSettings::read(|key| pairs.iter().find(|(k, _)| *k == key).map(|(_, v)| *v))
    }

    #[test]
    fn without_settings_the_defaults_hold() {
        assert_eq!(read(&[]), Ok(MirrorSettings::default()));
        assert_eq!(read(&[("security.protocol", "plaintext")]), Ok(MirrorSettings::default()));
    }

    #[test]
    fn both_generations_of_names_are_taken_and_the_longer_wins() {
        assert_eq!(read(&[("fetch.max.bytes", "7")]).unwrap().partition_bytes_max, 7);
        let both = [("fetch.max.bytes", "7"), ("mirror.fetch.max.bytes", "8")];
        assert_eq!(read(&both).unwrap().partition_bytes_max, 8);
        assert_eq!(read(&[("socket.receive.buffer.bytes", "-1")]).unwrap().receive_buffer_bytes, None);
    }

    #[test]
    fn only_what_is_asked_over_a_connection_may_change_without_a_new_one() {
        let before = MirrorSettings::default();
        for key in ["fetch.max.bytes", "fetch.response.max.bytes", "fetch.wait.max.ms", "fetch.min.bytes"] {
            let after = read(&[(key, "77")]).unwrap();
            assert!(after != before && before.is_same_way(&after), "{key}");
        }
        for key in ["socket.receive.buffer.bytes", "request.timeout.ms", "connections.per.broker"] {
            assert!(!before.is_same_way(&read(&[(key, "7")]).unwrap()), "{key}");
        }
    }

    #[test]
    fn security_that_is_not_there_is_refused_by_name() {
        let error = read(&[("security.protocol", "SASL_SSL")]).unwrap_err();
        assert!(error.to_string().contains("security.protocol=SASL_SSL is not supported yet"), "{error}");
    }

    #[test]
    fn a_number_outside_of_its_bounds_names_key_value_and_bounds() {
        for (key, value) in [("fetch.min.bytes", "x"), ("fetch.max.bytes", "0"), ("fetch.wait.max.ms", "-1")] {
            let text = read(&[(key, value)]).unwrap_err().to_string();
            assert!(text.contains(key) && text.contains(value), "{text}");
        }
    }

    #[test]
    fn a_fetch_holds_a_whole_number_of_batches() {
        assert_eq!(whole_batches(8 << 20, Some(1_000_000)), 8_000_000);
        assert_eq!(whole_batches(8 << 20, Some(9 << 20)), 8 << 20);
        assert_eq!(whole_batches(8 << 20, None), 8 << 20);
        assert_eq!(whole_batches(8 << 20, Some(0)), 8 << 20);
    }
}
