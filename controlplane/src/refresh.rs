//! What changes at a source while it is mirrored: topics that are new and match a mirror's patterns are started, and
//! partitions that were added to a mirrored topic are mirrored too.

use crate::driver::Driver;
use crate::mirror::catalog::{Catalog, Desired, Mirror};
use crate::mirror::event::{MirrorEvent, SourceTopic};
use crate::mirror::patterns::Patterns;
use crate::mirror::settings;
use crate::rpc::start_mirror_topics::is_internal;
use crate::source::topics::{self, Answer, Wanted};
use std::time::Duration;
use tokio::time::sleep;
use tracing::{debug, info, warn};

/// Asks the sources every `interval`, for ever.
pub async fn run(driver: Driver, interval: Duration) {
    loop {
        sleep(interval).await;
        let questions = driver.read(|catalog, _| questions(catalog));
        for (mirror, servers, wanted) in questions {
            match topics::ask(&servers, &wanted).await {
                Err(cause) => debug!(mirror, %cause, "the source was not asked for what is new"),
                Ok(answer) => {
                    let decided = driver.change(move |catalog, view| {
                        let free = (view.slots_max as usize).saturating_sub(catalog.slots().len());
                        (news(catalog, &mirror, &answer, free), ())
                    });
                    if let Err(cause) = decided.await {
                        warn!(%cause, "what is new at the source is not recorded yet");
                    }
                }
            }
        }
    }
}

fn questions(catalog: &Catalog) -> Vec<(String, Vec<String>, Wanted)> {
    let question = |(name, mirror): (&str, &Mirror)| {
        let include = Patterns::compile(&mirror.facts.include).ok()?;
        let names: Vec<String> = flowing(mirror).map(str::to_owned).collect();
        if names.is_empty() && include.is_empty() {
            return None;
        }
        let wanted = if include.is_empty() { Wanted::Named(names) } else { Wanted::Matching { names, include } };
        Some((name.to_owned(), settings::bootstrap_servers(&mirror.facts.settings), wanted))
    };
    catalog.mirrors().filter_map(question).collect()
}

fn flowing(mirror: &Mirror) -> impl Iterator<Item = &str> {
    let flows = mirror.topics.iter().filter(|(_, topic)| topic.facts.desired == Desired::Mirror);
    flows.filter(|(_, topic)| !topic.facts.id.is_zero()).map(|(name, _)| name.as_str())
}

/// What the answer brings that the catalog does not have; topics for which there is no room wait.
fn news(catalog: &Catalog, name: &str, answer: &Answer, mut slots_free: usize) -> Vec<MirrorEvent> {
    let Some(mirror) = catalog.mirror(name).filter(|mirror| mirror.facts.source_cluster_id == answer.cluster_id) else {
        return Vec::new();
    };
    let patterns = |texts: &[String]| Patterns::compile(texts).ok();
    let (Some(include), Some(exclude)) = (patterns(&mirror.facts.include), patterns(&mirror.facts.exclude)) else {
        return Vec::new();
    };
    let mut events = Vec::new();
    for source in answer.topics.values().flatten() {
        // A stopped or paused topic is bound to the mirror, so it is not discovered again.
        let more = match (catalog.owner_of(&source.name), mirror.topics.get(&source.name)) {
            (_, Some(known)) => {
                let same = known.facts.id == source.id && known.facts.desired == Desired::Mirror;
                if same { source.partition_count.saturating_sub(known.facts.partition_count).max(0) } else { 0 }
            }
            (Some(_), None) => 0,
            (None, None) if is_wanted(source, &include, &exclude) => source.partition_count,
            (None, None) => 0,
        };
        let more = usize::try_from(more).unwrap_or(0);
        if more == 0 {
            continue;
        }
        if more > slots_free {
            warn!(
                mirror = name,
                topic = source.name,
                more,
                slots_free,
                "no slots for what is new; raise the data plane's"
            );
            continue;
        }
        slots_free -= more;
        info!(mirror = name, topic = source.name, partitions = more, "new at the source");
        events.push(MirrorEvent::Started { mirror: name.to_owned(), topic: source.clone() });
    }
    events
}

fn is_wanted(source: &SourceTopic, include: &Patterns, exclude: &Patterns) -> bool {
    !is_internal(source) && include.matches(&source.name) && !exclude.matches(&source.name)
}
