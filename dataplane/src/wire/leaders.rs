//! pure: which broker leads which partition, and what a newer word about it changes.

use std::collections::BTreeMap;

/// Where a broker listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Host name or address, never empty.
    pub host: String,
    /// TCP port, never 0.
    pub port: u16,
}

impl Endpoint {
    /// Checks what a broker said about a broker.
    #[must_use]
    pub fn checked(host: &str, port: i32) -> Option<Self> {
        let port = u16::try_from(port).ok().filter(|&p| p != 0)?;
        (!host.is_empty()).then(|| Self { host: host.to_owned(), port })
    }

    /// `HOST:PORT` or `[V6]:PORT` as in `bootstrap.servers`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.trim().rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        Self::checked(host, port.parse().ok()?)
    }
}

impl core::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Who leads a partition, since which epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leader {
    /// The broker's id.
    pub broker: i32,
    /// The source's leader epoch, -1 when the source does not say.
    pub epoch: i32,
}

/// What a word about a partition's leader means for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Older than what we know, or the same.
    Nothing,
    /// The same broker under a newer epoch.
    Epoch,
    /// Another broker.
    Moved,
}

/// Compares an offered leader with the known one. A word with a lower epoch is old and changes nothing.
#[must_use]
pub fn weigh(known: Option<Leader>, offered: Leader) -> News {
    match known {
        None => News::Moved,
        Some(known) if offered.epoch >= 0 && offered.epoch < known.epoch => News::Nothing,
        Some(known) if offered.broker != known.broker => News::Moved,
        Some(known) if offered.epoch > known.epoch => News::Epoch,
        Some(_) => News::Nothing,
    }
}

/// The brokers of a source cluster that metadata or a Fetch response named.
#[derive(Debug, Default)]
pub struct Brokers {
    at: BTreeMap<i32, Endpoint>,
}

impl Brokers {
    /// Takes a broker's endpoint; one that no client can reach is refused. True when it is new or has moved.
    pub fn learn(&mut self, id: i32, host: &str, port: i32) -> bool {
        // The same again, as in most answers, is told without making anything.
        let known = self.at.get(&id).is_some_and(|known| known.host == host && i32::from(known.port) == port);
        if known || id < 0 {
            return false;
        }
        let Some(endpoint) = Endpoint::checked(host, port) else { return false };
        self.at.insert(id, endpoint);
        true
    }

    /// Where broker `id` listens.
    #[must_use]
    pub fn endpoint(&self, id: i32) -> Option<&Endpoint> {
        self.at.get(&id)
    }

    /// The brokers in the order of their ids.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.at.values()
    }

    /// Throws everything away: the source asks its clients to start again from the bootstrap servers.
    pub fn forget(&mut self) {
        self.at.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_word_changes_nothing_and_a_new_one_moves_the_partition() {
        let known = Some(Leader { broker: 1, epoch: 5 });
        for (offered, news) in [
            (Leader { broker: 2, epoch: 4 }, News::Nothing),
            (Leader { broker: 1, epoch: 5 }, News::Nothing),
            (Leader { broker: 1, epoch: 6 }, News::Epoch),
            (Leader { broker: 2, epoch: 6 }, News::Moved),
            (Leader { broker: 2, epoch: -1 }, News::Moved),
        ] {
            assert_eq!(weigh(known, offered), news, "{offered:?}");
        }
        assert_eq!(weigh(None, Leader { broker: 1, epoch: 0 }), News::Moved);
    }

    #[test]
    fn an_endpoint_that_nobody_can_reach_is_refused() {
        let mut brokers = Brokers::default();
        for (host, port) in [("", 9092), ("a", 0), ("a", -1), ("a", 65_536)] {
            assert!(!brokers.learn(1, host, port), "{host}:{port}");
        }
        assert!(brokers.learn(1, "a", 9092));
        assert!(!brokers.learn(1, "a", 9092), "the same again is no news");
        assert!(brokers.learn(1, "b", 9092));
        assert_eq!(brokers.endpoint(1).unwrap().host, "b");
    }

    #[test]
    fn bootstrap_servers_read_as_in_java() {
        assert_eq!(Endpoint::parse("h:1").unwrap().to_string(), "h:1");
        assert_eq!(Endpoint::parse(" [::1]:9092 ").unwrap().to_string(), "[::1]:9092");
        for text in ["", "h", "h:", ":1", "h:0", "h:70000", "h:x"] {
            assert_eq!(Endpoint::parse(text), None, "{text:?}");
        }
    }
}
