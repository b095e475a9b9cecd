//! pure: patterns in RE2's syntax, written anew for the `regex` crate, which takes a little more, a little less, and some of it
//! otherwise.
//!
//! What RE2 refuses is refused here, by name. Names of topics are ASCII, so a byte is a character (`\C`), and classes of Unicode
//! count only as far as they are ASCII, which keeps programs small. Groups capture nothing.

mod class;

use crate::limits::PATTERN_REPETITIONS_MAX;
pub use class::Known;
use class::{class, escaped, perl, property, single};
use std::iter::Peekable;
use std::str::Chars;

/// Writes `pattern` anew; `known` goes from one pattern of a list to the next.
///
/// # Errors
/// What RE2 does not take, in words.
pub fn translate(pattern: &str, known: &mut Known) -> Result<String, String> {
    let mut parser = Parser {
        known,
        rest: pattern.chars().peekable(),
        out: String::new(),
        groups: Vec::new(),
        last: Last::Nothing,
        weight: 1,
    };
    while let Some(c) = parser.rest.next() {
        parser.one(c)?;
    }
    match parser.groups.is_empty() {
        true => Ok(parser.out),
        false => Err("a `(` has no `)`".to_owned()),
    }
}

/// What a repetition would apply to.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    /// Nothing: the beginning of a pattern, of a group or of an alternative.
    Nothing,
    /// Something that may be repeated; nested repetitions in it multiply up to this.
    Atom(u32),
    /// A repetition.
    Repetition,
}

struct Parser<'a> {
    known: &'a mut Known,
    rest: Peekable<Chars<'a>>,
    out: String,
    /// The weights outside of the open groups.
    groups: Vec<u32>,
    last: Last,
    /// The largest weight in the present group.
    weight: u32,
}

impl Parser<'_> {
    fn one(&mut self, c: char) -> Result<(), String> {
        match c {
            '(' => self.open()?,
            ')' => {
                let outside = self.groups.pop().ok_or("a `)` has no `(`")?;
                self.out.push(')');
                let inside = std::mem::replace(&mut self.weight, outside);
                self.atom(inside);
            }
            '|' => {
                self.out.push('|');
                self.last = Last::Nothing;
            }
            '*' | '+' | '?' => self.repeat(&c.to_string(), 1)?,
            '{' => match repetition(&self.rest) {
                Some((text, bounds)) => {
                    self.rest.nth(text.chars().count() - 1);
                    self.counted(&format!("{{{text}"), bounds)?;
                }
                None => self.literal('{'),
            },
            '[' => {
                let class = class(&mut self.rest, self.known)?;
                self.out.push_str(&class);
                self.atom(1);
            }
            '.' | '^' | '$' => {
                self.out.push(c);
                self.atom(1);
            }
            ',' if self.groups.is_empty() => {
                return Err("a comma outside of brackets separates patterns; write [,] for one in a name".to_owned());
            }
            '\\' => self.escape()?,
            c => self.literal(c),
        }
        Ok(())
    }

    fn atom(&mut self, weight: u32) {
        self.last = Last::Atom(weight);
        self.weight = self.weight.max(weight);
    }

    fn literal(&mut self, c: char) {
        self.out.push_str(&escaped(c));
        self.atom(1);
    }

    fn open(&mut self) -> Result<(), String> {
        if self.rest.next_if_eq(&'?').is_none() {
            self.out.push_str("(?:");
        } else {
            match flags(&mut self.rest)? {
                (set, ':') => self.out.push_str(&format!("(?{set}:")),
                (set, _) => {
                    // Flags for what follows are no group, and nothing that can be repeated.
                    if !set.is_empty() {
                        self.out.push_str(&format!("(?{set})"));
                    }
                    self.last = Last::Nothing;
                    return Ok(());
                }
            }
        }
        self.groups.push(std::mem::replace(&mut self.weight, 1));
        self.last = Last::Nothing;
        Ok(())
    }

    fn counted(&mut self, text: &str, (least, most): (u32, Option<u32>)) -> Result<(), String> {
        if least > PATTERN_REPETITIONS_MAX || most.is_some_and(|most| most > PATTERN_REPETITIONS_MAX || most < least) {
            return Err(format!(
                "the repetition `{text}` is not from 0 to {PATTERN_REPETITIONS_MAX} with the smaller number first"
            ));
        }
        self.repeat(text, most.unwrap_or(least).max(1))
    }

    fn repeat(&mut self, text: &str, times: u32) -> Result<(), String> {
        let weight = match self.last {
            Last::Atom(weight) => weight.saturating_mul(times),
            Last::Nothing => return Err(format!("the repetition `{text}` has nothing to repeat")),
            Last::Repetition => return Err(format!("the repetition `{text}` follows another one")),
        };
        if weight > PATTERN_REPETITIONS_MAX {
            return Err(format!("the repetitions around `{text}` are more than {PATTERN_REPETITIONS_MAX} together"));
        }
        self.out.push_str(text);
        if self.rest.next_if_eq(&'?').is_some() {
            self.out.push('?');
        }
        self.weight = self.weight.max(weight);
        self.last = Last::Repetition;
        Ok(())
    }

    fn escape(&mut self) -> Result<(), String> {
        let c = self.rest.next().ok_or("it ends with a backslash")?;
        match c {
            'Q' => {
                while let Some(c) = self.rest.next() {
                    if c == '\\' && self.rest.next_if_eq(&'E').is_some() {
                        break;
                    }
                    self.literal(c);
                }
                return Ok(());
            }
            'C' => self.out.push_str("(?s:.)"),
            'A' | 'z' | 'b' | 'B' => {
                self.out.push('\\');
                self.out.push(c);
            }
            'p' | 'P' => {
                let class = property(&mut self.rest, c == 'P', self.known)?;
                self.out.push_str(&class);
            }
            _ => match perl(c) {
                Some(class) => self.out.push_str(class),
                None => {
                    let c = single(c, &mut self.rest)?;
                    self.out.push_str(&escaped(c));
                }
            },
        }
        self.atom(1);
        Ok(())
    }
}

/// `N}`, `N,}` or `N,M}`; anything else after a brace is plain text.
fn repetition(rest: &Peekable<Chars<'_>>) -> Option<(String, (u32, Option<u32>))> {
    let text: String = rest.clone().scan(false, |over, c| (!std::mem::replace(over, c == '}')).then_some(c)).collect();
    let inside = text.strip_suffix('}')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        (digits && (text == "0" || !text.starts_with('0'))).then(|| text.parse().unwrap_or(u32::MAX))
    };
    let bounds = match inside.split_once(',') {
        None => (number(inside)?, Some(number(inside)?)),
        Some((least, "")) => (number(least)?, None),
        Some((least, most)) => (number(least)?, Some(number(most)?)),
    };
    Some((text, bounds))
}

/// The flags after `(?`, and what ends them: `:` or `)`. A named group is a group without flags.
fn flags(rest: &mut Peekable<Chars<'_>>) -> Result<(String, char), String> {
    let named = match rest.peek() {
        Some('P') => rest.clone().nth(1) == Some('<'),
        Some('<') => !matches!(rest.clone().nth(1), Some('=' | '!')),
        _ => false,
    };
    if named {
        let name: String = rest.by_ref().skip_while(|c| *c != '<').skip(1).take_while(|c| *c != '>').collect();
        let word = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        return if word { Ok((String::new(), ':')) } else { Err(format!("{name:?} is no name of a group")) };
    }
    let (mut on, mut off, mut negative, mut since) = (String::new(), String::new(), false, 0);
    loop {
        match rest.next() {
            Some(flag @ ('i' | 'm' | 's' | 'U')) => {
                on.retain(|known| known != flag);
                off.retain(|known| known != flag);
                if negative {
                    off.push(flag)
                } else {
                    on.push(flag)
                }
                since += 1;
            }
            Some('-') if !negative => (negative, since) = (true, 0),
            Some(end @ (':' | ')')) if !negative || since > 0 => {
                let off = if off.is_empty() { String::new() } else { format!("-{off}") };
                return Ok((format!("{on}{off}"), end));
            }
            Some(c) => {
                return Err(format!(
                    "`(?` with `{c}` is no group of RE2 (no look-around, back-references or comments)"
                ));
            }
            None => return Err("a `(` has no `)`".to_owned()),
        }
    }
}

/// The patterns of a list that is separated by commas; those in braces, brackets and quotes belong to a pattern.
#[must_use]
pub fn split(list: &str) -> Vec<String> {
    let mut patterns = vec![String::new()];
    let mut rest = list.chars().peekable();
    let (mut class_at, mut quoted, mut groups) = (None, false, 0_usize);
    while let Some(c) = rest.next() {
        let next = rest.peek().copied();
        let pattern = patterns.last_mut().expect("one was put in before");
        match c {
            '\\' if quoted => quoted = next != Some('E'),
            _ if quoted => {}
            '\\' => quoted = next == Some('Q') && class_at.is_none(),
            '[' if class_at.is_none() => class_at = Some(pattern.chars().count()),
            ']' => {
                let start = class_at.map_or(0, |at| at + 1);
                let inside: String = pattern.chars().skip(start).collect();
                // The first one is an ordinary character, and that of `[:name:]` ends only the name.
                let stays = inside.is_empty()
                    || inside == "^"
                    || (inside.rfind("[:").is_some_and(|at| !inside[at + 2..].contains(":]")) && inside.ends_with(':'));
                if class_at.is_some() && !stays {
                    class_at = None;
                }
            }
            '{' if class_at.is_none() => {
                if let Some((text, _)) = repetition(&rest) {
                    pattern.push('{');
                    pattern.push_str(&text);
                    rest.nth(text.chars().count() - 1);
                    continue;
                }
            }
            '(' if class_at.is_none() => groups += 1,
            ')' if class_at.is_none() => groups = groups.saturating_sub(1),
            ',' if class_at.is_none() && groups == 0 => {
                patterns.push(String::new());
                continue;
            }
            _ => {}
        }
        pattern.push(c);
        if c == '\\' {
            pattern.extend(rest.next());
        }
    }
    let trimmed = patterns.into_iter().map(|pattern| pattern.trim().to_owned());
    trimmed.filter(|pattern| !pattern.is_empty()).collect()
}

#[cfg(test)]
mod tests;
