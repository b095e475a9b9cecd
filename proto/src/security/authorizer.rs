//! pure: which entry allows or forbids an action. The rules are those of a stock broker's authorizer.
//!
//! - Super users may do everything.
//! - An entry counts when its kind and name cover the resource, its principal is the caller or everybody, and its host is the
//!   caller's or `*`.
//! - One entry that forbids outweighs all that allow, whichever is more precise. Nothing that counts: forbidden.
//! - To allow READ, WRITE, DELETE or ALTER is to allow DESCRIBE, and ALTER_CONFIGS allows DESCRIBE_CONFIGS. To forbid implies
//!   nothing.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use crate::security::acl::{AclBinding, EVERYBODY, WILDCARD};
use crate::security::codes::{Operation, PatternType, Permission, ResourceType};

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Caller {
    /// As `User:alice`.
    pub principal: String,
    /// The address it comes from, as text.
    pub host: String,
}

/// What is to be done to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Action<'a> {
    /// The operation; never [`Operation::All`].
    pub operation: Operation,
    /// Kind of the resource.
    pub resource_type: ResourceType,
    /// Its name.
    pub resource_name: &'a str,
}

impl fmt::Display for Action<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} {}", self.operation, self.resource_type, self.resource_name)
    }
}

/// The answer, with its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision<'a> {
    /// The caller is a super user.
    SuperUser,
    /// An entry allows it and none forbids it.
    AllowedBy(&'a AclBinding),
    /// An entry forbids it.
    DeniedBy(&'a AclBinding),
    /// No entry speaks of it.
    NotAllowed,
}

impl Decision<'_> {
    /// Whether the action may be carried out.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::SuperUser | Self::AllowedBy(_))
    }
}

/// The entries of a cluster, found by the name of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AclIndex {
    kinds: BTreeMap<ResourceType, Kind>,
    len: usize,
}

/// The entries of one kind of resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Kind {
    literal: BTreeMap<String, BTreeSet<AclBinding>>,
    prefixed: BTreeMap<String, BTreeSet<AclBinding>>,
    /// How many prefixes there are of each length in bytes: only these can be the beginning of a name.
    prefix_bytes: BTreeMap<usize, usize>,
}

impl AclIndex {
    /// Takes an entry; `false` when it is there already.
    pub fn insert(&mut self, binding: AclBinding) -> bool {
        let kind = self.kinds.entry(binding.resource_type).or_default();
        let names = match binding.pattern_type {
            PatternType::Literal => &mut kind.literal,
            PatternType::Prefixed => &mut kind.prefixed,
        };
        let entries = names.entry(binding.resource_name.clone()).or_default();
        if entries.is_empty() && binding.pattern_type == PatternType::Prefixed {
            *kind.prefix_bytes.entry(binding.resource_name.len()).or_default() += 1;
        }
        let new = entries.insert(binding);
        self.len += usize::from(new);
        new
    }

    /// Takes an entry away; `false` when it is not there.
    pub fn remove(&mut self, binding: &AclBinding) -> bool {
        let Some(kind) = self.kinds.get_mut(&binding.resource_type) else { return false };
        let names = match binding.pattern_type {
            PatternType::Literal => &mut kind.literal,
            PatternType::Prefixed => &mut kind.prefixed,
        };
        let Some(entries) = names.get_mut(&binding.resource_name) else { return false };
        let gone = entries.remove(binding);
        if entries.is_empty() {
            names.remove(&binding.resource_name);
            let bytes = binding.resource_name.len();
            if let (PatternType::Prefixed, Some(count)) = (binding.pattern_type, kind.prefix_bytes.get_mut(&bytes)) {
                *count -= 1;
                if *count == 0 {
                    kind.prefix_bytes.remove(&bytes);
                }
            }
            if kind.literal.is_empty() && kind.prefixed.is_empty() {
                self.kinds.remove(&binding.resource_type);
            }
        }
        self.len -= usize::from(gone);
        gone
    }

    /// Whether it has this entry.
    #[must_use]
    pub fn contains(&self, binding: &AclBinding) -> bool {
        self.kinds.get(&binding.resource_type).is_some_and(|kind| {
            let names = match binding.pattern_type {
                PatternType::Literal => &kind.literal,
                PatternType::Prefixed => &kind.prefixed,
            };
            names.get(&binding.resource_name).is_some_and(|entries| entries.contains(binding))
        })
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries: by kind, literal ones first, by name.
    pub fn iter(&self) -> impl Iterator<Item = &AclBinding> {
        self.kinds.values().flat_map(|kind| kind.literal.values().chain(kind.prefixed.values()).flatten())
    }

    /// The entries whose name covers this resource.
    pub fn about<'a>(&'a self, resource_type: ResourceType, name: &'a str) -> impl Iterator<Item = &'a AclBinding> {
        let kind = self.kinds.get(&resource_type);
        kind.into_iter().flat_map(move |kind| {
            let literal = [name, WILDCARD].into_iter().take(if name == WILDCARD { 1 } else { 2 });
            let lengths = kind.prefix_bytes.range(..=name.len());
            // A length that cuts a character in two is no prefix of the text.
            let prefixes = lengths.filter_map(move |(bytes, _)| kind.prefixed.get(name.get(..*bytes)?));
            literal.filter_map(move |name| kind.literal.get(name)).chain(prefixes).flatten()
        })
    }

    /// Decides whether `caller` may carry out `action`.
    #[must_use]
    pub fn decide<'a>(&'a self, super_users: &BTreeSet<String>, caller: &Caller, action: &Action<'a>) -> Decision<'a> {
        if super_users.contains(&caller.principal) {
            return Decision::SuperUser;
        }
        let mut allowed = Decision::NotAllowed;
        for binding in self.about(action.resource_type, action.resource_name) {
            if !speaks_of(binding, caller, action.operation) {
                continue;
            }
            match binding.permission {
                Permission::Deny => return Decision::DeniedBy(binding),
                Permission::Allow if allowed == Decision::NotAllowed => allowed = Decision::AllowedBy(binding),
                Permission::Allow => {}
            }
        }
        allowed
    }
}

impl AclIndex {
    /// Decides whether `caller` may carry out `operation` on every resource whose name begins with `prefix`, those that do not exist
    /// included: an entry must allow it for all of them, and none may forbid it for any.
    #[must_use]
    pub fn decide_all_beginning(
        &self,
        super_users: &BTreeSet<String>,
        caller: &Caller,
        operation: Operation,
        resource_type: ResourceType,
        prefix: &str,
    ) -> Decision<'_> {
        if super_users.contains(&caller.principal) {
            return Decision::SuperUser;
        }
        let mut allowed = Decision::NotAllowed;
        let of_kind = self.kinds.get(&resource_type).into_iter();
        let entries = of_kind.flat_map(|kind| kind.literal.values().chain(kind.prefixed.values()).flatten());
        for binding in entries.filter(|binding| speaks_of(binding, caller, operation)) {
            let name = binding.resource_name.as_str();
            let (of_all, of_some) = match binding.pattern_type {
                PatternType::Literal => (name == WILDCARD, name == WILDCARD || name.starts_with(prefix)),
                PatternType::Prefixed => {
                    (prefix.starts_with(name), prefix.starts_with(name) || name.starts_with(prefix))
                }
            };
            match binding.permission {
                Permission::Deny if of_some => return Decision::DeniedBy(binding),
                Permission::Allow if of_all => allowed = Decision::AllowedBy(binding),
                _ => {}
            }
        }
        allowed
    }
}

/// Whether the entry has a say when `caller` does `operation` to a resource that its name covers.
fn speaks_of(binding: &AclBinding, caller: &Caller, operation: Operation) -> bool {
    let whom = binding.principal == caller.principal || binding.principal == EVERYBODY;
    let from = binding.host == WILDCARD || binding.host == caller.host;
    whom && from && covers_operation(binding, operation)
}

fn covers_operation(binding: &AclBinding, operation: Operation) -> bool {
    use Operation::{All, Alter, AlterConfigs, Delete, Describe, DescribeConfigs, Read, Write};
    if binding.operation == All || binding.operation == operation {
        return true;
    }
    binding.permission == Permission::Allow
        && match operation {
            Describe => matches!(binding.operation, Read | Write | Delete | Alter),
            DescribeConfigs => binding.operation == AlterConfigs,
            _ => false,
        }
}

#[cfg(test)]
#[path = "authorizer_tests.rs"]
mod tests;
