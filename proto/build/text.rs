//! Rust text with its indentation.

pub(crate) struct Text {
    out: String,
    depth: usize,
}

impl Text {
    pub(crate) fn new(depth: usize) -> Self {
        Self { out: String::new(), depth }
    }

    /// One line at the current depth.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        if !line.is_empty() {
            self.out.push_str(&"    ".repeat(self.depth));
        }
        self.out.push_str(line);
        self.out.push('\n');
    }

    /// A line after which the depth grows.
    pub(crate) fn open(&mut self, line: impl AsRef<str>) {
        self.line(line);
        self.depth += 1;
    }

    /// A line before which the depth shrinks.
    pub(crate) fn close(&mut self, line: impl AsRef<str>) {
        self.depth -= 1;
        self.line(line);
    }

    /// `} else {` and its like.
    pub(crate) fn turn(&mut self, line: impl AsRef<str>) {
        self.close(line);
        self.depth += 1;
    }

    /// Lines that carry their indentation already.
    pub(crate) fn paste(&mut self, lines: &str) {
        self.out.push_str(lines);
    }

    /// Whether the text names `word`.
    pub(crate) fn names(&self, word: &str) -> bool {
        self.out.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|found| found == word)
    }

    pub(crate) fn into_string(self) -> String {
        self.out
    }
}
