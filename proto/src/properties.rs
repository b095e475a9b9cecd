//! pure: Java properties, as brokers and clients are configured with: ISO-8859-1, `\uXXXX`, `#` and `!` comments, continued lines.

use crate::error::DecodeError;

const WHAT: &str = "properties file";

/// Names and values in file order; a name may come twice, and then the last one counts.
///
/// # Errors
/// When a `\u` escape is not followed by four hexadecimal digits.
pub fn parse(bytes: &[u8]) -> Result<Vec<(String, String)>, DecodeError> {
    let mut pairs = Vec::new();
    let mut at = 0;
    while let Some(line) = next_logical_line(bytes, &mut at) {
        let (name, value) = split(&line);
        pairs.push((unescape(name)?, unescape(value)?));
    }
    Ok(pairs)
}

/// A byte of a logical line, with its position in the input for errors.
type Placed = (usize, u8);

/// Joins continued lines, drops leading blanks, comments and empty lines.
fn next_logical_line(bytes: &[u8], at: &mut usize) -> Option<Vec<Placed>> {
    while *at < bytes.len() {
        skip_while(bytes, at, |byte| is_blank(byte) || is_end(byte));
        if bytes.get(*at).is_some_and(|byte| matches!(byte, b'#' | b'!')) {
            skip_while(bytes, at, |byte| !is_end(byte));
            continue;
        }
        let mut line = Vec::new();
        while *at < bytes.len() && !is_end(bytes[*at]) {
            if bytes[*at] != b'\\' {
                line.push((*at, bytes[*at]));
                *at += 1;
                continue;
            }
            match bytes.get(*at + 1) {
                Some(&end) if is_end(end) => {
                    *at += if end == b'\r' && bytes.get(*at + 2) == Some(&b'\n') { 3 } else { 2 };
                    skip_while(bytes, at, is_blank);
                }
                Some(&escaped) => {
                    line.extend([(*at, b'\\'), (*at + 1, escaped)]);
                    *at += 2;
                }
                None => *at += 1,
            }
        }
        if !line.is_empty() {
            return Some(line);
        }
    }
    None
}

fn skip_while(bytes: &[u8], at: &mut usize, mut pass: impl FnMut(u8) -> bool) {
    while bytes.get(*at).is_some_and(|byte| pass(*byte)) {
        *at += 1;
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0x0c)
}

fn is_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// The name ends at the first `=`, `:` or blank that is not escaped; blanks and one `=` or `:` lie between it and the value.
fn split(line: &[Placed]) -> (&[Placed], &[Placed]) {
    let mut end = 0;
    while end < line.len() && !matches!(line[end].1, b'=' | b':') && !is_blank(line[end].1) {
        end += if line[end].1 == b'\\' { 2 } else { 1 };
    }
    let end = end.min(line.len());
    let mut value = end;
    let blanks = |value: &mut usize| {
        while line.get(*value).is_some_and(|placed| is_blank(placed.1)) {
            *value += 1;
        }
    };
    blanks(&mut value);
    if line.get(value).is_some_and(|placed| matches!(placed.1, b'=' | b':')) {
        value += 1;
        blanks(&mut value);
    }
    (&line[..end], &line[value..])
}

fn unescape(text: &[Placed]) -> Result<String, DecodeError> {
    let mut units = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&(at, byte)) = rest.next() {
        if byte != b'\\' {
            units.push(u16::from(byte));
            continue;
        }
        match rest.next().map(|placed| placed.1) {
            Some(b't') => units.push(0x09),
            Some(b'n') => units.push(0x0a),
            Some(b'r') => units.push(0x0d),
            Some(b'f') => units.push(0x0c),
            Some(b'u') => {
                let mut unit = 0;
                for _ in 0..4 {
                    let digit = rest.next().and_then(|placed| char::from(placed.1).to_digit(16));
                    let digit =
                        digit.ok_or_else(|| DecodeError::rule(WHAT, at, "\\u needs four hexadecimal digits"))?;
                    unit = unit << 4 | digit as u16;
                }
                units.push(unit);
            }
            Some(other) => units.push(u16::from(other)),
            None => {}
        }
    }
    Ok(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn every_form_of_a_line_is_read_as_java_reads_it() {
        let text = "# c\n! c\n\n a=1\nb : 2\nc 3\nd\ne\\ f=g\\=h\ni=j\\\n   k\r\nl=\\u00e4\\t|\nm= =\na=9";
        let expected = [
            ("a", "1"),
            ("b", "2"),
            ("c", "3"),
            ("d", ""),
            ("e f", "g=h"),
            ("i", "jk"),
            ("l", "\u{e4}\t|"),
            ("m", "="),
            ("a", "9"),
        ];
        let expected: Vec<_> = expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(pairs(text), expected);
    }

    #[test]
    fn bytes_are_latin_1_and_a_backslash_at_the_end_is_nothing() {
        assert_eq!(parse(b"a=\xe4\\").unwrap(), [("a".to_owned(), "\u{e4}".to_owned())]);
        assert_eq!(pairs("\\"), []);
    }

    #[test]
    fn a_broken_escape_is_named_with_its_position() {
        let error = parse(b"a=\\u12x4").unwrap_err();
        assert_eq!((error.what, error.at), (WHAT, 2));
    }
}
