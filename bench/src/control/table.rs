//! pure: figures with their goals, as a table for people; the JSON line has the same.

use std::fmt;

use serde::Serialize;

use super::ControlReport;

/// One figure.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// The most that it should be; none for what is only told.
    pub goal: Option<f64>,
    /// What was seen.
    pub seen: f64,
    /// Of both.
    pub unit: &'static str,
}

impl Row {
    /// A figure with a goal.
    #[must_use]
    pub fn goal(what: impl Into<String>, goal: f64, seen: f64, unit: &'static str) -> Self {
        Self { what: what.into(), goal: Some(goal), seen, unit }
    }

    /// A figure without one.
    #[must_use]
    pub fn told(what: impl Into<String>, seen: f64, unit: &'static str) -> Self {
        Self { what: what.into(), goal: None, seen, unit }
    }

    /// Whether the goal is met; none when there is no goal.
    #[must_use]
    pub fn is_met(&self) -> Option<bool> {
        self.goal.map(|goal| self.seen <= goal)
    }
}

/// The value at `share` (0 to 1) of the sorted `values`; 0 when there are none.
#[must_use]
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = (values.len() as f64 * share).ceil() as usize;
    values.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
}

impl fmt::Display for ControlReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} topics x {} partitions, a log of {} records, load {:.1} at the start",
            self.topics, self.partitions, self.records, self.load
        )?;
        writeln!(f, "{:<58} {:>10} {:>12}", "", "goal", "seen")?;
        for row in &self.rows {
            let goal = row.goal.map_or(String::new(), |goal| format!("{goal}"));
            let missed = if row.is_met() == Some(false) { "  MISSED" } else { "" };
            writeln!(f, "{:<58} {goal:>10} {:>12.2} {}{missed}", row.what, row.seen, row.unit)?;
        }
        let line = serde_json::to_string(self).map_err(|_cause| fmt::Error)?;
        write!(f, "{line}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_seen_and_a_goal_is_the_most_that_may_be() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|share| quantile(&mut values, share)), [50.0, 99.0, 100.0]);
        assert_eq!(quantile(&mut [], 0.5), 0.0);
        assert_eq!(Row::goal("x", 2.0, 2.0, "s").is_met(), Some(true));
        assert_eq!(Row::goal("x", 2.0, 2.1, "s").is_met(), Some(false));
        assert_eq!(Row::told("x", 9.0, "s").is_met(), None);
    }
}
