//! pure: patterns in RE2's syntax, written anew for the `regex` crate, which takes a little more, a little less, and some of it
//! otherwise.
//!
//! What RE2 refuses is refused here, by name. Names of topics are ASCII, so a byte is a character (`\C`), and classes of Unicode
//! count only as far as they are ASCII, which keeps programs small. Groups capture nothing.

use std::iter::Peekable;
use std::str::Chars;

/// RE2's own bound of a repetition, also of nested ones together.
pub const REPETITIONS_MAX: u32 = 1_000;

/// Writes `pattern` anew.
///
/// # Errors
/// What RE2 does not take, in words.
pub fn translate(pattern: &str) -> Result<String, String> {
    let mut parser = Parser {
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
                let class = class(&mut self.rest)?;
                self.out.push_str(&class);
                self.atom(1);
            }
            '.' | '^' | '$' => {
                self.out.push(c);
                self.atom(1);
            }
            ',' => {
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
        if least > REPETITIONS_MAX || most.is_some_and(|most| most > REPETITIONS_MAX || most < least) {
            return Err(format!(
                "the repetition `{text}` is not from 0 to {REPETITIONS_MAX} with the smaller number first"
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
        if weight > REPETITIONS_MAX {
            return Err(format!("the repetitions around `{text}` are more than {REPETITIONS_MAX} together"));
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
                let class = property(&mut self.rest, c == 'P')?;
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

fn class(rest: &mut Peekable<Chars<'_>>) -> Result<String, String> {
    let mut out = String::from("[");
    if rest.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut first = true;
    loop {
        let c = rest.next().ok_or("a `[` has no `]`")?;
        match c {
            ']' if !first => break,
            '[' if rest.peek() == Some(&':') && posix(rest).is_some() => {
                let name = posix(rest).unwrap_or_default();
                let known = POSIX.contains(&name.trim_start_matches('^')) && !name.starts_with("^^");
                if !known {
                    return Err(format!("`[:{name}:]` is no class"));
                }
                rest.nth(name.chars().count() + 2);
                out.push_str(&format!("[:{name}:]"));
            }
            '\\' if rest.peek().is_some_and(|c| perl(*c).is_some()) => {
                out.push_str(rest.next().and_then(perl).unwrap_or_default());
            }
            '\\' if matches!(rest.peek(), Some('p' | 'P')) => {
                let negated = rest.next() == Some('P');
                out.push_str(&property(rest, negated)?);
            }
            c => {
                let low = class_char(c, rest)?;
                let ranges = rest.peek() == Some(&'-') && !matches!(rest.clone().nth(1), Some(']') | None);
                out.push_str(&escaped(low));
                if ranges {
                    rest.next();
                    let high = rest.next().ok_or("a `[` has no `]`")?;
                    let high = class_char(high, rest)?;
                    if high < low {
                        return Err(format!("the range `{low}-{high}` is the wrong way round"));
                    }
                    out.push('-');
                    out.push_str(&escaped(high));
                }
            }
        }
        first = false;
    }
    out.push(']');
    Ok(out)
}

fn class_char(c: char, rest: &mut Peekable<Chars<'_>>) -> Result<char, String> {
    match c {
        '\\' => {
            let c = rest.next().ok_or("a `[` has no `]`")?;
            single(c, rest)
        }
        c => Ok(c),
    }
}

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// The name in `:name:]`.
fn posix(rest: &Peekable<Chars<'_>>) -> Option<String> {
    let text: String = rest.clone().skip(1).collect();
    let (name, _) = text.split_once(":]")?;
    Some(name.to_owned())
}

/// Classes with a letter, as far as they are ASCII, which all of RE2's are.
fn perl(letter: char) -> Option<&'static str> {
    Some(match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => r"[\t\n\f\r ]",
        'S' => r"[^\t\n\f\r ]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        _ => return None,
    })
}

/// A class of Unicode by `N`, `{Name}` or `{^Name}`.
fn property(rest: &mut Peekable<Chars<'_>>, mut negated: bool) -> Result<String, String> {
    let letter = rest.next().ok_or("`\\p` names no class")?;
    let mut name: String = match letter {
        '{' => {
            let name: String = rest.clone().take_while(|c| *c != '}').collect();
            rest.nth(name.chars().count()).ok_or("`\\p{` has no `}`")?;
            name
        }
        letter => letter.to_string(),
    };
    if let Some(plain) = name.strip_prefix('^') {
        (negated, name) = (!negated, plain.to_owned());
    }
    let unknown = || format!("`{name}` is no class of Unicode that RE2 knows; general categories and scripts are");
    let word = name.chars().next().is_some_and(|c| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
    // A script is asked for as one, so that other properties of Unicode are told apart.
    let asked = match name.as_str() {
        "Any" => r"\x{0}-\x{10FFFF}".to_owned(),
        short if short.len() <= 2 => format!(r"\p{{General_Category={short}}}"),
        script => format!(r"\p{{Script={script}}}"),
    };
    if !word || regex::Regex::new(&format!("[{asked}]")).is_err() {
        return Err(unknown());
    }
    let not = if negated { "^" } else { "" };
    Ok(format!(r"[[{not}{asked}]&&\x00-\x7F]"))
}

/// The one character that an escape stands for.
fn single(c: char, rest: &mut Peekable<Chars<'_>>) -> Result<char, String> {
    let octal = |c: char| c.to_digit(8);
    match c {
        'a' => Ok('\x07'),
        'f' => Ok('\x0c'),
        'n' => Ok('\n'),
        'r' => Ok('\r'),
        't' => Ok('\t'),
        'v' => Ok('\x0b'),
        '0' | '1'..='7' => {
            // A lone digit would be a back-reference.
            if c != '0' && rest.peek().is_none_or(|next| octal(*next).is_none()) {
                return Err(format!("`\\{c}` would be a back-reference, which RE2 has not"));
            }
            let mut code = octal(c).unwrap_or(0);
            for _ in 0..2 {
                match rest.next_if(|next| octal(*next).is_some()).and_then(octal) {
                    Some(digit) => code = code * 8 + digit,
                    None => break,
                }
            }
            char::from_u32(code).ok_or_else(|| "an octal escape is no character".to_owned())
        }
        'x' => {
            let bad = "`\\x` needs two hexadecimal digits, or some up to 10FFFF in braces";
            let braces = rest.next_if_eq(&'{').is_some();
            let digits: String = if braces {
                let digits: String = rest.clone().take_while(|c| *c != '}').collect();
                rest.nth(digits.chars().count()).ok_or(bad)?;
                digits
            } else {
                rest.by_ref().take(2).collect()
            };
            let enough = if braces { !digits.is_empty() } else { digits.len() == 2 };
            let hexadecimal = enough && digits.chars().all(|c| c.is_ascii_hexdigit());
            let code = hexadecimal.then(|| u32::from_str_radix(&digits, 16).ok());
            code.flatten().and_then(char::from_u32).ok_or_else(|| bad.to_owned())
        }
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => Ok(c),
        c => Err(format!("`\\{c}` is no escape of RE2")),
    }
}

fn escaped(c: char) -> String {
    if c.is_ascii_alphanumeric() { c.to_string() } else { format!(r"\x{{{:X}}}", u32::from(c)) }
}

/// The patterns of a list that is separated by commas; those in braces, brackets and quotes belong to a pattern.
#[must_use]
pub fn split(list: &str) -> Vec<String> {
    let mut patterns = vec![String::new()];
    let mut rest = list.chars().peekable();
    let (mut class_at, mut quoted) = (None, false);
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
            ',' if class_at.is_none() => {
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
