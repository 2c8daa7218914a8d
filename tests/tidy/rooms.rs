//! Who may depend on whom. The rooms of `src/` are layers: a room may name
//! itself and what is below it, in tests as in code. A room that names what is
//! above it can no longer be read, tested or replaced alone.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::paths::{NamedPath, paths};
use crate::tree::{File, Tree};

/// The small modules below everyone. They may name each other.
const VOCABULARY: &[&str] = &[
    "chance",
    "clock",
    "config",
    "duration",
    "error",
    "ids",
    "limits",
    "location",
    "spawn",
    "telemetry",
    "timing",
    "ulid",
    "unwinding",
];

/// Each room, and the rooms below it that it may name (beside the vocabulary).
const ROOMS: &[(&str, &[&str])] = &[
    ("storage", &[]),
    ("engine", &["storage"]),
    ("scheduler", &["storage"]),
    ("actor", &["storage", "engine", "scheduler"]),
    ("runtime", &["storage", "engine", "scheduler", "actor", "handle"]),
    ("handle", &["storage", "engine", "scheduler", "actor", "runtime"]),
    (
        "testing",
        &["storage", "engine", "scheduler", "actor", "runtime", "handle"],
    ),
    // A face for people: it knows what callers know, and nothing else.
    ("server", &["runtime", "handle"]),
    (
        "cluster",
        &["storage", "engine", "scheduler", "actor", "runtime", "handle"],
    ),
    ("cli", &["storage", "runtime", "handle", "server", "cluster"]),
];

pub(crate) fn findings(tree: &Tree) -> Vec<Finding> {
    let exports = exports(tree);
    let mut findings = Vec::new();
    for file in tree.rust_files() {
        let Some(modules) = modules(file) else {
            continue;
        };
        let room = modules[0].as_str();
        if !is_known(room) {
            let what = format!("`{room}` has no place in the house; give it one in {}", file!());
            findings.push(Finding::new(&file.path, 1, what));
            continue;
        }
        for path in paths(&file.text) {
            if let Some(name) = from_the_root(&path, &modules)
                && let Some(what) = objection(room, name, &exports)
            {
                findings.push(Finding::new(&file.path, path.line, what));
            }
        }
    }
    findings
}

/// Why the code of `room` should not say `crate::name`, if it should not.
fn objection(room: &str, name: &str, exports: &BTreeMap<String, String>) -> Option<String> {
    let other = match exports.get(name) {
        Some(origin) if !is_known(name) => origin.as_str(),
        _ if is_known(name) => name,
        _ => {
            return Some(format!("`crate::{name}` hides which room is meant; name the room"));
        }
    };
    (is_known(other) && !may_name(room, other)).then(|| format!("`{room}` names `{other}`, which is not below it"))
}

fn may_name(room: &str, other: &str) -> bool {
    let below = ROOMS.iter().find(|(name, _)| *name == room);
    room == other || VOCABULARY.contains(&other) || below.is_some_and(|(_, below)| below.contains(&other))
}

fn is_known(room: &str) -> bool {
    VOCABULARY.contains(&room) || ROOMS.iter().any(|(name, _)| *name == room)
}

/// The module path of a file of the library. The first part is its room;
/// `lib.rs` has none, because it shows all of them.
fn modules(file: &File) -> Option<Vec<String>> {
    let path = file.path.strip_prefix("src/")?.strip_suffix(".rs")?;
    let mut modules: Vec<_> = path.split('/').map(str::to_owned).collect();
    match path {
        "lib" => return None,
        "main" => modules[0] = String::from("cli"),
        _ if modules.last().is_some_and(|last| last == "mod") => {
            modules.pop();
        }
        _ => {}
    }
    Some(modules)
}

/// What a path names in the root of the crate, if it begins there: through
/// `crate` or through enough `super`s. Importing the root itself is `*`.
fn from_the_root<'a>(path: &'a NamedPath, modules: &[String]) -> Option<&'a str> {
    let mut segments = path.segments.iter().map(String::as_str).peekable();
    if segments.next_if_eq(&"crate").is_none() {
        segments.next_if_eq(&"self");
        let mut above = modules.len() + path.inside.len();
        while above > 0 && segments.next_if_eq(&"super").is_some() {
            above -= 1;
        }
        if above > 0 {
            return None;
        }
    }
    Some(segments.next().unwrap_or("*"))
}

/// The names that `lib.rs` hands out, with the room each comes from. Inside
/// the house they are a way around the layers, so they count as their room.
fn exports(tree: &Tree) -> BTreeMap<String, String> {
    let lib = tree.rust_files().find(|file| file.path == "src/lib.rs");
    let mut exports = BTreeMap::new();
    for path in lib.map(|lib| paths(&lib.text)).unwrap_or_default() {
        let mut segments = path.segments.iter();
        let origin = segments.find(|segment| !matches!(segment.as_str(), "crate" | "self"));
        if let Some(origin) = origin {
            exports.insert(path.alias, origin.clone());
        }
    }
    exports
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::lines;

    fn told(files: &[(&str, &str)]) -> Vec<String> {
        let findings = findings(&Tree::of_files(files));
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn upward_and_sideways_are_found() {
        let offenders = [
            ("src/storage/keys.rs", "use crate::engine::Entry;"),
            ("src/engine/mod.rs", "use crate::scheduler::Alarm;"),
            ("src/scheduler/alarm.rs", "use crate::engine::Entry;"),
            ("src/actor/mod.rs", "use crate::runtime::Runtime;"),
            ("src/handle.rs", "use crate::server::Page;"),
            ("src/ids.rs", "use crate::storage::Key;"),
            ("src/server/mod.rs", "use crate::storage::Key;"),
            ("src/cluster/mod.rs", "use crate::cli::Command;"),
        ];
        for (path, text) in offenders {
            assert_eq!(lines(findings, path, text), [1], "{path}: {text}");
        }
        assert_eq!(
            told(&offenders[..1]),
            ["src/storage/keys.rs:1: `storage` names `engine`, which is not below it"]
        );
    }

    #[test]
    fn downward_and_inward_are_not() {
        let innocents = [
            ("src/ids.rs", "use crate::error::Error;"),
            ("src/storage/keys.rs", "use crate::{ids::Id, storage::Commit};"),
            ("src/engine/mod.rs", "use crate::storage::Commit;"),
            ("src/actor/mod.rs", "use crate::{engine, scheduler, storage};"),
            ("src/runtime.rs", "use crate::{actor, handle::Handle};"),
            ("src/server/mod.rs", "use crate::handle::Handle;"),
            ("src/cli/mod.rs", "use crate::{cluster, server};"),
            ("src/lib.rs", "pub use crate::{runtime::Runtime, storage::Key};"),
            ("tests/x.rs", "use crate::engine::Entry;"),
        ];
        assert_eq!(told(&innocents), [""; 0]);
    }

    #[test]
    fn every_spelling_of_a_path_is_seen() {
        let text = "
            use crate::{storage::Key, ids::{self, Id}, engine::{Entry, Run}};
            fn f() -> Vec<crate::engine::Entry> { crate::engine::g() }
            pub(in crate::engine) struct S;
            macro_rules! m { () => { $crate::engine::X } }
            #[cfg(test)] mod tests { use crate::engine::Entry; }
            // crate::engine in a comment, and
            const S: &str = \"crate::engine in a string\";
        ";
        let found = lines(findings, "src/storage/mod.rs", text);
        assert_eq!(found, [2, 2, 3, 3, 4, 5, 6]);
    }

    #[test]
    fn supers_that_leave_the_room_are_seen() {
        let text = "use super::super::engine::Entry;";
        assert_eq!(lines(findings, "src/storage/keys.rs", text), [1]);
        let text = "mod tests { use super::super::super::engine::Entry; }";
        assert_eq!(lines(findings, "src/storage/keys.rs", text), [1]);
        assert_eq!(lines(findings, "src/ids.rs", "use super::engine;"), [1]);
        let inward = "use super::engine::Fjall; mod tests { use super::super::engine::X; }";
        assert_eq!(lines(findings, "src/storage/keys.rs", inward), [0; 0]);
    }

    #[test]
    fn exported_names_count_as_the_room_they_come_from() {
        let lib = "pub use runtime::{Runtime, Builder as Opener}; pub use crate::error::Error;
                   pub use everstep_macros::workflow;";
        let with = |text| told(&[("src/lib.rs", lib), ("src/storage/mod.rs", text)]).len();
        assert_eq!(with("use crate::Runtime;"), 1);
        assert_eq!(with("use crate::Opener;"), 1);
        assert_eq!(with("use crate::{Error, workflow};"), 0);
        assert_eq!(with("use crate::Unheard;"), 1);
        assert_eq!(with("use crate::*;"), 1);
        assert_eq!(with("use crate as house;"), 1);
    }

    #[test]
    fn a_room_without_a_place_is_found() {
        assert_eq!(lines(findings, "src/attic/mod.rs", ""), [1]);
        assert_eq!(lines(findings, "src/attic.rs", ""), [1]);
        assert_eq!(lines(findings, "src/main.rs", ""), [0; 0]);
    }

    /// A typing error in the table would quietly allow nothing, or too much.
    #[test]
    fn the_table_is_sound() {
        for (room, below) in ROOMS {
            for other in *below {
                assert!(ROOMS.iter().any(|(name, _)| name == other), "{other}");
            }
            let mutual = |other: &&&str| may_name(other, room);
            let back: Vec<_> = below.iter().filter(mutual).collect();
            let expected: &[&str] = match *room {
                "runtime" => &["handle"],
                "handle" => &["runtime"],
                _ => &[],
            };
            assert!(back.iter().copied().eq(expected), "{room} and {back:?} name each other");
        }
    }
}
