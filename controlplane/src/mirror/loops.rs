//! pure: whether a topic would come back to where it is mirrored to: a loop of mirrors, of any length that was looked at.

use std::collections::{BTreeMap, BTreeSet};

/// The mirrors on the way up from a source, by the cluster that has them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trail {
    /// Our own cluster.
    pub own: String,
    /// The mirrors of each cluster that was asked.
    pub mirrors: BTreeMap<String, Vec<Upstream>>,
    /// What could not be looked at.
    pub notes: Vec<String>,
}

/// A mirror of another cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// Its name there.
    pub mirror: String,
    /// The cluster that it reads from.
    pub source_cluster_id: String,
    /// The topics of interest among those that it has and that are not stopped.
    pub topics: BTreeSet<String>,
}

impl Trail {
    /// The loop that `topic` would go in when `mirror` reads it from `source`, in words and in the direction of the records; `None`
    /// when there is none on the trail.
    #[must_use]
    pub fn would_loop(&self, mirror: &str, source: &str, topic: &str) -> Option<String> {
        let mut seen = BTreeSet::new();
        let way = self.way(source, topic, &mut seen)?;
        let own = &self.own;
        // The way goes against the records: what reads from us comes last in it.
        let hops = way.iter().rev().map(|(cluster, name)| format!(" -> {cluster} (its mirror {name})"));
        Some(format!(
            "topic {topic} would go in a circle: {own} (this cluster){} -> {own} (mirror {mirror}); stop the topic in one of these \
             mirrors first",
            hops.collect::<String>()
        ))
    }

    fn way(&self, cluster: &str, topic: &str, seen: &mut BTreeSet<String>) -> Option<Vec<(String, String)>> {
        if !seen.insert(cluster.to_owned()) {
            return None;
        }
        let carries = |upstream: &&Upstream| upstream.topics.contains(topic);
        for upstream in self.mirrors.get(cluster).into_iter().flatten().filter(carries) {
            let here = (cluster.to_owned(), upstream.mirror.clone());
            if upstream.source_cluster_id == self.own {
                return Some(vec![here]);
            }
            if let Some(further) = self.way(&upstream.source_cluster_id, topic, seen) {
                return Some(std::iter::once(here).chain(further).collect());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trail(mirrors: &[(&str, &str, &str, &str)]) -> Trail {
        let mut trail = Trail { own: "ours".to_owned(), ..Trail::default() };
        for (cluster, mirror, source, topic) in mirrors {
            let topics = [(*topic).to_owned()].into();
            let upstream = Upstream { mirror: (*mirror).to_owned(), source_cluster_id: (*source).to_owned(), topics };
            trail.mirrors.entry((*cluster).to_owned()).or_default().push(upstream);
        }
        trail
    }

    #[test]
    fn a_loop_is_told_in_the_direction_of_the_records() {
        let trail = trail(&[("a", "from-b", "b", "t"), ("a", "other", "ours", "u"), ("b", "from-us", "ours", "t")]);
        let told = trail.would_loop("dr", "a", "t").unwrap();
        let circle = "topic t would go in a circle: ours (this cluster) -> b (its mirror from-us) -> a (its mirror from-b) -> \
                      ours (mirror dr)";
        assert!(told.starts_with(circle), "{told}");
        assert!(
            trail.would_loop("dr", "a", "u").unwrap().contains("ours (this cluster) -> a (its mirror other) -> ours")
        );
    }

    #[test]
    fn a_chain_another_topic_and_a_loop_of_others_are_none_of_ours() {
        let chain = trail(&[("a", "from-b", "b", "t"), ("b", "from-c", "c", "t")]);
        assert_eq!(chain.would_loop("dr", "a", "t"), None);
        assert_eq!(trail(&[("a", "m", "ours", "u")]).would_loop("dr", "a", "t"), None);
        let theirs = trail(&[("a", "m", "b", "t"), ("b", "n", "a", "t")]);
        assert_eq!(theirs.would_loop("dr", "a", "t"), None, "and the search ends");
    }
}
