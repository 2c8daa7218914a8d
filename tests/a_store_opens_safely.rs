//! The promise: a store opens when it can be trusted, and otherwise says in one sentence why not and what to do
//! (FAULTS 10, 12 and 13), without touching what it refuses.
#![cfg(all(feature = "fjall", feature = "sled"))]
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

mod kit;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};

use everstep::storage::{Commit, Error, OpenOptions, Store};
use kit::process::{child, lines, part, say};

/// Commits one more revision of the only instance.
fn go_on(store: &Store, revision: u64) {
    let namespace = store.namespace(&kit::instance("a"));
    let commit = if revision == 1 {
        kit::start(&namespace)
    } else {
        kit::step(&namespace, revision, vec![9])
    };
    kit::commit(store, commit).unwrap();
}

/// FAULTS 12: the one who has the store goes on; everyone else is told who it is.
fn only_one_has_it(engine: &str, test: &str) {
    if let Some((_, place)) = part() {
        let error = kit::refused(engine, &place);
        say(&format!("{} {error}", error.code()));
        return;
    }
    let directory = kit::scratch();
    let path = directory.path().join("store");
    let store = kit::open(engine, &path);
    go_on(&store, 1);
    let before = kit::files(&path);

    let pid = std::process::id();
    match kit::refused(engine, &path) {
        Error::Locked { path: named, pid: by } => assert_eq!((named, by), (path.clone(), Some(pid))),
        other => panic!("{other}"),
    }
    let mut other = child(&["env"], test, "second", &path);
    let said: Vec<_> = lines(&mut other).collect();
    assert!(other.wait().unwrap().success());
    let [said] = said.as_slice() else { panic!("{said:?}") };
    assert!(said.starts_with("ES0205 "), "{said}");
    assert!(
        said.contains(path.to_str().unwrap()) && said.contains(&pid.to_string()),
        "{said}"
    );
    assert_eq!(kit::files(&path), before, "whoever was refused left something");

    go_on(&store, 2);
    let rows = kit::rows(&store).unwrap();
    store.close().unwrap();
    let store = kit::open(engine, &path);
    assert_eq!(kit::rows(&store).unwrap(), rows);
    go_on(&store, 3);
}

#[test]
fn only_one_has_a_fjall_store() {
    only_one_has_it("fjall", "only_one_has_a_fjall_store");
}

#[test]
fn only_one_has_a_sled_store() {
    only_one_has_it("sled", "only_one_has_a_sled_store");
}

/// FAULTS 13: what can't hold a store is refused, and nothing appears anywhere.
fn places_that_can_not_hold_a_store(engine: &str, test: &str) {
    if let Some((part, place)) = part() {
        if part == "read only" {
            remount_and_try(engine, &place);
        } else {
            say_what_is_refused(engine, &place);
        }
        return;
    }
    let directory = kit::scratch();
    let deep = directory.path().join("made/on/the/way");
    kit::open(engine, &deep).close().unwrap();

    let file = directory.path().join("file");
    fs::write(&file, "mine").unwrap();
    let error = kit::refused(engine, &file);
    assert_eq!(error.code(), "ES0203");
    assert!(error.to_string().contains("it is a file"), "{error}");
    let error = kit::refused(engine, &file.join("below"));
    assert_eq!(error.code(), "ES0204");
    assert!(error.to_string().contains("file/below"), "{error}");
    assert_eq!(fs::read(&file).unwrap(), b"mine");

    // Rights: whoever may do everything lays that down first.
    let locked = directory.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, Permissions::from_mode(0o500)).unwrap();
    let drops = [
        "setpriv",
        "--inh-caps=-all",
        "--bounding-set=-all",
        "--ambient-caps=-all",
    ];
    let bare = ["env"];
    let probe = locked.join("probe");
    let wrapper = if fs::write(&probe, "").is_ok() {
        &drops[..]
    } else {
        &bare[..]
    };
    drop(fs::remove_file(&probe));
    expect_refusals(child(wrapper, test, "no rights", &locked));

    // A file system that is mounted read-only.
    let mounts = ["unshare", "--mount", "--map-root-user"];
    let mount = directory.path().join("mount");
    fs::create_dir(&mount).unwrap();
    expect_refusals(child(&mounts, test, "read only", &mount));
}

fn expect_refusals(mut child: Child) {
    let said: Vec<_> = lines(&mut child).collect();
    assert!(child.wait().unwrap().success(), "{said:?}");
    assert_eq!(said.len(), 2, "{said:?}");
    for line in said {
        assert!(line.starts_with("ES0204 could not "), "{line}");
    }
}

/// Tries the place itself, and one below it.
fn say_what_is_refused(engine: &str, place: &Path) {
    for path in [place.to_owned(), place.join("below/it")] {
        let error = kit::refused(engine, &path);
        assert!(error.to_string().contains(place.to_str().unwrap()), "{error}");
        say(&format!("{} {error}", error.code()));
    }
    assert_eq!(kit::paths(place), [place]);
}

/// In a namespace of mounts of its own.
fn remount_and_try(engine: &str, place: &Path) {
    for options in ["size=1m", "remount,ro"] {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(place)
            .status();
        assert!(mounted.unwrap().success());
    }
    say_what_is_refused(engine, place);
}

#[test]
fn places_that_can_not_hold_a_fjall_store() {
    places_that_can_not_hold_a_store("fjall", "places_that_can_not_hold_a_fjall_store");
}

#[test]
fn places_that_can_not_hold_a_sled_store() {
    places_that_can_not_hold_a_store("sled", "places_that_can_not_hold_a_sled_store");
}

/// A directory with something else in it is refused and left as it is.
#[test]
fn what_belongs_to_somebody_else_is_left_alone() {
    for (engine, other) in [("fjall", "sled"), ("sled", "fjall")] {
        let directory = kit::scratch();
        let path = directory.path().join("store");
        kit::open(other, &path).close().unwrap();
        let before = kit::files(&path);
        let error = kit::refused(engine, &path);
        assert_eq!(error.code(), "ES0203");
        assert!(
            error
                .to_string()
                .contains(&format!("open it as `{other}:{}`", path.display())),
            "{error}"
        );
        assert_eq!(kit::files(&path), before);

        let foreign = directory.path().join("foreign");
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("holiday.jpg"), "x").unwrap();
        let before = kit::files(&foreign);
        let error = kit::refused(engine, &foreign);
        assert_eq!(error.code(), "ES0203");
        assert!(error.to_string().contains("holiday.jpg"), "{error}");
        assert_eq!(kit::files(&foreign), before);
    }
}

/// A volume was made for a store alone and mounted where it should be. It was refused as not empty: the file system had
/// put its `lost+found` there, which is root's and which nobody else may even look into.
fn a_new_volume(engine: &str, test: &str) {
    if let Some((_, place)) = part() {
        let store = kit::open(engine, &place);
        go_on(&store, 1);
        store.close().unwrap();
        say("opened");
        return;
    }
    let directory = kit::scratch();
    let volume = |name: &str, mode| {
        let path = directory.path().join(name);
        fs::create_dir_all(path.join("lost+found")).unwrap();
        fs::set_permissions(path.join("lost+found"), Permissions::from_mode(mode)).unwrap();
        path
    };
    let path = volume("readable", 0o755);
    let store = kit::open(engine, &path);
    go_on(&store, 1);
    store.close().unwrap();
    assert_eq!(mode(&path.join("lost+found")), 0o755, "it is the file system's");
    // What a check of the file system finds later is in nobody's way.
    fs::write(path.join("lost+found/#12"), "found").unwrap();
    go_on(&kit::open(engine, &path), 2);

    let path = volume("unreadable", 0o000);
    let drops = [
        "setpriv",
        "--inh-caps=-all",
        "--bounding-set=-all",
        "--ambient-caps=-all",
    ];
    let wrapper = if fs::read_dir(path.join("lost+found")).is_ok() {
        &drops[..]
    } else {
        &["env"][..]
    };
    let mut other = child(wrapper, test, "without rights", &path);
    let said: Vec<_> = lines(&mut other).collect();
    assert!(other.wait().unwrap().success() && said == ["opened"], "{said:?}");
    assert_eq!(mode(&path.join("lost+found")), 0o000);

    // Somebody else's things under that name are somebody else's things.
    let full = volume("full", 0o755);
    fs::write(full.join("lost+found/#12"), "found").unwrap();
    let file = directory.path().join("file");
    fs::create_dir(&file).unwrap();
    fs::write(file.join("lost+found"), "mine").unwrap();
    for path in [full, file] {
        let before = kit::files(&path);
        let error = kit::refused(engine, &path);
        assert_eq!(error.code(), "ES0203", "{error}");
        assert_eq!(kit::files(&path), before);
    }
}

#[test]
fn a_new_volume_takes_a_fjall_store() {
    a_new_volume("fjall", "a_new_volume_takes_a_fjall_store");
}

#[test]
fn a_new_volume_takes_a_sled_store() {
    a_new_volume("sled", "a_new_volume_takes_a_sled_store");
}

/// FAULTS 10.
fn the_watermark_is_gone(engine: &str) {
    let directory = kit::scratch();
    let path = directory.path().join("store");
    let store = kit::open(engine, &path);
    go_on(&store, 1);
    let rows = kit::rows(&store).unwrap();
    store.close().unwrap();
    let watermark = path.join("watermark");
    let whole = fs::read(&watermark).unwrap();
    let slot = whole.len() / 2;
    let damaged = |slots: &[usize]| {
        let mut bytes = whole.clone();
        for at in slots {
            bytes[at * slot + 30] ^= 1;
        }
        fs::write(&watermark, bytes).unwrap();
    };

    damaged(&[0, 1]);
    let refused = |found| {
        let error = kit::refused(engine, &path);
        assert_eq!(error.code(), "ES0208");
        let text = error.to_string();
        for word in [found, "watermark", "backup", "accept a possible loss"] {
            assert!(text.contains(word), "{text}");
        }
    };
    refused("damaged");
    fs::write(&watermark, "").unwrap();
    refused("damaged");
    fs::remove_file(&watermark).unwrap();
    refused("missing");
    refused("missing");
    assert!(
        !watermark.exists(),
        "a refusal made a watermark that vouches for nothing"
    );

    // Either slot alone is enough.
    for slot in [0, 1] {
        damaged(&[slot]);
        let store = kit::open(engine, &path);
        assert_eq!(kit::rows(&store).unwrap(), rows);
        store.close().unwrap();
        fs::write(&watermark, &whole).unwrap();
    }

    fs::remove_file(&watermark).unwrap();
    let accepting = OpenOptions::new().accept_loss(true);
    let store = accepting.open(&kit::url(engine, &path)).unwrap();
    let losses = store.header().accepted_losses.clone();
    assert_eq!((losses.len(), losses[0].expected), (1, None));
    store.close().unwrap();
    go_on(&kit::open(engine, &path), 2);
}

#[test]
fn the_watermark_of_a_fjall_store_is_gone() {
    the_watermark_is_gone("fjall");
}

#[test]
fn the_watermark_of_a_sled_store_is_gone() {
    the_watermark_is_gone("sled");
}

/// A store of a newer release, as its watermark says, is refused and left untouched to the byte.
fn a_newer_store(engine: &str) {
    let directory = kit::scratch();
    let path = directory.path().join("store");
    let store = kit::open(engine, &path);
    go_on(&store, 1);
    store.close().unwrap();
    let watermark = path.join("watermark");
    let mut bytes = fs::read(&watermark).unwrap();
    for slot in bytes.chunks_exact_mut(4096) {
        // See `watermark.rs`: the format is at byte 16, and the checksum behind the one shard.
        slot[16..20].copy_from_slice(&9_u32.to_le_bytes());
        let checksum = xxhash_rust::xxh3::xxh3_64(&slot[..48]);
        slot[48..56].copy_from_slice(&checksum.to_le_bytes());
    }
    fs::write(&watermark, bytes).unwrap();
    // As the newer release left it, which had another process number.
    fs::write(path.join("lock"), "4194304\n").unwrap();
    fs::set_permissions(&watermark, Permissions::from_mode(0o640)).unwrap();
    let before = kit::files(&path);
    for accept in [false, true] {
        let options = OpenOptions::new().accept_loss(accept);
        let error = options.open(&kit::url(engine, &path)).unwrap_err();
        assert!(matches!(error, Error::NewerFormat { found: 9, .. }), "{error}");
        assert_eq!(error.code(), "ES0206");
        assert!(error.to_string().contains("newer release"), "{error}");
        assert_eq!(kit::files(&path), before);
        assert_eq!(mode(&watermark), 0o640);
    }
    // Found in review: whoever only looks wrote the lock.
    let error = OpenOptions::new().verify(&kit::url(engine, &path)).unwrap_err();
    assert_eq!(error.code(), "ES0206", "{error}");
    assert_eq!(kit::files(&path), before);
}

#[test]
fn a_newer_fjall_store() {
    a_newer_store("fjall");
}

#[test]
fn a_newer_sled_store() {
    a_newer_store("sled");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// What a store holds is nobody else's business.
fn files_are_private(engine: &str) {
    let directory = kit::scratch();
    let path = directory.path().join("store");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let check = |when: &str| {
        for path in kit::paths(&path) {
            let expected = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode(&path), expected, "{} {when}", path.display());
        }
    };
    for session in 0..3 {
        let store = kit::open(engine, &path);
        check("after open");
        for revision in 1..20 {
            go_on(&store, session * 19 + revision);
        }
        // As an engine does that makes a file of its own, with the rights that are usual.
        let made = path.join(engine).join("made meanwhile");
        fs::write(&made, "x").unwrap();
        fs::set_permissions(&made, Permissions::from_mode(0o644)).unwrap();
        store.close().unwrap();
        check("after close");
        fs::set_permissions(path.join("watermark"), Permissions::from_mode(0o644)).unwrap();
    }
}

#[test]
fn files_of_fjall_are_private() {
    files_are_private("fjall");
}

#[test]
fn files_of_sled_are_private() {
    files_are_private("sled");
}

/// A store whose making was cut short, at whatever point, is a new store.
fn cut_short(engine: &str) {
    let zero = watermark_at_zero();
    let made = {
        let directory = kit::scratch();
        kit::open(engine, directory.path()).close().unwrap();
        kit::files(directory.path())
    };
    let engine_files: Vec<_> = made.iter().filter(|(name, _)| name.starts_with(engine)).collect();
    type Lay<'a> = Box<dyn Fn(&Path) + 'a>;
    let write = |path: &Path, name: &str, bytes: &[u8]| {
        let path = path.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    let mut cuts: Vec<(String, Lay<'_>)> = vec![
        ("an empty directory".into(), Box::new(|_| {})),
        ("the lock".into(), Box::new(|path| write(path, "lock", b""))),
        (
            "half a watermark under its first name".into(),
            Box::new(|path| write(path, "watermark.new", &zero[..100])),
        ),
        ("the watermark".into(), Box::new(|path| write(path, "watermark", &zero))),
        (
            "an empty engine".into(),
            Box::new(|path| {
                write(path, "watermark", &zero);
                fs::create_dir(path.join(engine)).unwrap();
            }),
        ),
        (
            "garbage for an engine".into(),
            Box::new(|path| {
                write(path, "watermark", &zero);
                for name in ["version", "1.jnl", "keyspaces/1/current", "tree/db", "tree/conf"] {
                    write(path, &format!("{engine}/{name}"), b"garbage");
                }
            }),
        ),
    ];
    // Every file of the engine missing, empty, or half.
    for (name, bytes) in &engine_files {
        for keep in [None, Some(0), Some(bytes.len() / 2)] {
            let (files, zero) = (&engine_files, &zero);
            let lay = move |path: &Path| {
                write(path, "watermark", zero);
                for (other, bytes) in files {
                    let bytes = if other == name {
                        keep.map(|keep| &bytes[..keep])
                    } else {
                        Some(&bytes[..])
                    };
                    if let Some(bytes) = bytes {
                        write(path, other.to_str().unwrap(), bytes);
                    }
                }
            };
            cuts.push((format!("{} with {keep:?} bytes", name.display()), Box::new(lay)));
        }
    }
    for (name, lay) in cuts {
        let directory = kit::scratch();
        lay(directory.path());
        let store = kit::try_open(engine, directory.path()).unwrap_or_else(|error| panic!("{name}: {error}"));
        go_on(&store, 1);
        let rows = kit::rows(&store).unwrap();
        store.close().unwrap();
        let store = kit::try_open(engine, directory.path()).unwrap_or_else(|error| panic!("{name}, again: {error}"));
        assert_eq!(kit::rows(&store).unwrap(), rows, "{name}");
        assert!(store.header().accepted_losses.is_empty(), "{name}");
        store.close().unwrap();
    }
}

/// See `watermark.rs`: one slot of one page, at generation one and commit zero, and an empty one.
fn watermark_at_zero() -> Vec<u8> {
    let mut bytes = vec![0; 2 * 4096];
    bytes[..8].copy_from_slice(b"ESWMARK1");
    bytes[8] = 1;
    bytes[16] = u8::try_from(everstep::storage::FORMAT).unwrap();
    bytes[20] = 1;
    let checksum = xxhash_rust::xxh3::xxh3_64(&bytes[..48]);
    bytes[48..56].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

#[test]
fn the_making_of_a_fjall_store_is_cut_short() {
    cut_short("fjall");
}

#[test]
fn the_making_of_a_sled_store_is_cut_short() {
    cut_short("sled");
}

/// Found in review: an accepted loss of everything gave the store as many shards as the options said, and its messages
/// began to count from the beginning.
#[test]
fn a_store_that_lost_everything_has_its_shards_and_counts_on() {
    let directory = kit::scratch();
    let path = directory.path().join("store");
    let url = kit::url("fjall", &path);
    let arrival = |store: &Store| {
        let namespace = store.namespace(&kit::instance("i"));
        let mut place = None;
        let delivery = store.submit_delivery(namespace.shard(), |places| {
            place = Some(places.next_place());
            Commit::new(namespace.shard())
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(delivery).unwrap().wait().unwrap();
        place.unwrap()
    };
    let mut before = None;
    for _ in 0..3 {
        let store = OpenOptions::new().shards(4).open(&url).unwrap();
        before = Some(arrival(&store));
        store.close().unwrap();
    }
    fs::remove_dir_all(path.join("fjall")).unwrap();
    assert_eq!(kit::refused("fjall", &path).code(), "ES0207");
    assert!(!path.join("fjall").exists(), "a refused open makes nothing");
    let store = OpenOptions::new().accept_loss(true).open(&url).unwrap();
    assert_eq!(store.shards().count(), 4);
    assert!(Some(arrival(&store)) > before);
}
