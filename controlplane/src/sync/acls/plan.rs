//! pure: the access rules of the source against those that we made for it: what is to be added and taken away.

use crate::mirror::acl_rules::Rules;
use std::collections::{BTreeMap, BTreeSet};
use twinlog_proto::security::acl::AclBinding;

/// A set of entries.
pub type Bindings = BTreeSet<AclBinding>;
/// Entries that we gave, with the cluster id of whom; empty when that was not noted.
pub type Given = BTreeMap<AclBinding, String>;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Planned {
    /// To be made.
    pub add: Bindings,
    /// To be taken away; all of them are ours.
    pub remove: Bindings,
    /// Made by us and taken away by somebody else since: they stay away.
    pub gone: Bindings,
    /// There already, and not by us: never taken away.
    pub foreign: Bindings,
}

/// What our node is to know: entries of this mirror only are ever taken away.
#[must_use]
pub fn here(source: &Bindings, rules: &Rules, ours: &Bindings) -> Planned {
    let wanted: Bindings = source.iter().filter(|binding| rules.follow(binding)).cloned().collect();
    Planned {
        add: wanted.difference(ours).cloned().collect(),
        remove: ours.difference(&wanted).cloned().collect(),
        ..Planned::default()
    }
}

/// What the destination is to have: `there` is what it has, `made` what we made there and have not taken away.
#[must_use]
pub fn destination(wanted: &Bindings, there: &Bindings, made: &Bindings) -> Planned {
    let unmade = || wanted.iter().filter(|binding| !made.contains(*binding));
    Planned {
        add: unmade().filter(|binding| !there.contains(*binding)).cloned().collect(),
        remove: made.difference(wanted).cloned().collect(),
        gone: wanted.iter().filter(|binding| made.contains(*binding) && !there.contains(*binding)).cloned().collect(),
        foreign: unmade().filter(|binding| there.contains(*binding)).cloned().collect(),
    }
}

/// Splits what we gave: to this cluster, and to others before it. What has no cluster noted was given to this one.
#[must_use]
pub fn given_to(cluster_id: &str, given: &Given) -> (Bindings, Given) {
    let here = |whose: &String| whose.is_empty() || whose == cluster_id;
    let ours = given.iter().filter(|(_, whose)| here(whose)).map(|(binding, _)| binding.clone());
    let others = given.iter().filter(|(_, whose)| !here(whose));
    (ours.collect(), others.map(|(binding, whose)| (binding.clone(), whose.clone())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlog_proto::security::codes::{Operation, PatternType, Permission, ResourceType};

    fn of(names: &[&str]) -> Bindings {
        let binding = |name: &&str| AclBinding {
            resource_type: ResourceType::Topic,
            resource_name: (*name).to_owned(),
            pattern_type: PatternType::Literal,
            principal: "User:a".to_owned(),
            host: "*".to_owned(),
            operation: Operation::Read,
            permission: Permission::Allow,
        };
        names.iter().map(binding).collect()
    }

    #[test]
    fn what_the_source_adds_and_removes_is_followed_within_the_rules() {
        let rules = Rules::parse("TOPIC;[a-m].*").unwrap();
        let planned = here(&of(&["a", "b", "z"]), &rules, &of(&["b", "c"]));
        assert_eq!((planned.add, planned.remove), (of(&["a"]), of(&["c"])));
        let narrower = here(&of(&["a", "b"]), &Rules::parse("TOPIC;b").unwrap(), &of(&["a", "b"]));
        assert_eq!((narrower.add, narrower.remove), (of(&[]), of(&["a"])));
    }

    #[test]
    fn at_the_destination_only_what_we_made_is_taken_away() {
        let planned = destination(
            &of(&["new", "kept", "foreign", "gone"]),
            &of(&["kept", "foreign", "old", "other"]),
            &of(&["kept", "old", "gone"]),
        );
        assert_eq!((planned.add, planned.remove), (of(&["new"]), of(&["old"])));
        assert_eq!((planned.gone, planned.foreign), (of(&["gone"]), of(&["foreign"])));
    }
}
