//! pure: classes of characters and escapes, from RE2's syntax to that of the `regex` crate.

use regex_syntax::hir::{Class, HirKind};
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

/// The ASCII characters of classes of Unicode that were asked for, a bit each: a list of patterns may ask thousands of times.
#[derive(Debug, Default)]
pub struct Known(BTreeMap<String, u128>);

/// A class in brackets; the first of them was taken.
pub(super) fn class(rest: &mut Peekable<Chars<'_>>, known: &mut Known) -> Result<String, String> {
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
                out.push_str(&property(rest, negated, known)?);
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
pub(super) fn perl(letter: char) -> Option<&'static str> {
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
pub(super) fn property(rest: &mut Peekable<Chars<'_>>, mut negated: bool, known: &mut Known) -> Result<String, String> {
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
    let ascii = word.then(|| known.ascii_of(&name)).flatten().ok_or_else(unknown)?;
    Ok(class_of(if negated { !ascii } else { ascii }))
}

impl Known {
    /// The ASCII characters of a class of Unicode, a bit each; `None` when there is no such class.
    fn ascii_of(&mut self, name: &str) -> Option<u128> {
        if let Some(known) = self.0.get(name) {
            return Some(*known);
        }
        // A script is asked for as one, so that other properties of Unicode are told apart.
        let asked = match name {
            "Any" => r"\x{0}-\x{10FFFF}".to_owned(),
            short if short.len() <= 2 => format!(r"\p{{General_Category={short}}}"),
            script => format!(r"\p{{Script={script}}}"),
        };
        let class = regex_syntax::parse(&format!("[[{asked}]&&\\x00-\\x7F]")).ok()?;
        let ascii = match class.kind() {
            HirKind::Class(Class::Unicode(class)) => {
                class.ranges().iter().flat_map(|range| range.start()..=range.end()).fold(0, |all, c| all | bit(c))
            }
            // A class of one character is that character.
            HirKind::Literal(literal) => literal.0.iter().fold(0, |all, byte| all | bit(char::from(*byte))),
            _ => 0,
        };
        self.0.insert(name.to_owned(), ascii);
        Some(ascii)
    }
}

fn bit(c: char) -> u128 {
    1_u128.checked_shl(c.into()).unwrap_or(0)
}

fn class_of(ascii: u128) -> String {
    let mut out = String::from("[");
    for c in ('\0'..='\x7f').filter(|c| ascii & bit(*c) != 0) {
        let before = u32::from(c).checked_sub(1).and_then(char::from_u32).map_or(0, bit) & ascii != 0;
        let after = char::from_u32(u32::from(c) + 1).map_or(0, bit) & ascii != 0;
        match (before, after) {
            (false, _) => out.push_str(&escaped(c)),
            (true, false) => out.push_str(&format!("-{}", escaped(c))),
            (true, true) => {}
        }
    }
    // Nothing is in this one.
    if ascii == 0 {
        out.push_str(r"a&&b");
    }
    out + "]"
}

/// The one character that an escape stands for.
pub(super) fn single(c: char, rest: &mut Peekable<Chars<'_>>) -> Result<char, String> {
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

/// A character as plain text.
pub(super) fn escaped(c: char) -> String {
    if c.is_ascii_alphanumeric() { c.to_string() } else { format!(r"\x{{{:X}}}", u32::from(c)) }
}
