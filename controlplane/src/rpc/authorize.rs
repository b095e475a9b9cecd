//! pure: what each request needs, and what a caller who lacks it is told.
//!
//! `server/dispatch.rs` asks before a handler runs (`Guard::refuse`), lets it see only what the caller may change
//! (`Guard::permitted`), and takes out of its answer what the caller may not know (`Guard::finish`). What is denied is told the
//! same whether it exists or not. The table, as the code has it, is printed in `golden/authorization.txt`.

mod acls;
mod mirrors;
mod patterns;
mod states;
mod stock;
mod topics;

use crate::limits::REFUSALS_WITH_WORDS_MAX;
use crate::mirror::acls::Acls;
use crate::mirror::authorizer::Authorizer;
use crate::mirror::catalog::Catalog;
use crate::rpc::{Refusal, Refused};
use std::cell::Cell;
use std::rc::Rc;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::Request;
use twinlog_proto::security::acl::CLUSTER_NAME;
use twinlog_proto::security::authorizer::{Action, Caller};
use twinlog_proto::security::codes::{Operation, ResourceType};

/// Who a caller is as long as connections are not authenticated.
pub const ANONYMOUS: &str = "User:ANONYMOUS";

/// A caller, and how it is judged.
#[derive(Debug, Clone)]
pub struct Who {
    /// Principal and address.
    pub caller: Rc<Caller>,
    /// The same for all.
    pub authorizer: Rc<Authorizer>,
}

impl Who {
    /// What it may do by `catalog`.
    #[must_use]
    pub fn access<'a>(&'a self, catalog: &'a Catalog) -> Access<'a> {
        Access::new(&self.authorizer, catalog, &self.caller)
    }

    /// Whether entries decide at all.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        *self.authorizer != Authorizer::None
    }
}

/// A caller together with the rules at this moment.
#[derive(Debug)]
pub struct Access<'a> {
    authorizer: &'a Authorizer,
    acls: &'a Acls,
    catalog: &'a Catalog,
    caller: &'a Caller,
    /// How many refusals may still have words: no answer is far larger than its request.
    words_left: Cell<usize>,
    /// What was asked for, for the printed table.
    #[cfg(test)]
    asked: std::cell::RefCell<Vec<(Operation, ResourceType)>>,
}

impl<'a> Access<'a> {
    /// What `caller` may do by `catalog`.
    #[must_use]
    pub fn new(authorizer: &'a Authorizer, catalog: &'a Catalog, caller: &'a Caller) -> Self {
        Self {
            authorizer,
            acls: catalog.acls(),
            catalog,
            caller,
            words_left: Cell::new(REFUSALS_WITH_WORDS_MAX),
            #[cfg(test)]
            asked: std::cell::RefCell::default(),
        }
    }

    /// Whether entries decide at all.
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        *self.authorizer != Authorizer::None
    }

    /// Whether the caller may do this.
    #[must_use]
    pub fn may(&self, operation: Operation, resource_type: ResourceType, resource_name: &str) -> bool {
        #[cfg(test)]
        self.asked.borrow_mut().push((operation, resource_type));
        match self.authorizer {
            Authorizer::None => true,
            Authorizer::Acl { super_users } => {
                let action = Action { operation, resource_type, resource_name };
                self.acls.here().decide(super_users, self.caller, &action).is_allowed()
            }
        }
    }

    /// [`Access::may`], with the refusal that names the missing right.
    ///
    /// # Errors
    /// When the caller may not.
    pub fn need(&self, operation: Operation, resource_type: ResourceType, name: &str) -> Result<(), Refusal> {
        if self.may(operation, resource_type, name) { Ok(()) } else { Err(self.denied(operation, resource_type, name)) }
    }

    /// A right on the cluster as a whole.
    ///
    /// # Errors
    /// When the caller lacks it.
    pub fn need_cluster(&self, operation: Operation) -> Result<(), Refusal> {
        self.need(operation, ResourceType::Cluster, CLUSTER_NAME)
    }

    /// The refusal for want of a right.
    #[must_use]
    pub fn denied(&self, operation: Operation, resource_type: ResourceType, name: &str) -> Refusal {
        let Caller { principal, host } = self.caller;
        let option = match resource_type {
            ResourceType::Cluster => "cluster".to_owned(),
            kind => format!("{}:{name}", resource_word(kind)),
        };
        // Whoever has not logged in is told from others by the address alone: without it everybody would be given the right.
        let from = if principal == ANONYMOUS { format!(" --host {host}") } else { String::new() };
        let message = format!(
            "{principal} from {host} lacks {operation} on {resource_type} {name}; who administers the cluster can give it: \
             `twinlog acls add --resource {option} --principal {principal}{from} --operation {operation}`"
        );
        Refusal::new(denied_code(resource_type), message)
    }

    /// The words of one refusal among many; `None` after the first [`REFUSALS_WITH_WORDS_MAX`].
    fn words(&self, refusal: Refusal) -> Option<String> {
        let left = self.words_left.get().checked_sub(1)?;
        self.words_left.set(left);
        Some(refusal.message)
    }

    /// The bit field of what the caller may do.
    #[must_use]
    pub fn operations(&self, resource_type: ResourceType, name: &str) -> i32 {
        let may = resource_type.operations().iter().filter(|operation| self.may(**operation, resource_type, name));
        may.fold(0, |bits, operation| bits | 1 << operation.code())
    }

    /// The bit field for the cluster, which stock brokers only tell to who may describe it.
    #[must_use]
    pub fn cluster_operations(&self) -> i32 {
        if self.may(Operation::Describe, ResourceType::Cluster, CLUSTER_NAME) {
            self.operations(ResourceType::Cluster, CLUSTER_NAME)
        } else {
            0
        }
    }
}

/// How the command line names a kind of resource.
#[must_use]
pub fn resource_word(resource_type: ResourceType) -> &'static str {
    match resource_type {
        ResourceType::Topic => "topic",
        ResourceType::Group => "group",
        ResourceType::Cluster => "cluster",
        ResourceType::TransactionalId => "transactional-id",
        ResourceType::DelegationToken => "delegation-token",
        ResourceType::User => "user",
        ResourceType::ClusterMirror => "mirror",
    }
}

/// What a caller is told who lacks a right on a resource of this kind.
#[must_use]
pub fn denied_code(resource_type: ResourceType) -> ErrorCode {
    match resource_type {
        ResourceType::Topic => ErrorCode::TOPIC_AUTHORIZATION_FAILED,
        ResourceType::Group => ErrorCode::GROUP_AUTHORIZATION_FAILED,
        ResourceType::TransactionalId => ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ResourceType::DelegationToken => ErrorCode::DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        ResourceType::ClusterMirror => ErrorCode::CLUSTER_MIRROR_AUTHORIZATION_FAILED,
        ResourceType::Cluster | ResourceType::User => ErrorCode::CLUSTER_AUTHORIZATION_FAILED,
    }
}

/// What a request needs. All three see the request as it came.
pub trait Guard: Request {
    /// The answer to a caller who lacks a right without which nothing of the request is done.
    fn refuse(&self, _version: i16, _access: &Access<'_>, _catalog: &Catalog) -> Option<Self::Response> {
        None
    }

    /// The request without what the caller may not do; `None` when that is all of it.
    fn permitted(&self, _access: &Access<'_>) -> Option<Self> {
        None
    }

    /// Takes out of the answer what the caller may not know, tells what was not permitted, and what the caller may do.
    fn finish(&self, _version: i16, _access: &Access<'_>, _response: &mut Self::Response) {}
}

/// The answer to a request that is refused as a whole.
fn whole<R: Refused>(needed: Result<(), Refusal>) -> Option<R> {
    needed.err().map(R::refused)
}

#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;
