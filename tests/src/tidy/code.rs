//! pure: what the rules need to know about Rust text, without parsing it: code without comments and strings, functions, markers.

/// `text` with comments, strings and character literals blanked out, line by line as it was.
pub(crate) fn bare(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = at + literal_length(&bytes[at..], at.checked_sub(1).map(|p| bytes[p])).max(1);
        if end > at + 1 {
            out.extend(bytes[at..end].iter().map(|b| if *b == b'\n' { b'\n' } else { b' ' }));
        } else {
            out.push(bytes[at]);
        }
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Length of the comment, string or character literal that begins here; 0 when none does.
fn literal_length(rest: &[u8], before: Option<u8>) -> usize {
    let until = |end: &[u8], from: usize| {
        let found = rest.get(from..).and_then(|r| r.windows(end.len()).position(|w| w == end));
        found.map_or(rest.len(), |p| from + p + end.len())
    };
    let word_before = before.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    match rest {
        [b'/', b'/', ..] => until(b"\n", 2) - 1,
        [b'/', b'*', ..] => until(b"*/", 2),
        [b'"', ..] => quoted(rest),
        [b'r', b'"' | b'#', ..] if !word_before => {
            let hashes = rest[1..].iter().take_while(|b| **b == b'#').count();
            if rest.get(1 + hashes) != Some(&b'"') {
                return 0;
            }
            until(&[&b"\""[..], &vec![b'#'; hashes]].concat(), 2 + hashes)
        }
        [b'\'', b'\\', ..] => until(b"'", 3),
        [b'\'', _, b'\'', ..] => 3,
        _ => 0,
    }
}

fn quoted(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// The markers of the first line: the words before its colon, when all of them are markers.
pub(crate) fn markers(text: &str) -> Vec<&str> {
    let first = text.lines().next().and_then(|l| l.strip_prefix("//! ")).unwrap_or_default();
    let words: Vec<_> = first.split_once(':').map(|(head, _)| head.split_whitespace().collect()).unwrap_or_default();
    if words.iter().all(|w| ["pure", "runtime", "unsafe"].contains(w)) { words } else { Vec::new() }
}

/// The part of bare code before its tests.
pub(crate) fn without_tests(bare: &str) -> &str {
    bare.find("#[cfg(test)]\nmod ").or_else(|| bare.find("#[cfg(all(test")).map_or(bare, |at| &bare[..at])
}

/// Name, first line (from 1) and length in lines of every function, going by rustfmt's indentation.
pub(crate) fn functions(bare: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<_> = bare.lines().collect();
    let mut out = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let body = line.trim_start();
        let indent = &line[..line.len() - body.len()];
        let Some((head, tail)) = body.split_once("fn ") else { continue };
        let qualifiers = ["pub", "pub(crate)", "pub(super)", "const", "async", "unsafe", "extern"];
        if !head.split_whitespace().all(|w| qualifiers.contains(&w)) {
            continue;
        }
        let name: String = tail.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let closing = format!("{indent}}}");
        let ends_here = body.ends_with('}') || body.ends_with(';');
        let end = if ends_here { Some(at) } else { (at + 1..lines.len()).find(|n| lines[*n].trim_end() == closing) };
        out.push((name, at + 1, end.map_or(1, |e| e - at + 1)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_code_has_no_comments_and_no_strings() {
        let text = "let a = \"x\\\"unsafe\"; // unsafe\nlet b = 'u'; /* unsafe */ let c: &'a str = r#\"unsafe\"#;\n";
        let code = bare(text);
        assert!(!code.contains("unsafe"), "{code}");
        assert!(code.contains("let b") && code.contains("&'a str"), "{code}");
        assert_eq!(code.lines().count(), text.lines().count());
    }

    #[test]
    fn markers_are_read_from_the_first_line() {
        assert_eq!(markers("//! unsafe runtime: buffers.\n"), ["unsafe", "runtime"]);
        assert!(markers("//! Dump: prints files.\n").is_empty());
    }

    #[test]
    fn functions_are_measured() {
        let found = functions(
            "impl A {\n    pub fn one(\n        &self,\n    ) {\n        work();\n    }\n    fn two() {}\n}\n",
        );
        assert_eq!(found, [("one".to_owned(), 2, 5), ("two".to_owned(), 7, 1)]);
    }
}
