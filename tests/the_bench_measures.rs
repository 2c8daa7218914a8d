//! `everstep bench` measures every workload and says so in a form that programs can read. How fast is not judged here.
#![cfg(all(feature = "cli", feature = "fjall"))]
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// The lines that a quick bench prints, each an object.
fn bench(directory: &Path, arguments: &[&str]) -> Vec<Value> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_everstep"));
    program.args(["bench", "--quick", "--json", "--dir"]).arg(directory);
    let output = program.args(arguments).stdin(Stdio::null()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_workload_has_well_formed_lines() {
    let directory = tempfile::tempdir().unwrap();
    let chart = directory.path().join("bench.svg");
    let lines = bench(directory.path(), &["--svg", chart.to_str().unwrap()]);
    let workloads: BTreeSet<_> = lines.iter().map(|line| line["workload"].as_str().unwrap()).collect();
    let all = ["W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W9"];
    assert_eq!(workloads, BTreeSet::from(all));
    for line in &lines {
        assert_eq!(line["store"], "fjall", "{line}");
        assert_eq!(line["durable"], true, "{line}");
        // The numbers in it have up to three digits more in a whole run, and the column has 28 signs.
        assert!(line["what"].as_str().unwrap().len() <= 25, "{line}");
        for figure in ["ops_per_s", "p50_us", "p99_us", "cpu_us_per_op", "limit_ratio"] {
            assert!(
                line[figure].as_f64().is_some_and(|number| number >= 0.0),
                "{figure}: {line}"
            );
        }
    }
    let one = |name: &str| lines.iter().find(|line| line["workload"] == name).unwrap();
    assert_eq!(one("W6")["acknowledged_steps_again"], 0.0, "{}", one("W6"));
    assert!(one("W5")["bytes_each_asleep"].is_number(), "{}", one("W5"));
    let drawn = std::fs::read_to_string(&chart).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.ends_with("</svg>\n"));
    assert_eq!(drawn.matches("<text").count(), 2 + 2 * lines.len());
    assert_eq!(drawn.matches("<rect").count(), 1 + lines.len(), "each has a bar");
    std::fs::remove_file(&chart).unwrap();
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Found by a user: the table had 103 columns, and a terminal of 80 broke each of its lines in two.
#[test]
fn the_table_fits_a_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_everstep"));
    program
        .args(["bench", "--quick", "--dir"])
        .arg(directory.path())
        .args(["--only", "W2,W3,W7,W8"]);
    let output = program.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let table: Vec<_> = text.lines().skip_while(|line| !line.contains("ops/s")).collect();
    assert!(table.len() > 6, "{text}");
    for line in &table {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let figures = table[1..].iter().filter(|line| line.starts_with('W'));
    for line in figures {
        assert_eq!(line.chars().count(), table[0].chars().count(), "in its columns: {line}");
        assert!(line.ends_with(" %"), "beside the limit: {line}");
    }
}

#[test]
fn a_store_in_memory_says_that_it_is_not_durable() {
    let directory = tempfile::tempdir().unwrap();
    let lines = bench(directory.path(), &["--store", "memory", "--only", "W2,W6"]);
    let workloads: Vec<_> = lines.iter().map(|line| line["workload"].as_str().unwrap()).collect();
    assert_eq!(workloads, ["W2"], "nothing of it outlives a kill");
    assert_eq!(lines[0]["durable"], false);
}
