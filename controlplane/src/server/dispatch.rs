//! API key to handler: one match, no logic.
//!
//! A request whose layout is broken, or whose key or version is not served, closes the connection, as a stock broker
//! does; ApiVersions alone is answered at version 0 then.

use crate::clock::now_ms;
use crate::driver::Driver;
use crate::limits::{DECODED_BYTES_MORE, DECODED_TIMES_MAX, LARGE_ANSWER_PARTITIONS};
use crate::metrics::Outcome;
use crate::mirror::event::MirrorEvent;
use crate::rpc::authorize::{Guard, Who};
use crate::rpc::weight::Weight;
use crate::rpc::{self, Endpoint, Refusal, Refused};
use crate::server::budget::Budget;
use crate::server::counters::Cause;
use crate::server::judged::Judged;
use crate::source::{topics, trail};
use crate::sync::run;
use std::rc::Rc;
use std::time::Instant;
use tracing::info;
use twinlog_proto::api;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::frame::{self, HeaderError, RequestHeader};
use twinlog_proto::messages::sync_mirror::{SyncMirrorRequest, SyncMirrorResponse};
use twinlog_proto::reader::Reader;
use twinlog_proto::security::authorizer::Caller;
use twinlog_proto::security::codes::{Operation, ResourceType};

use crate::mirror::catalog::Catalog;
use crate::plane::view::View;
use crate::statelog::writer::WriteError;

/// Why a connection is closed without an answer.
#[derive(Debug, thiserror::Error)]
pub enum Close {
    /// The frame is no request that is served.
    #[error("{0}")]
    Header(#[from] HeaderError),
    /// The request does not follow its layout.
    #[error("{0}")]
    Malformed(#[from] twinlog_proto::error::DecodeError),
    /// A key or version that is not served.
    #[error("{name} version {version} is not served")]
    NotServed {
        /// Name of the request kind.
        name: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// It is not closed: the caller lacks a right, and this says so.
    #[error("a right is missing")]
    Refused(Vec<u8>),
    /// Our own answer cannot be written.
    #[error("the answer cannot be written: {0}")]
    Answer(#[from] twinlog_proto::error::EncodeError),
}

impl Close {
    /// What it is counted as.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match self {
            Self::NotServed { .. } | Self::Header(HeaderError::UnknownApi { .. }) => Cause::NotServed,
            Self::Header(_) | Self::Malformed(_) => Cause::Malformed,
            Self::Answer(_) | Self::Refused(_) => Cause::Broken,
        }
    }
}

/// The requests that have a handler below.
pub(crate) const SERVED: &[i16] = &[
    api::PRODUCE,
    api::LIST_OFFSETS,
    api::METADATA,
    api::FIND_COORDINATOR,
    api::API_VERSIONS,
    api::INIT_PRODUCER_ID,
    api::DESCRIBE_ACLS,
    api::CREATE_ACLS,
    api::DELETE_ACLS,
    api::DESCRIBE_CONFIGS,
    api::INCREMENTAL_ALTER_CONFIGS,
    api::DESCRIBE_CLUSTER,
    api::CREATE_MIRROR,
    api::START_MIRROR_TOPICS,
    api::STOP_MIRROR_TOPICS,
    api::LAST_MIRRORED_OFFSETS,
    api::LIST_MIRRORS,
    api::DESCRIBE_MIRRORS,
    api::READ_MIRROR_STATES,
    api::WRITE_MIRROR_STATES,
    api::PAUSE_MIRROR_TOPICS,
    api::RESUME_MIRROR_TOPICS,
    api::DELETE_MIRROR,
    api::ADD_TOPICS_TO_MIRROR,
    api::REMOVE_TOPICS_FROM_MIRROR,
    api::SYNC_MIRROR,
    api::RECORD_HAND_OVER,
];

/// The keys of the requests that are answered.
#[must_use]
pub fn served_keys() -> &'static [i16] {
    SERVED
}

/// Answers one request frame (without its length); the answer has its length.
///
/// # Errors
/// When the connection is to be closed.
pub async fn serve(driver: &Driver, us: &Endpoint, who: &Who, budget: &Budget, frame: &[u8]) -> Result<Vec<u8>, Close> {
    match route(driver, us, who, budget, frame).await {
        Err(Close::Refused(answer)) => Ok(answer),
        served => served,
    }
}

async fn route(driver: &Driver, us: &Endpoint, who: &Who, budget: &Budget, frame: &[u8]) -> Result<Vec<u8>, Close> {
    let mut r = reader(frame);
    let header = frame::decode_request_header(&mut r)?;
    let call = Call { header, body: r, driver, us, who, budget, began: Instant::now() };
    let (version, key) = (call.header.api_version, call.header.api_key);
    let versions = api::by_key(key).and_then(|api| api.served.clone()).filter(|_| SERVED.contains(&key));
    if versions.is_none_or(|versions| !versions.contains(&version)) {
        return match key {
            api::API_VERSIONS => call.answer_at(0, &rpc::api_versions::unsupported()),
            _ => Err(Close::NotServed { name: api::name(key), version }),
        };
    }
    match key {
        api::API_VERSIONS => {
            call.read(|request, _, _| rpc::api_versions::handle(request, version, |key| SERVED.contains(&key)))
        }
        api::METADATA => {
            call.read_large(|request, catalog, view| rpc::metadata::handle(request, version, catalog, view, us)).await
        }
        api::DESCRIBE_CLUSTER => call.read(|request, _, _| rpc::describe_cluster::handle(request, us)),
        api::DESCRIBE_ACLS => {
            call.read(|request, catalog, _| rpc::describe_acls::handle(request, catalog, &who.access(catalog)))
        }
        api::CREATE_ACLS => call.create_acls().await,
        api::DELETE_ACLS => call.change_items(rpc::delete_acls::decide, rpc::delete_acls::refused).await,
        api::DESCRIBE_CONFIGS => call.read(|request, catalog, _| rpc::describe_configs::handle(request, catalog, us)),
        api::FIND_COORDINATOR => call.read(|request, _, _| rpc::find_coordinator::handle(request, version, us)),
        api::LIST_MIRRORS => call.read(|request, catalog, _| rpc::list_mirrors::handle(request, catalog)),
        api::DESCRIBE_MIRRORS => call.describe_mirrors().await,
        api::LAST_MIRRORED_OFFSETS => {
            call.read_large(|request, catalog, _| rpc::last_mirrored_offsets::handle(request, catalog)).await
        }
        api::READ_MIRROR_STATES => call.read_large(rpc::read_mirror_states::handle).await,
        api::WRITE_MIRROR_STATES => {
            call.change(move |request, catalog, view| rpc::write_mirror_states::decide(request, version, catalog, view))
                .await
        }
        api::CREATE_MIRROR => call.create_mirror().await,
        api::START_MIRROR_TOPICS => call.start_mirror_topics().await,
        api::STOP_MIRROR_TOPICS => {
            call.change(|request, catalog, _| rpc::stop_mirror_topics::decide(request, catalog)).await
        }
        api::PAUSE_MIRROR_TOPICS => {
            call.change(move |request, catalog, _| rpc::pause_resume::pause(request, version, catalog)).await
        }
        api::RESUME_MIRROR_TOPICS => {
            call.change(move |request, catalog, _| rpc::pause_resume::resume(request, version, catalog)).await
        }
        api::INCREMENTAL_ALTER_CONFIGS => call.alter_configs().await,
        api::LIST_OFFSETS => {
            call.read(|request, catalog, view| rpc::list_offsets::handle(request, version, catalog, view))
        }
        api::PRODUCE => call.produce(),
        api::INIT_PRODUCER_ID => call.read(|request, _, _| rpc::refused_writes::init_producer_id(request)),
        api::ADD_TOPICS_TO_MIRROR => call.add_topics_to_mirror().await,
        api::REMOVE_TOPICS_FROM_MIRROR => {
            call.change(|request, catalog, _| rpc::first_draft::remove(request, catalog)).await
        }
        api::DELETE_MIRROR => call.change(|request, catalog, _| rpc::delete_mirror::decide(request, catalog)).await,
        api::RECORD_HAND_OVER => call.record_hand_over().await,
        api::SYNC_MIRROR => {
            let request = call.request()?;
            let answer = synced(driver, &request).await;
            call.answer(&request, answer)
        }
        _ => Err(Close::NotServed { name: api::name(key), version }),
    }
}

async fn synced(driver: &Driver, request: &SyncMirrorRequest) -> SyncMirrorResponse {
    match rpc::sync_mirror::asked(request, &driver.catalog()) {
        Ok(kinds) => {
            let reports = run::now(driver, &request.mirror_name, &kinds, request.dry_run).await;
            rpc::sync_mirror::answer(request, reports)
        }
        Err(refusal) => SyncMirrorResponse::refused(refusal),
    }
}

/// A few bytes may stand for large things; a request that unfolds too far is refused before it does.
fn reader(frame: &[u8]) -> Reader<'_> {
    Reader::new("request", frame).with_allowance(DECODED_TIMES_MAX * frame.len() + DECODED_BYTES_MORE)
}

/// One request on its way to its handler.
struct Call<'a> {
    header: RequestHeader,
    body: Reader<'a>,
    driver: &'a Driver,
    us: &'a Endpoint,
    who: &'a Who,
    budget: &'a Budget,
    began: Instant,
}

impl Call<'_> {
    /// The request, when the caller may have any of it done.
    fn request<R: Guard>(&self) -> Result<Rc<Judged<R>>, Close> {
        let mut body = self.body;
        let version = self.header.api_version;
        let request = R::decode(&mut body, version)?;
        // A stock broker reads what it knows and no further, and librdkafka leaves room that it does not use behind a Metadata request.
        if self.header.api_key >= api::MIRROR_KEY_BASE {
            body.finish()?;
        }
        match Judged::new(request, version, self.who, self.driver.catalog()) {
            Ok(request) => Ok(request),
            Err(response) => Err(Close::Refused(self.answer_at(version, &response)?)),
        }
    }

    /// The answer to a request, as its caller may have it.
    fn answer<R: Guard>(&self, request: &Judged<R>, response: R::Response) -> Result<Vec<u8>, Close> {
        self.answer_at(self.header.api_version, &request.finish(response))
    }

    fn answer_at<M: twinlog_proto::messages::Message>(&self, version: i16, response: &M) -> Result<Vec<u8>, Close> {
        let mut out = Vec::new();
        frame::encode_response(&mut out, version, self.header.correlation_id, response)?;
        self.count(Outcome::of(response));
        Ok(out)
    }

    fn count(&self, outcome: Outcome) {
        let requests = &self.driver.tally().requests;
        requests.count(self.header.api_key, outcome, self.began.elapsed());
        if let Some(unsaid) = outcome.denied.then(|| requests.say(now_ms())).flatten() {
            let Caller { principal, host } = self.who.caller.as_ref();
            info!(principal, host, api = api::name(self.header.api_key), unsaid, "denied for want of a right");
        }
    }

    fn read<R: Guard>(&self, handle: impl FnOnce(&R, &Catalog, &View<'_>) -> R::Response) -> Result<Vec<u8>, Close> {
        let request: Rc<Judged<R>> = self.request()?;
        self.answer(&request, self.driver.read(|catalog, view| handle(&request, catalog, view)))
    }

    /// [`Call::read`] of what may be all there is, which waits for its turn then.
    async fn read_large<R: Guard + Weight>(
        &self,
        handle: impl FnOnce(&R, &Catalog, &View<'_>) -> R::Response,
    ) -> Result<Vec<u8>, Close> {
        let request: Rc<Judged<R>> = self.request()?;
        let partitions = self.driver.read(|catalog, _| request.partitions(catalog));
        let _turn = if partitions >= LARGE_ANSWER_PARTITIONS { self.budget.turn().await } else { None };
        self.answer(&request, self.driver.read(|catalog, view| handle(&request, catalog, view)))
    }

    async fn change<R: Guard + 'static>(
        &self,
        decide: impl FnOnce(&R, &Catalog, &View<'_>) -> (Vec<MirrorEvent>, R::Response) + 'static,
    ) -> Result<Vec<u8>, Close>
    where
        R::Response: Refused + 'static,
    {
        let request: Rc<Judged<R>> = self.request()?;
        let asked = Rc::clone(&request);
        let changed = self.driver.change(move |catalog, view| decide(&asked, catalog, view)).await;
        self.answer(&request, changed.unwrap_or_else(|cause| R::Response::refused(not_durable(&cause))))
    }

    /// [`Call::change`] by the catalog alone, where `refused` says for each item of the request that none was done.
    async fn change_items<R: Guard + 'static>(
        &self,
        decide: impl FnOnce(&R, &Catalog) -> (Vec<MirrorEvent>, R::Response) + 'static,
        refused: impl FnOnce(&R, &Refusal) -> R::Response,
    ) -> Result<Vec<u8>, Close>
    where
        R::Response: 'static,
    {
        let request: Rc<Judged<R>> = self.request()?;
        let asked = Rc::clone(&request);
        let changed = self.driver.change(move |catalog, _| decide(&asked, catalog)).await;
        self.answer(&request, changed.unwrap_or_else(|cause| refused(&request, &not_durable(&cause))))
    }

    async fn create_acls(&self) -> Result<Vec<u8>, Close> {
        let enforced = self.who.is_judged();
        let decide = move |request: &_, catalog: &_| rpc::create_acls::decide(request, catalog, enforced);
        self.change_items(decide, rpc::create_acls::refused).await
    }

    async fn describe_mirrors(&self) -> Result<Vec<u8>, Close> {
        self.read_large(|request, catalog, view| {
            let mut response = rpc::describe_mirrors::handle(request, catalog, view);
            self.driver.book().read(|statuses| crate::sync::describe::add(&mut response, catalog, statuses));
            let access = self.who.access(catalog);
            let node = request.include_node && access.need_cluster(Operation::Describe).is_ok();
            let sees = |mirror: &str| access.may(Operation::Describe, ResourceType::ClusterMirror, mirror);
            crate::server::pages::add_node(&mut response, self.driver, node, &sees);
            response
        })
        .await
    }

    /// A producer that wants no answer gets none.
    fn produce(&self) -> Result<Vec<u8>, Close> {
        let request = self.request()?;
        match rpc::refused_writes::produce(&request) {
            Some(response) => self.answer(&request, response),
            None => Ok(Vec::new()),
        }
    }

    async fn add_topics_to_mirror(&self) -> Result<Vec<u8>, Close> {
        use rpc::first_draft::{add, starts};
        use twinlog_proto::messages::add_topics_to_mirror::AddTopicsToMirrorResponse;
        let request = self.request()?;
        let mut asked = Vec::new();
        for start in starts(&request) {
            // What has no question is refused by the decision, for the same reason.
            let question = self.driver.read(|catalog, _| rpc::start_mirror_topics::question(&start, catalog));
            let source = match question {
                Ok(question) => trail::ask(&question.servers, &question.wanted, &self.us.cluster_id).await,
                Err(_refusal) => Ok(topics::Answer::default()),
            };
            asked.push((start, source));
        }
        let changed = self.driver.change(move |catalog, view| add(asked, catalog, view)).await;
        self.answer(&request, changed.unwrap_or_else(|cause| AddTopicsToMirrorResponse::refused(not_durable(&cause))))
    }

    async fn alter_configs(&self) -> Result<Vec<u8>, Close> {
        use rpc::incremental_alter_configs::{Sources, decide, question, refused};
        use twinlog_proto::messages::incremental_alter_configs::IncrementalAlterConfigsRequest;
        let request: Rc<Judged<IncrementalAlterConfigsRequest>> = self.request()?;
        let mut sources = Sources::new();
        for (mirror, servers) in self.driver.read(|catalog, _| question(&request, catalog)) {
            sources.insert(mirror, topics::cluster_id(&servers).await);
        }
        let asked = Rc::clone(&request);
        let decided = move |catalog: &Catalog, _: &View<'_>| decide(&asked, &sources, catalog);
        let changed = self.driver.change(decided).await;
        self.answer(&request, changed.unwrap_or_else(|cause| refused(&request, &not_durable(&cause))))
    }

    async fn create_mirror(&self) -> Result<Vec<u8>, Close> {
        use rpc::create_mirror::{decide, question};
        use twinlog_proto::messages::create_mirror::{CreateMirrorRequest, CreateMirrorResponse};
        let request: Rc<Judged<CreateMirrorRequest>> = self.request()?;
        let settings = match self.driver.read(|catalog, _| question(&request, catalog)) {
            Ok(settings) => settings,
            Err(refusal) => return self.answer(&request, CreateMirrorResponse::refused(refusal)),
        };
        let source = topics::cluster_id(&crate::mirror::settings::bootstrap_servers(&settings)).await;
        let (own, asked) = (self.us.cluster_id.clone(), Rc::clone(&request));
        let decided = move |catalog: &Catalog, _: &View<'_>| decide(&asked, &settings, source, &own, catalog);
        let changed = self.driver.change(decided).await;
        self.answer(&request, changed.unwrap_or_else(|cause| CreateMirrorResponse::refused(not_durable(&cause))))
    }

    /// Topics that the mirror never had are asked about at the source.
    async fn record_hand_over(&self) -> Result<Vec<u8>, Close> {
        use rpc::record_hand_over::{Around, RecordHandOverResponse, decide, question};
        let request = self.request()?;
        let source = match self.driver.read(|catalog, _| question(&request, catalog)) {
            Some((servers, wanted)) => trail::ask(&servers, &wanted, &self.us.cluster_id).await,
            None => Ok(topics::Answer::default()),
        };
        let (around, asked) = (Around { source, directories: self.driver.directories() }, Rc::clone(&request));
        let changed = self.driver.change(move |catalog, view| decide(&asked, &around, catalog, view)).await;
        self.answer(&request, changed.unwrap_or_else(|cause| RecordHandOverResponse::refused(not_durable(&cause))))
    }

    async fn start_mirror_topics(&self) -> Result<Vec<u8>, Close> {
        use rpc::start_mirror_topics::{decide, question};
        use twinlog_proto::messages::start_mirror_topics::{StartMirrorTopicsRequest, StartMirrorTopicsResponse};
        let request: Rc<Judged<StartMirrorTopicsRequest>> = self.request()?;
        let question = match self.driver.read(|catalog, _| question(&request, catalog)) {
            Ok(question) => question,
            Err(refusal) => return self.answer(&request, StartMirrorTopicsResponse::refused(refusal)),
        };
        let source = trail::ask(&question.servers, &question.wanted, &self.us.cluster_id).await;
        let asked = Rc::clone(&request);
        let changed = self.driver.change(move |catalog, view| decide(&asked, source, catalog, view)).await;
        self.answer(&request, changed.unwrap_or_else(|cause| StartMirrorTopicsResponse::refused(not_durable(&cause))))
    }
}

fn not_durable(cause: &WriteError) -> Refusal {
    Refusal::new(ErrorCode::KAFKA_STORAGE_ERROR, cause.to_string())
}
