//! The `everstep` program: the demo carries on after a kill, commands tell what is in a store, and what is wrong is
//! said with a code, what to do, and the exit code that `--help` lists.
#![cfg(all(feature = "cli", feature = "fjall"))]
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use everstep::{Ctx, Result, ok, workflow};
use serde_json::Value;

#[workflow]
async fn tidy(_ctx: Ctx<Tidy>) -> Result<()> {
    ok(())
}

fn everstep(arguments: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_everstep"));
    program.args(arguments).env_remove("CARGO").stdin(Stdio::null());
    program
}

fn run(arguments: &[&str]) -> Output {
    everstep(arguments).output().unwrap()
}

/// What it wrote, if it did what it was asked.
fn told(arguments: &[&str]) -> String {
    let output = run(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {}: {errors}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// The exit code, and what it said on the standard error.
fn refused(arguments: &[&str]) -> (i32, String) {
    let output = run(arguments);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What a demo did to the world, as `order: what`.
fn effects(events: &[Value]) -> Vec<String> {
    let done = events
        .iter()
        .filter(|event| event["event"] == "done" || event["event"] == "undoes");
    let lines = done.map(|event| {
        format!(
            "{}: {}",
            event["order"].as_str().unwrap(),
            event["what"].as_str().unwrap()
        )
    });
    // An attempt that a kill cut short counts, so the number may be another one.
    let lines = lines.map(|line| line.split(" (attempt").next().unwrap_or_default().to_owned());
    lines.filter(|line| !line.ends_with("undoes what it did")).collect()
}

/// What the demo did for an order and the store knows of, as `order: what`. The map packs in parts.
fn stored_effects(store: &Path, number: u32) -> Vec<String> {
    let order = format!("order-{number}");
    let shown: Value = serde_json::from_str(&told(&["show", text(store), &order, "--json"])).unwrap();
    let (items, price) = (&shown["input"]["items"], &shown["input"]["price"]);
    let items: Vec<_> = items
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item.as_str().unwrap())
        .collect();
    let entries = shown["entries"].as_array().unwrap().iter();
    let done = entries.filter(|entry| entry["at_ms"].is_u64() && entry["failure"].is_null());
    let told = done.filter_map(|entry| match entry["path"].as_str().unwrap() {
        "reserve" => Some(format!("reserved {}", items.join(", "))),
        "charge" => Some(format!("paid {price} €")),
        "ship" => Some("handed the parcel over".to_owned()),
        path if path.ends_with("/wrap") => Some(format!("packed the {}", entry["detail"].as_str().unwrap())),
        _ => None,
    });
    told.map(|told| format!("{order}: {told}")).collect()
}

/// FAULTS 1 and 3: killed in the middle, the demo carries on; every effect whose result was stored happens once.
#[test]
fn a_demo_that_is_killed_carries_on() {
    let directory = tempfile::tempdir().unwrap();
    let (whole, cut) = (directory.path().join("whole"), directory.path().join("cut"));
    let demo = |store: &Path| {
        let store = text(store).to_owned();
        ["demo", "--fast", "--json", "--instances", "4", "--store"]
            .map(str::to_owned)
            .into_iter()
            .chain([store])
    };
    let arguments: Vec<_> = demo(&whole).collect();
    let mut expected = effects(&objects(&told(
        &arguments.iter().map(String::as_str).collect::<Vec<_>>(),
    )));
    expected.sort();
    assert!(expected.iter().any(|line| line.contains("paid back")), "{expected:?}");

    let arguments: Vec<_> = demo(&cut).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let mut first = everstep(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(first.stdout.take().unwrap())
        .lines()
        .map_while(std::io::Result::ok);
    let mut seen = Vec::new();
    for line in lines {
        let event: Value = serde_json::from_str(&line).unwrap();
        let packs = event["what"].as_str().is_some_and(|what| what.starts_with("packed"));
        seen.push(event);
        if packs {
            first.kill().unwrap();
        }
    }
    first.wait().unwrap();
    // What was stored when it died, and what of it is not done again.
    let stored: Vec<_> = (1..=4).flat_map(|number| stored_effects(&cut, number)).collect();
    assert!(stored.len() >= 4, "{stored:?}");
    for effect in &stored {
        assert!(effects(&seen).contains(effect), "{effect} was told before: {seen:?}");
    }

    let second = objects(&told(&arguments));
    let carried = second.iter().filter(|event| event["event"] == "before").count();
    assert!(carried > 0, "{second:?}");
    let again: Vec<_> = effects(&second)
        .into_iter()
        .filter(|effect| stored.contains(effect))
        .collect();
    assert_eq!(again, [""; 0], "what was stored is not done again: {stored:?}");
    // What was under way when the process died may happen once more.
    let mut all = [effects(&seen), effects(&second)].concat();
    all.sort();
    all.dedup();
    assert_eq!(all, expected);

    // The third start finds nothing to do.
    let third = objects(&told(&arguments));
    assert_eq!(effects(&third), [""; 0]);
}

#[test]
fn a_store_is_listed_shown_and_told() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let store = text(&store);
    let demo = told(&["demo", "--fast", "--instances", "3", "--store", store]);
    assert!(demo.contains("2 completed, 1 compensated"), "{demo}");
    assert!(!demo.contains('\x1b'), "no colours where it is no terminal");

    let list = told(&["list", store]);
    assert!(list.lines().next().unwrap().starts_with("ID"), "{list}");
    assert!(list.contains("order-2  demo-order  completed"), "{list}");
    let listed = objects(&told(&["list", store, "--json", "--oldest"]));
    let ids: Vec<_> = listed.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["order-1", "order-2", "order-3"]);
    let undone = objects(&told(&["list", store, "--status", "compensated", "--json"]));
    assert_eq!(undone.len(), 1);
    assert_eq!(undone[0]["id"], "order-3");
    assert_eq!(
        objects(&told(&["list", store, "--workflow", "other", "--json"])).len(),
        0
    );
    assert!(told(&["list", store, "-n", "1"]).contains("1 of 3 instances"));

    let show = told(&["show", store, "order-3"]);
    for part in [
        "order-3  demo-order v1  compensated",
        "the courier refuses",
        "✓ reserve  step",
        // It was over before what came behind it failed.
        "✓ pack  map",
        "timeline",
        "●",
    ] {
        assert!(show.contains(part), "{part}: {show}");
    }
    // In the order of the code: names alone, or those with numbers first, would not be.
    let at = |name: &str| show.find(name).unwrap();
    assert!(at("✓ reserve  step") < at("✓ Approval~0"), "{show}");
    let failed: Value = serde_json::from_str(&told(&["show", store, "order-3", "--json"])).unwrap();
    assert!(failed["failure"]["message"].is_string() && failed["failure"]["kind"].is_string());
    let differs = told(&["demo", "--fast", "--instances", "3", "--seed", "7", "--store", store]);
    assert!(differs.contains("another --seed"), "{differs}");
    let shown: Value = serde_json::from_str(&told(&["show", store, "order-1", "--json"])).unwrap();
    assert_eq!(shown["status"], "completed");
    assert_eq!(shown["input"]["number"], 1);
    let paths: Vec<_> = shown["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["path"].as_str().unwrap())
        .collect();
    assert!(paths.contains(&"pack/pack~0/wrap"), "{paths:?}");

    let history = objects(&told(&["history", store, "order-1", "--json"]));
    let orders: Vec<_> = history.iter().filter_map(|entry| entry["order"].as_u64()).collect();
    assert_eq!(
        orders,
        (0..orders.len() as u64).collect::<Vec<_>>(),
        "in the order of completion"
    );
    let reserved = history.iter().find(|entry| entry["path"] == "reserve").unwrap();
    let ran = &reserved["succeeded"];
    assert_eq!(ran["number"], 1, "{reserved}");
    let ended = ran["started_at_ms"].as_u64().unwrap() + ran["duration_ms"].as_u64().unwrap();
    assert!(ended <= reserved["at_ms"].as_u64().unwrap(), "{reserved}");
    let reserve = |line: &&str| line.contains("reserve  step");
    let told_by_line = told(&["history", store, "order-1"]);
    assert!(
        told_by_line.lines().find(reserve).unwrap().contains("  took "),
        "{told_by_line}"
    );
    assert!(told(&["history", store, "order-3"]).contains("attempt 1 failed"));

    assert!(told(&["verify", store]).contains("instances"));
    let backup = directory.path().join("backup");
    let copied: Value = serde_json::from_str(&told(&["backup", store, text(&backup), "--json"])).unwrap();
    assert!(copied["rows"].as_u64().unwrap() > 10);
    assert_eq!(told(&["list", text(&backup)]), list);
}

#[test]
fn what_is_wrong_is_said_with_a_code_and_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let store = text(&store);
    let nowhere = directory.path().join("nowhere");
    let nowhere = text(&nowhere);
    told(&["demo", "--fast", "--instances", "1", "--store", store]);

    for command in [
        &["list", nowhere][..],
        &["show", nowhere, "x"],
        &["verify", nowhere],
        &["export", nowhere],
    ] {
        let (code, error) = refused(command);
        assert_eq!(code, 3, "{error}");
        assert!(
            error.contains("error ES0203: there is no store at") && error.contains("help: "),
            "{error}"
        );
    }
    assert!(!Path::new(nowhere).exists(), "a mistyped path makes no store");
    let empty = directory.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    assert_eq!(refused(&["list", text(&empty)]).0, 3);
    assert_eq!(
        std::fs::read_dir(&empty).unwrap().count(),
        0,
        "nor does an empty directory become one"
    );

    let (code, error) = refused(&["list", "memory:"]);
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("lives in the process"), "{error}");

    let file = directory.path().join("order-9.jsonl");
    let (code, error) = refused(&["export", store, "--instance", "order-9", "--out", text(&file)]);
    assert_eq!(code, 4, "{error}");
    assert!(!file.exists(), "what is not there leaves no file");

    let (code, error) = refused(&["list", "--json"]);
    let error: Value = serde_json::from_str(&error).unwrap();
    assert_eq!(code, 2);
    assert!(error["error"]["message"].as_str().unwrap().contains("STORE"), "{error}");

    let (code, error) = refused(&["show", store, "order-9"]);
    assert_eq!(code, 4, "{error}");
    assert!(error.contains("ES0401") && error.contains("everstep list"), "{error}");

    for wrong in [
        &["list"][..],
        &["list", store, "--status", "gone"],
        &["demo", "--instances", "0"],
        &["lsit"],
    ] {
        let (code, error) = refused(wrong);
        assert_eq!(code, 2, "{error}");
        assert!(error.contains("--help"), "{error}");
    }

    let open = everstep::storage::OpenOptions::new().open(store).unwrap();
    let (code, error) = refused(&["list", store]);
    assert_eq!(code, 3, "{error}");
    let by = format!("is in use by process {}", std::process::id());
    assert!(error.contains("ES0205") && error.contains(&by), "{error}");
    let (_, error) = refused(&["--json", "show", store, "order-1"]);
    let error: Value = serde_json::from_str(&error).unwrap();
    assert_eq!(error["error"]["code"], "ES0205");
    open.close().unwrap();
}

/// Found by a user: an export into a file said nothing at all, to people nor in JSON, and one instance was `1 instances`.
#[test]
fn what_was_moved_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let [store, all, one, new, newer, copy] =
        ["store", "all", "one", "new", "newer", "copy"].map(|name| directory.path().join(name).display().to_string());
    told(&["demo", "--fast", "--instances", "2", "--store", &store]);
    let counted = objects(&told(&["verify", &store, "--json"]))[0]["instances"].clone();
    let exported = &objects(&told(&["export", &store, "--out", &all, "--json"]))[0];
    assert_eq!(
        (&exported["instances"], &exported["left_out"]),
        (&counted, &Value::from(0))
    );
    let imported = &objects(&told(&["import", &new, &all, "--json"]))[0];
    assert_eq!(
        (&imported["instances"], &imported["rows"]),
        (&counted, &exported["rows"])
    );
    let said = told(&["export", &store, "--instance", "order-1", "--out", &one]);
    assert!(
        said.starts_with("exported 1 instance, ") && said.ends_with(&format!(" to {one}\n")),
        "{said}"
    );
    let said = told(&["import", &newer, &one]);
    assert!(said.starts_with("imported 1 instance, "), "{said}");
    assert!(told(&["list", &newer]).contains("1 of 1 instance\n"));
    assert!(told(&["backup", &newer, &copy]).starts_with("copied "));
}

#[test]
fn help_teaches_and_shells_complete() {
    let help = told(&["--help"]);
    for part in ["everstep demo", "Exit codes:", "docs/errors"] {
        assert!(help.contains(part), "{part}: {help}");
    }
    for command in [
        "demo",
        "list",
        "show",
        "history",
        "verify",
        "export",
        "import",
        "backup",
        "accept-loss",
        "bench",
        "completions",
    ] {
        let help = told(&[command, "--help"]);
        assert!(
            help.contains("Example") && help.contains(&format!("everstep {command}")),
            "{help}"
        );
        let wide = help.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{command}: fits on a terminal");
    }
    let wide = help.lines().find(|line| line.chars().count() > 80);
    assert_eq!(wide, None, "fits on a terminal");
    for shell in ["bash", "zsh", "fish"] {
        assert!(told(&["completions", shell]).contains("accept-loss"), "{shell}");
    }
}

/// What the listing shows can be looked at.
#[test]
fn a_built_in_instance_is_shown() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let store = text(&store);
    let mut executor = tokio::runtime::Builder::new_multi_thread();
    executor.enable_all().build().unwrap().block_on(async {
        let runtime = everstep::Runtime::builder().workflow(tidy);
        let runtime = runtime.open("memory:").await.unwrap();
        let timing = everstep::Cron::new("@yearly");
        runtime.schedule("tidy", timing).starts(tidy, ()).await.unwrap();
        // A backup is in nobody's hands when it is done.
        runtime.backup(store).await.unwrap();
        runtime.stop().await;
    });
    let listed = objects(&told(&["list", store, "--workflow", "__schedule", "--json"]));
    let id = listed[0]["id"].as_str().unwrap();
    assert!(told(&["show", store, id]).contains("__schedule"), "{id}");
    assert!(told(&["history", store, id]).contains("started"), "{id}");
    assert!(told(&["export", store, "--instance", id]).contains("everstep_export_end"));
    assert_eq!(refused(&["show", store, "__schedule other"]).0, 4);
}

/// A reader that has enough is no error. Found by a user: `export` said that the file system refused, with the exit code
/// of a store that can't be used.
#[test]
fn whoever_reads_may_stop() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let store = text(&store);
    told(&["demo", "--fast", "--instances", "2", "--store", store]);
    for arguments in [
        &["completions", "bash"][..],
        &["export", store],
        &["export", store, "--salvage"],
        &["export", store, "--instance", "order-1"],
        &["list", store, "--json"],
    ] {
        let mut program = everstep(arguments);
        let mut program = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(program.stdout.take());
        let output = program.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.is_empty(),
            "{arguments:?}: {}: {said}",
            output.status
        );
    }
}

/// Found by a user: an export to a full disk said that the disk of the store was full, and to restart.
#[test]
fn what_is_wrong_with_a_file_is_not_said_of_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let store = path("store");
    told(&["demo", "--fast", "--instances", "1", "--store", &store]);

    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = everstep(&["export", &store]).stdout(full).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("ES0204: could not write the output: No space left"),
        "{said}"
    );
    assert!(
        said.contains("help: ") && said.contains("nothing is wrong with the store"),
        "{said}"
    );

    told(&["export", &store, "--out", &path("all")]);
    let (nowhere, none, broken) = (path("no/where"), path("none"), path("broken"));
    std::fs::write(&broken, "no export").unwrap();
    for (arguments, code, means) in [
        (
            &["export", &store, "--out", &path("all")][..],
            "ES0234",
            "exists; nothing is ever overwritten",
        ),
        (&["export", &store, "--out", &nowhere], "ES0204", "could not write"),
        (&["import", &path("new"), &none], "ES0204", "could not read"),
        (&["import", &path("new"), &broken], "ES0231", "line 1 of the import"),
        (&["backup", &store, &store], "ES0234", "nothing is ever overwritten"),
        (
            &["bench", "--quick", "--only", "W1", "--svg", &nowhere],
            "ES0204",
            "could not write",
        ),
        (
            &["bench", "--quick", "--only", "W1", "--dir", &broken],
            "ES0204",
            "could not make",
        ),
    ] {
        let (_, said) = refused(arguments);
        assert!(
            said.contains(&format!("error {code}: ")) && said.contains(means),
            "{arguments:?}: {said}"
        );
        assert!(said.contains("help: "), "{arguments:?}: {said}");
    }
}

/// Found by a user: a store that may not be looked at was called missing, and a store of the other engine empty.
#[test]
fn what_can_not_be_looked_at_is_not_called_missing() {
    let directory = tempfile::tempdir().unwrap();
    // Whoever may look at everything can't follow this either.
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&link, &link).unwrap();
    for command in ["list", "verify", "export"] {
        let (code, error) = refused(&[command, text(&link)]);
        assert_eq!(code, 3, "{error}");
        assert!(error.contains("ES0204: could not look at"), "{command}: {error}");
    }
    let (code, error) = refused(&["demo", "--fast", "--store", text(&link)]);
    assert!(code == 3 && error.contains("ES0204"), "{error}");
    #[cfg(feature = "sled")]
    {
        let store = directory.path().join("store");
        let url = format!("sled:{}", text(&store));
        let demo = told(&["demo", "--fast", "--instances", "1", "--store", &url]);
        assert!(
            demo.contains(&format!("Remove {} to begin anew", text(&store))),
            "{demo}"
        );
        for command in ["list", "verify", "export"] {
            let (_, error) = refused(&[command, text(&store)]);
            assert!(error.contains("open it as `sled:"), "{command}: {error}");
        }
        assert!(told(&["verify", &url]).contains("in 1 shard\n"));
    }
}

/// Found by a user: a bench that was stopped left its directory behind; with Ctrl-C at first, and then with `timeout`.
#[test]
fn an_interrupted_bench_leaves_nothing_behind() {
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        interrupted_bench(signal);
    }
}

fn interrupted_bench(signal: rustix::process::Signal) {
    let directory = tempfile::tempdir().unwrap();
    let mut program = everstep(&[
        "bench",
        "--quick",
        "--only",
        "W1,W2,W3,W9",
        "--dir",
        text(directory.path()),
    ]);
    let mut program = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It says where it is before it measures anything.
    let mut told = BufReader::new(program.stdout.take().unwrap()).lines();
    assert!(told.next().unwrap().unwrap().contains("everstep-bench"));
    let pid = rustix::process::Pid::from_child(&program);
    rustix::process::kill_process(pid, signal).unwrap();
    assert_eq!(program.wait().unwrap().code(), Some(130), "{signal:?}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
