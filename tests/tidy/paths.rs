//! The paths that code names: `use` trees taken apart, and paths in the middle
//! of code. `use a::{b::C, d}` names `a::b::C` and `a::d`.

use crate::lexer::{Token, reads, tokens};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedPath {
    pub(crate) line: usize,
    pub(crate) segments: Vec<String>,
    /// The name it goes by from here on: that of an `as`, or its last segment.
    pub(crate) alias: String,
    /// The modules with a body in this file that the path stands in.
    pub(crate) inside: Vec<String>,
}

/// Every path of at least two segments, or of one if it is imported.
pub(crate) fn paths(text: &str) -> Vec<NamedPath> {
    let tokens = tokens(text);
    let mut found = Vec::new();
    let mut blocks: Vec<Option<String>> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let inside = blocks.iter().flatten().cloned().collect::<Vec<_>>();
        let token = &tokens[at];
        let first = found.len();
        match token.text {
            "{" => {
                let module = at >= 2 && tokens[at - 2].text == "mod";
                blocks.push(module.then(|| tokens[at - 1].text.to_owned()));
                at += 1;
            }
            "}" => {
                blocks.pop();
                at += 1;
            }
            "use" => at = import(&tokens, at + 1, &[], &mut found),
            _ if token.is_word() => at = plain(&tokens, at, &mut found),
            _ => at += 1,
        }
        for path in &mut found[first..] {
            path.inside.clone_from(&inside);
        }
    }
    found
}

/// A path in the middle of code. Its generic arguments are paths of their own.
fn plain(tokens: &[Token<'_>], start: usize, found: &mut Vec<NamedPath>) -> usize {
    let mut segments = vec![tokens[start].text.to_owned()];
    let mut at = start + 1;
    while reads(tokens, at, &[":", ":"]) && tokens.get(at + 2).is_some_and(Token::is_word) {
        segments.push(tokens[at + 2].text.to_owned());
        at += 3;
    }
    if segments.len() > 1 {
        push(found, tokens[start].line, segments, None);
    }
    at
}

/// One branch of a `use` tree that begins at `at`; returns where it ends.
fn import(tokens: &[Token<'_>], mut at: usize, parents: &[String], found: &mut Vec<NamedPath>) -> usize {
    let mut segments = parents.to_vec();
    let line = tokens.get(at).map_or(0, |token| token.line);
    while let Some(token) = tokens.get(at) {
        match token.text {
            ":" => at += 1,
            "{" => return import_group(tokens, at + 1, &segments, found),
            "as" => {
                let alias = tokens.get(at + 1).map(|token| token.text.to_owned());
                push(found, line, segments, alias);
                return at + 2;
            }
            "*" => {
                segments.push(String::from("*"));
                at += 1;
            }
            // `r#type` is `type` here; both halves of the mark go.
            "r" if reads(tokens, at + 1, &["#"]) => at += 2,
            _ if token.is_word() => {
                segments.push(token.text.to_owned());
                at += 1;
            }
            _ => break,
        }
    }
    if segments.len() > parents.len() {
        push(found, line, segments, None);
    }
    at
}

fn import_group(tokens: &[Token<'_>], mut at: usize, parents: &[String], found: &mut Vec<NamedPath>) -> usize {
    while let Some(token) = tokens.get(at) {
        match token.text {
            "}" => return at + 1,
            "," => at += 1,
            _ => at = import(tokens, at, parents, found).max(at + 1),
        }
    }
    at
}

fn push(found: &mut Vec<NamedPath>, line: usize, mut segments: Vec<String>, alias: Option<String>) {
    // `a::{self}` is `a`.
    if segments.len() > 1 && segments.last().is_some_and(|last| last == "self") {
        segments.pop();
    }
    let alias = alias.unwrap_or_else(|| segments.last().cloned().unwrap_or_default());
    found.push(NamedPath {
        line,
        segments,
        alias,
        inside: Vec::new(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(text: &str) -> Vec<String> {
        paths(text).iter().map(|path| path.segments.join("::")).collect()
    }

    #[test]
    fn use_trees_are_taken_apart() {
        assert_eq!(
            joined("use a::{b::{C, self}, d::*, e as f,};\nuse g;"),
            ["a::b::C", "a::b", "a::d::*", "a::e", "g"]
        );
        assert_eq!(joined("use {a::b, c::d};"), ["a::b", "c::d"]);
        assert_eq!(joined("use ::a::r#type;"), ["a::type"]);
    }

    #[test]
    fn paths_in_code_are_found_with_their_generics() {
        assert_eq!(
            joined("fn f(x: a::B<c::D>) -> crate::E { g::h::<i::J>(k) }"),
            ["a::B", "c::D", "crate::E", "g::h", "i::J"]
        );
        assert_eq!(joined("pub(crate) fn f(x: u8) { y.z() }"), [""; 0]);
    }

    #[test]
    fn lines_and_aliases_are_kept() {
        let found = paths("use a::{\n    b,\n    c as d,\n};\n");
        let told: Vec<_> = found.iter().map(|p| (p.line, p.alias.as_str())).collect();
        assert_eq!(told, [(2, "b"), (3, "d")]);
    }

    #[test]
    fn the_modules_around_a_path_are_known() {
        let found = paths("a::b; mod m { fn f() { c::d } mod n { use e; } } g::h;");
        let told: Vec<_> = found.iter().map(|p| p.inside.join("::")).collect();
        assert_eq!(told, ["", "m", "m::n", ""]);
    }

    #[test]
    fn broken_code_ends() {
        for text in ["use", "use {", "use a::{b", "use a::{;}", "use a as", "a::"] {
            paths(text);
        }
    }
}
