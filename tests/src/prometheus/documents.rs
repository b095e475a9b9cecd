//! The expressions of the alert rules and of the dashboard that are shipped in `docs/`.

use crate::place;
use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

/// An expression and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    /// Name of the alert, or title of the panel.
    pub place: String,
    /// The expression.
    pub text: String,
}

/// The alert rules: each with a severity, a summary and what to do.
///
/// # Errors
/// What a rule lacks.
pub fn alerts() -> Result<Vec<Expression>, String> {
    let documents = YamlLoader::load_from_str(&read("docs/alerts.yml")?).map_err(|cause| cause.to_string())?;
    let [document] = documents.as_slice() else { return Err("one document".to_owned()) };
    let mut found: Vec<Expression> = Vec::new();
    for group in document["groups"].as_vec().ok_or("groups")? {
        group["name"].as_str().ok_or("a group has a name")?;
        for rule in group["rules"].as_vec().ok_or("rules")? {
            let place = rule["alert"].as_str().ok_or("a rule has a name")?.to_owned();
            let text = |value: &Yaml, what: &str| match value.as_str() {
                Some(text) if !text.trim().is_empty() => Ok(text.to_owned()),
                _ => Err(format!("{place} has no {what}")),
            };
            let severity = text(&rule["labels"]["severity"], "severity")?;
            if !["warning", "critical"].contains(&severity.as_str()) {
                return Err(format!("{place}: {severity} is no severity"));
            }
            text(&rule["annotations"]["summary"], "summary")?;
            text(&rule["annotations"]["action"], "action")?;
            if !rule["for"].is_badvalue() && !text(&rule["for"], "time")?.ends_with(['s', 'm', 'h']) {
                return Err(format!("{place}: a time has a unit"));
            }
            let text = text(&rule["expr"], "expression")?;
            if found.iter().any(|known| known.place == place) {
                return Err(format!("{place} stands twice"));
            }
            found.push(Expression { place, text });
        }
    }
    Ok(found)
}

/// The panels of the dashboard.
///
/// # Errors
/// What a panel lacks.
pub fn dashboard() -> Result<Vec<Expression>, String> {
    let document: Value = serde_json::from_str(&read("docs/grafana.json")?).map_err(|cause| cause.to_string())?;
    let mut found = Vec::new();
    for panel in document["panels"].as_array().ok_or("panels")? {
        let place = panel["title"].as_str().ok_or("a panel has a title")?.to_owned();
        let targets = panel["targets"].as_array().map_or(&[][..], Vec::as_slice);
        if targets.is_empty() && panel["type"] != "row" {
            return Err(format!("{place} shows nothing"));
        }
        for target in targets {
            let text = target["expr"].as_str().ok_or_else(|| format!("{place} has no expression"))?.to_owned();
            found.push(Expression { place: place.clone(), text });
        }
    }
    Ok(found)
}

fn read(path: &str) -> Result<String, String> {
    let path = place::repository().join(path);
    std::fs::read_to_string(&path).map_err(|cause| format!("{}: {cause}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prometheus::selectors;

    #[test]
    fn every_expression_of_the_documents_is_one() {
        let (alerts, panels) = (alerts().unwrap(), dashboard().unwrap());
        assert!(alerts.len() >= 15 && panels.len() >= 30, "{} {}", alerts.len(), panels.len());
        for expression in alerts.iter().chain(&panels) {
            let found = selectors(&expression.text);
            let (found, _) = found.unwrap_or_else(|why| panic!("{}: {why}", expression.place));
            assert!(found.iter().all(|s| s.name.starts_with("twinlog_")), "{}: {found:?}", expression.place);
        }
    }
}
