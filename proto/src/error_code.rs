//! pure: Kafka's error codes, and which of them are worth a retry.
//!
//! The codes of the mirror requests are the draft's plus 1000: stock releases use the draft's own numbers for other things.

use core::fmt;

/// An error code as it stands in a message. Codes that we have no name for are carried as they are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ErrorCode(pub i16);

impl ErrorCode {
    /// Whether the code says that there was no error.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Kafka's name of the code, or `UNKNOWN_ERROR_CODE` for a number that we do not know.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().map_or("UNKNOWN_ERROR_CODE", |row| row.1)
    }

    /// Whether stock clients would try again by themselves. A number that we do not know is not retriable.
    #[must_use]
    pub fn is_retriable(self) -> bool {
        self.row().is_some_and(|row| row.2)
    }

    fn row(self) -> Option<&'static (i16, &'static str, bool)> {
        CODES.binary_search_by_key(&self.0, |row| row.0).ok().map(|at| &CODES[at])
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! codes {
    ($($number:literal $name:ident $retry:ident)*) => {
        impl ErrorCode {
            $(
                #[doc = concat!("Error code ", stringify!($number), ".")]
                pub const $name: Self = Self($number);
            )*
        }

        /// Number, name, whether it is worth a retry; ascending.
        const CODES: &[(i16, &str, bool)] = &[$(($number, stringify!($name), codes!($retry))),*];
    };
    (retry) => { true };
    (fatal) => { false };
}

codes! {
    -1 UNKNOWN_SERVER_ERROR fatal
    0 NONE fatal
    1 OFFSET_OUT_OF_RANGE fatal
    2 CORRUPT_MESSAGE retry
    3 UNKNOWN_TOPIC_OR_PARTITION retry
    4 INVALID_FETCH_SIZE fatal
    5 LEADER_NOT_AVAILABLE retry
    6 NOT_LEADER_OR_FOLLOWER retry
    7 REQUEST_TIMED_OUT retry
    8 BROKER_NOT_AVAILABLE fatal
    9 REPLICA_NOT_AVAILABLE retry
    10 MESSAGE_TOO_LARGE fatal
    11 STALE_CONTROLLER_EPOCH fatal
    12 OFFSET_METADATA_TOO_LARGE fatal
    13 NETWORK_EXCEPTION retry
    14 COORDINATOR_LOAD_IN_PROGRESS retry
    15 COORDINATOR_NOT_AVAILABLE retry
    16 NOT_COORDINATOR retry
    17 INVALID_TOPIC_EXCEPTION fatal
    18 RECORD_LIST_TOO_LARGE fatal
    19 NOT_ENOUGH_REPLICAS retry
    20 NOT_ENOUGH_REPLICAS_AFTER_APPEND retry
    21 INVALID_REQUIRED_ACKS fatal
    22 ILLEGAL_GENERATION fatal
    23 INCONSISTENT_GROUP_PROTOCOL fatal
    24 INVALID_GROUP_ID fatal
    25 UNKNOWN_MEMBER_ID fatal
    26 INVALID_SESSION_TIMEOUT fatal
    27 REBALANCE_IN_PROGRESS fatal
    28 INVALID_COMMIT_OFFSET_SIZE fatal
    29 TOPIC_AUTHORIZATION_FAILED fatal
    30 GROUP_AUTHORIZATION_FAILED fatal
    31 CLUSTER_AUTHORIZATION_FAILED fatal
    32 INVALID_TIMESTAMP fatal
    33 UNSUPPORTED_SASL_MECHANISM fatal
    34 ILLEGAL_SASL_STATE fatal
    35 UNSUPPORTED_VERSION fatal
    36 TOPIC_ALREADY_EXISTS fatal
    37 INVALID_PARTITIONS fatal
    38 INVALID_REPLICATION_FACTOR fatal
    39 INVALID_REPLICA_ASSIGNMENT fatal
    40 INVALID_CONFIG fatal
    41 NOT_CONTROLLER retry
    42 INVALID_REQUEST fatal
    43 UNSUPPORTED_FOR_MESSAGE_FORMAT fatal
    44 POLICY_VIOLATION fatal
    45 OUT_OF_ORDER_SEQUENCE_NUMBER fatal
    46 DUPLICATE_SEQUENCE_NUMBER fatal
    47 INVALID_PRODUCER_EPOCH fatal
    48 INVALID_TXN_STATE fatal
    49 INVALID_PRODUCER_ID_MAPPING fatal
    50 INVALID_TRANSACTION_TIMEOUT fatal
    51 CONCURRENT_TRANSACTIONS retry
    52 TRANSACTION_COORDINATOR_FENCED fatal
    53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED fatal
    54 SECURITY_DISABLED fatal
    55 OPERATION_NOT_ATTEMPTED fatal
    56 KAFKA_STORAGE_ERROR retry
    57 LOG_DIR_NOT_FOUND fatal
    58 SASL_AUTHENTICATION_FAILED fatal
    59 UNKNOWN_PRODUCER_ID fatal
    60 REASSIGNMENT_IN_PROGRESS fatal
    61 DELEGATION_TOKEN_AUTH_DISABLED fatal
    62 DELEGATION_TOKEN_NOT_FOUND fatal
    63 DELEGATION_TOKEN_OWNER_MISMATCH fatal
    64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED fatal
    65 DELEGATION_TOKEN_AUTHORIZATION_FAILED fatal
    66 DELEGATION_TOKEN_EXPIRED fatal
    67 INVALID_PRINCIPAL_TYPE fatal
    68 NON_EMPTY_GROUP fatal
    69 GROUP_ID_NOT_FOUND fatal
    70 FETCH_SESSION_ID_NOT_FOUND retry
    71 INVALID_FETCH_SESSION_EPOCH retry
    72 LISTENER_NOT_FOUND retry
    73 TOPIC_DELETION_DISABLED fatal
    74 FENCED_LEADER_EPOCH retry
    75 UNKNOWN_LEADER_EPOCH retry
    76 UNSUPPORTED_COMPRESSION_TYPE fatal
    77 STALE_BROKER_EPOCH fatal
    78 OFFSET_NOT_AVAILABLE retry
    79 MEMBER_ID_REQUIRED fatal
    80 PREFERRED_LEADER_NOT_AVAILABLE retry
    81 GROUP_MAX_SIZE_REACHED fatal
    82 FENCED_INSTANCE_ID fatal
    83 ELIGIBLE_LEADERS_NOT_AVAILABLE retry
    84 ELECTION_NOT_NEEDED retry
    85 NO_REASSIGNMENT_IN_PROGRESS fatal
    86 GROUP_SUBSCRIBED_TO_TOPIC fatal
    87 INVALID_RECORD fatal
    88 UNSTABLE_OFFSET_COMMIT retry
    89 THROTTLING_QUOTA_EXCEEDED retry
    90 PRODUCER_FENCED fatal
    91 RESOURCE_NOT_FOUND fatal
    92 DUPLICATE_RESOURCE fatal
    93 UNACCEPTABLE_CREDENTIAL fatal
    94 INCONSISTENT_VOTER_SET fatal
    95 INVALID_UPDATE_VERSION fatal
    96 FEATURE_UPDATE_FAILED fatal
    97 PRINCIPAL_DESERIALIZATION_FAILURE fatal
    98 SNAPSHOT_NOT_FOUND fatal
    99 POSITION_OUT_OF_RANGE fatal
    100 UNKNOWN_TOPIC_ID retry
    101 DUPLICATE_BROKER_REGISTRATION fatal
    102 BROKER_ID_NOT_REGISTERED fatal
    103 INCONSISTENT_TOPIC_ID retry
    104 INCONSISTENT_CLUSTER_ID fatal
    105 TRANSACTIONAL_ID_NOT_FOUND fatal
    106 FETCH_SESSION_TOPIC_ID_ERROR retry
    107 INELIGIBLE_REPLICA fatal
    108 NEW_LEADER_ELECTED fatal
    109 OFFSET_MOVED_TO_TIERED_STORAGE fatal
    110 FENCED_MEMBER_EPOCH fatal
    111 UNRELEASED_INSTANCE_ID fatal
    112 UNSUPPORTED_ASSIGNOR fatal
    113 STALE_MEMBER_EPOCH fatal
    114 MISMATCHED_ENDPOINT_TYPE fatal
    115 UNSUPPORTED_ENDPOINT_TYPE fatal
    116 UNKNOWN_CONTROLLER_ID fatal
    117 UNKNOWN_SUBSCRIPTION_ID fatal
    118 TELEMETRY_TOO_LARGE fatal
    119 INVALID_REGISTRATION fatal
    120 TRANSACTION_ABORTABLE fatal
    121 INVALID_RECORD_STATE fatal
    122 SHARE_SESSION_NOT_FOUND retry
    123 INVALID_SHARE_SESSION_EPOCH retry
    124 FENCED_STATE_EPOCH fatal
    125 INVALID_VOTER_KEY fatal
    126 DUPLICATE_VOTER fatal
    127 VOTER_NOT_FOUND fatal
    128 INVALID_REGULAR_EXPRESSION fatal
    129 REBOOTSTRAP_REQUIRED fatal
    130 STREAMS_INVALID_TOPOLOGY fatal
    131 STREAMS_INVALID_TOPOLOGY_EPOCH fatal
    132 STREAMS_TOPOLOGY_FENCED fatal
    133 SHARE_SESSION_LIMIT_REACHED retry
    134 GROUP_DELETION_FAILED fatal
    135 STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED fatal
    136 CONTROLLER_ID_NOT_REGISTERED fatal
    1134 READ_ONLY_TOPIC fatal
    1135 INVALID_CLUSTER_MIRROR_NAME fatal
    1136 CLUSTER_MIRROR_ALREADY_EXISTS fatal
    1137 UNKNOWN_CLUSTER_MIRROR fatal
    1138 TOPIC_ALREADY_IN_CLUSTER_MIRROR fatal
    1139 TOPIC_NOT_IN_CLUSTER_MIRROR fatal
    1140 MIRROR_TOPIC_ALREADY_PAUSED fatal
    1141 MIRROR_TOPIC_NOT_PAUSED fatal
    1142 MIRROR_TOPIC_BEING_STOPPED fatal
    1143 CLUSTER_MIRROR_NOT_EMPTY fatal
    1144 CLUSTER_MIRROR_AUTHORIZATION_FAILED fatal
    1145 INVALID_CLUSTER_MIRROR_STATES fatal
    1146 MIRROR_TOPIC_NOT_STOPPED fatal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_ascend_and_have_their_names() {
        assert!(CODES.windows(2).all(|two| two[0].0 < two[1].0));
        assert_eq!(ErrorCode::POLICY_VIOLATION.0, 44);
        assert_eq!(ErrorCode(1138).name(), "TOPIC_ALREADY_IN_CLUSTER_MIRROR");
        assert_eq!(ErrorCode(3).to_string(), "UNKNOWN_TOPIC_OR_PARTITION (3)");
        assert_eq!(ErrorCode(9999).to_string(), "UNKNOWN_ERROR_CODE (9999)");
    }

    #[test]
    fn a_moved_leader_is_worth_a_retry_and_a_refusal_is_not() {
        assert!(ErrorCode::NOT_LEADER_OR_FOLLOWER.is_retriable() && ErrorCode(100).is_retriable());
        assert!(!ErrorCode::TOPIC_AUTHORIZATION_FAILED.is_retriable() && !ErrorCode(9999).is_retriable());
    }
}
