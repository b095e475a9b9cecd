//! Topic patterns of a mirror: anchored regular expressions in RE2's syntax, several of them are alternatives.
//!
//! One list is asked for several times in a request and in each round of its mirror, so the lists of last use are kept compiled. Nothing
//! else is remembered: what comes out depends on what goes in alone.

use crate::limits::{
    PATTERN_CHARS_MAX, PATTERN_LISTS_KEPT, PATTERN_PROGRAM_BYTES_MAX, PATTERNS_MAX, SETTING_CHARS_MAX,
};
use crate::mirror::re2;
use regex::{RegexSet, RegexSetBuilder};
use std::cell::RefCell;
use std::collections::VecDeque;

thread_local! {
    /// Lists as they were given and what became of them, the last used one in front.
    static KEPT: RefCell<VecDeque<(Vec<String>, Patterns)>> = const { RefCell::new(VecDeque::new()) };
}

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
        // A list is one value of a setting too, with commas between.
        let chars =
            patterns.iter().map(|pattern| pattern.as_ref().chars().count() + 1).sum::<usize>().saturating_sub(1);
        if chars > SETTING_CHARS_MAX {
            return Err(BadPattern::Bound(format!(
                "the patterns have {chars} characters together, more than {SETTING_CHARS_MAX}; use fewer and wider ones"
            )));
        }
        KEPT.with_borrow_mut(|kept| {
            let same =
                |(list, _): &(Vec<String>, Self)| list.iter().map(String::as_str).eq(patterns.iter().map(S::as_ref));
            let found = kept.iter().position(same).and_then(|at| kept.remove(at));
            let (list, compiled) = match found {
                Some(known) => known,
                None => (patterns.iter().map(|text| text.as_ref().to_owned()).collect(), Self::anew(patterns)?),
            };
            kept.push_front((list, compiled.clone()));
            kept.truncate(PATTERN_LISTS_KEPT);
            Ok(compiled)
        })
    }

    fn anew<S: AsRef<str>>(patterns: &[S]) -> Result<Self, BadPattern> {
        let (mut anchored, mut known) = (Vec::with_capacity(patterns.len()), re2::Known::default());
        for pattern in patterns.iter().map(AsRef::as_ref) {
            if pattern.is_empty() || pattern.chars().count() > PATTERN_CHARS_MAX {
                let length = pattern.chars().count();
                return Err(BadPattern::Bound(format!(
                    "a pattern has 1 to {PATTERN_CHARS_MAX} characters, this one {length}"
                )));
            }
            let bad = |why: String| BadPattern::Syntax { pattern: pattern.to_owned(), why };
            let translated = re2::translate(pattern, &mut known).map_err(bad)?;
            // Each is read alone first, so that whatever is wrong is told of the right one.
            regex_syntax::parse(&translated).map_err(|cause| bad(cause.to_string()))?;
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
        assert!(large.join(",").len() <= SETTING_CHARS_MAX);
        let why = Patterns::compile(&large).unwrap_err().to_string();
        assert!(why.contains("too large together"), "{why}");
    }

    #[test]
    fn patterns_that_are_long_together_are_refused_before_any_of_them_is_read() {
        let last = SETTING_CHARS_MAX - 32 * (PATTERN_CHARS_MAX + 1);
        let list = |last: usize| {
            let lengths = [PATTERN_CHARS_MAX; 32].into_iter().chain([last]);
            lengths.map(|length| "a".repeat(length)).collect::<Vec<String>>()
        };
        assert!(Patterns::compile(&list(last)).is_ok());
        let mut long = list(last + 1);
        long[0] = "(".repeat(PATTERN_CHARS_MAX);
        let why = Patterns::compile(&long).unwrap_err().to_string();
        assert!(why.contains("32768 characters together"), "{why}");
    }

    #[test]
    fn a_list_that_was_used_lately_is_not_compiled_again() {
        let made_of = |patterns: &Patterns| patterns.0.patterns().as_ptr();
        let kept = Patterns::compile(&["kept.*"]).unwrap();
        for n in 0..2 * PATTERN_LISTS_KEPT {
            Patterns::compile(&[format!("other-{n}")]).unwrap();
            assert_eq!(made_of(&Patterns::compile(&["kept.*"]).unwrap()), made_of(&kept));
        }
        assert!(KEPT.with_borrow(|kept| kept.len() <= PATTERN_LISTS_KEPT));
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
