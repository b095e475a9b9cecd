//! pure: which entries a listing or a removal means.

use core::fmt;

use crate::security::acl::{AclBinding, WILDCARD};
use crate::security::codes::{CODE_ANY, Operation, PatternType, Permission, ResourceType};

/// Number of [`NamePattern::Match`] on the wire.
const CODE_MATCH: i8 = 2;

/// How the name in a filter is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NamePattern {
    /// With the name of an entry of either pattern type.
    #[default]
    Any,
    /// As the name of a resource: with everything that would have a say about it.
    Match,
    /// With the name of an entry of this pattern type.
    Is(PatternType),
}

impl NamePattern {
    /// The number on the wire.
    #[must_use]
    pub fn code(self) -> i8 {
        match self {
            Self::Any => CODE_ANY,
            Self::Match => CODE_MATCH,
            Self::Is(pattern) => pattern.code(),
        }
    }
}

/// A filter; what is absent does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AclFilter {
    /// Kind of the resource.
    pub resource_type: Option<ResourceType>,
    /// Name of the resource.
    pub resource_name: Option<String>,
    /// How the name is compared.
    pub pattern: NamePattern,
    /// Whom the entry is about; `User:*` is only itself here.
    pub principal: Option<String>,
    /// Where the principal comes from; `*` is only itself here.
    pub host: Option<String>,
    /// What is done; ALL is only itself here.
    pub operation: Option<Operation>,
    /// Whether it is allowed or forbidden.
    pub permission: Option<Permission>,
}

/// A number in a filter that stands for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadFilter {
    /// The field.
    pub field: &'static str,
    /// The number.
    pub code: i8,
}

impl fmt::Display for BadFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} {} of the filter stands for nothing", self.field, self.code)
    }
}

impl core::error::Error for BadFilter {}

/// The numbers of a filter in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterCodes {
    /// See [`ResourceType`].
    pub resource_type: i8,
    /// See [`NamePattern`].
    pub pattern_type: i8,
    /// See [`Operation`].
    pub operation: i8,
    /// See [`Permission`].
    pub permission: i8,
}

impl AclFilter {
    /// A filter of the numbers that a message carries; the texts are left for the caller to set.
    ///
    /// # Errors
    /// The first number that stands for nothing.
    pub fn from_codes(codes: FilterCodes) -> Result<Self, BadFilter> {
        Ok(Self {
            resource_type: one("resource type", codes.resource_type, ResourceType::from_code)?,
            pattern: match one("pattern type", codes.pattern_type, |code| match code {
                CODE_MATCH => Some(NamePattern::Match),
                code => PatternType::from_code(code).map(NamePattern::Is),
            })? {
                None => NamePattern::Any,
                Some(pattern) => pattern,
            },
            operation: one("operation", codes.operation, Operation::from_code)?,
            permission: one("permission", codes.permission, Permission::from_code)?,
            ..Self::default()
        })
    }

    /// The numbers that a message carries for it.
    #[must_use]
    pub fn codes(&self) -> FilterCodes {
        FilterCodes {
            resource_type: self.resource_type.map_or(CODE_ANY, ResourceType::code),
            pattern_type: self.pattern.code(),
            operation: self.operation.map_or(CODE_ANY, Operation::code),
            permission: self.permission.map_or(CODE_ANY, Permission::code),
        }
    }

    /// Whether it means this entry.
    #[must_use]
    pub fn matches(&self, binding: &AclBinding) -> bool {
        self.resource_type.is_none_or(|wanted| wanted == binding.resource_type)
            && self.name_matches(binding)
            && self.principal.as_ref().is_none_or(|wanted| *wanted == binding.principal)
            && self.host.as_ref().is_none_or(|wanted| *wanted == binding.host)
            && self.operation.is_none_or(|wanted| wanted == binding.operation)
            && self.permission.is_none_or(|wanted| wanted == binding.permission)
    }

    fn name_matches(&self, binding: &AclBinding) -> bool {
        if let NamePattern::Is(wanted) = self.pattern
            && wanted != binding.pattern_type
        {
            return false;
        }
        let Some(name) = &self.resource_name else { return true };
        match (self.pattern, binding.pattern_type) {
            (NamePattern::Match, PatternType::Literal) => {
                *name == binding.resource_name || binding.resource_name == WILDCARD
            }
            (NamePattern::Match, PatternType::Prefixed) => name.starts_with(&binding.resource_name),
            _ => *name == binding.resource_name,
        }
    }
}

fn one<T>(field: &'static str, code: i8, read: impl Fn(i8) -> Option<T>) -> Result<Option<T>, BadFilter> {
    match code {
        CODE_ANY => Ok(None),
        code => read(code).map(Some).ok_or(BadFilter { field, code }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(pattern_type: PatternType, name: &str) -> AclBinding {
        AclBinding {
            resource_type: ResourceType::Topic,
            resource_name: name.to_owned(),
            pattern_type,
            principal: "User:a".to_owned(),
            host: "10.0.0.1".to_owned(),
            operation: Operation::Read,
            permission: Permission::Allow,
        }
    }

    #[test]
    fn names_are_compared_as_the_pattern_says() {
        use NamePattern::{Any, Is, Match};
        use PatternType::{Literal, Prefixed};
        let cases = [
            // pattern, name in the filter, entry, meant?
            (Any, Some("ord"), entry(Literal, "ord"), true),
            (Any, Some("ord"), entry(Prefixed, "ord"), true),
            (Any, Some("orders"), entry(Prefixed, "ord"), false),
            (Any, Some("orders"), entry(Literal, "*"), false),
            (Any, None, entry(Literal, "*"), true),
            (Match, Some("orders"), entry(Literal, "orders"), true),
            (Match, Some("orders"), entry(Literal, "*"), true),
            (Match, Some("orders"), entry(Prefixed, "ord"), true),
            (Match, Some("orders"), entry(Prefixed, "*"), false),
            (Match, Some("ord"), entry(Prefixed, "orders"), false),
            (Match, None, entry(Prefixed, "orders"), true),
            (Is(Literal), Some("ord"), entry(Literal, "ord"), true),
            (Is(Literal), Some("ord"), entry(Prefixed, "ord"), false),
            (Is(Literal), Some("ord"), entry(Literal, "*"), false),
            (Is(Prefixed), Some("ord"), entry(Prefixed, "ord"), true),
            (Is(Prefixed), None, entry(Literal, "ord"), false),
        ];
        for (pattern, name, binding, expected) in cases {
            let filter = AclFilter { resource_name: name.map(str::to_owned), pattern, ..AclFilter::default() };
            assert_eq!(filter.matches(&binding), expected, "{filter:?} {binding}");
        }
    }

    #[test]
    fn every_other_field_is_compared_as_it_stands_and_nothing_is_implied() {
        let binding = entry(PatternType::Literal, "t");
        let of = |change: fn(&mut AclFilter)| {
            let mut filter = AclFilter::default();
            change(&mut filter);
            filter
        };
        let meant = [
            of(|_| ()),
            of(|f| f.resource_type = Some(ResourceType::Topic)),
            of(|f| f.principal = Some("User:a".into())),
            of(|f| f.host = Some("10.0.0.1".into())),
            of(|f| f.operation = Some(Operation::Read)),
            of(|f| f.permission = Some(Permission::Allow)),
        ];
        let others = [
            of(|f| f.resource_type = Some(ResourceType::Group)),
            of(|f| f.principal = Some("User:*".into())),
            of(|f| f.host = Some("*".into())),
            of(|f| f.operation = Some(Operation::All)),
            of(|f| f.operation = Some(Operation::Describe)),
            of(|f| f.permission = Some(Permission::Deny)),
        ];
        assert!(meant.iter().all(|filter| filter.matches(&binding)));
        assert!(others.iter().all(|filter| !filter.matches(&binding)));
    }

    #[test]
    fn a_filter_is_made_of_the_numbers_that_it_gives_and_an_unknown_one_is_named() {
        let any = FilterCodes { resource_type: 1, pattern_type: 1, operation: 1, permission: 1 };
        assert_eq!(AclFilter::from_codes(any), Ok(AclFilter::default()));
        let some = FilterCodes { resource_type: 8, pattern_type: 2, operation: 11, permission: 2 };
        assert_eq!(AclFilter::from_codes(some).unwrap().codes(), some);
        for (codes, field) in [
            (FilterCodes { resource_type: 0, ..any }, "resource type"),
            (FilterCodes { pattern_type: 5, ..any }, "pattern type"),
            (FilterCodes { operation: -1, ..any }, "operation"),
            (FilterCodes { permission: 4, ..any }, "permission"),
        ] {
            assert_eq!(AclFilter::from_codes(codes).unwrap_err().field, field);
        }
    }
}
