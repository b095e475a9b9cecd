//! The encoding half of a struct.

use crate::rust::{Flexibility, condition, default_of, flexibility};
use crate::schema::{Field, Message, Struct, Type, Versions};
use crate::text::Text;

pub(crate) fn body(out: &mut Text, message: &Message, each: &Struct) {
    let form = flexibility(message, each);
    for field in &each.fields {
        let condition = condition(field.versions, each.versions);
        let plain = field.tag.is_none();
        match (&condition, plain) {
            (None, true) => out.line(statement(each, field, form)),
            (Some(condition), true) => {
                out.open(format!("if {condition} {{"));
                out.line(statement(each, field, form));
                if !field.ignorable {
                    out.turn(format!("}} else if {} {{", is_set(field)));
                    refuse(out, each, field);
                }
                out.close("}");
            }
            (None, false) => {}
            (Some(_), false) if !field.ignorable => {
                out.open(format!("if {} && {} {{", absence(field.versions, each.versions), is_set(field)));
                refuse(out, each, field);
                out.close("}");
            }
            (Some(_), false) => {}
        }
    }
    tagged_section(out, message, each, form);
    out.line("Ok(())");
}

/// Ends the statement: a value that this version cannot carry is refused, unless the schema lets it be dropped.
fn refuse(out: &mut Text, each: &Struct, field: &Field) {
    out.line(format!("return Err({}.error(\"this version has no such field\"));", place(each, field)));
}

/// The opposite of [`condition`], for a field that some version lacks.
fn absence(versions: Versions, inside: Versions) -> String {
    let Versions { first, last } = versions;
    match (first > inside.first, last < inside.last) {
        (true, false) => format!("version < {first}"),
        (false, true) => format!("version > {last}"),
        _ if first == last => format!("version != {first}"),
        _ => format!("!({first}..={last}).contains(&version)"),
    }
}

fn tagged_section(out: &mut Text, message: &Message, each: &Struct, form: Flexibility) {
    match form {
        Flexibility::Never => return,
        Flexibility::Always => {}
        Flexibility::From(_) => out.open("if flexible {"),
    }
    let mut tagged: Vec<_> = each.fields.iter().filter(|field| field.tag.is_some()).collect();
    tagged.sort_by_key(|field| field.tag);
    let flexible = message.flexible.within(each.versions);
    let present = |field: &Field| match condition(field.versions, flexible) {
        None => is_set(field),
        Some(condition) => format!("{condition} && {}", is_set(field)),
    };
    let counts: Vec<_> = tagged.iter().map(|field| format!("u32::from({})", present(field))).collect();
    if counts.is_empty() {
        out.line("w.write_uvarint(0);");
    } else {
        out.line(format!("w.write_uvarint({});", counts.join(" + ")));
    }
    for field in tagged {
        let tag = field.tag.expect("only tagged fields are here");
        out.open(format!("if {} {{", present(field)));
        match &field.ty {
            Type::Bool | Type::Int(..) | Type::Float | Type::Uuid => {
                out.open(format!("primitives::write_tag(w, {tag}, |w| {{"));
                out.line(statement(each, field, Flexibility::Always));
                out.line("Ok(())");
                out.close("})?;");
            }
            _ => {
                let write = call(each, field, Flexibility::Always);
                out.line(format!("primitives::write_tag(w, {tag}, |w| {write})?;"));
            }
        }
        out.close("}");
    }
    if matches!(form, Flexibility::From(_)) {
        out.close("}");
    }
}

/// A condition for "the field differs from its default".
fn is_set(field: &Field) -> String {
    let value = format!("self.{}", field.rust_name);
    let default = default_of(field);
    match (&field.ty, default.as_str()) {
        (_, "None") => format!("{value}.is_some()"),
        (_, "Some(String::new())" | "Some(Vec::new())") => format!("{value}.as_ref().is_none_or(|it| !it.is_empty())"),
        (Type::Text | Type::Bytes | Type::Array(_), _) => format!("!{value}.is_empty()"),
        (Type::Uuid, _) => format!("!{value}.is_zero()"),
        (Type::Bool, "false") => value,
        (Type::Bool, _) => format!("!{value}"),
        _ => format!("{value} != {default}"),
    }
}

fn place(each: &Struct, field: &Field) -> String {
    format!("at(\"{}.{}\", version)", each.name, field.name)
}

/// A statement that writes the field's value.
fn statement(each: &Struct, field: &Field, form: Flexibility) -> String {
    let value = format!("self.{}", field.rust_name);
    match &field.ty {
        Type::Bool => format!("w.write_bool({value});"),
        Type::Int(name, _) => format!("w.write_{name}({value});"),
        Type::Float => format!("w.write_f64({value});"),
        Type::Uuid => format!("w.write_slice(&{value}.0);"),
        _ => format!("{}?;", call(each, field, form)),
    }
}

/// A call that writes the field's value and gives a `Result`.
fn call(each: &Struct, field: &Field, form: Flexibility) -> String {
    let (flexible, place) = (form.argument(), place(each, field));
    let value = format!("self.{}", field.rust_name);
    let always_nullable = condition(field.nullable, field.versions).is_none();
    let (nullable, argument) = match (&field.ty, field.is_optional()) {
        (_, true) if always_nullable => ("nullable_", format!("{value}.as_deref()")),
        (_, true) => {
            let condition = condition(field.nullable, field.versions).expect("null is not allowed always");
            let required = format!("primitives::required({place}, {value}.as_ref())?");
            return format!(
                "if {condition} {{\n            {}\n        }} else {{\n            {}\n        }}",
                with(&field.ty, flexible, &place, "nullable_", &format!("{value}.as_deref()")),
                with(&field.ty, flexible, &place, "", &required)
            );
        }
        _ => ("", format!("&{value}")),
    };
    with(&field.ty, flexible, &place, nullable, &argument)
}

fn with(ty: &Type, flexible: &str, place: &str, nullable: &str, argument: &str) -> String {
    match ty {
        Type::Text => format!("primitives::write_{nullable}string(w, {flexible}, {argument}, {place})"),
        Type::Bytes => format!("primitives::write_{nullable}bytes(w, {flexible}, {argument}, {place})"),
        Type::Array(element) => {
            let write = element_writer(element, flexible, place);
            format!("primitives::write_{nullable}array(w, {flexible}, {argument}, {place}, {write})")
        }
        Type::Struct(_) => format!("{}.write(w, version)", argument.trim_start_matches('&')),
        Type::Bool | Type::Int(..) | Type::Float | Type::Uuid => unreachable!("written by a statement"),
    }
}

fn element_writer(element: &Type, flexible: &str, place: &str) -> String {
    match element {
        Type::Bool => infallible("w.write_bool(*it);"),
        Type::Int(name, _) => infallible(&format!("w.write_{name}(*it);")),
        Type::Float => infallible("w.write_f64(*it);"),
        Type::Uuid => infallible("w.write_slice(&it.0);"),
        Type::Struct(_) => "|w, it| it.write(w, version)".to_owned(),
        other => format!("|w, it| {}", with(other, flexible, place, "", "it")),
    }
}

fn infallible(statement: &str) -> String {
    format!("|w, it| {{ {statement} Ok(()) }}")
}
