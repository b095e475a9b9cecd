//! pure: the command line of `twinlog acls`.

use super::Ask;
use clap::{Args, Subcommand};
use twinlog_proto::security::acl::CLUSTER_NAME;
use twinlog_proto::security::codes::{Operation, ResourceType};

/// `twinlog acls`.
#[derive(Debug, Subcommand)]
pub enum Acls {
    /// List access control entries.
    #[command(
        after_help = "Examples:\n  twinlog acls list\n  twinlog acls list --resource mirror:dr --json\n  twinlog acls list --origin dr"
    )]
    List(ListAcls),
    /// Allow (or with --deny forbid) a principal an operation.
    #[command(
        after_help = "Examples:\n  twinlog acls add --resource mirror:dr --principal User:alice --operation alter\n  twinlog acls add --resource topic:orders- --prefixed --principal User:alice --operation alter-configs\n  twinlog acls add --resource cluster --principal User:ANONYMOUS --host 10.0.0.5 --operation all\n  twinlog acls add --resource 'mirror:*' --principal 'User:*' --operation delete --deny"
    )]
    Add(Entry),
    /// Remove one access control entry, as it is listed.
    #[command(
        after_help = "Example:\n  twinlog acls remove --resource mirror:dr --principal User:alice --operation alter"
    )]
    Remove(Entry),
}

/// Which entries are listed.
#[derive(Debug, Args)]
pub struct ListAcls {
    /// Only entries with this resource as it stands in them: mirror:NAME, topic:NAME, cluster, group:NAME or transactional-id:NAME.
    #[arg(long, value_name = "RESOURCE", value_parser = Resource::parse)]
    pub resource: Option<Resource>,
    /// Only those of this principal, such as User:alice.
    #[arg(long, value_name = "TYPE:NAME")]
    pub principal: Option<String>,
    /// Those that come from the source of this mirror, instead of those made here.
    #[arg(long, value_name = "MIRROR", default_value = "", hide_default_value = true)]
    pub origin: String,
    /// Where the control plane is.
    #[command(flatten)]
    pub ask: Ask,
}

/// One entry.
#[derive(Debug, Args)]
pub struct Entry {
    /// What it is about: mirror:NAME, topic:NAME, cluster, group:NAME or transactional-id:NAME; the name * stands for all.
    #[arg(long, value_name = "RESOURCE", value_parser = Resource::parse)]
    pub resource: Resource,
    /// The name is how names begin.
    #[arg(long)]
    pub prefixed: bool,
    /// Whom it is about, such as User:alice; User:* stands for everybody.
    #[arg(long, value_name = "TYPE:NAME")]
    pub principal: String,
    /// The address that the principal comes from.
    #[arg(long, default_value = "*")]
    pub host: String,
    /// What is done: all, read, write, create, delete, alter, describe, cluster-action, describe-configs, alter-configs, ...
    #[arg(long, value_parser = |text: &str| text.parse::<Operation>().map_err(|cause| cause.to_string()))]
    pub operation: Operation,
    /// Forbid it; that outweighs everything that allows it.
    #[arg(long)]
    pub deny: bool,
    /// Where the control plane is.
    #[command(flatten)]
    pub ask: Ask,
}

/// A resource as it is written on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Its kind.
    pub kind: ResourceType,
    /// Its name.
    pub name: String,
}

impl Resource {
    /// Reads `KIND:NAME`, or `cluster`.
    fn parse(text: &str) -> Result<Self, String> {
        let (kind, name) = text.split_once(':').unwrap_or((text, ""));
        let kind = match kind {
            "mirror" => ResourceType::ClusterMirror,
            kind => kind.parse().map_err(|_unknown: twinlog_proto::security::codes::NoSuchName| {
                format!("there is no resource {kind:?}; write mirror:NAME, topic:NAME, cluster, group:NAME or transactional-id:NAME")
            })?,
        };
        let name = match (kind, name) {
            (ResourceType::Cluster, "" | CLUSTER_NAME) => CLUSTER_NAME,
            (ResourceType::Cluster, _) => return Err("the cluster has no other name; write cluster".to_owned()),
            (_, "") => return Err(format!("{text:?} has no name; write it after a colon, or * for all")),
            (_, name) => name,
        };
        Ok(Self { kind, name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_a_kind_and_a_name_and_the_cluster_has_one() {
        let parsed = |text: &str| Resource::parse(text).map(|found| (found.kind, found.name));
        assert_eq!(parsed("mirror:dr"), Ok((ResourceType::ClusterMirror, "dr".into())));
        assert_eq!(parsed("cluster"), Ok((ResourceType::Cluster, CLUSTER_NAME.into())));
        assert_eq!(parsed("transactional-id:a:b"), Ok((ResourceType::TransactionalId, "a:b".into())));
        for text in ["dr", "mirror", "mirror:", "cluster:x", "disk:a"] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}
