//! pure: the kinds, operations and permissions of access control entries: their numbers on the wire and their names.
//!
//! 0 (unknown) and 1 (any) are no values: an entry never has them, and a filter says them with an absent value.

use core::fmt;
use core::str::FromStr;

/// The number on the wire that stands for a value that the writer does not know.
pub const CODE_UNKNOWN: i8 = 0;
/// The number on the wire by which a filter says that it does not mind.
pub const CODE_ANY: i8 = 1;

/// A name that stands for nothing; says which ones do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSuchName {
    /// What was looked for.
    pub what: &'static str,
    /// The name that was given.
    pub given: String,
    /// The names there are.
    pub names: String,
}

impl fmt::Display for NoSuchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no {}; there are {}", self.given, self.what, self.names)
    }
}

impl core::error::Error for NoSuchName {}

macro_rules! codes {
    ($(#[$doc:meta])* $type:ident, $what:literal, { $($(#[$value_doc:meta])* $value:ident = $code:literal $name:literal)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i8)]
        pub enum $type {
            $($(#[$value_doc])* $value = $code,)*
        }

        impl $type {
            /// Every value, ascending by code.
            pub const ALL: &[Self] = &[$(Self::$value),*];

            /// The number on the wire.
            #[must_use]
            pub fn code(self) -> i8 {
                self as i8
            }

            /// The value of a number that was read; `None` when it stands for nothing here, as unknown and any do.
            #[must_use]
            pub fn from_code(code: i8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$value),)*
                    _ => None,
                }
            }

            /// Kafka's name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)*
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = NoSuchName;

            /// Capitals do not matter, and `-` stands for `_` and for nothing: `TransactionalId`, `transactional-id`.
            fn from_str(text: &str) -> Result<Self, NoSuchName> {
                let wanted = plain(text);
                Self::ALL.iter().copied().find(|value| plain(value.name()) == wanted).ok_or_else(|| NoSuchName {
                    what: $what,
                    given: text.to_owned(),
                    names: Self::ALL.iter().map(|value| value.name()).collect::<Vec<_>>().join(", "),
                })
            }
        }
    };
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).map(|c| c.to_ascii_uppercase()).collect()
}

codes! {
    /// What an entry is about.
    ResourceType, "resource type", {
        /// A topic.
        Topic = 2 "TOPIC"
        /// A consumer, share or streams group.
        Group = 3 "GROUP"
        /// The cluster as a whole; its one name is [`CLUSTER_NAME`](super::acl::CLUSTER_NAME).
        Cluster = 4 "CLUSTER"
        /// A transactional id.
        TransactionalId = 5 "TRANSACTIONAL_ID"
        /// A delegation token.
        DelegationToken = 6 "DELEGATION_TOKEN"
        /// A user, for tokens.
        User = 7 "USER"
        /// A mirror; stock clients do not know it.
        ClusterMirror = 8 "CLUSTER_MIRROR"
    }
}

codes! {
    /// How the name of an entry is to be read.
    PatternType, "pattern type", {
        /// The name itself; `*` stands for every name.
        Literal = 3 "LITERAL"
        /// Every name that begins so.
        Prefixed = 4 "PREFIXED"
    }
}

codes! {
    /// What is done to a resource.
    Operation, "operation", {
        /// All of them; only in entries.
        All = 2 "ALL"
        /// Read.
        Read = 3 "READ"
        /// Write.
        Write = 4 "WRITE"
        /// Create.
        Create = 5 "CREATE"
        /// Delete.
        Delete = 6 "DELETE"
        /// Alter.
        Alter = 7 "ALTER"
        /// Describe.
        Describe = 8 "DESCRIBE"
        /// What nodes do among themselves.
        ClusterAction = 9 "CLUSTER_ACTION"
        /// See settings.
        DescribeConfigs = 10 "DESCRIBE_CONFIGS"
        /// Change settings.
        AlterConfigs = 11 "ALTER_CONFIGS"
        /// Write without loss and repetition.
        IdempotentWrite = 12 "IDEMPOTENT_WRITE"
        /// Create tokens.
        CreateTokens = 13 "CREATE_TOKENS"
        /// Describe tokens.
        DescribeTokens = 14 "DESCRIBE_TOKENS"
        /// Take part in a two-phase commit.
        TwoPhaseCommit = 15 "TWO_PHASE_COMMIT"
    }
}

codes! {
    /// What an entry does.
    Permission, "permission", {
        /// Forbids, whatever else allows.
        Deny = 2 "DENY"
        /// Allows.
        Allow = 3 "ALLOW"
    }
}

impl ResourceType {
    /// The operations that mean something for it, ascending; [`Operation::All`] covers them.
    #[must_use]
    pub fn operations(self) -> &'static [Operation] {
        use Operation as Op;
        match self {
            Self::Topic => &[
                Op::Read,
                Op::Write,
                Op::Create,
                Op::Delete,
                Op::Alter,
                Op::Describe,
                Op::DescribeConfigs,
                Op::AlterConfigs,
            ],
            Self::Group => &[Op::Read, Op::Delete, Op::Describe, Op::DescribeConfigs, Op::AlterConfigs],
            Self::Cluster => &[
                Op::Create,
                Op::Alter,
                Op::Describe,
                Op::ClusterAction,
                Op::DescribeConfigs,
                Op::AlterConfigs,
                Op::IdempotentWrite,
            ],
            Self::TransactionalId => &[Op::Write, Op::Describe, Op::TwoPhaseCommit],
            Self::DelegationToken => &[Op::Describe],
            Self::User => &[Op::CreateTokens, Op::DescribeTokens],
            Self::ClusterMirror => {
                &[Op::Create, Op::Delete, Op::Alter, Op::Describe, Op::DescribeConfigs, Op::AlterConfigs]
            }
        }
    }

    /// Whether stock clients know it; they take an answer that has another one for broken.
    #[must_use]
    pub fn is_stock(self) -> bool {
        self != Self::ClusterMirror
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_however_they_are_written() {
        for text in ["TRANSACTIONAL_ID", "transactional-id", "TransactionalId"] {
            assert_eq!(text.parse(), Ok(ResourceType::TransactionalId));
        }
        assert_eq!("AlterConfigs".parse(), Ok(Operation::AlterConfigs));
        let unknown = "REED".parse::<Operation>().unwrap_err().to_string();
        assert!(unknown.contains("REED") && unknown.contains("READ"), "{unknown}");
        assert!("any".parse::<Permission>().is_err() && "".parse::<PatternType>().is_err());
    }

    #[test]
    fn codes_are_those_of_the_protocol_and_neither_unknown_nor_any_is_a_value() {
        for code in i8::MIN..=i8::MAX {
            assert_eq!(ResourceType::from_code(code).is_some(), (2..=8).contains(&code), "{code}");
            assert_eq!(PatternType::from_code(code).is_some(), (3..=4).contains(&code), "{code}");
            assert_eq!(Operation::from_code(code).is_some(), (2..=15).contains(&code), "{code}");
            assert_eq!(Permission::from_code(code).is_some(), (2..=3).contains(&code), "{code}");
        }
        for operation in Operation::ALL {
            assert_eq!(Operation::from_code(operation.code()), Some(*operation));
            assert_eq!(operation.name().parse(), Ok(*operation));
        }
    }

    #[test]
    fn the_operations_of_a_kind_ascend_and_never_hold_all() {
        for kind in ResourceType::ALL {
            let operations = kind.operations();
            assert!(operations.windows(2).all(|two| two[0] < two[1]), "{kind}");
            assert!(!operations.contains(&Operation::All) && !operations.is_empty(), "{kind}");
        }
    }
}
