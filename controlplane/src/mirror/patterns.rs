//! pure: topic patterns of a mirror: anchored regular expressions in RE2's syntax, several of them are alternatives.

use crate::limits::{PATTERN_CHARS_MAX, PATTERN_PROGRAM_BYTES_MAX, PATTERNS_MAX};
use crate::mirror::re2;
use regex::{RegexBuilder, RegexSet, RegexSetBuilder};

/// Bytes after which the program of a single pattern is given up: only its syntax is of interest.
const ALONE_BYTES: usize = 16 << 10;

/// Compiled patterns of one kind.
#[derive(Debug, Clone, Default)]
pub struct Patterns(RegexSet);

/// A pattern that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadPattern {
    /// Too long or too many.
    #[error("{0}")]
    Bound(String),
    /// Not RE2's syntax.
    #[error("the pattern {pattern:?} is not a regular expression in RE2 syntax: {why}")]
    Syntax {
        /// As it was given.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Patterns {
    /// Compiles `patterns`; each must match a whole name.
    ///
    /// # Errors
    /// The first pattern that is no regular expression, or a bound.
    pub fn compile<S: AsRef<str>>(patterns: &[S]) -> Result<Self, BadPattern> {
        if patterns.len() > PATTERNS_MAX {
            return Err(BadPattern::Bound(format!("{} patterns are more than {PATTERNS_MAX}", patterns.len())));
        }
        let mut anchored = Vec::with_capacity(patterns.len());
        for pattern in patterns.iter().map(AsRef::as_ref) {
            if pattern.is_empty() || pattern.chars().count() > PATTERN_CHARS_MAX {
                let length = pattern.chars().count();
                return Err(BadPattern::Bound(format!(
                    "a pattern has 1 to {PATTERN_CHARS_MAX} characters, this one {length}"
                )));
            }
            let bad = |why: String| BadPattern::Syntax { pattern: pattern.to_owned(), why };
            let translated = re2::translate(pattern).map_err(bad)?;
            // Alone first, so that whatever is wrong is told of the right one.
            match RegexBuilder::new(&translated).size_limit(ALONE_BYTES).build() {
                // Its size is bounded together with the others' below; here only the syntax counts.
                Ok(_) | Err(regex::Error::CompiledTooBig(_)) => {}
                Err(cause) => return Err(bad(cause.to_string())),
            }
            anchored.push(format!("^(?:{translated})$"));
        }
        RegexSetBuilder::new(anchored).size_limit(PATTERN_PROGRAM_BYTES_MAX).build().map(Self).map_err(|cause| {
            BadPattern::Bound(format!("the patterns are too large together ({cause}); use simpler ones"))
        })
    }

    /// Whether any pattern matches all of `name`.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_names_only() {
        let patterns = Patterns::compile(&["orders", "a|b.*"]).unwrap();
        for (name, matches) in
            [("orders", true), ("orders2", false), ("my.orders", false), ("a", true), ("bcd", true), ("xb", false)]
        {
            assert_eq!(patterns.matches(name), matches, "{name}");
        }
        assert!(!Patterns::compile::<&str>(&[]).unwrap().matches("orders"));
    }

    #[test]
    fn patterns_that_are_large_together_are_refused() {
        let large: Vec<String> = (0..PATTERNS_MAX).map(|n| format!(".{{900}}{n}")).collect();
        let why = Patterns::compile(&large).unwrap_err().to_string();
        assert!(why.contains("too large together"), "{why}");
    }

    #[test]
    fn a_bad_pattern_is_named() {
        for bad in ["(", "a)|(b", "*", ""] {
            assert!(Patterns::compile(&[bad]).is_err(), "{bad:?}");
        }
        let text = Patterns::compile(&["ok", "(x"]).unwrap_err().to_string();
        assert!(text.contains("(x"), "{text}");
    }
}
