//! The documents of this repository.

use std::path::{Path, PathBuf};

/// Every page of the repository that people read: the root's, and those below `docs`.
pub(crate) fn pages(root: &Path) -> Vec<PathBuf> {
    let (mut pages, mut folders) = (Vec::new(), vec![root.to_owned(), root.join("docs")]);
    while let Some(folder) = folders.pop() {
        for file in std::fs::read_dir(&folder).expect("the folder is there") {
            let path = file.expect("the folder can be read").path();
            if path.is_dir() && folder != root {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// What the comments of the code say, file by file: rustdoc's, and those beside them.
#[allow(dead_code, reason = "not every test reads the code")]
pub(crate) fn comments(root: &Path) -> Vec<(PathBuf, String)> {
    let mut folders: Vec<_> = ["src", "macros/src", "examples", "benches", "xtask", "fuzz", "tests"]
        .into_iter()
        .map(|folder| root.join(folder))
        .collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for file in std::fs::read_dir(&folder).expect("the folder is there") {
            let path = file.expect("the folder can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("the file can be read");
                let comments = text.lines().map(str::trim_start).filter(|line| line.starts_with("//"));
                found.push((path, comments.collect::<Vec<_>>().join("\n")));
            }
        }
    }
    found.sort();
    found
}
