//! The test side: how to make a value of every struct, and the list of all messages.
//!
//! `proto/tests` includes the result, so that one harness covers every message at every version.

use crate::rust::{condition, default_of};
use crate::schema::{Field, Message, Struct, Type};
use crate::text::Text;

/// `modules`: each module's name and messages.
pub(crate) fn all(modules: &[(String, Vec<Message>)]) -> String {
    let mut out = Text::new(0);
    out.line("/// Shows every message to the visitor.");
    out.open("fn every_message(visitor: &mut impl Visitor) {");
    for (module, messages) in modules {
        for message in messages {
            out.line(format!("visitor.visit::<twinlog_proto::messages::{module}::{}>();", message.def.name));
        }
    }
    out.close("}");
    for (module, messages) in modules {
        for each in messages.iter().flat_map(|message| &message.structs) {
            sample(&mut out, module, each);
        }
    }
    out.into_string()
}

fn sample(out: &mut Text, module: &str, each: &Struct) {
    let mut body = Text::new(2);
    body.open("Self {");
    for field in &each.fields {
        let value = value(module, field);
        let (name, default) = (&field.rust_name, default_of(field).replace("Uuid::", "twinlog_proto::ids::Uuid::"));
        match condition(field.versions, each.versions) {
            None => body.line(format!("{name}: {value},")),
            Some(condition) if matches!(field.ty, Type::Struct(_)) => {
                body.line(format!("{name}: if {condition} {{ {value} }} else {{ Default::default() }},"));
            }
            Some(condition) => body.line(format!("{name}: if {condition} {{ {value} }} else {{ {default} }},")),
        }
    }
    body.close("}");
    let source = if body.names("source") { "source" } else { "_source" };
    let version = if body.names("version") { "version" } else { "_version" };
    out.line("");
    out.open(format!("impl Sample for twinlog_proto::messages::{module}::{} {{", each.name));
    out.open(format!("fn sample({source}: &mut Source, {version}: i16) -> Self {{"));
    out.paste(&body.into_string());
    out.close("}");
    out.close("}");
}

fn value(module: &str, field: &Field) -> String {
    let plain = plain(module, &field.ty);
    if !field.is_optional() {
        return plain;
    }
    match condition(field.nullable, field.versions) {
        None => format!("if source.coin() {{ None }} else {{ Some({plain}) }}"),
        Some(condition) => format!("if {condition} && source.coin() {{ None }} else {{ Some({plain}) }}"),
    }
}

fn plain(module: &str, ty: &Type) -> String {
    match ty {
        Type::Bool => "source.coin()".to_owned(),
        Type::Float => "source.number() as f64".to_owned(),
        Type::Int("i64", _) => "source.number()".to_owned(),
        Type::Int(name, _) => format!("source.number() as {name}"),
        Type::Text => "source.text()".to_owned(),
        Type::Bytes => "source.bytes()".to_owned(),
        Type::Uuid => "source.uuid()".to_owned(),
        Type::Struct(name) => format!("twinlog_proto::messages::{module}::{name}::sample(source, version)"),
        Type::Array(element) => format!("source.list(|source| {})", plain(module, element)),
    }
}
