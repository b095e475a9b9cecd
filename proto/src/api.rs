//! pure: the one table of request kinds: key, name, versions that the control plane serves, versions that we send to a source.
//!
//! The mirror requests have no numbers of their own in any release, and the ones that drafts used are taken by other
//! requests meanwhile. So ours are the draft's plus [`MIRROR_KEY_BASE`], and are only sent to a peer that shows the
//! finalized feature [`MIRROR_FEATURE`].

use core::ops::RangeInclusive;

/// The feature that a peer shows when it speaks the mirror requests.
pub const MIRROR_FEATURE: &str = "mirror.version";
/// The level of [`MIRROR_FEATURE`] that this code speaks.
pub const MIRROR_FEATURE_LEVEL: i16 = 1;
/// What is added to a draft's key.
pub const MIRROR_KEY_BASE: i16 = 1000;

/// One request kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Api {
    /// The number on the wire.
    pub key: i16,
    /// Kafka's name of the request kind.
    pub name: &'static str,
    /// Versions that the control plane answers; `None` when it does not.
    pub served: Option<RangeInclusive<i16>>,
    /// Versions that we send, to a source or to a peer of our own kind; `None` when we never do.
    pub sent: Option<RangeInclusive<i16>>,
    /// The first version in the flexible form, which also decides over the headers; `i16::MAX` when there is none.
    pub flexible_from: i16,
}

const NEVER: i16 = i16::MAX;

macro_rules! apis {
    ($($constant:ident = $key:expr, $name:literal, served $served:expr, sent $sent:expr, flexible $flexible:expr;)*) => {
        $(
            #[doc = concat!("Key of ", $name, ".")]
            pub const $constant: i16 = $key;
        )*

        /// Every request kind that we know, ascending by key.
        pub const APIS: &[Api] = &[
            $(Api { key: $constant, name: $name, served: $served, sent: $sent, flexible_from: $flexible },)*
        ];
    };
}

apis! {
    PRODUCE = 0, "Produce", served Some(3..=13), sent Some(3..=13), flexible 9;
    FETCH = 1, "Fetch", served None, sent Some(12..=17), flexible 12;
    LIST_OFFSETS = 2, "ListOffsets", served Some(1..=11), sent Some(6..=8), flexible 6;
    METADATA = 3, "Metadata", served Some(0..=13), sent Some(9..=13), flexible 9;
    OFFSET_COMMIT = 8, "OffsetCommit", served None, sent Some(6..=9), flexible 8;
    OFFSET_FETCH = 9, "OffsetFetch", served None, sent Some(6..=9), flexible 6;
    FIND_COORDINATOR = 10, "FindCoordinator", served Some(0..=7), sent Some(3..=7), flexible 3;
    LIST_GROUPS = 16, "ListGroups", served None, sent Some(0..=5), flexible 3;
    SASL_HANDSHAKE = 17, "SaslHandshake", served None, sent Some(1..=1), flexible NEVER;
    API_VERSIONS = 18, "ApiVersions", served Some(0..=4), sent Some(0..=4), flexible 3;
    CREATE_TOPICS = 19, "CreateTopics", served None, sent Some(5..=7), flexible 5;
    DELETE_RECORDS = 21, "DeleteRecords", served None, sent Some(0..=2), flexible 2;
    INIT_PRODUCER_ID = 22, "InitProducerId", served Some(0..=5), sent Some(2..=4), flexible 2;
    OFFSET_FOR_LEADER_EPOCH = 23, "OffsetForLeaderEpoch", served None, sent Some(2..=4), flexible 4;
    DESCRIBE_ACLS = 29, "DescribeAcls", served Some(1..=3), sent Some(1..=3), flexible 2;
    CREATE_ACLS = 30, "CreateAcls", served Some(1..=3), sent Some(1..=3), flexible 2;
    DELETE_ACLS = 31, "DeleteAcls", served Some(1..=3), sent Some(1..=3), flexible 2;
    DESCRIBE_CONFIGS = 32, "DescribeConfigs", served Some(1..=4), sent Some(1..=4), flexible 4;
    ALTER_REPLICA_LOG_DIRS = 34, "AlterReplicaLogDirs", served None, sent Some(1..=2), flexible 2;
    DESCRIBE_LOG_DIRS = 35, "DescribeLogDirs", served None, sent Some(1..=4), flexible 2;
    SASL_AUTHENTICATE = 36, "SaslAuthenticate", served None, sent Some(0..=2), flexible 2;
    INCREMENTAL_ALTER_CONFIGS = 44, "IncrementalAlterConfigs", served Some(0..=1), sent Some(0..=1), flexible 1;
    DESCRIBE_CLIENT_QUOTAS = 48, "DescribeClientQuotas", served None, sent Some(0..=1), flexible 1;
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, "DescribeUserScramCredentials", served None, sent Some(0..=0), flexible 0;
    DESCRIBE_QUORUM = 55, "DescribeQuorum", served None, sent Some(0..=2), flexible 0;
    DESCRIBE_CLUSTER = 60, "DescribeCluster", served Some(0..=2), sent Some(0..=2), flexible 0;
    DESCRIBE_PRODUCERS = 61, "DescribeProducers", served None, sent Some(0..=0), flexible 0;
    ALLOCATE_PRODUCER_IDS = 67, "AllocateProducerIds", served None, sent Some(0..=0), flexible 0;
    DESCRIBE_SHARE_GROUP_OFFSETS = 90, "DescribeShareGroupOffsets", served None, sent Some(0..=1), flexible 0;
    ALTER_SHARE_GROUP_OFFSETS = 91, "AlterShareGroupOffsets", served None, sent Some(0..=0), flexible 0;
    CREATE_MIRROR = MIRROR_KEY_BASE + 94, "CreateMirror", served Some(0..=0), sent Some(0..=0), flexible 0;
    START_MIRROR_TOPICS = MIRROR_KEY_BASE + 95, "StartMirrorTopics", served Some(0..=0), sent Some(0..=0), flexible 0;
    STOP_MIRROR_TOPICS = MIRROR_KEY_BASE + 96, "StopMirrorTopics", served Some(0..=0), sent Some(0..=0), flexible 0;
    LAST_MIRRORED_OFFSETS = MIRROR_KEY_BASE + 97, "LastMirroredOffsets", served Some(0..=1), sent Some(0..=1), flexible 0;
    LIST_MIRRORS = MIRROR_KEY_BASE + 98, "ListMirrors", served Some(0..=1), sent Some(0..=1), flexible 0;
    DESCRIBE_MIRRORS = MIRROR_KEY_BASE + 99, "DescribeMirrors", served Some(0..=1), sent Some(0..=1), flexible 0;
    READ_MIRROR_STATES = MIRROR_KEY_BASE + 100, "ReadMirrorStates", served Some(0..=1), sent Some(0..=1), flexible 0;
    WRITE_MIRROR_STATES = MIRROR_KEY_BASE + 101, "WriteMirrorStates", served Some(0..=1), sent Some(0..=1), flexible 0;
    PAUSE_MIRROR_TOPICS = MIRROR_KEY_BASE + 102, "PauseMirrorTopics", served Some(0..=1), sent Some(0..=1), flexible 0;
    RESUME_MIRROR_TOPICS = MIRROR_KEY_BASE + 103, "ResumeMirrorTopics", served Some(0..=1), sent Some(0..=1), flexible 0;
    DELETE_MIRROR = MIRROR_KEY_BASE + 104, "DeleteMirror", served Some(0..=0), sent Some(0..=0), flexible 0;
    ADD_TOPICS_TO_MIRROR = MIRROR_KEY_BASE + 110, "AddTopicsToMirror", served Some(0..=0), sent None, flexible 0;
    REMOVE_TOPICS_FROM_MIRROR = MIRROR_KEY_BASE + 111, "RemoveTopicsFromMirror", served Some(0..=0), sent None, flexible 0;
    SYNC_MIRROR = MIRROR_KEY_BASE + 112, "SyncMirror", served Some(0..=0), sent Some(0..=0), flexible 0;
    RECORD_HAND_OVER = MIRROR_KEY_BASE + 113, "RecordHandOver", served Some(0..=0), sent Some(0..=0), flexible 0;
}

/// The table's row of a key.
#[must_use]
pub fn by_key(key: i16) -> Option<&'static Api> {
    APIS.binary_search_by_key(&key, |api| api.key).ok().map(|at| &APIS[at])
}

/// Name of a key, for messages to people.
#[must_use]
pub fn name(key: i16) -> &'static str {
    by_key(key).map_or("unknown request", |api| api.name)
}

/// Whether a request of this kind and version has the flexible request header; `None` for an unknown kind.
#[must_use]
pub fn has_flexible_request_header(key: i16, version: i16) -> Option<bool> {
    by_key(key).map(|api| version >= api.flexible_from)
}

/// Whether the answer has the flexible response header; `None` for an unknown kind.
///
/// The answer to ApiVersions never has: a client reads it before it knows what the broker speaks.
#[must_use]
pub fn has_flexible_response_header(key: i16, version: i16) -> Option<bool> {
    by_key(key).map(|api| key != API_VERSIONS && version >= api.flexible_from)
}

/// The highest version that both sides speak.
#[must_use]
pub fn highest_common(ours: &RangeInclusive<i16>, theirs: &RangeInclusive<i16>) -> Option<i16> {
    let highest = *ours.end().min(theirs.end());
    (highest >= *ours.start() && highest >= *theirs.start()).then_some(highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_ascend_and_are_found() {
        assert!(APIS.windows(2).all(|two| two[0].key < two[1].key));
        for api in APIS {
            assert_eq!(by_key(api.key), Some(api));
        }
        assert_eq!((CREATE_MIRROR, DELETE_MIRROR), (1094, 1104));
        assert_eq!(by_key(94), None);
    }

    #[test]
    fn the_answer_to_api_versions_never_has_a_flexible_header() {
        assert_eq!(has_flexible_request_header(API_VERSIONS, 3), Some(true));
        assert_eq!(has_flexible_response_header(API_VERSIONS, 3), Some(false));
        assert_eq!(has_flexible_response_header(METADATA, 9), Some(true));
        assert_eq!(has_flexible_request_header(SASL_HANDSHAKE, 1), Some(false));
        assert_eq!(has_flexible_request_header(500, 0), None);
    }

    #[test]
    fn the_highest_common_version_lies_in_both_ranges() {
        assert_eq!(highest_common(&(6..=8), &(1..=11)), Some(8));
        assert_eq!(highest_common(&(12..=17), &(0..=13)), Some(13));
        assert_eq!(highest_common(&(12..=17), &(0..=11)), None);
        assert_eq!(highest_common(&(0..=3), &(4..=9)), None);
    }
}
