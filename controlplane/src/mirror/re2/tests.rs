//! A pass proves: the verdicts are RE2's own, and so is what the patterns match; lists come apart where they were put together.

use super::*;
use regex::Regex;

/// What RE2 itself said of each pattern: refused, or which of the names below it matches whole. Written by RE2 through its
/// Python binding (google-re2 1.1).
const VERDICTS: &str = include_str!("../../../golden/re2_verdicts.txt");
const NAMES: [&str; 33] = [
    "a",
    "ab",
    "abc",
    "b",
    "a.b",
    "a-b",
    "A",
    "B",
    "C",
    "aB",
    "orders.eu",
    "orders",
    "orders-1",
    "bills-22",
    "0",
    "1",
    "_",
    "a_b",
    "aa",
    "aaa",
    "a1",
    "9",
    "x",
    "a0",
    "c",
    "ac",
    "abab",
    "aaaaaaaaaa",
    "b.c",
    "Aa",
    "a&b",
    "-",
    ".",
];

#[test]
fn patterns_mean_what_re2_says() {
    let mut wrong = Vec::new();
    for line in VERDICTS.lines() {
        let (pattern, wanted) = line.split_once('\t').unwrap();
        let got = match translate(pattern, &mut Known::default()) {
            Err(_) => "refused".to_owned(),
            Ok(text) => match Regex::new(&format!("^(?:{text})$")) {
                Err(why) => format!("does not compile: {text}: {why}"),
                Ok(regex) => NAMES.into_iter().filter(|name| regex.is_match(name)).collect::<Vec<_>>().join(","),
            },
        };
        if got != wanted {
            wrong.push(format!("{pattern}: RE2 says {wanted:?}, here {got:?}"));
        }
    }
    assert!(wrong.is_empty() && VERDICTS.lines().count() > 130, "{wrong:#?}");
}

#[test]
fn what_is_refused_is_named() {
    for (pattern, name) in [
        ("a**", "`*` follows another one"),
        ("a{1001}", "{1001}"),
        ("(a{100}){11}", "more than 1000 together"),
        ("(?x)a", "`x`"),
        (r"\1", "back-reference"),
        (r"\u0041", r"`\u`"),
        (r"\p{Alphabetic}", "`Alphabetic`"),
        ("[z-a]", "`z-a`"),
        ("[[:foo:]]", "`[:foo:]`"),
        ("a,b", "comma"),
        ("(a", "`(`"),
        ("[a", "`[`"),
    ] {
        let why = translate(pattern, &mut Known::default()).unwrap_err();
        assert!(why.contains(name), "{pattern}: {why}");
    }
}

#[test]
fn lists_come_apart_at_commas_that_belong_to_no_pattern() {
    let patterns = ["a.*", "b{1,3}", "[x,y]+", "[],]", r"\,", r"\Q,\E", r"[^],]", "[[:alpha:],]", "(x,y|[)],)", "c{d"];
    assert_eq!(split(&patterns.join(",")), patterns);
    assert_eq!(split(" a , ,b"), ["a", "b"]);
    assert!(split("").is_empty());
}

#[test]
fn hostile_patterns_end_in_words_and_not_in_a_panic() {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let pieces = [
        "(", ")", "[", "]", "{", "}", "\\", "?", "*", "|", "^", "-", ":", "1", ",", "Q", "E", "p", "x", "P", "<", "é",
        "\u{0}",
    ];
    for round in 0..20_000 {
        let mut text = String::new();
        for _ in 0..round % 12 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            text.push_str(pieces[(seed % pieces.len() as u64) as usize]);
        }
        // Whatever it is, it is translated to something that compiles or it is refused.
        assert!(split(&text).iter().all(|pattern| !pattern.is_empty()));
        if let Ok(translated) = translate(&text, &mut Known::default()) {
            let compiled = Regex::new(&translated);
            assert!(!matches!(compiled, Err(regex::Error::Syntax(_))), "{text:?} became {translated:?}");
        }
    }
}
