//! `twinlog acls list | add | remove`.

use super::args::{AclEntry, Acls, ListAcls, Resource};
use super::{connect, describe, output};
use crate::failure::Failure;
use crate::rpc::authorize::resource_word;
use serde::Serialize;
use twinlog_proto::messages::create_acls::CreateAclsRequest;
use twinlog_proto::messages::delete_acls::DeleteAclsRequest;
use twinlog_proto::messages::describe_acls::{DescribeAclsRequest, DescribeAclsResponse};
use twinlog_proto::security::acl::AclBinding;
use twinlog_proto::security::codes::{CODE_ANY, Operation, PatternType, Permission, ResourceType};

/// Said when entries are kept that nobody is judged by.
const NOT_ENFORCED: &str =
    "note: this control plane judges nobody by entries; `authorizer = \"acl\"` in section [controlplane] makes it";

/// Runs one of them.
///
/// # Errors
/// When the control plane refuses or does not answer, or the entry makes no sense.
pub(super) fn run(verb: &Acls) -> Result<(), Failure> {
    match verb {
        Acls::List(args) => list(args),
        Acls::Add(entry) => add(entry),
        Acls::Remove(entry) => remove(entry),
    }
}

/// One entry of `--json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    resource_type: String,
    resource_name: String,
    pattern_type: String,
    principal: String,
    host: String,
    operation: String,
    permission: String,
}

fn list(args: &ListAcls) -> Result<(), Failure> {
    let mut client = connect(&args.ask)?;
    // Any type is any of those that stock clients know, so mirrors are asked for by themselves.
    let kinds = match &args.resource {
        Some(resource) => vec![resource.kind.code()],
        None => vec![ResourceType::ClusterMirror.code(), CODE_ANY],
    };
    let (mut listed, mut enforced) = (Vec::new(), true);
    for kind in kinds {
        let answer = client.ask(&DescribeAclsRequest {
            resource_type_filter: kind,
            resource_name_filter: args.resource.as_ref().map(|resource| resource.name.clone()),
            pattern_type_filter: CODE_ANY,
            principal_filter: args.principal.clone(),
            host_filter: None,
            operation: CODE_ANY,
            permission_type: CODE_ANY,
            origin_mirror: args.origin.clone(),
        })?;
        describe::refuse(answer.error_code, answer.error_message.as_deref(), "the entries are not listed")?;
        enforced &= answer.enforced;
        listed.extend(entries(answer));
    }
    if args.ask.json {
        return output::json(&listed);
    }
    if listed.is_empty() {
        output::line("no access control entries")?;
    } else {
        let row = |e: Listed| {
            vec![e.resource_type, e.resource_name, e.pattern_type, e.principal, e.host, e.operation, e.permission]
        };
        let heads = ["RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION"];
        output::table(&heads, &listed.into_iter().map(row).collect::<Vec<_>>())?;
    }
    if enforced { Ok(()) } else { output::line(NOT_ENFORCED) }
}

/// A number without a name stands as it is.
fn entries(answer: DescribeAclsResponse) -> impl Iterator<Item = Listed> {
    let named = |name: Option<&str>, code: i8| name.map_or_else(|| code.to_string(), str::to_owned);
    answer.resources.into_iter().flat_map(move |resource| {
        let kind =
            named(ResourceType::from_code(resource.resource_type).map(ResourceType::name), resource.resource_type);
        let pattern =
            named(PatternType::from_code(resource.pattern_type).map(PatternType::name), resource.pattern_type);
        resource.acls.into_iter().map(move |acl| Listed {
            resource_type: kind.clone(),
            resource_name: resource.resource_name.clone(),
            pattern_type: pattern.clone(),
            principal: acl.principal,
            host: acl.host,
            operation: named(Operation::from_code(acl.operation).map(Operation::name), acl.operation),
            permission: named(Permission::from_code(acl.permission_type).map(Permission::name), acl.permission_type),
        })
    })
}

/// The entry of a command line.
fn binding(entry: &AclEntry) -> Result<AclBinding, Failure> {
    let Resource { kind, name } = &entry.resource;
    let operations = kind.operations();
    if entry.operation != Operation::All && !operations.contains(&entry.operation) {
        let names = operations.iter().map(|operation| operation.name()).collect::<Vec<_>>().join(", ");
        let what = format!("nothing on a {} needs {}", resource_word(*kind), entry.operation);
        return Err(Failure::usage(what, format_args!("choose ALL or one of {names}")));
    }
    let binding = AclBinding {
        resource_type: *kind,
        resource_name: name.clone(),
        pattern_type: if entry.prefixed { PatternType::Prefixed } else { PatternType::Literal },
        principal: entry.principal.clone(),
        host: entry.host.clone(),
        operation: entry.operation,
        permission: if entry.deny { Permission::Deny } else { Permission::Allow },
    };
    binding.check().map_err(|bad| Failure::usage(bad, "`twinlog acls add --help` shows examples"))?;
    Ok(binding)
}

fn add(entry: &AclEntry) -> Result<(), Failure> {
    let binding = binding(entry)?;
    let request = CreateAclsRequest { creations: vec![(&binding).into()] };
    let answer = connect(&entry.ask)?.ask(&request)?;
    for result in &answer.results {
        describe::refuse(result.error_code, result.error_message.as_deref(), "the entry is not added")?;
    }
    if entry.ask.json {
        return output::json(&serde_json::json!({ "added": binding.to_string(), "enforced": answer.enforced }));
    }
    output::line(&format!("added: {binding}"))?;
    if answer.enforced { Ok(()) } else { output::line(NOT_ENFORCED) }
}

fn remove(entry: &AclEntry) -> Result<(), Failure> {
    let binding = binding(entry)?;
    let request = DeleteAclsRequest { filters: vec![(&binding).into()] };
    let answer = connect(&entry.ask)?.ask(&request)?;
    for result in &answer.filter_results {
        describe::refuse(result.error_code, result.error_message.as_deref(), "the entry is not removed")?;
    }
    if answer.filter_results.iter().all(|result| result.matching_acls.is_empty()) {
        return Err(Failure::new(
            "nothing is removed",
            format_args!("there is no entry {binding}"),
            "`twinlog acls list` shows them",
        ));
    }
    if entry.ask.json {
        return output::json(&serde_json::json!({ "removed": binding.to_string() }));
    }
    output::line(&format!("removed: {binding}"))
}
