//! Reads `schemas/*.json`: messages described in the shape that Kafka's own message definitions have.
//!
//! A file is one message or a list of them; `//` comments are allowed. Everything that the rest of the generator relies on
//! is checked here, so that a wrong schema stops the build with the file and the field named.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

/// One schema file: the module of the same name is generated from it.
pub(crate) struct SchemaFile {
    pub(crate) stem: String,
    pub(crate) messages: Vec<MessageDef>,
}

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Request,
    Response,
    /// Not sent as a request or an answer of its own: a record's key or value, a file.
    Data,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MessageDef {
    #[serde(default = "no_api_key")]
    pub(crate) api_key: i16,
    #[serde(rename = "type")]
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) valid_versions: String,
    pub(crate) flexible_versions: String,
    pub(crate) fields: Vec<FieldDef>,
}

#[derive(Deserialize, Clone)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FieldDef {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) type_name: String,
    pub(crate) versions: String,
    #[serde(default = "none")]
    pub(crate) nullable_versions: String,
    #[serde(default = "none")]
    pub(crate) tagged_versions: String,
    pub(crate) tag: Option<u32>,
    pub(crate) default: Option<String>,
    #[serde(default)]
    pub(crate) ignorable: bool,
    /// What the value names, for readers of the schema; checked, but nothing is generated from it.
    pub(crate) entity_type: Option<String>,
    pub(crate) about: String,
    #[serde(default)]
    pub(crate) fields: Vec<FieldDef>,
}

fn none() -> String {
    "none".to_owned()
}

fn no_api_key() -> i16 {
    -1
}

/// An inclusive range of versions; empty when `first > last`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Versions {
    pub(crate) first: i16,
    pub(crate) last: i16,
}

impl Versions {
    pub(crate) const NONE: Self = Self { first: 0, last: -1 };

    /// Reads `none`, `5`, `0-3` or `2+`.
    pub(crate) fn parse(text: &str) -> Self {
        let number =
            |digits: &str| -> i16 { digits.parse().unwrap_or_else(|_| panic!("'{text}' is no version range")) };
        if text == "none" {
            Self::NONE
        } else if let Some(first) = text.strip_suffix('+') {
            Self { first: number(first), last: i16::MAX }
        } else if let Some((first, last)) = text.split_once('-') {
            Self { first: number(first), last: number(last) }
        } else {
            Self { first: number(text), last: number(text) }
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        self.first > self.last
    }

    pub(crate) fn contains(self, version: i16) -> bool {
        (self.first..=self.last).contains(&version)
    }

    pub(crate) fn covers(self, other: Self) -> bool {
        other.is_empty() || (self.first <= other.first && other.last <= self.last)
    }

    pub(crate) fn within(self, other: Self) -> Self {
        let both = Self { first: self.first.max(other.first), last: self.last.min(other.last) };
        if both.is_empty() { Self::NONE } else { both }
    }
}

/// The type of a field, resolved.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Type {
    Bool,
    /// Name in Rust and size in bytes.
    Int(&'static str, usize),
    Float,
    Text,
    Bytes,
    Uuid,
    Struct(String),
    Array(Box<Type>),
}

impl Type {
    pub(crate) fn parse(name: &str) -> Self {
        match name {
            "bool" => Self::Bool,
            "int8" => Self::Int("i8", 1),
            "int16" => Self::Int("i16", 2),
            "uint16" => Self::Int("u16", 2),
            "int32" => Self::Int("i32", 4),
            "uint32" => Self::Int("u32", 4),
            "int64" => Self::Int("i64", 8),
            "float64" => Self::Float,
            "string" => Self::Text,
            "bytes" | "records" => Self::Bytes,
            "uuid" => Self::Uuid,
            _ => match name.strip_prefix("[]") {
                Some(element) => Self::Array(Box::new(Self::parse(element))),
                None => {
                    assert!(name.starts_with(|c: char| c.is_ascii_uppercase()), "unknown type '{name}'");
                    Self::Struct(name.to_owned())
                }
            },
        }
    }
}

impl Type {
    pub(crate) fn has_uuid(&self) -> bool {
        match self {
            Self::Uuid => true,
            Self::Array(element) => element.has_uuid(),
            _ => false,
        }
    }

    /// Whether writing a value can fail, so that the error must name the field.
    pub(crate) fn needs_place(&self) -> bool {
        matches!(self, Self::Text | Self::Bytes | Self::Array(_))
    }
}

/// A message ready for generation: its structs in the order of first mention, the message itself first.
pub(crate) struct Message {
    pub(crate) def: MessageDef,
    pub(crate) valid: Versions,
    pub(crate) flexible: Versions,
    pub(crate) structs: Vec<Struct>,
}

pub(crate) struct Struct {
    pub(crate) name: String,
    pub(crate) about: String,
    /// The versions of the message in which this struct occurs.
    pub(crate) versions: Versions,
    pub(crate) fields: Vec<Field>,
}

pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) rust_name: String,
    pub(crate) about: String,
    pub(crate) ty: Type,
    /// Versions with this field, within the struct's.
    pub(crate) versions: Versions,
    pub(crate) nullable: Versions,
    pub(crate) tag: Option<u32>,
    pub(crate) default: Option<String>,
    pub(crate) ignorable: bool,
}

impl Field {
    /// Whether the Rust type is an `Option`.
    pub(crate) fn is_optional(&self) -> bool {
        !self.nullable.is_empty()
    }
}

impl Message {
    pub(crate) fn resolve(def: MessageDef) -> Self {
        let valid = Versions::parse(&def.valid_versions);
        assert!(!valid.is_empty() && valid.last < i16::MAX, "{}: validVersions must be finite", def.name);
        let flexible = Versions::parse(&def.flexible_versions).within(valid);
        assert!(flexible.is_empty() || flexible.last == valid.last, "{}: flexibleVersions must be N+", def.name);
        let mut structs = Vec::new();
        collect(&def.name, &def.about, &def.fields, valid, flexible, &mut structs);
        Self { def, valid, flexible, structs }
    }

    /// Whether some field is in some versions only, and may not be dropped from the others.
    pub(crate) fn has_partial_field(&self) -> bool {
        self.structs
            .iter()
            .any(|each| each.fields.iter().any(|field| !field.ignorable && !field.versions.covers(each.versions)))
    }

    pub(crate) fn struct_named(&self, name: &str) -> &Struct {
        self.structs.iter().find(|s| s.name == name).unwrap_or_else(|| panic!("{}: no struct {name}", self.def.name))
    }
}

fn collect(name: &str, about: &str, fields: &[FieldDef], inside: Versions, flexible: Versions, out: &mut Vec<Struct>) {
    let resolved = fields.iter().map(|field| resolve_field(name, field, inside, flexible)).collect();
    out.push(Struct { name: name.to_owned(), about: about.to_owned(), versions: inside, fields: resolved });
    for field in fields.iter().filter(|field| !field.fields.is_empty()) {
        let versions = Versions::parse(&field.versions).within(inside);
        collect(field.type_name.trim_start_matches("[]"), &field.about, &field.fields, versions, flexible, out);
    }
}

fn resolve_field(owner: &str, def: &FieldDef, inside: Versions, flexible: Versions) -> Field {
    let path = format!("{owner}.{}", def.name);
    let versions = Versions::parse(&def.versions).within(inside);
    assert!(!versions.is_empty(), "{path}: in no valid version");
    let nullable = Versions::parse(&def.nullable_versions).within(versions);
    let tagged = Versions::parse(&def.tagged_versions).within(versions);
    assert_eq!(def.tag.is_some(), !tagged.is_empty(), "{path}: tag and taggedVersions go together");
    if def.tag.is_some() {
        assert_eq!(tagged, versions, "{path}: a field is tagged in all of its versions or in none");
        assert!(flexible.covers(tagged), "{path}: tagged in a version that is not flexible");
    }
    let ty = Type::parse(&def.type_name);
    assert!(matches!(def.entity_type.as_deref(), None | Some("mirrorName")), "{path}: unknown entityType");
    assert!(!matches!(ty, Type::Struct(_)) || nullable.is_empty(), "{path}: nullable structs are not generated");
    Field {
        name: def.name.clone(),
        rust_name: rust_name(&def.name),
        about: def.about.clone(),
        ty,
        versions,
        nullable,
        tag: def.tag,
        default: def.default.clone(),
        ignorable: def.ignorable,
    }
}

/// `ThrottleTimeMs` becomes `throttle_time_ms`.
pub(crate) fn rust_name(name: &str) -> String {
    let mut out = String::new();
    for (i, c) in name.chars().enumerate() {
        if c.is_ascii_uppercase() && i > 0 {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    assert!(!["r", "w", "version", "flexible", "count"].contains(&out.as_str()), "a field may not be named '{name}'");
    out
}

/// Reads every schema of `folder`, in the order of their names.
pub(crate) fn read_all(folder: &Path) -> Vec<SchemaFile> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("the folder of the schemas is readable") {
        let path = entry.expect("the folder of the schemas is readable").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let stem = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()));
            files.insert(stem, parse(&path, &text));
        }
    }
    files.into_iter().map(|(stem, messages)| SchemaFile { stem, messages }).collect()
}

fn parse(path: &Path, text: &str) -> Vec<MessageDef> {
    let json = without_comments(text);
    let parsed = if json.trim_start().starts_with('[') {
        serde_json::from_str(&json)
    } else {
        serde_json::from_str(&json).map(|message| vec![message])
    };
    parsed.unwrap_or_else(|cause| panic!("{}: {cause}", path.display()))
}

/// Blanks `//` comments; lines keep their numbers.
fn without_comments(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut in_string = false;
        let mut previous = ' ';
        let mut end = line.len();
        for (at, c) in line.char_indices() {
            if c == '"' && previous != '\\' {
                in_string = !in_string;
            }
            if !in_string && c == '/' && previous == '/' {
                end = at - 1;
                break;
            }
            previous = c;
        }
        out.push_str(&line[..end]);
        out.push('\n');
    }
    out
}
