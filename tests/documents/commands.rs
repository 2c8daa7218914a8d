//! The commands that documents show: lines of shell in them, and what stands between backticks.

#[path = "pages.rs"]
mod pages;

use std::path::Path;

use pages::pages;

/// The commands of all pages that begin like this (`["cargo", "xtask"]`), each with its page and without its beginning.
pub(crate) fn commands_of(root: &Path, beginning: &[&str]) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for page in pages(root) {
        let text = std::fs::read_to_string(&page).expect("the page can be read");
        let name = page.strip_prefix(root).unwrap_or(&page).display().to_string();
        let begins =
            |words: &Vec<String>| words.len() >= beginning.len() && words.iter().zip(beginning).all(|(a, b)| a == b);
        let of_page = commands(&text).into_iter().filter(begins);
        found.extend(of_page.map(|words| (name.clone(), words[beginning.len()..].to_vec())));
    }
    found
}

/// The commands of a text: `cargo ..` and `everstep ..`, as words.
pub(crate) fn commands(text: &str) -> Vec<Vec<String>> {
    let (mut found, mut prose, mut fence) = (Vec::new(), String::new(), None);
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(language.trim()) };
        } else if fence == Some("sh") {
            found.extend(command(line));
        } else if fence.is_none() {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    found.extend(prose.split('`').skip(1).step_by(2).filter_map(command));
    found
}

/// The words of a command, without comment, pipe or redirection. `[--json]` is one that may be left out.
fn command(line: &str) -> Option<Vec<String>> {
    let end = [" #", " |", " >"].iter().filter_map(|mark| line.find(mark)).min();
    let line = &line[..end.unwrap_or(line.len())];
    let words = line
        .split_whitespace()
        .map(|word| word.trim_matches(['[', ']']).to_owned());
    let words: Vec<_> = words.collect();
    let first = words.first()?;
    (first == "cargo" || first == "everstep").then_some(words)
}
