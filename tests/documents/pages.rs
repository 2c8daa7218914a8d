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
