//! pure: one access control entry together with what it is about. The authorizer, the state log, the requests about entries and
//! the sync with a source all mean this type.
//!
//! An entry is its own key: two that are equal are one.

use core::fmt;

use crate::security::codes::{Operation, PatternType, Permission, ResourceType};

/// The name that stands for every resource of a kind, read literally, and for every host.
pub const WILDCARD: &str = "*";
/// The principal that stands for everybody.
pub const EVERYBODY: &str = "User:*";
/// The one name of the cluster as a resource.
pub const CLUSTER_NAME: &str = "kafka-cluster";
/// Bytes of one text of an entry: the name, the principal, the host.
pub const TEXT_BYTES_MAX: usize = 2_048;

/// An entry and what it is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AclBinding {
    /// Kind of the resource.
    pub resource_type: ResourceType,
    /// Name of the resource, or how it begins.
    pub resource_name: String,
    /// How the name is to be read.
    pub pattern_type: PatternType,
    /// Whom it is about, as `User:alice`.
    pub principal: String,
    /// The address that the principal comes from, as text, or `*`.
    pub host: String,
    /// What is done.
    pub operation: Operation,
    /// Whether it is allowed or forbidden.
    pub permission: Permission,
}

/// Why an entry cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadBinding {
    /// A number that stands for nothing, or for anything, where one value is needed.
    Code {
        /// The field.
        field: &'static str,
        /// The number.
        code: i8,
    },
    /// A text that must not be empty.
    Empty(&'static str),
    /// A text that is longer than [`TEXT_BYTES_MAX`].
    TooLong(&'static str),
    /// The cluster has one name, read literally.
    ClusterName(String),
    /// A principal without a type, as `alice` for `User:alice`.
    Principal(String),
}

impl fmt::Display for BadBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code { field, code } => write!(f, "the {field} {code} is none that an entry can have"),
            Self::Empty(field) => write!(f, "the {field} is empty"),
            Self::TooLong(field) => write!(f, "the {field} is longer than {TEXT_BYTES_MAX} bytes"),
            Self::ClusterName(name) => {
                write!(f, "the cluster has the one name {CLUSTER_NAME}, read literally, and not {name:?}")
            }
            Self::Principal(text) => write!(f, "{text:?} is no principal; write TYPE:NAME, as User:alice"),
        }
    }
}

impl core::error::Error for BadBinding {}

impl AclBinding {
    /// An entry of the numbers and texts that a message carries.
    ///
    /// # Errors
    /// As [`AclBinding::check`], or a number that stands for no value.
    pub fn from_codes(codes: Codes, resource_name: &str, principal: &str, host: &str) -> Result<Self, BadBinding> {
        let bad = |field, code| BadBinding::Code { field, code };
        let binding = Self {
            resource_type: ResourceType::from_code(codes.resource_type)
                .ok_or(bad("resource type", codes.resource_type))?,
            resource_name: resource_name.to_owned(),
            pattern_type: PatternType::from_code(codes.pattern_type).ok_or(bad("pattern type", codes.pattern_type))?,
            principal: principal.to_owned(),
            host: host.to_owned(),
            operation: Operation::from_code(codes.operation).ok_or(bad("operation", codes.operation))?,
            permission: Permission::from_code(codes.permission).ok_or(bad("permission", codes.permission))?,
        };
        binding.check().map(|()| binding)
    }

    /// The numbers that a message carries for it.
    #[must_use]
    pub fn codes(&self) -> Codes {
        Codes {
            resource_type: self.resource_type.code(),
            pattern_type: self.pattern_type.code(),
            operation: self.operation.code(),
            permission: self.permission.code(),
        }
    }

    /// Whether the texts are ones that an entry can have.
    ///
    /// # Errors
    /// The first text that is not.
    pub fn check(&self) -> Result<(), BadBinding> {
        for (field, text) in
            [("resource name", &self.resource_name), ("principal", &self.principal), ("host", &self.host)]
        {
            if text.is_empty() {
                return Err(BadBinding::Empty(field));
            }
            if text.len() > TEXT_BYTES_MAX {
                return Err(BadBinding::TooLong(field));
            }
        }
        let literal = self.pattern_type == PatternType::Literal;
        if self.resource_type == ResourceType::Cluster && !(literal && self.resource_name == CLUSTER_NAME) {
            return Err(BadBinding::ClusterName(self.resource_name.clone()));
        }
        match self.principal.split_once(':') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() => Ok(()),
            _ => Err(BadBinding::Principal(self.principal.clone())),
        }
    }

    /// Whether the resource `name` of the same kind is one that it is about.
    #[must_use]
    pub fn covers_name(&self, name: &str) -> bool {
        match self.pattern_type {
            PatternType::Literal => self.resource_name == WILDCARD || self.resource_name == name,
            PatternType::Prefixed => name.starts_with(&self.resource_name),
        }
    }
}

/// The numbers of an entry in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codes {
    /// See [`ResourceType`].
    pub resource_type: i8,
    /// See [`PatternType`].
    pub pattern_type: i8,
    /// See [`Operation`].
    pub operation: i8,
    /// See [`Permission`].
    pub permission: i8,
}

impl fmt::Display for AclBinding {
    /// As `ALLOW User:alice to READ TOPIC orders (LITERAL) from *`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource_type, resource_name, pattern_type, principal, host, operation, permission } = self;
        write!(
            f,
            "{permission} {principal} to {operation} {resource_type} {resource_name} ({pattern_type}) from {host}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ_ALLOWED: Codes = Codes { resource_type: 2, pattern_type: 3, operation: 3, permission: 3 };

    #[test]
    fn an_entry_is_made_of_the_numbers_that_it_gives() {
        let binding = AclBinding::from_codes(READ_ALLOWED, "orders", "User:alice", "*").unwrap();
        assert_eq!(binding.codes(), READ_ALLOWED);
        assert_eq!(binding.to_string(), "ALLOW User:alice to READ TOPIC orders (LITERAL) from *");
    }

    #[test]
    fn what_no_entry_can_have_is_named() {
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        let cluster = Codes { resource_type: 4, ..READ_ALLOWED };
        let cases = [
            (Codes { resource_type: 1, ..READ_ALLOWED }, "t", "User:a", "*", "resource type 1"),
            (Codes { resource_type: 9, ..READ_ALLOWED }, "t", "User:a", "*", "resource type 9"),
            (Codes { pattern_type: 2, ..READ_ALLOWED }, "t", "User:a", "*", "pattern type 2"),
            (Codes { operation: 1, ..READ_ALLOWED }, "t", "User:a", "*", "operation 1"),
            (Codes { permission: 0, ..READ_ALLOWED }, "t", "User:a", "*", "permission 0"),
            (READ_ALLOWED, "", "User:a", "*", "resource name is empty"),
            (READ_ALLOWED, "t", "", "*", "principal is empty"),
            (READ_ALLOWED, "t", "User:a", "", "host is empty"),
            (READ_ALLOWED, &long, "User:a", "*", "resource name is longer"),
            (READ_ALLOWED, "t", "alice", "*", "alice"),
            (READ_ALLOWED, "t", ":a", "*", "no principal"),
            (READ_ALLOWED, "t", "User:", "*", "no principal"),
            (cluster, "mine", "User:a", "*", "kafka-cluster"),
            (Codes { pattern_type: 4, ..cluster }, CLUSTER_NAME, "User:a", "*", "read literally"),
        ];
        for (codes, name, principal, host, expected) in cases {
            let bad = AclBinding::from_codes(codes, name, principal, host).unwrap_err().to_string();
            assert!(bad.contains(expected), "{bad}: {expected}");
        }
        assert!(AclBinding::from_codes(cluster, CLUSTER_NAME, "User:a", "*").is_ok());
    }

    #[test]
    fn a_literal_star_covers_every_name_and_a_prefixed_star_only_those_that_begin_with_it() {
        let with = |pattern_type, name: &str| {
            let codes = Codes { pattern_type, ..READ_ALLOWED };
            AclBinding::from_codes(codes, name, "User:a", "*").unwrap()
        };
        assert!(with(3, "*").covers_name("orders"));
        assert!(!with(4, "*").covers_name("orders") && with(4, "*").covers_name("*x"));
        assert!(with(4, "ord").covers_name("orders") && with(4, "ord").covers_name("ord"));
        assert!(!with(3, "ord").covers_name("orders") && !with(4, "orders").covers_name("ord"));
    }
}
