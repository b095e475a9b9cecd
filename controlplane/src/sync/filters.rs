//! pure: the settings of a mirror that say what is synced and how often.

use crate::limits::SYNC_INTERVAL_MS;
use crate::mirror::acl_rules::Rules;
use crate::mirror::patterns::{BadPattern, Patterns};
use crate::mirror::re2::split;
use crate::mirror::settings::{REFRESH_INTERVAL, Settings, number};
use crate::source::report::Kind;

/// Which topic settings are synced.
pub const PROPERTIES_INCLUDE: &str = "mirror.topic.properties.include";
/// Which are not, whatever includes them.
pub const PROPERTIES_EXCLUDE: &str = "mirror.topic.properties.exclude";
/// Which groups are synced.
pub const GROUPS_INCLUDE: &str = "mirror.groups.include";
/// Which are not, whatever includes them.
pub const GROUPS_EXCLUDE: &str = "mirror.groups.exclude";
/// Which access rules are followed.
pub const ACLS_INCLUDE: &str = "mirror.acls.include";

/// Settings that belong to the cluster they are in: replication, quorums, and how times are stamped.
const PROPERTIES_EXCLUDE_DEFAULT: &str = "follower.replication.throttled.replicas,\
    leader.replication.throttled.replicas,message.timestamp.difference.max.ms,log.message.timestamp.before.max.ms,\
    log.message.timestamp.after.max.ms,message.timestamp.type,unclean.leader.election.enable,min.insync.replicas";

/// What passes: a name that is included and not excluded.
#[derive(Debug, Clone)]
pub struct Filter {
    include: Patterns,
    exclude: Patterns,
    /// Nobody said what is excluded.
    by_default: bool,
}

impl Filter {
    /// Whether `name` passes.
    #[must_use]
    pub fn passes(&self, name: &str) -> bool {
        self.include.matches(name) && !self.exclude.matches(name)
    }

    /// Whether `name` passes where the standing list of what is excluded does not count.
    #[must_use]
    pub fn passes_unless_asked(&self, name: &str) -> bool {
        self.passes(name) || (self.by_default && self.include.matches(name))
    }
}

/// The filter of topic settings.
///
/// # Errors
/// A pattern that cannot be used.
pub fn properties(settings: &Settings) -> Result<Filter, BadPattern> {
    filter(settings, (PROPERTIES_INCLUDE, ".*"), (PROPERTIES_EXCLUDE, PROPERTIES_EXCLUDE_DEFAULT))
}

/// The filter of groups.
///
/// # Errors
/// A pattern that cannot be used.
pub fn groups(settings: &Settings) -> Result<Filter, BadPattern> {
    filter(settings, (GROUPS_INCLUDE, ".*"), (GROUPS_EXCLUDE, ""))
}

/// The rules of access rules.
///
/// # Errors
/// The first rule that cannot be used, and why.
pub fn acls(settings: &Settings) -> Result<Rules, String> {
    Rules::parse(settings.get(ACLS_INCLUDE).map_or("*", String::as_str))
}

fn filter(settings: &Settings, include: (&str, &str), exclude: (&str, &str)) -> Result<Filter, BadPattern> {
    let patterns =
        |(key, default): (&str, &str)| Patterns::compile(&split(settings.get(key).map_or(default, String::as_str)));
    let by_default = !settings.contains_key(exclude.0);
    Ok(Filter { include: patterns(include)?, exclude: patterns(exclude)?, by_default })
}

/// Time from one sync of a kind to the next; 0 = off.
#[must_use]
pub fn interval_ms(settings: &Settings, kind: Kind) -> u64 {
    number(settings, interval_key(kind)).unwrap_or(SYNC_INTERVAL_MS)
}

/// The setting that says how often a kind is synced.
#[must_use]
pub fn interval_key(kind: Kind) -> &'static str {
    match kind {
        Kind::Topics => REFRESH_INTERVAL,
        Kind::Configs => "mirror.sync.configs.interval.ms",
        Kind::Groups => "mirror.sync.groups.interval.ms",
        Kind::Acls => "mirror.sync.acls.interval.ms",
        Kind::Quotas => "mirror.sync.quotas.interval.ms",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_belongs_to_the_cluster_is_left_out_unless_the_list_is_given() {
        let by_default = properties(&settings(&[])).unwrap();
        assert!(by_default.passes("retention.ms") && !by_default.passes("min.insync.replicas"));
        assert!(!by_default.passes("message.timestamp.type"));
        assert!(by_default.passes_unless_asked("message.timestamp.type"));
        let given = properties(&settings(&[(PROPERTIES_EXCLUDE, "segment\\..*, x{1,2}")])).unwrap();
        assert!(given.passes("min.insync.replicas") && !given.passes("segment.ms") && !given.passes("xx"));
        let few = properties(&settings(&[(PROPERTIES_INCLUDE, "retention.*")])).unwrap();
        assert!(few.passes("retention.bytes") && !few.passes("segment.ms"));
        assert!(!few.passes_unless_asked("segment.ms") && !given.passes_unless_asked("segment.ms"));
        assert!(properties(&settings(&[(PROPERTIES_INCLUDE, "(")])).is_err());
    }

    #[test]
    fn a_comma_within_brackets_or_escaped_does_not_separate() {
        assert_eq!(split("a{1,2},b, (c,d) ,[e,],f\\,g,,"), ["a{1,2}", "b", "(c,d)", "[e,]", "f\\,g"]);
        assert!(split(" , ").is_empty());
    }

    #[test]
    fn an_interval_of_0_switches_a_kind_off() {
        let given = settings(&[
            ("mirror.metadata.refresh.interval.ms", "700"),
            ("mirror.sync.groups.interval.ms", "0"),
            ("mirror.sync.acls.interval.ms", "500"),
        ]);
        let all = Kind::ALL.map(|kind| interval_ms(&given, kind));
        assert_eq!(all, [700, SYNC_INTERVAL_MS, 0, 500, SYNC_INTERVAL_MS]);
    }
}
