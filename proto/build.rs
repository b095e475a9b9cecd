//! Makes the message modules of `twinlog_proto::messages` from `schemas/*.json`.
//!
//! One module a schema file, into `OUT_DIR/<stem>.rs`, included by `src/messages/<stem>.rs`; and `OUT_DIR/samples.rs` for
//! the tests. A wrong schema panics here, which is how a build script refuses.

#[path = "build/read.rs"]
mod read;
#[path = "build/rust.rs"]
mod rust;
#[path = "build/samples.rs"]
mod samples;
#[path = "build/schema.rs"]
mod schema;
#[path = "build/text.rs"]
mod text;
#[path = "build/write.rs"]
mod write;

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=schemas");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=build.rs");
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    let out = Path::new(&out);
    let mut modules = Vec::new();
    for mut file in schema::read_all(&Path::new(&root).join("schemas")) {
        let messages: Vec<_> = file.messages.drain(..).map(schema::Message::resolve).collect();
        rust::check(&file, &messages);
        save(&out.join(format!("{}.rs", file.stem)), &rust::module(&messages));
        modules.push((file.stem, messages));
    }
    save(&out.join("samples.rs"), &samples::all(&modules));
}

fn save(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()));
}
