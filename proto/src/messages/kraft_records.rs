//! pure: records of a KRaft metadata log. Layout: `schemas/kraft_records.json`.

include!(concat!(env!("OUT_DIR"), "/kraft_records.rs"));

/// Record type of [`TopicRecord`].
pub const TOPIC: u32 = 2;
/// Record type of [`PartitionRecord`].
pub const PARTITION: u32 = 3;
/// Record type of [`ConfigRecord`].
pub const CONFIG: u32 = 4;
/// Record type of [`PartitionChangeRecord`].
pub const PARTITION_CHANGE: u32 = 5;
/// Record type of [`RemoveTopicRecord`].
pub const REMOVE_TOPIC: u32 = 9;
/// Record type of [`UserScramCredentialRecord`].
pub const USER_SCRAM_CREDENTIAL: u32 = 11;
/// Record type of [`FeatureLevelRecord`].
pub const FEATURE_LEVEL: u32 = 12;
/// Record type of [`ClientQuotaRecord`].
pub const CLIENT_QUOTA: u32 = 14;
/// Record type of [`ProducerIdsRecord`].
pub const PRODUCER_IDS: u32 = 15;
/// Record type of [`AccessControlEntryRecord`].
pub const ACCESS_CONTROL_ENTRY: u32 = 18;

/// Control record type of [`LeaderChangeMessage`].
pub const LEADER_CHANGE: i16 = 2;
/// Control record type of [`SnapshotHeaderRecord`].
pub const SNAPSHOT_HEADER: i16 = 3;
/// Control record type of [`SnapshotFooterRecord`].
pub const SNAPSHOT_FOOTER: i16 = 4;
/// Control record type of [`KRaftVersionRecord`].
pub const KRAFT_VERSION: i16 = 5;
/// Control record type of [`VotersRecord`].
pub const VOTERS: i16 = 6;
