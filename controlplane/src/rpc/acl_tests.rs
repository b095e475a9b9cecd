//! The requests about access control entries: each item for itself, nothing twice, nothing that a stock client cannot read.

use crate::limits::ACL_FILTERS_MAX;
use crate::mirror::acls::MADE_HERE;
use crate::mirror::authorizer::Authorizer;
use crate::mirror::catalog::{Catalog, MirrorFacts, StateRecord};
use crate::mirror::event::MirrorEvent;
use crate::rpc::authorize::Access;
use crate::rpc::{create_acls, delete_acls, describe_acls};
use twinlog_proto::messages::create_acls::{AclCreation, CreateAclsRequest};
use twinlog_proto::messages::delete_acls::{DeleteAclsFilter, DeleteAclsRequest};
use twinlog_proto::messages::describe_acls::{DescribeAclsRequest, DescribeAclsResponse};
use twinlog_proto::security::authorizer::Caller;

fn creation(resource_type: i8, name: &str, operation: i8) -> AclCreation {
    AclCreation {
        resource_type,
        resource_name: name.into(),
        resource_pattern_type: 3,
        principal: "User:alice".into(),
        host: "*".into(),
        operation,
        permission_type: 3,
    }
}

fn create(catalog: &mut Catalog, creations: Vec<AclCreation>) -> (usize, Vec<i16>) {
    let (events, response) = create_acls::decide(&CreateAclsRequest { creations }, catalog, true);
    let count = events.len();
    apply(catalog, events);
    (count, response.results.iter().map(|result| result.error_code).collect())
}

fn apply(catalog: &mut Catalog, events: Vec<MirrorEvent>) {
    for event in events {
        let MirrorEvent::Acl { origin, binding, present } = event else { panic!("{event:?}") };
        catalog.apply(&StateRecord::Acl { origin, binding, present });
    }
}

fn filter(resource_type: i8, name: Option<&str>, pattern_type: i8) -> DeleteAclsFilter {
    DeleteAclsFilter {
        resource_type_filter: resource_type,
        resource_name_filter: name.map(str::to_owned),
        pattern_type_filter: pattern_type,
        principal_filter: None,
        host_filter: None,
        operation: 1,
        permission_type: 1,
    }
}

fn describe(catalog: &Catalog, resource_type: i8, origin: &str) -> DescribeAclsResponse {
    let request = DescribeAclsRequest {
        resource_type_filter: resource_type,
        resource_name_filter: None,
        pattern_type_filter: 1,
        principal_filter: None,
        host_filter: None,
        operation: 1,
        permission_type: 1,
        origin_mirror: origin.into(),
    };
    let caller = Caller { principal: "User:a".into(), host: "h".into() };
    describe_acls::handle(&request, catalog, &Access::new(&Authorizer::None, catalog, &caller))
}

#[test]
fn a_bad_entry_keeps_no_other_out_and_one_that_is_there_is_no_error_and_no_record() {
    let mut catalog = Catalog::default();
    let mut bad_host = creation(2, "t", 3);
    bad_host.host.clear();
    let creations = vec![
        creation(2, "t", 3),
        creation(2, "", 3),
        creation(2, "t", 3),
        creation(1, "t", 3),
        bad_host,
        creation(4, "mine", 8),
        creation(8, "dr", 7),
        creation(9, "t", 3),
        creation(2, "t", 1),
    ];
    assert_eq!(create(&mut catalog, creations), (2, vec![0, 42, 0, 42, 42, 42, 0, 42, 42]));
    assert_eq!(create(&mut catalog, vec![creation(2, "t", 3)]), (0, vec![0]));
    assert_eq!(catalog.acls().len(), 2);
}

#[test]
fn any_type_is_any_that_stock_clients_know_and_entries_come_by_resource() {
    let mut catalog = Catalog::default();
    create(&mut catalog, vec![creation(8, "dr", 7), creation(2, "t", 3), creation(2, "t", 4), creation(3, "g", 3)]);
    let told = describe(&catalog, 1, MADE_HERE);
    let resources: Vec<_> = told.resources.iter().map(|r| (r.resource_type, r.acls.len())).collect();
    assert_eq!((resources, told.enforced), (vec![(2, 2), (3, 1)], false));
    assert_eq!(describe(&catalog, 8, MADE_HERE).resources[0].resource_name, "dr");
    let unknown = describe(&catalog, 0, MADE_HERE);
    assert!(unknown.error_code == 42 && unknown.error_message.unwrap().contains("resource type 0"));
}

#[test]
fn entries_of_a_source_are_told_to_who_asks_for_them_and_not_removed_by_anybody() {
    let mut catalog = Catalog::default();
    catalog.apply(&StateRecord::Mirror { mirror: "dr".into(), facts: Some(MirrorFacts::default()) });
    create(&mut catalog, vec![creation(2, "t", 3)]);
    let binding = catalog.acls().here().iter().next().unwrap().clone();
    catalog.apply(&StateRecord::Acl { origin: "dr".into(), binding, present: true });
    let (events, response) = delete_acls::decide(&DeleteAclsRequest { filters: vec![filter(1, None, 1)] }, &catalog);
    assert_eq!(response.filter_results[0].matching_acls.len(), 1);
    apply(&mut catalog, events);
    assert!(
        describe(&catalog, 1, MADE_HERE).resources.is_empty() && describe(&catalog, 1, "other").resources.is_empty()
    );
    assert_eq!(describe(&catalog, 1, "dr").resources.len(), 1);
}

#[test]
fn each_filter_takes_away_what_it_means_and_an_entry_is_told_once() {
    let mut catalog = Catalog::default();
    create(&mut catalog, vec![creation(2, "t", 3), creation(2, "u", 3), creation(8, "dr", 7)]);
    let filters = vec![filter(2, Some("t"), 3), filter(0, None, 1), filter(1, None, 1), filter(2, Some("v"), 3)];
    let (events, response) = delete_acls::decide(&DeleteAclsRequest { filters }, &catalog);
    let told: Vec<_> = response.filter_results.iter().map(|r| (r.error_code, r.matching_acls.len())).collect();
    assert_eq!((told, events.len()), (vec![(0, 1), (42, 0), (0, 1), (0, 0)], 2));
    apply(&mut catalog, events);
    assert_eq!(catalog.acls().here().iter().map(|acl| acl.resource_name.as_str()).collect::<Vec<_>>(), ["dr"]);
    let many = DeleteAclsRequest { filters: vec![filter(8, None, 1); ACL_FILTERS_MAX + 1] };
    assert_eq!(delete_acls::decide(&many, &catalog).1.filter_results.last().unwrap().error_code, 42);
}
