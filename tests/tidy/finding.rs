//! What a rule reports: where, and what to do about it.

use std::fmt;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// The lines a rule complains about in one file of this path and text.
pub(crate) fn lines(rule: fn(&crate::tree::Tree) -> Vec<Finding>, path: &str, text: &str) -> Vec<usize> {
    let tree = crate::tree::Tree::of_files(&[(path, text)]);
    rule(&tree).iter().map(|finding| finding.line).collect()
}
