//! The targets of this workspace, as cargo sees them.

use serde::Deserialize;

use crate::error::Result;
use crate::shell;

#[derive(Deserialize)]
struct Workspace {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// A bench target and the package it lives in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bench {
    pub(crate) package: String,
    pub(crate) name: String,
}

/// Every bench of the workspace, in cargo's order.
pub(crate) fn benches() -> Result<Vec<Bench>> {
    let json = shell::output(shell::cargo().args(["metadata", "--no-deps", "--format-version=1"]))?;
    parse(&json)
}

fn parse(json: &[u8]) -> Result<Vec<Bench>> {
    let workspace: Workspace = serde_json::from_slice(json)?;
    let mut benches = Vec::new();
    for package in workspace.packages {
        for target in package.targets {
            if target.kind.iter().any(|kind| kind == "bench") {
                benches.push(Bench {
                    package: package.name.clone(),
                    name: target.name,
                });
            }
        }
    }
    Ok(benches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bench_targets_are_benches() {
        let json = br#"{"packages": [
            {"name": "a", "targets": [
                {"name": "a", "kind": ["lib"]},
                {"name": "storage", "kind": ["bench"]}]},
            {"name": "b", "targets": [{"name": "b", "kind": ["bin"]}]}]}"#;
        let expected = Bench {
            package: "a".into(),
            name: "storage".into(),
        };
        assert_eq!(parse(json).unwrap(), [expected]);
        assert!(parse(b"{}").is_err());
    }
}
