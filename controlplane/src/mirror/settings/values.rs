//! pure: the settings of one mirror as a value that never shows its secrets.

use super::{EXCLUDE, INCLUDE, is_of_data_plane, is_secret};
use crate::mirror::catalog::MirrorFacts;
use crate::mirror::re2;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// What stands in place of a secret.
pub const MASKED: &str = "[hidden]";

/// Settings of one mirror, by key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, String>);

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(key, value): (&'_ String, &'_ String)| {
            (key.clone(), if is_secret(key) { MASKED.to_owned() } else { value.clone() })
        };
        f.debug_map().entries(self.0.iter().map(shown)).finish()
    }
}

impl Deref for Settings {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Settings {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl FromIterator<(String, String)> for Settings {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl<const N: usize> From<[(String, String); N]> for Settings {
    fn from(pairs: [(String, String); N]) -> Self {
        Self(pairs.into())
    }
}

impl Settings {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Those that the data plane goes by; the others are followed here alone.
    pub fn of_data_plane(&self) -> impl Iterator<Item = (&String, &String)> {
        self.0.iter().filter(|(key, _)| is_of_data_plane(key))
    }
}

impl MirrorFacts {
    /// All settings, the patterns among them: what start and stop record and what the settings say is the same thing.
    #[must_use]
    pub fn configured(&self) -> Settings {
        let mut settings = self.settings.clone();
        for (key, patterns) in [(INCLUDE, &self.include), (EXCLUDE, &self.exclude)] {
            if !patterns.is_empty() {
                settings.insert(key.to_owned(), patterns.join(","));
            }
        }
        settings
    }

    /// Takes settings over, the patterns among them.
    pub fn configure(&mut self, mut settings: Settings) {
        let mut patterns = |key| settings.remove(key).map(|list| re2::split(&list)).unwrap_or_default();
        (self.include, self.exclude) = (patterns(INCLUDE), patterns(EXCLUDE));
        self.settings = settings;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn secrets_are_not_shown_wherever_settings_are() {
        let settings = settings(&[("sasl.jaas.config", "hunter2"), ("client.id", "me"), ("key.of.old", "hunter3")]);
        let mut facts = MirrorFacts::default();
        facts.configure(settings);
        let event = crate::mirror::event::MirrorEvent::Created { mirror: "m".to_owned(), facts };
        let text = format!("{event:?} {event:#?}");
        assert!(text.contains("me") && text.contains(MASKED) && !text.contains("hunter"), "{text}");
    }

    #[test]
    fn patterns_and_settings_are_the_same_thing() {
        let mut facts = MirrorFacts::default();
        let whole = settings(&[("client.id", "me"), (INCLUDE, r"a{1,3},[x,y].*"), (EXCLUDE, "a1")]);
        facts.configure(whole.clone());
        assert_eq!(
            (&facts.include[..], &facts.exclude[..]),
            (&["a{1,3}".to_owned(), "[x,y].*".into()][..], &["a1".into()][..])
        );
        assert_eq!(facts.settings, settings(&[("client.id", "me")]));
        assert_eq!(facts.configured(), whole);
    }
}
