//! Which processors the cores run on, and pinning a thread to one.

use crate::config::ConfigError;

/// What the configuration says about cores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoreChoice {
    /// So many, on the last processors that this process may use.
    Count(usize),
    /// On these processors.
    List(Vec<usize>),
}

impl CoreChoice {
    /// `3` (three cores), `0,2` or `4-7` (these processors).
    ///
    /// # Errors
    /// Text of another form, no core at all, or a processor twice.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let bad = || ConfigError::Value {
            key: "cores",
            value: text.to_owned(),
            bounds: format!(
                "a number of cores (1 to {CORES_MAX}) or a list of processors such as 0,2 or 4-7 is allowed"
            ),
        };
        if let Ok(count) = text.trim().parse::<usize>() {
            return if (1..=CORES_MAX).contains(&count) { Ok(Self::Count(count)) } else { Err(bad()) };
        }
        let mut list = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse::<usize>()) else {
                return Err(bad());
            };
            if first > last || last - first >= CORES_MAX {
                return Err(bad());
            }
            list.extend(first..=last);
        }
        let mut sorted = list.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if list.is_empty() || list.len() > CORES_MAX || sorted.len() != list.len() {
            return Err(bad());
        }
        Ok(Self::List(list))
    }

    /// How many cores.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Self::Count(count) => *count,
            Self::List(list) => list.len(),
        }
    }

    /// The processor of each core; `None` for all of a number of cores when the system does not say which processors there are.
    ///
    /// # Errors
    /// More cores than processors, or a processor that this process may not use: two cores on one processor only take turns.
    pub fn processors(&self) -> Result<Vec<Option<usize>>, ConfigError> {
        match core_affinity::get_core_ids() {
            Some(usable) => self.among(usable.into_iter().map(|id| id.id).collect()),
            None => Ok(match self {
                Self::Count(count) => vec![None; *count],
                Self::List(list) => list.iter().copied().map(Some).collect(),
            }),
        }
    }

    fn among(&self, mut usable: Vec<usize>) -> Result<Vec<Option<usize>>, ConfigError> {
        // The last ones: the first processor takes most interrupts and other work.
        usable.sort_unstable_by(|a, b| b.cmp(a));
        let refused = |value: String| {
            let of_mine = usable.iter().rev().map(usize::to_string).collect::<Vec<_>>().join(",");
            let bounds = format!("this process may use {} processors: {of_mine}", usable.len());
            ConfigError::Value { key: "cores", value, bounds }
        };
        match self {
            Self::Count(count) if *count > usable.len() => Err(refused(count.to_string())),
            Self::Count(count) => Ok(usable.into_iter().take(*count).map(Some).collect()),
            Self::List(list) => match list.iter().find(|one| !usable.contains(one)) {
                Some(missing) => Err(refused(missing.to_string())),
                None => Ok(list.iter().copied().map(Some).collect()),
            },
        }
    }
}

/// Pins the calling thread; false when the system refuses.
#[must_use]
pub fn pin(processor: usize) -> bool {
    core_affinity::set_for_current(core_affinity::CoreId { id: processor })
}

/// The most cores of one data plane: the channel has no room for more.
const CORES_MAX: usize = twinlog_proto::channel::layout::CORES_MAX as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_count_and_anything_else_is_a_list() {
        assert_eq!(CoreChoice::parse("3").unwrap(), CoreChoice::Count(3));
        assert_eq!(CoreChoice::parse("0,2").unwrap(), CoreChoice::List(vec![0, 2]));
        assert_eq!(CoreChoice::parse("4-6, 1").unwrap(), CoreChoice::List(vec![4, 5, 6, 1]));
        assert_eq!(CoreChoice::parse("3-3").unwrap(), CoreChoice::List(vec![3]));
    }

    #[test]
    fn cores_run_on_processors_of_this_process_and_never_two_on_one() {
        let among = |text: &str| CoreChoice::parse(text).unwrap().among(vec![0, 2, 3]);
        assert_eq!(among("2").unwrap(), [Some(3), Some(2)]);
        assert_eq!(among("0,2").unwrap(), [Some(0), Some(2)]);
        let refused = among("4").unwrap_err().to_string();
        assert_eq!(refused, "cores = 4 is not usable: this process may use 3 processors: 0,2,3");
        assert!(among("1-2").unwrap_err().to_string().starts_with("cores = 1 is not usable"));
    }

    #[test]
    fn text_that_names_no_cores_is_refused() {
        for text in ["", "0", "999", "a", "1,x", "3-1", "1,1", "0-100000", ","] {
            assert!(CoreChoice::parse(text).is_err(), "{text:?}");
        }
    }
}
