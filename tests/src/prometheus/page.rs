//! pure: a metrics page in the text format 0.0.4.

use std::collections::{BTreeMap, BTreeSet};

/// Type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets.
    Histogram,
}

/// A family.
#[derive(Debug, Clone)]
pub struct Family {
    /// Its type.
    pub kind: Kind,
    /// Its samples: name, labels, value.
    pub samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

/// A whole page.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Families by name.
    pub families: BTreeMap<String, Family>,
}

/// Units that are written in names, and what they stand for.
const WRONG_UNITS: [&str; 8] = ["_ms", "_millis", "_micros", "_us", "_ns", "_minutes", "_kb", "_mb"];

impl Page {
    /// Reads a page.
    ///
    /// # Errors
    /// The first rule that is broken, with the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut page = Self::default();
        let (mut helped, mut current) = (BTreeSet::new(), String::new());
        for line in text.lines() {
            let broken = |rule: &str| Err(format!("{rule}: {line}"));
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let Some((name, help)) = rest.split_once(' ') else { return broken("HELP needs words") };
                if help.trim().is_empty() || !helped.insert(name.to_owned()) {
                    return broken("HELP stands once, with words");
                }
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let Some((name, kind)) = rest.split_once(' ') else { return broken("TYPE needs a type") };
                let kind = match kind {
                    "counter" => Kind::Counter,
                    "gauge" => Kind::Gauge,
                    "histogram" => Kind::Histogram,
                    _ => return broken("the type is counter, gauge or histogram"),
                };
                if !helped.contains(name) {
                    return broken("HELP comes before TYPE");
                }
                is_named_well(name, kind)?;
                if page.families.insert(name.to_owned(), Family { kind, samples: Vec::new() }).is_some() {
                    return broken("TYPE stands once");
                }
                name.clone_into(&mut current);
            } else {
                let (name, labels, value) = sample(line)?;
                let Some(family) = page.families.get_mut(&current) else { return broken("TYPE comes before samples") };
                let suffix = name.strip_prefix(current.as_str());
                let fits = match family.kind {
                    Kind::Histogram => matches!(suffix, Some("_bucket" | "_sum" | "_count")),
                    _ => suffix == Some(""),
                };
                if !fits {
                    return broken("samples follow their TYPE");
                }
                if family.samples.iter().any(|(n, l, _)| *n == name && *l == labels) {
                    return broken("a series stands once");
                }
                family.samples.push((name, labels, value));
            }
        }
        page.families.iter().filter(|(_, family)| family.kind == Kind::Histogram).try_for_each(buckets)?;
        Ok(page)
    }

    /// The family that a selector's name belongs to.
    #[must_use]
    pub fn family_of(&self, name: &str) -> Option<&Family> {
        let whole = self.families.get(name).filter(|family| family.kind != Kind::Histogram);
        whole.or_else(|| {
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix))?;
            self.families.get(base).filter(|family| family.kind == Kind::Histogram)
        })
    }

    /// The value of the one series with this name and these labels among others.
    #[must_use]
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let wanted = |found: &BTreeMap<String, String>| {
            labels.iter().all(|(label, value)| found.get(*label).is_some_and(|found| found == value))
        };
        let family = self.family_of(name)?;
        family.samples.iter().find(|(n, found, _)| n == name && wanted(found)).map(|(.., value)| *value)
    }

    /// Series on the page.
    #[must_use]
    pub fn series(&self) -> usize {
        self.families.values().map(|family| family.samples.len()).sum()
    }
}

fn is_named_well(name: &str, kind: Kind) -> Result<(), String> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !name.starts_with("twinlog_") || !name.chars().all(legal) {
        return Err(format!("names are twinlog_ and of a-z, 0-9 and _: {name}"));
    }
    if (kind == Kind::Counter) != name.ends_with("_total") {
        return Err(format!("counters, and only they, end with _total: {name}"));
    }
    let bare = name.trim_end_matches("_total").trim_end_matches("_max");
    if WRONG_UNITS.iter().any(|unit| bare.ends_with(unit)) {
        return Err(format!("units are seconds and bytes: {name}"));
    }
    if ["_sum", "_count", "_bucket"].iter().any(|suffix| name.ends_with(suffix)) {
        return Err(format!("the suffixes of histograms are theirs alone: {name}"));
    }
    Ok(())
}

fn sample(line: &str) -> Result<(String, BTreeMap<String, String>, f64), String> {
    let broken = |rule: &str| format!("{rule}: {line}");
    let (series, value) = line.rsplit_once(' ').ok_or_else(|| broken("a sample has a value"))?;
    let value = value.parse().map_err(|_no_number| broken("a value is a number"))?;
    let Some((name, rest)) = series.split_once('{') else {
        return Ok((series.to_owned(), BTreeMap::new(), value));
    };
    let mut rest = rest.strip_suffix('}').ok_or_else(|| broken("labels end with }"))?;
    let mut labels = BTreeMap::new();
    while !rest.is_empty() {
        let (label, quoted) = rest.split_once("=\"").ok_or_else(|| broken("a label has a quoted value"))?;
        let mut end = None;
        let mut escaped = false;
        for (at, c) in quoted.char_indices() {
            match c {
                '"' if !escaped => {
                    end = Some(at);
                    break;
                }
                c => escaped = c == '\\' && !escaped,
            }
        }
        let end = end.ok_or_else(|| broken("a quote ends"))?;
        if labels.insert(label.to_owned(), quoted[..end].to_owned()).is_some() {
            return Err(broken("a label stands once"));
        }
        rest = quoted[end + 1..].trim_start_matches(',');
    }
    Ok((name.to_owned(), labels, value))
}

/// The buckets of each series of a histogram never fall and end with all of it.
fn buckets((name, family): (&String, &Family)) -> Result<(), String> {
    let mut counts: BTreeMap<BTreeMap<String, String>, f64> = BTreeMap::new();
    for (sample, labels, value) in family.samples.iter().filter(|(sample, ..)| sample.ends_with("_bucket")) {
        let mut series = labels.clone();
        let end = series.remove("le").ok_or_else(|| format!("a bucket says where it ends: {sample}"))?;
        let before = counts.insert(series.clone(), *value).unwrap_or(0.0);
        if *value < before {
            return Err(format!("buckets are cumulative: {name}{series:?} le={end}"));
        }
        let count = family.samples.iter().find(|(n, l, _)| n.ends_with("_count") && *l == series).map(|(.., v)| *v);
        if end == "+Inf" && count != Some(*value) {
            return Err(format!("the last bucket is the count: {name}{series:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# HELP twinlog_a An a\n# TYPE twinlog_a gauge\ntwinlog_a{x=\"1\",y=\"a\\\"b, c\"} 2.5\n\
        # HELP twinlog_h_seconds Times\n# TYPE twinlog_h_seconds histogram\n\
        twinlog_h_seconds_bucket{le=\"1\"} 1\ntwinlog_h_seconds_bucket{le=\"+Inf\"} 2\n\
        twinlog_h_seconds_sum 3\ntwinlog_h_seconds_count 2\n";

    #[test]
    fn a_page_is_read_and_its_series_are_found() {
        let page = Page::parse(GOOD).unwrap();
        assert_eq!(page.value("twinlog_a", &[("y", "a\\\"b, c")]), Some(2.5));
        assert_eq!(page.value("twinlog_h_seconds_bucket", &[("le", "1")]), Some(1.0));
        assert_eq!((page.family_of("twinlog_h_seconds").is_none(), page.series()), (true, 5));
    }

    #[test]
    fn every_rule_bites() {
        let head = "# HELP twinlog_a An a\n# TYPE twinlog_a gauge\n";
        let named = |name: &str, kind: &str| format!("# HELP {name} x\n# TYPE {name} {kind}\n");
        for (text, sign) in [
            ("twinlog_a 1\n".to_owned(), "TYPE comes before"),
            (format!("{head}{head}"), "HELP stands once"),
            ("# HELP twinlog_a \n".to_owned(), "with words"),
            ("# TYPE twinlog_a gauge\n".to_owned(), "HELP comes before"),
            (format!("{head}twinlog_b 1\n"), "follow their TYPE"),
            (format!("{head}twinlog_a 1\ntwinlog_a 2\n"), "a series stands once"),
            (format!("{head}twinlog_a{{x=\"1\",x=\"2\"}} 1\n"), "a label stands once"),
            (format!("{head}twinlog_a one\n"), "a number"),
            (named("twinlog_a_total", "gauge"), "_total"),
            (named("twinlog_a", "counter"), "_total"),
            (named("twinlog_lag_ms", "gauge"), "seconds and bytes"),
            (named("twinlog_a_sum", "gauge"), "histograms"),
            (named("other_a", "gauge"), "twinlog_"),
            (GOOD.replace("\"1\"} 1", "\"1\"} 3"), "cumulative"),
            (GOOD.replace("count 2", "count 3"), "the last bucket"),
        ] {
            let broken = Page::parse(&text).unwrap_err();
            assert!(broken.contains(sign), "{sign}: {broken}");
        }
    }
}
