//! pure: CreateMirror: a name, settings, and the source's cluster id as the source itself tells it.

use crate::limits::{MIRROR_NAME_CHARS_MAX, MIRRORS_MAX};
use crate::mirror::catalog::{Catalog, MirrorFacts};
use crate::mirror::event::MirrorEvent;
use crate::mirror::settings::{self, SOURCE_CLUSTER_ID, Settings};
use crate::rpc::{Refusal, Refused};
use crate::source::SourceError;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::ids::is_legal_name;
use twinlog_proto::messages::create_mirror::{CreateMirrorRequest, CreateMirrorResponse};

/// The drafts used these endings for themselves.
const RESERVED_SUFFIXES: [&str; 3] = [".removed", ".paused", ".stopped"];

/// Checks everything that needs no source, and gives the settings with which to ask it.
///
/// # Errors
/// Why there is no point in asking.
pub fn question(request: &CreateMirrorRequest, catalog: &Catalog) -> Result<Settings, Refusal> {
    let name = request.mirror_name.as_str();
    let reserved = RESERVED_SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
    if !is_legal_name(name) || name.len() > MIRROR_NAME_CHARS_MAX || reserved {
        let message = format!(
            "{name:?} is no name for a mirror; use 1 to {MIRROR_NAME_CHARS_MAX} of a-z, A-Z, 0-9, '.', '_' and '-', \
             not ending in .removed, .paused or .stopped"
        );
        return Err(Refusal::new(ErrorCode::INVALID_CLUSTER_MIRROR_NAME, message));
    }
    absent(name, catalog)?;
    if catalog.mirrors().count() >= MIRRORS_MAX {
        let message = format!("there are {MIRRORS_MAX} mirrors already; delete one first");
        return Err(Refusal::new(ErrorCode::POLICY_VIOLATION, message));
    }
    let given = request.config.iter().map(|config| (config.name.as_str(), config.value.as_deref()));
    settings::checked(given).map_err(|bad| Refusal::new(ErrorCode::INVALID_CONFIG, bad.0))
}

/// Decides, given what the source said.
#[must_use]
pub fn decide(
    request: &CreateMirrorRequest,
    settings: &Settings,
    source: Result<String, SourceError>,
    own_cluster_id: &str,
    catalog: &Catalog,
) -> (Vec<MirrorEvent>, CreateMirrorResponse) {
    match check(request, settings, source, own_cluster_id, catalog) {
        Ok(event) => (vec![event], CreateMirrorResponse::default()),
        Err(refusal) => (Vec::new(), CreateMirrorResponse::refused(refusal)),
    }
}

fn check(
    request: &CreateMirrorRequest,
    settings: &Settings,
    source: Result<String, SourceError>,
    own_cluster_id: &str,
    catalog: &Catalog,
) -> Result<MirrorEvent, Refusal> {
    // Somebody else may have been faster while the source was asked.
    absent(&request.mirror_name, catalog)?;
    let source_cluster_id = source.map_err(|cause| Refusal::new(cause.code(), cause.to_string()))?;
    if let Some(wanted) = settings.get(SOURCE_CLUSTER_ID).filter(|wanted| **wanted != source_cluster_id) {
        let message = format!(
            "the servers belong to cluster {source_cluster_id}, but {SOURCE_CLUSTER_ID} is {wanted}; correct one of them"
        );
        return Err(Refusal::new(ErrorCode::INVALID_CONFIG, message));
    }
    if source_cluster_id == own_cluster_id {
        let message = "bootstrap.servers names this node itself; give the source cluster's brokers";
        return Err(Refusal::new(ErrorCode::INVALID_CONFIG, message));
    }
    let mut facts = MirrorFacts { source_cluster_id, ..MirrorFacts::default() };
    facts.configure(settings.clone());
    Ok(MirrorEvent::Created { mirror: request.mirror_name.clone(), facts })
}

fn absent(name: &str, catalog: &Catalog) -> Result<(), Refusal> {
    match catalog.mirror(name) {
        None => Ok(()),
        Some(_) => {
            let message = format!("there is a mirror {name} already; choose another name, or delete that one");
            Err(Refusal::new(ErrorCode::CLUSTER_MIRROR_ALREADY_EXISTS, message))
        }
    }
}

impl Refused for CreateMirrorResponse {
    fn refused(refusal: Refusal) -> Self {
        Self { error_code: refusal.code.0, error_message: Some(refusal.message), ..Self::default() }
    }
}
