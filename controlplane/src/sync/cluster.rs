//! One cluster during one sync: connections to its brokers, kept while the sync lasts.
//!
//! Every question has its own time limit. After a failure the connection is dropped, for what still arrives on it would be taken for
//! the answer to the next question.

use crate::limits::{SOURCE_ASK, SYNC_BROKERS_MAX};
use crate::source::SourceError;
use crate::source::connection::Connection;
use std::collections::BTreeMap;
use tokio::time::timeout;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::Request;
use twinlog_proto::messages::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};

/// A cluster.
#[derive(Debug)]
pub struct Cluster {
    servers: Vec<String>,
    any: Option<Connection>,
    brokers: BTreeMap<i32, String>,
    open: BTreeMap<i32, Vec<Connection>>,
}

impl Cluster {
    /// The cluster that is reached at these addresses; nothing is asked yet.
    #[must_use]
    pub fn at(servers: Vec<String>) -> Self {
        Self { servers, any: None, brokers: BTreeMap::new(), open: BTreeMap::new() }
    }

    /// Asks any broker.
    ///
    /// # Errors
    /// See [`SourceError`]; within the time limit of a question.
    pub async fn ask<R: Request>(&mut self, request: &R) -> Result<R::Response, SourceError> {
        let mut connection = match self.any.take() {
            Some(open) => open,
            None => within(&self.servers.join(", "), Connection::open(&self.servers)).await?,
        };
        let answer = within(&self.servers.join(", "), connection.ask(request)).await;
        if answer.is_ok() || matches!(answer, Err(SourceError::Unsupported(_))) {
            self.any = Some(connection);
        }
        answer
    }

    /// Asks one broker.
    ///
    /// # Errors
    /// See [`SourceError`]; within the time limit of a question.
    pub async fn ask_broker<R: Request>(&mut self, broker: i32, request: &R) -> Result<R::Response, SourceError> {
        let mut connection = self.take(broker).await?;
        let answer = within(&self.address(broker), connection.ask(request)).await;
        if answer.is_ok() || matches!(answer, Err(SourceError::Unsupported(_))) {
            self.put_back(broker, connection);
        }
        answer
    }

    /// The version at which any broker would be asked.
    ///
    /// # Errors
    /// When none can be reached.
    pub async fn version<R: Request>(&mut self) -> Result<Option<i16>, SourceError> {
        let connection = match self.any.take() {
            Some(open) => open,
            None => within(&self.servers.join(", "), Connection::open(&self.servers)).await?,
        };
        let version = connection.version_of::<R>();
        self.any = Some(connection);
        Ok(version)
    }

    /// The version at which a broker would be asked.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub async fn version_at<R: Request>(&mut self, broker: i32) -> Result<Option<i16>, SourceError> {
        let connection = self.take(broker).await?;
        let version = connection.version_of::<R>();
        self.put_back(broker, connection);
        Ok(version)
    }

    /// Keeps a connection on which nothing is under way.
    pub fn put_back(&mut self, broker: i32, connection: Connection) {
        self.open.entry(broker).or_default().push(connection);
    }

    /// A connection of its own to a broker.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub async fn take(&mut self, broker: i32) -> Result<Connection, SourceError> {
        if let Some(open) = self.open.get_mut(&broker).and_then(Vec::pop) {
            return Ok(open);
        }
        let address = self.address(broker);
        within(&address, Connection::open(std::slice::from_ref(&address))).await
    }

    fn address(&self, broker: i32) -> String {
        self.brokers.get(&broker).cloned().unwrap_or_default()
    }

    /// Learns the brokers, and of the named topics what there is.
    ///
    /// # Errors
    /// See [`SourceError`].
    pub async fn metadata(&mut self, topics: &[&str]) -> Result<MetadataResponse, SourceError> {
        let named =
            |name: &&str| MetadataRequestTopic { name: Some((*name).to_owned()), ..MetadataRequestTopic::default() };
        let request = MetadataRequest {
            topics: Some(topics.iter().map(named).collect()),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let answer = self.ask(&request).await?;
        if answer.error_code != 0 {
            return Err(SourceError::Refused { what: "to describe itself", code: ErrorCode(answer.error_code) });
        }
        for broker in answer.brokers.iter().take(SYNC_BROKERS_MAX) {
            let host = if broker.host.contains(':') { format!("[{}]", broker.host) } else { broker.host.clone() };
            self.learn(broker.node_id, format!("{host}:{}", broker.port));
        }
        Ok(answer)
    }

    /// Takes note of a broker's address.
    pub fn learn(&mut self, broker: i32, address: String) {
        if self.brokers.get(&broker) != Some(&address) {
            self.open.remove(&broker);
            self.brokers.insert(broker, address);
        }
    }

    /// The brokers that are known.
    #[must_use]
    pub fn brokers(&self) -> Vec<i32> {
        self.brokers.keys().copied().collect()
    }
}

async fn within<T>(whom: &str, asking: impl Future<Output = Result<T, SourceError>>) -> Result<T, SourceError> {
    timeout(SOURCE_ASK, asking).await.unwrap_or_else(|_elapsed| {
        Err(SourceError::Unreachable(format!("{whom} did not answer within {SOURCE_ASK:?}")))
    })
}
