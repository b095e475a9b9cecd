//! Structs, defaults and codecs as Rust text.

use crate::schema::{Field, Kind, Message, SchemaFile, Struct, Type, Versions};
use crate::text::Text;

/// The content of one generated module.
pub(crate) fn module(messages: &[Message]) -> String {
    let mut out = Text::new(0);
    out.line("use core::ops::RangeInclusive;");
    out.line("");
    out.line("use crate::error::{DecodeError, EncodeError};");
    let types =
        || messages.iter().flat_map(|message| &message.structs).flat_map(|each| &each.fields).map(|field| &field.ty);
    if types().any(Type::has_uuid) {
        out.line("use crate::ids::Uuid;");
    }
    out.line("use crate::messages::{self, Message};");
    if types().any(Type::needs_place) || messages.iter().any(Message::has_partial_field) {
        out.line("use crate::primitives::{self, at};");
    } else {
        out.line("use crate::primitives;");
    }
    out.line("use crate::reader::Reader;");
    out.line("use crate::writer::Writer;");
    for message in messages {
        message_impl(&mut out, message);
        for each in &message.structs {
            declaration(&mut out, message, each);
            codec(&mut out, message, each);
            errors(&mut out, message, each);
        }
    }
    if let Some((request, response)) = pair(messages) {
        out.line("");
        out.open(format!("impl messages::Request for {} {{", request.def.name));
        out.line(format!("type Response = {};", response.def.name));
        out.close("}");
    }
    out.into_string()
}

fn pair(messages: &[Message]) -> Option<(&Message, &Message)> {
    let of_kind = |kind| messages.iter().find(|message| message.def.kind == kind);
    let (request, response) = (of_kind(Kind::Request)?, of_kind(Kind::Response)?);
    assert_eq!(request.def.api_key, response.def.api_key, "{}: another key than its answer", request.def.name);
    assert_eq!(request.valid, response.valid, "{}: other versions than its answer", request.def.name);
    Some((request, response))
}

/// What holds for a whole file of schemas.
pub(crate) fn check(file: &SchemaFile, messages: &[Message]) {
    let mut names: Vec<_> = messages.iter().flat_map(|m| &m.structs).map(|s| &s.name).collect();
    names.sort();
    for two in names.windows(2) {
        assert_ne!(two[0], two[1], "{}.json: the name stands for two structs", file.stem);
    }
}

fn message_impl(out: &mut Text, message: &Message) {
    let (name, valid) = (&message.def.name, message.valid);
    let flexible_from =
        if message.flexible.is_empty() { "i16::MAX".to_owned() } else { message.flexible.first.to_string() };
    out.line("");
    out.open(format!("impl Message for {name} {{"));
    out.line(format!("const NAME: &'static str = \"{name}\";"));
    out.line(format!("const API_KEY: i16 = {};", message.def.api_key));
    out.line(format!("const VERSIONS: RangeInclusive<i16> = {}..={};", valid.first, valid.last));
    out.line(format!("const FLEXIBLE_FROM: i16 = {flexible_from};"));
    out.line("");
    out.open("fn encode(&self, w: &mut Writer<'_>, version: i16) -> Result<(), EncodeError> {");
    out.line("messages::check_encode::<Self>(version)?;");
    out.line("self.write(w, version)");
    out.close("}");
    out.line("");
    out.open("fn decode(r: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {");
    out.line("messages::check_decode::<Self>(r, version)?;");
    out.line("Self::read(r, version)");
    out.close("}");
    if shows_errors(message, &message.def.name) {
        out.line("");
        out.open("fn errors(&self, see: &mut dyn FnMut(i16)) {");
        out.line("self.show_errors(see);");
        out.close("}");
    }
    out.close("}");
}

/// Whether a struct of an answer holds error codes, in itself or below.
fn shows_errors(message: &Message, name: &str) -> bool {
    let holds =
        |field: &Field| is_error(field) || element(&field.ty).is_some_and(|element| shows_errors(message, element));
    let found = message.structs.iter().find(|each| each.name == name);
    message.def.kind == Kind::Response && found.is_some_and(|each| each.fields.iter().any(holds))
}

fn is_error(field: &Field) -> bool {
    field.rust_name == "error_code" && field.ty == Type::Int("i16", 2)
}

fn element(ty: &Type) -> Option<&str> {
    match ty {
        Type::Array(element) => match element.as_ref() {
            Type::Struct(name) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

/// Shows error codes, its own one first.
fn errors(out: &mut Text, message: &Message, each: &Struct) {
    if !shows_errors(message, &each.name) {
        return;
    }
    out.line("");
    out.open(format!("impl {} {{", each.name));
    out.open("fn show_errors(&self, see: &mut dyn FnMut(i16)) {");
    for _ in each.fields.iter().filter(|field| is_error(field)) {
        out.line("see(self.error_code);");
    }
    for field in &each.fields {
        if element(&field.ty).is_none_or(|name| !shows_errors(message, name)) {
            continue;
        }
        let iter = if field.is_optional() { ".iter().flatten()" } else { "" };
        let by = if field.is_optional() { "" } else { "&" };
        out.open(format!("for each in {by}self.{}{iter} {{", field.rust_name));
        out.line("each.show_errors(see);");
        out.close("}");
    }
    out.close("}");
    out.close("}");
}

fn declaration(out: &mut Text, message: &Message, each: &Struct) {
    let plain = each.fields.iter().all(|field| default_of(field) == zero_of(field));
    out.line("");
    out.line(format!("/// {}", each.about));
    out.line(format!("#[derive(Debug, Clone, PartialEq{})]", if plain { ", Default" } else { "" }));
    if each.fields.is_empty() {
        out.line(format!("pub struct {} {{}}", each.name));
    } else {
        out.open(format!("pub struct {} {{", each.name));
        for field in &each.fields {
            let always = field.versions.covers(message.valid);
            let since =
                if always { String::new() } else { format!(" Versions {}.", shown(field.versions, message.valid)) };
            out.line(format!("/// {}{since}", field.about));
            out.line(format!("pub {}: {},", field.rust_name, type_of(field)));
        }
        out.close("}");
    }
    if !plain {
        out.line("");
        out.open(format!("impl Default for {} {{", each.name));
        out.open("fn default() -> Self {");
        out.open("Self {");
        for field in &each.fields {
            out.line(format!("{}: {},", field.rust_name, default_of(field)));
        }
        out.close("}");
        out.close("}");
        out.close("}");
    }
}

fn shown(versions: Versions, valid: Versions) -> String {
    match versions {
        Versions { first, last } if last == valid.last => format!("{first}+"),
        Versions { first, last } if first == last => first.to_string(),
        Versions { first, last } => format!("{first}-{last}"),
    }
}

/// The Rust type of a field.
pub(crate) fn type_of(field: &Field) -> String {
    let plain = plain_type(&field.ty);
    if field.is_optional() { format!("Option<{plain}>") } else { plain }
}

fn plain_type(ty: &Type) -> String {
    match ty {
        Type::Bool => "bool".to_owned(),
        Type::Int(name, _) => (*name).to_owned(),
        Type::Float => "f64".to_owned(),
        Type::Text => "String".to_owned(),
        Type::Bytes => "Vec<u8>".to_owned(),
        Type::Uuid => "Uuid".to_owned(),
        Type::Struct(name) => name.clone(),
        Type::Array(element) => format!("Vec<{}>", plain_type(element)),
    }
}

/// What `Default::default()` gives for the field's type, as an expression.
fn zero_of(field: &Field) -> String {
    if field.is_optional() {
        return "None".to_owned();
    }
    match &field.ty {
        Type::Bool => "false".to_owned(),
        Type::Int(..) => "0".to_owned(),
        Type::Float => "0.0".to_owned(),
        Type::Text => "String::new()".to_owned(),
        Type::Bytes | Type::Array(_) => "Vec::new()".to_owned(),
        Type::Uuid => "Uuid::ZERO".to_owned(),
        Type::Struct(name) => format!("{name}::default()"),
    }
}

/// The field's default by its schema, as an expression.
pub(crate) fn default_of(field: &Field) -> String {
    let given = field.default.as_deref();
    match (&field.ty, given) {
        (_, Some("null")) => {
            assert!(field.is_optional(), "{}: null by default but never nullable", field.name);
            "None".to_owned()
        }
        (Type::Text | Type::Bytes | Type::Array(_), None | Some("")) if field.is_optional() => {
            if field.ty == Type::Text { "Some(String::new())".to_owned() } else { "Some(Vec::new())".to_owned() }
        }
        (Type::Int(..), Some(number)) => number_of(field, number),
        (Type::Bool, Some(value @ ("true" | "false"))) => value.to_owned(),
        (_, None | Some("")) => zero_of(field),
        (_, Some(other)) => panic!("{}: cannot use the default '{other}'", field.name),
    }
}

fn number_of(field: &Field, text: &str) -> String {
    let value = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    }
    .unwrap_or_else(|_| panic!("{}: the default '{text}' is no number", field.name));
    let Type::Int(name, _) = field.ty else { unreachable!("only called for numbers") };
    match (name, value) {
        ("i64", i64::MAX) | ("i32", 0x7fff_ffff) => format!("{name}::MAX"),
        ("i64", i64::MIN) | ("i32", -0x8000_0000) => format!("{name}::MIN"),
        _ => value.to_string(),
    }
}

/// A Rust condition for "`version` has this field", or `None` when every version does.
pub(crate) fn condition(versions: Versions, inside: Versions) -> Option<String> {
    let Versions { first, last } = versions;
    match (first > inside.first, last < inside.last) {
        (false, false) => None,
        (true, false) => Some(format!("version >= {first}")),
        (false, true) => Some(format!("version <= {last}")),
        (true, true) if first == last => Some(format!("version == {first}")),
        (true, true) => Some(format!("({first}..={last}).contains(&version)")),
    }
}

fn codec(out: &mut Text, message: &Message, each: &Struct) {
    out.line("");
    out.open(format!("impl {} {{", each.name));
    let mut body = Text::new(2);
    crate::write::body(&mut body, message, each);
    function(out, message, each, "(&self, w: &mut Writer<'_>, version: i16) -> Result<(), EncodeError>", "write", body);
    out.line("");
    let mut body = Text::new(2);
    crate::read::body(&mut body, message, each);
    function(out, message, each, "(r: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError>", "read", body);
    out.close("}");
}

fn function(out: &mut Text, message: &Message, each: &Struct, signature: &str, name: &str, body: Text) {
    let form = flexibility(message, each);
    let flexible = body.names("flexible");
    let mut signature = signature.to_owned();
    for (parameter, used) in
        [("version", body.names("version") || flexible), ("w", body.names("w")), ("r", body.names("r"))]
    {
        if !used {
            signature = signature.replace(&format!("{parameter}: "), &format!("_{parameter}: "));
        }
    }
    out.open(format!("fn {name}{signature} {{"));
    if let (true, Flexibility::From(first)) = (flexible, form) {
        out.line(format!("let flexible = version >= {first};"));
    }
    out.paste(&body.into_string());
    out.close("}");
}

/// In which versions of a struct the flexible form is used.
#[derive(Clone, Copy)]
pub(crate) enum Flexibility {
    Never,
    Always,
    From(i16),
}

pub(crate) fn flexibility(message: &Message, each: &Struct) -> Flexibility {
    let flexible = message.flexible.within(each.versions);
    if flexible.is_empty() {
        Flexibility::Never
    } else if flexible.covers(each.versions) {
        Flexibility::Always
    } else {
        Flexibility::From(flexible.first)
    }
}

impl Flexibility {
    /// The argument that says which form to use.
    pub(crate) fn argument(self) -> &'static str {
        match self {
            Self::Never => "false",
            Self::Always => "true",
            Self::From(_) => "flexible",
        }
    }
}

/// The fewest bytes that a value of this type takes in any of `versions`.
pub(crate) fn bytes_min(message: &Message, ty: &Type, versions: Versions) -> usize {
    (versions.first..=versions.last).map(|version| bytes_min_at(message, ty, version)).min().expect("no range is empty")
}

fn bytes_min_at(message: &Message, ty: &Type, version: i16) -> usize {
    let flexible = message.flexible.contains(version);
    match ty {
        Type::Bool => 1,
        Type::Int(_, bytes) => *bytes,
        Type::Float => 8,
        Type::Uuid => 16,
        Type::Text => {
            if flexible {
                1
            } else {
                2
            }
        }
        Type::Bytes | Type::Array(_) => {
            if flexible {
                1
            } else {
                4
            }
        }
        Type::Struct(name) => {
            let fields = message.struct_named(name).fields.iter();
            let plain = fields.filter(|field| field.tag.is_none() && field.versions.contains(version));
            plain.map(|field| bytes_min_at(message, &field.ty, version)).sum::<usize>() + usize::from(flexible)
        }
    }
}
