//! The decoding half of a struct.

use crate::rust::{Flexibility, bytes_min, condition, default_of, flexibility};
use crate::schema::{Field, Message, Struct, Type, Versions};
use crate::text::Text;

pub(crate) fn body(out: &mut Text, message: &Message, each: &Struct) {
    let form = flexibility(message, each);
    for field in &each.fields {
        let (name, default) = (&field.rust_name, default_of(field));
        if field.tag.is_some() {
            out.line(format!("let mut {name} = {default};"));
            continue;
        }
        let value = value(message, field, form);
        match condition(field.versions, each.versions) {
            None => out.line(format!("let {name} = {value};")),
            Some(condition) => out.line(format!("let {name} = if {condition} {{ {value} }} else {{ {default} }};")),
        }
    }
    tagged_section(out, message, each, form);
    let names: Vec<_> = each.fields.iter().map(|field| field.rust_name.as_str()).collect();
    out.line(if names.is_empty() { "Ok(Self {})".to_owned() } else { format!("Ok(Self {{ {} }})", names.join(", ")) });
}

fn tagged_section(out: &mut Text, message: &Message, each: &Struct, form: Flexibility) {
    match form {
        Flexibility::Never => return,
        Flexibility::Always => {}
        Flexibility::From(_) => out.open("if flexible {"),
    }
    let tagged: Vec<_> = each.fields.iter().filter(|field| field.tag.is_some()).collect();
    if tagged.is_empty() {
        out.line("primitives::skip_tags(r)?;");
    } else {
        out.line("let mut tags = primitives::TagSection::read(r)?;");
        out.open("while let Some(tag) = tags.next_tag(r)? {");
        out.open("match tag.number {");
        for field in tagged {
            let tag = field.tag.expect("only tagged fields are here");
            let flexible = message.flexible.within(each.versions);
            let guard = condition(field.versions, flexible).map_or(String::new(), |guard| format!(" if {guard}"));
            let value = value(message, field, Flexibility::Always);
            out.line(format!("{tag}{guard} => {} = {value},", field.rust_name));
        }
        out.line("_ => tag.skip(r)?,");
        out.close("}");
        out.line("tag.finish(r)?;");
        out.close("}");
    }
    if matches!(form, Flexibility::From(_)) {
        out.close("}");
    }
}

/// An expression that reads the field's value, `?` included.
fn value(message: &Message, field: &Field, form: Flexibility) -> String {
    if !field.is_optional() {
        return format!("{}?", call(message, &field.ty, field.versions, form, ""));
    }
    let nullable = format!("{}?", call(message, &field.ty, field.versions, form, "nullable_"));
    match condition(field.nullable, field.versions) {
        None => nullable,
        Some(condition) => {
            let plain = call(message, &field.ty, field.versions, form, "");
            format!("if {condition} {{ {nullable} }} else {{ Some({plain}?) }}")
        }
    }
}

/// A call that reads a value and gives a `Result`.
fn call(message: &Message, ty: &Type, versions: Versions, form: Flexibility, nullable: &str) -> String {
    let flexible = form.argument();
    match ty {
        Type::Bool => "r.read_bool()".to_owned(),
        Type::Int(name, _) => format!("r.read_{name}()"),
        Type::Float => "r.read_f64()".to_owned(),
        Type::Uuid => "primitives::read_uuid(r)".to_owned(),
        Type::Text => format!("primitives::read_{nullable}string(r, {flexible})"),
        Type::Bytes => format!("primitives::read_{nullable}bytes(r, {flexible})"),
        Type::Struct(name) => format!("{name}::read(r, version)"),
        Type::Array(element) => {
            let bytes = bytes_min(message, element, versions);
            let read = match &**element {
                Type::Uuid => "primitives::read_uuid".to_owned(),
                other => format!("|r| {}", call(message, other, versions, form, "")),
            };
            format!("primitives::read_{nullable}array(r, {flexible}, {bytes}, {read})")
        }
    }
}
