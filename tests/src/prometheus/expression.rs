//! pure: expressions of alert rules and dashboards, as far as it takes to know which series they ask for.

use std::collections::BTreeSet;

/// What an expression asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selector {
    /// Name of the series.
    pub name: String,
    /// Labels that are matched.
    pub labels: BTreeSet<String>,
}

/// Words that are no names of series.
const WORDS: [&str; 14] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "and",
    "or",
    "unless",
    "offset",
    "bool",
    "le",
    "inf",
    "nan",
];
/// Functions and aggregations that are used; another one is a typing error until it stands here.
const FUNCTIONS: [&str; 16] = [
    "rate",
    "increase",
    "sum",
    "max",
    "min",
    "avg",
    "count",
    "time",
    "abs",
    "absent",
    "changes",
    "deriv",
    "histogram_quantile",
    "predict_linear",
    "max_over_time",
    "clamp_min",
];

/// The series that an expression asks for, and the labels by which it groups.
///
/// # Errors
/// Brackets that do not match, an unknown function, a duration without unit, an operator without operand.
pub fn selectors(expression: &str) -> Result<(BTreeSet<Selector>, BTreeSet<String>), String> {
    let tokens = tokens(expression)?;
    let (mut found, mut grouping, mut open) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        let next = tokens.get(at + 1).map(String::as_str);
        let token = tokens[at].as_str();
        match token {
            "(" | "[" | "{" => open.push(token),
            ")" | "]" | "}" => {
                let wanted = match token {
                    ")" => "(",
                    "]" => "[",
                    _ => "{",
                };
                if open.pop() != Some(wanted) {
                    return Err(format!("{token} closes nothing in {expression}"));
                }
            }
            "by" | "without" | "on" | "ignoring" if next == Some("(") => {
                let end = tokens[at..].iter().position(|t| t == ")").ok_or_else(|| format!("no end: {expression}"))?;
                grouping.extend(tokens[at + 2..at + end].iter().filter(|t| *t != ",").cloned());
                at += end;
            }
            word if is_name(word) && matches!(next, Some("(" | "by" | "without")) && is_known(word) => {}
            word if is_name(word) && next == Some("(") => {
                return Err(format!("{word} is no function in {expression}"));
            }
            word if is_name(word) && !WORDS.contains(&word.to_ascii_lowercase().as_str()) => {
                let mut labels = BTreeSet::new();
                if next == Some("{") {
                    let end =
                        tokens[at..].iter().position(|t| t == "}").ok_or_else(|| format!("no }} in {expression}"))?;
                    labels.extend(tokens[at + 2..at + end].iter().filter(|t| is_name(t)).cloned());
                    at += end;
                }
                found.insert(Selector { name: word.to_owned(), labels });
            }
            _ => {}
        }
        at += 1;
    }
    if !open.is_empty() {
        return Err(format!("{open:?} does not end in {expression}"));
    }
    let last = tokens.last().map(String::as_str).unwrap_or_default();
    if found.is_empty() || ["+", "-", "*", "/", ">", "<", "==", ">=", "<=", "!="].contains(&last) {
        return Err(format!("nothing is asked for, or an operand is missing: {expression}"));
    }
    Ok((found, grouping))
}

fn is_known(word: &str) -> bool {
    FUNCTIONS.contains(&word) || WORDS.contains(&word)
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == ':')
}

fn tokens(expression: &str) -> Result<Vec<String>, String> {
    let mut tokens = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if is_name(rest) || first == '$' {
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || "_:$".contains(c))).unwrap_or(rest.len())
        } else if first.is_ascii_digit() {
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).unwrap_or(rest.len())
        } else if first == '"' {
            2 + rest[1..].find('"').ok_or_else(|| format!("a quote does not end in {expression}"))?
        } else if ["==", "!=", ">=", "<=", "=~", "!~"].iter().any(|two| rest.starts_with(two)) {
            2
        } else if "()[]{},+-*/%^<>=:".contains(first) {
            1
        } else {
            return Err(format!("{first:?} has no place in {expression}"));
        };
        let token = &rest[..length];
        if tokens.last().is_some_and(|t| t == "[") && !token.ends_with(['s', 'm', 'h', 'd']) && !token.starts_with('$')
        {
            return Err(format!("a range is a time with its unit: [{token}] in {expression}"));
        }
        tokens.push(token.to_owned());
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_labels_and_groupings_are_found() {
        let text = "histogram_quantile(0.999, sum by (le, core) (rate(twinlog_h_bucket{core=~\"0|1\"}[5m]))) > 0.5 and on (x) b == 1";
        let (found, grouping) = selectors(text).unwrap();
        let found: Vec<_> = found.into_iter().map(|s| (s.name, s.labels.into_iter().collect::<Vec<_>>())).collect();
        assert_eq!(found, [("b".to_owned(), vec![]), ("twinlog_h_bucket".to_owned(), vec!["core".to_owned()])]);
        assert_eq!(grouping.into_iter().collect::<Vec<_>>(), ["core", "le", "x"]);
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for text in ["rate(a[5m]", "rate(a[5])", "rat(a[5m])", "a >", "a{b=\"c} 1", "", "a ? b", "(a))", "1 + 2"] {
            assert!(selectors(text).is_err(), "{text}");
        }
    }
}
