//! pure: CreateAcls: more entries, each for itself: a bad one keeps no other out. One that is there already is no error.

use crate::limits::ACLS_MAX;
use crate::mirror::acls::MADE_HERE;
use crate::mirror::catalog::Catalog;
use crate::mirror::event::MirrorEvent;
use crate::rpc::{Refusal, each};
use std::collections::BTreeSet;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::create_acls::{AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse};
use twinlog_proto::security::acl::{AclBinding, BadBinding, Codes};

/// Decides; `enforced` is told to the caller.
#[must_use]
pub fn decide(
    request: &CreateAclsRequest,
    catalog: &Catalog,
    enforced: bool,
) -> (Vec<MirrorEvent>, CreateAclsResponse) {
    let here = catalog.acls().here();
    let (mut fresh, mut results) = (BTreeSet::new(), Vec::new());
    for creation in &request.creations {
        let outcome = match binding(creation) {
            Err(bad) => Err(Refusal::new(ErrorCode::INVALID_REQUEST, bad.to_string())),
            Ok(binding) if here.contains(&binding) || fresh.contains(&binding) => Ok(()),
            Ok(_) if catalog.acls().len() + fresh.len() >= ACLS_MAX => {
                let message = format!("there are {ACLS_MAX} entries already; remove some first, or use prefixes");
                Err(Refusal::new(ErrorCode::POLICY_VIOLATION, message))
            }
            Ok(binding) => {
                fresh.insert(binding);
                Ok(())
            }
        };
        let refusal = outcome.err();
        results.push(AclCreationResult {
            error_code: refusal.as_ref().map_or(0, |refusal| refusal.code.0),
            error_message: refusal.map(|refusal| refusal.message),
        });
    }
    let event = |binding| MirrorEvent::Acl { origin: MADE_HERE.to_owned(), binding, present: true };
    (fresh.into_iter().map(event).collect(), CreateAclsResponse { results, enforced, ..CreateAclsResponse::default() })
}

fn binding(creation: &AclCreation) -> Result<AclBinding, BadBinding> {
    let codes = Codes {
        resource_type: creation.resource_type,
        pattern_type: creation.resource_pattern_type,
        operation: creation.operation,
        permission: creation.permission_type,
    };
    AclBinding::from_codes(codes, &creation.resource_name, &creation.principal, &creation.host)
}

/// The answer when all of the request is refused: there is no error for the whole, so every entry gets it.
#[must_use]
pub fn refused(request: &CreateAclsRequest, refusal: &Refusal) -> CreateAclsResponse {
    let one = |(_, error_code, error_message)| AclCreationResult { error_code, error_message };
    CreateAclsResponse {
        results: each(&request.creations, refusal).map(one).collect(),
        ..CreateAclsResponse::default()
    }
}
