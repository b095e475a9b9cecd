//! pure: the text form that Prometheus reads. A family's HELP and TYPE come before its samples, once, whoever writes them.

use std::fmt::{Display, Write};

/// Kind of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only grows while the process that counts lives.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets.
    Histogram,
}

/// The page being written.
#[derive(Debug, Default)]
pub(super) struct Page {
    out: String,
}

/// The family being written.
#[derive(Debug)]
pub(super) struct Family<'p> {
    out: &'p mut String,
    name: &'p str,
}

impl Page {
    /// Begins a family.
    pub(super) fn family<'p>(&'p mut self, name: &'p str, kind: Kind, help: &str) -> Family<'p> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        write(&mut self.out, format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        Family { out: &mut self.out, name }
    }

    /// A family of one sample without labels.
    pub(super) fn one(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help).sample(&[], value);
    }

    /// The text.
    pub(super) fn finish(self) -> String {
        self.out
    }
}

impl Family<'_> {
    /// A sample.
    pub(super) fn sample(&mut self, labels: &[(&str, &dyn Display)], value: impl Display) {
        self.part("", labels, value);
    }

    /// A sample of a histogram: its name goes on with `suffix`.
    pub(super) fn part(&mut self, suffix: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
        write(self.out, format_args!("{}{suffix}", self.name));
        for (at, (name, value)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            write(self.out, format_args!("{before}{name}=\"{}\"", escaped(&value.to_string())));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        write(self.out, format_args!("{after} {value}\n"));
    }

    /// A whole histogram: buckets as (largest value in it, how many are not above it), their sum, how many there are.
    pub(super) fn histogram(&mut self, labels: &[(&str, &dyn Display)], buckets: &[(f64, u64)], sum: f64, count: u64) {
        let infinite: &dyn Display = &"+Inf";
        for (end, below) in buckets {
            let end: &dyn Display = end;
            self.part("_bucket", &[labels, &[("le", end)]].concat(), below);
        }
        self.part("_bucket", &[labels, &[("le", infinite)]].concat(), count);
        self.part("_sum", labels, sum);
        self.part("_count", labels, count);
    }
}

fn escaped(value: &str) -> String {
    if !value.contains(['\\', '"', '\n']) {
        return value.to_owned();
    }
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn write(out: &mut String, text: std::fmt::Arguments<'_>) {
    // A string takes everything.
    out.write_fmt(text).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_histograms_end_with_everything() {
        let mut page = Page::default();
        page.one("a", Kind::Gauge, "An a", 5);
        let mut family = page.family("h_seconds", Kind::Histogram, "Times");
        family.histogram(&[("path", &"a\"b\\c\nd")], &[(0.5, 1), (1.0, 3)], 2.5, 4);
        assert_eq!(
            page.finish(),
            "# HELP a An a\n# TYPE a gauge\na 5\n\
             # HELP h_seconds Times\n# TYPE h_seconds histogram\n\
             h_seconds_bucket{path=\"a\\\"b\\\\c\\nd\",le=\"0.5\"} 1\n\
             h_seconds_bucket{path=\"a\\\"b\\\\c\\nd\",le=\"1\"} 3\n\
             h_seconds_bucket{path=\"a\\\"b\\\\c\\nd\",le=\"+Inf\"} 4\n\
             h_seconds_sum{path=\"a\\\"b\\\\c\\nd\"} 2.5\nh_seconds_count{path=\"a\\\"b\\\\c\\nd\"} 4\n"
        );
    }
}
