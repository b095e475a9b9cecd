//! pure: which access rules of the source are followed: `resourceType;resourceName;operation;permissionType;principal`.
//!
//! `*` stands for anything, fields at the end may be left out, names and principals are full-match expressions. Several rules,
//! separated by commas, are alternatives.

use crate::mirror::patterns::Patterns;
use crate::mirror::re2::split;
use std::str::FromStr;
use twinlog_proto::security::acl::AclBinding;
use twinlog_proto::security::codes::{Operation, Permission, ResourceType};

/// Rules of one mirror.
#[derive(Debug, Clone)]
pub struct Rules(Vec<Rule>);

#[derive(Debug, Clone)]
struct Rule {
    resource_type: Option<ResourceType>,
    resource_name: Option<Patterns>,
    operation: Option<Operation>,
    permission: Option<Permission>,
    principal: Option<Patterns>,
}

const FIELDS: usize = 5;

impl Rules {
    /// Reads a list of rules.
    ///
    /// # Errors
    /// The first rule that cannot be used, and why.
    pub fn parse(list: &str) -> Result<Self, String> {
        let rules: Result<Vec<Rule>, String> = split(list).iter().map(|text| rule(text)).collect();
        match rules? {
            rules if rules.len() > crate::limits::PATTERNS_MAX => Err(format!("{} rules are too many", rules.len())),
            rules => Ok(Self(rules)),
        }
    }

    /// Whether an entry of the source is followed. What the source says about its own mirrors means nothing here.
    #[must_use]
    pub fn follow(&self, binding: &AclBinding) -> bool {
        binding.resource_type != ResourceType::ClusterMirror && self.0.iter().any(|rule| rule.matches(binding))
    }
}

fn rule(text: &str) -> Result<Rule, String> {
    let fields: Vec<&str> = text.split(';').map(str::trim).collect();
    if fields.len() > FIELDS {
        return Err(format!("the rule {text:?} has more than {FIELDS} fields"));
    }
    let field = |at: usize| fields.get(at).copied().filter(|text| !matches!(*text, "" | "*"));
    let bad = |why: &dyn std::fmt::Display| format!("the rule {text:?} cannot be used: {why}");
    let patterns =
        |at: usize| field(at).map(|pattern| Patterns::compile(&[pattern]).map_err(|cause| bad(&cause))).transpose();
    Ok(Rule {
        resource_type: field(0).map(ResourceType::from_str).transpose().map_err(|cause| bad(&cause))?,
        resource_name: patterns(1)?,
        operation: field(2).map(Operation::from_str).transpose().map_err(|cause| bad(&cause))?,
        permission: field(3).map(Permission::from_str).transpose().map_err(|cause| bad(&cause))?,
        principal: patterns(4)?,
    })
}

impl Rule {
    fn matches(&self, binding: &AclBinding) -> bool {
        let text = |pattern: &Option<Patterns>, text: &str| pattern.as_ref().is_none_or(|p| p.matches(text));
        self.resource_type.is_none_or(|wanted| wanted == binding.resource_type)
            && text(&self.resource_name, &binding.resource_name)
            && self.operation.is_none_or(|wanted| wanted == binding.operation)
            && self.permission.is_none_or(|wanted| wanted == binding.permission)
            && text(&self.principal, &binding.principal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlog_proto::security::codes::PatternType;

    fn binding(resource_type: ResourceType, name: &str, operation: Operation, principal: &str) -> AclBinding {
        AclBinding {
            resource_type,
            resource_name: name.to_owned(),
            pattern_type: PatternType::Literal,
            principal: principal.to_owned(),
            host: "*".to_owned(),
            operation,
            permission: Permission::Allow,
        }
    }

    #[test]
    fn a_rule_matches_whole_names_and_what_is_left_out_or_a_star_is_anything() {
        let rules = Rules::parse("topic;orders.*;READ;allow;User:alice, Group").unwrap();
        let follows = |kind, name: &str, operation, who: &str| rules.follow(&binding(kind, name, operation, who));
        assert!(follows(ResourceType::Topic, "orders-eu", Operation::Read, "User:alice"));
        assert!(!follows(ResourceType::Topic, "my-orders", Operation::Read, "User:alice"));
        assert!(!follows(ResourceType::Topic, "orders", Operation::Write, "User:alice"));
        assert!(!follows(ResourceType::Topic, "orders", Operation::Read, "User:alice2"));
        assert!(follows(ResourceType::Group, "any", Operation::All, "User:bob"));
    }

    #[test]
    fn a_star_is_everything_but_what_is_about_mirrors_and_no_rule_is_nothing() {
        let all = Rules::parse("*").unwrap();
        assert!(all.follow(&binding(ResourceType::Cluster, "kafka-cluster", Operation::Alter, "User:a")));
        assert!(!all.follow(&binding(ResourceType::ClusterMirror, "m", Operation::Alter, "User:a")));
        let none = Rules::parse("").unwrap();
        assert!(!none.follow(&binding(ResourceType::Topic, "t", Operation::Read, "User:a")));
    }

    #[test]
    fn a_rule_that_cannot_be_used_is_shown() {
        for bad in ["TOPIC;(", "TOPICS;a", "TOPIC;a;EAT", "TOPIC;a;READ;MAYBE", "a;b;c;d;e;f", "*;*;*;*;["] {
            let why = Rules::parse(bad).unwrap_err();
            assert!(why.contains(&format!("{bad:?}")), "{why}");
        }
    }
}
