//! The files that the rules look at: those of the repository that git tracks
//! or would track, or a handful made up by a test.

use std::fs;
use std::path::Path;

/// A file by its path from the root, with `/` between the parts.
pub(crate) struct File {
    pub(crate) path: String,
    /// Empty for what is not Rust: no rule reads it.
    pub(crate) text: String,
}

impl File {
    pub(crate) fn is_rust(&self) -> bool {
        is_rust(&self.path)
    }
}

pub(crate) struct Tree {
    files: Vec<File>,
}

impl Tree {
    /// The repository that this test was compiled in.
    pub(crate) fn of_repository() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let ignored = fs::read_to_string(root.join(".gitignore")).expect(".gitignore is readable");
        let mut files = Vec::new();
        walk(root, "", &Ignored::parse(&ignored), &mut files);
        Self { files }
    }

    pub(crate) fn of_files(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        Self {
            files: files.iter().map(file).collect(),
        }
    }

    pub(crate) fn files(&self) -> &[File] {
        &self.files
    }

    pub(crate) fn rust_files(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_rust())
    }
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|e| e == "rs")
}

fn walk(folder: &Path, prefix: &str, ignored: &Ignored, files: &mut Vec<File>) {
    let entries = fs::read_dir(folder).expect("a folder of the repository is readable");
    for entry in entries {
        let entry = entry.expect("an entry of the repository is readable");
        let name = entry.file_name();
        let name = name.to_str().expect("file names are UTF-8");
        let path = format!("{prefix}{name}");
        if name == ".git" || ignored.holds(&path, name) {
            continue;
        }
        let kind = entry.file_type().expect("an entry has a type");
        if kind.is_dir() {
            walk(&entry.path(), &format!("{path}/"), ignored, files);
        } else {
            let text = if is_rust(&path) {
                fs::read_to_string(entry.path()).expect("Rust files are readable UTF-8")
            } else {
                String::new()
            };
            files.push(File { path, text });
        }
    }
}

/// `.gitignore`, of which only plain names (anywhere) and plain paths from the
/// root (with a leading slash) are understood. More has not been needed.
struct Ignored {
    names: Vec<String>,
    paths: Vec<String>,
}

impl Ignored {
    fn parse(text: &str) -> Self {
        let (mut names, mut paths) = (Vec::new(), Vec::new());
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            assert!(
                !line.contains(['*', '?', '[', '!']),
                "the tidy test reads .gitignore too and knows no patterns: {line}"
            );
            let plain = line.trim_end_matches('/');
            match plain.strip_prefix('/') {
                Some(path) => paths.push(path.to_owned()),
                None => names.push(plain.to_owned()),
            }
        }
        Self { names, paths }
    }

    fn holds(&self, path: &str, name: &str) -> bool {
        self.paths.iter().any(|p| p == path) || self.names.iter().any(|n| n == name)
    }
}

/// Without this, a walk that finds nothing would satisfy every rule.
#[test]
fn the_repository_is_seen() {
    let tree = Tree::of_repository();
    for path in ["Cargo.toml", "src/lib.rs", "tests/tidy/tree.rs"] {
        assert!(tree.files().iter().any(|file| file.path == path), "{path}");
    }
    let own = tree.rust_files().find(|file| file.path == "tests/tidy/tree.rs");
    assert!(own.expect("seen above").text.contains("the_repository_is_seen"));
    let built = |file: &File| file.path.starts_with("target/") || file.path.starts_with(".git/");
    assert!(!tree.files().iter().any(built));
}

#[test]
fn ignored_names_and_paths_are_told_apart() {
    let ignored = Ignored::parse("# built\n/target\n/fuzz/target/\n\n.DS_Store\n");
    assert!(ignored.holds("target", "target"));
    assert!(ignored.holds("fuzz/target", "target"));
    assert!(ignored.holds("docs/.DS_Store", ".DS_Store"));
    assert!(!ignored.holds("docs/target", "target"));
}

#[test]
#[should_panic(expected = "knows no patterns: *.log")]
fn an_ignore_pattern_is_refused() {
    Ignored::parse("*.log");
}
