//! What an authorizer decides, row by row, and that the index finds what a plain search finds.

use super::*;
use crate::security::acl::Codes;

fn caller(principal: &str, host: &str) -> Caller {
    Caller { principal: principal.to_owned(), host: host.to_owned() }
}

/// `ALLOW User:a READ TOPIC orders` and so on; a name that ends in `+` is a prefix; a host may follow.
fn entry(text: &str) -> AclBinding {
    let mut words = text.split(' ');
    let mut word = || words.next().unwrap();
    let (permission, principal, operation) = (word().parse::<Permission>().unwrap(), word(), word());
    let (resource_type, name) = (word().parse::<ResourceType>().unwrap(), word());
    let (name, pattern_type) = match name.strip_suffix('+') {
        Some(prefix) => (prefix, PatternType::Prefixed),
        None => (name, PatternType::Literal),
    };
    let codes = Codes {
        resource_type: resource_type.code(),
        pattern_type: pattern_type.code(),
        operation: operation.parse::<Operation>().unwrap().code(),
        permission: permission.code(),
    };
    AclBinding::from_codes(codes, name, principal, words.next().unwrap_or("*")).unwrap()
}

fn index(entries: &[&str]) -> AclIndex {
    let mut index = AclIndex::default();
    for text in entries {
        assert!(index.insert(entry(text)), "{text} is there twice");
    }
    index
}

/// Whether User:a at 10.0.0.1 may, by these entries.
fn may(entries: &[&str], operation: Operation, resource_type: ResourceType, name: &str) -> bool {
    let action = Action { operation, resource_type, resource_name: name };
    index(entries).decide(&BTreeSet::new(), &caller("User:a", "10.0.0.1"), &action).is_allowed()
}

#[test]
fn the_rules_hold_row_by_row() {
    use Operation::{Alter, Create, Delete, Describe, Read, Write};
    use ResourceType::{ClusterMirror, Group, Topic};
    let rows: &[(&[&str], Operation, ResourceType, &str, bool)] = &[
        (&[], Read, Topic, "orders", false),
        (&["ALLOW User:a READ TOPIC orders"], Read, Topic, "orders", true),
        (&["ALLOW User:a READ TOPIC orders"], Write, Topic, "orders", false),
        (&["ALLOW User:a READ TOPIC orders"], Read, Topic, "orders2", false),
        (&["ALLOW User:a READ TOPIC orders"], Read, Group, "orders", false),
        (&["ALLOW User:b READ TOPIC orders"], Read, Topic, "orders", false),
        // everybody, everywhere, everything
        (&["ALLOW User:* READ TOPIC orders"], Read, Topic, "orders", true),
        (&["ALLOW Group:* READ TOPIC orders"], Read, Topic, "orders", false),
        (&["ALLOW User:a READ TOPIC orders 10.0.0.1"], Read, Topic, "orders", true),
        (&["ALLOW User:a READ TOPIC orders 10.0.0.2"], Read, Topic, "orders", false),
        (&["ALLOW User:a ALL TOPIC orders"], Delete, Topic, "orders", true),
        (&["ALLOW User:a READ TOPIC *"], Read, Topic, "orders", true),
        // prefixes
        (&["ALLOW User:a READ TOPIC ord+"], Read, Topic, "orders", true),
        (&["ALLOW User:a READ TOPIC orders+"], Read, Topic, "orders", true),
        (&["ALLOW User:a READ TOPIC orders.+"], Read, Topic, "orders", false),
        (&["ALLOW User:a READ TOPIC *+"], Read, Topic, "orders", false),
        (&["ALLOW User:a READ GROUP grü+"], Read, Group, "grünkohl", true),
        (&["ALLOW User:a READ GROUP gr+"], Read, Group, "grünkohl", true),
        (&["ALLOW User:a READ GROUP abc+"], Read, Group, "grünkohl", false),
        // one that forbids outweighs all that allow, whichever is more precise
        (&["ALLOW User:a READ TOPIC orders", "DENY User:a READ TOPIC *"], Read, Topic, "orders", false),
        (&["ALLOW User:a READ TOPIC orders", "DENY User:* READ TOPIC o+"], Read, Topic, "orders", false),
        (&["ALLOW User:a ALL TOPIC *", "DENY User:a READ TOPIC orders"], Read, Topic, "orders", false),
        (&["ALLOW User:a ALL TOPIC *", "DENY User:a ALL TOPIC orders"], Write, Topic, "orders", false),
        (&["ALLOW User:a ALL TOPIC *", "DENY User:a READ TOPIC orders"], Write, Topic, "orders", true),
        (&["ALLOW User:a ALL TOPIC *", "DENY User:a READ TOPIC orders 10.0.0.9"], Read, Topic, "orders", true),
        // what allowing implies
        (&["ALLOW User:a READ TOPIC orders"], Describe, Topic, "orders", true),
        (&["ALLOW User:a WRITE TOPIC orders"], Describe, Topic, "orders", true),
        (&["ALLOW User:a DELETE TOPIC orders"], Describe, Topic, "orders", true),
        (&["ALLOW User:a ALTER TOPIC orders"], Describe, Topic, "orders", true),
        (&["ALLOW User:a CREATE TOPIC orders"], Describe, Topic, "orders", false),
        (&["ALLOW User:a ALTER_CONFIGS TOPIC orders"], Describe, Topic, "orders", false),
        (&["ALLOW User:a ALTER_CONFIGS TOPIC orders"], Operation::DescribeConfigs, Topic, "orders", true),
        (&["ALLOW User:a DESCRIBE TOPIC orders"], Read, Topic, "orders", false),
        (&["ALLOW User:a DESCRIBE_CONFIGS TOPIC orders"], Operation::AlterConfigs, Topic, "orders", false),
        // and that forbidding implies nothing
        (&["ALLOW User:a ALL TOPIC orders", "DENY User:a READ TOPIC orders"], Describe, Topic, "orders", true),
        // mirrors
        (&["ALLOW User:a ALTER CLUSTER_MIRROR dr-+"], Alter, ClusterMirror, "dr-1", true),
        (&["ALLOW User:a ALTER CLUSTER_MIRROR dr-+"], Describe, ClusterMirror, "dr-1", true),
        (&["ALLOW User:a ALTER CLUSTER_MIRROR dr-+"], Create, ClusterMirror, "dr-1", false),
        (&["ALLOW User:a ALL TOPIC *"], Describe, ClusterMirror, "dr-1", false),
    ];
    for (entries, operation, kind, name, expected) in rows {
        assert_eq!(may(entries, *operation, *kind, name), *expected, "{entries:?}: {operation} {kind} {name}");
    }
}

#[test]
fn a_super_user_may_do_what_is_forbidden_and_nobody_else_by_its_name() {
    let index = index(&["DENY User:root ALL TOPIC *", "ALLOW User:root READ TOPIC t"]);
    let action = Action { operation: Operation::Read, resource_type: ResourceType::Topic, resource_name: "t" };
    let users = BTreeSet::from(["User:root".to_owned()]);
    assert_eq!(index.decide(&users, &caller("User:root", "h"), &action), Decision::SuperUser);
    let forbidden = entry("DENY User:root ALL TOPIC *");
    assert_eq!(index.decide(&BTreeSet::new(), &caller("User:root", "h"), &action), Decision::DeniedBy(&forbidden));
    assert_eq!(index.decide(&users, &caller("User:roo", "h"), &action), Decision::NotAllowed);
}

#[test]
fn everything_that_begins_so_needs_one_entry_for_all_of_it_and_none_that_forbids_a_part() {
    let rows: &[(&[&str], &str, bool)] = &[
        (&[], "team-", false),
        (&["ALLOW User:a ALTER_CONFIGS TOPIC *"], "", true),
        (&["ALLOW User:a ALTER_CONFIGS TOPIC team-+"], "team-", true),
        (&["ALLOW User:a ALTER_CONFIGS TOPIC team-+"], "team-a", true),
        (&["ALLOW User:a ALTER_CONFIGS TOPIC team-a+"], "team-", false),
        (&["ALLOW User:a ALTER_CONFIGS TOPIC team-"], "team-", false),
        (&["ALLOW User:a ALTER TOPIC team-+"], "team-", false),
        (&["ALLOW User:a ALL TOPIC *", "DENY User:a ALTER_CONFIGS TOPIC team-b"], "team-", false),
        (&["ALLOW User:a ALL TOPIC *", "DENY User:a ALTER_CONFIGS TOPIC t+"], "team-", false),
        (&["ALLOW User:a ALL TOPIC *", "DENY User:a ALTER_CONFIGS TOPIC team-b+"], "team-", false),
        (&["ALLOW User:a ALL TOPIC *", "DENY User:a ALTER_CONFIGS TOPIC other"], "team-", true),
        (&["ALLOW User:a ALL TOPIC *", "DENY User:b ALL TOPIC *"], "team-", true),
    ];
    for (entries, prefix, expected) in rows {
        let (users, caller) = (BTreeSet::from(["User:root".to_owned()]), caller("User:a", "h"));
        let index = index(entries);
        let decide = |who: &Caller| {
            index.decide_all_beginning(&users, who, Operation::AlterConfigs, ResourceType::Topic, prefix).is_allowed()
        };
        assert_eq!(decide(&caller), *expected, "{entries:?}: {prefix}");
        assert!(decide(&Caller { principal: "User:root".into(), ..caller }));
    }
}

#[test]
fn the_index_finds_what_a_plain_search_finds_also_after_removals() {
    let names = ["a", "ab", "abc", "b", "*", "grün"];
    let mut all = Vec::new();
    for name in names {
        for pattern in ["", "+"] {
            for permission in ["ALLOW", "DENY"] {
                all.push(entry(&format!("{permission} User:a READ TOPIC {name}{pattern}")));
            }
        }
    }
    let mut index = AclIndex::default();
    for binding in &all {
        assert!(index.insert(binding.clone()) && !index.insert(binding.clone()));
    }
    while !all.is_empty() {
        assert_eq!(index.len(), all.len());
        assert_eq!(index.iter().collect::<BTreeSet<_>>(), all.iter().collect());
        for name in ["a", "abcd", "ab", "*", "*x", "grüner", "gr", "c", ""] {
            let found: BTreeSet<_> = index.about(ResourceType::Topic, name).collect();
            let expected: BTreeSet<_> = all.iter().filter(|binding| binding.covers_name(name)).collect();
            assert_eq!(found, expected, "{name}");
            assert_eq!(index.about(ResourceType::Topic, name).count(), expected.len(), "{name} finds one twice");
        }
        let gone = all.remove(all.len() * 2 / 3);
        assert!(index.contains(&gone) && index.remove(&gone) && !index.remove(&gone) && !index.contains(&gone));
    }
    assert_eq!(index, AclIndex::default());
}

/// From a stock broker's authorizer: see `golden/authorizer/AuthorizerVectors.java`.
const STOCK: &str = include_str!("../../golden/authorizer/stock-4.4.0.txt");

#[test]
fn decisions_are_those_of_a_stock_authorizer() {
    let (mut index, mut decisions, mut allowed) = (AclIndex::default(), 0, 0);
    for line in STOCK.lines() {
        let (kind, rest) = line.split_once(' ').unwrap();
        match kind {
            "rules" => index = AclIndex::default(),
            "acl" => assert!(index.insert(entry(rest)), "{line}"),
            "ask" => {
                let words: Vec<&str> = rest.split(' ').collect();
                let [principal, host, operation, resource_type, resource_name, expected] = words[..] else {
                    panic!("{line}")
                };
                let (operation, resource_type) = (operation.parse().unwrap(), resource_type.parse().unwrap());
                let action = Action { operation, resource_type, resource_name };
                let decided = index.decide(&BTreeSet::from(["User:root".into()]), &caller(principal, host), &action);
                assert_eq!(decided.is_allowed(), expected == "ALLOWED", "{line}: {decided:?}");
                decisions += 1;
                allowed += usize::from(decided.is_allowed());
            }
            _ => panic!("{line}"),
        }
    }
    assert!(decisions >= 1_000 && allowed > decisions / 10 && allowed < decisions * 9 / 10, "{allowed} of {decisions}");
}
