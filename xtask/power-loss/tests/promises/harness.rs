//! Starting, killing and cutting children.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use everstep_power_loss::{Dirs, RECORDS_FILE, Record, Report, Rig};
use tempfile::TempDir;

pub(crate) const ROLE: &str = "POWER_LOSS_TEST_ROLE";

/// What a child does below the root before it is killed.
pub(crate) type Role = (&'static str, fn(&Path));

/// Tells the parent something, past the test harness's capture.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{line}")
        .and_then(|()| out.flush())
        .expect("the parent listens");
}

/// A root that outlives its children.
pub(crate) struct Stage {
    home: TempDir,
    pub(crate) rig: Rig,
}

impl Stage {
    /// Plays a role to its end on a new root.
    pub(crate) fn after(role: &str) -> Self {
        let stage = Self::new();
        stage.play(role, 1, "ready");
        stage
    }

    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary directory");
        let rig = Rig::new(&home.path().join("root"), &home.path().join("journal")).expect("a rig");
        Self { home, rig }
    }

    /// Plays a role that the shim must not survive, and returns its last words.
    pub(crate) fn play_forbidden(&self, role: &str) -> String {
        let mut command = Command::new(env::current_exe().expect("this executable"));
        command.args(["--exact", "child_role"]).env(ROLE, role);
        let output = self
            .rig
            .wrap(&mut command)
            .expect("the shim")
            .output()
            .expect("a child");
        assert!(!output.status.success(), "the child that played {role} went on");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Runs a child until it has said `count` lines that begin with `word`,
    /// kills it, and returns all such lines that it got out.
    pub(crate) fn play(&self, role: &str, count: usize, word: &str) -> Vec<String> {
        let mut command = Command::new(env::current_exe().expect("this executable"));
        command
            .args(["--exact", "child_role"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = self.rig.wrap(&mut command).expect("the shim").spawn().expect("a child");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut lines = lines
            .map(|line| line.expect("text"))
            .filter(|line| line.starts_with(word));
        let mut said: Vec<String> = lines.by_ref().take(count).collect();
        child.kill().expect("still there");
        child.wait().expect("gone");
        said.extend(lines);
        assert!(said.len() >= count, "the child that played {role} died early");
        said
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.home.path().join("root")
    }

    /// What the shim has written down.
    pub(crate) fn records(&self) -> Vec<Record> {
        let journal = self.home.path().join("journal").join(RECORDS_FILE);
        Record::decode_all(&fs::read(journal).expect("a journal")).0
    }

    /// Cuts with many seeds and shows each result.
    pub(crate) fn cuts(&self, dirs: Dirs, seeds: u64, mut check: impl FnMut(u64, Report, &Path)) {
        let rig = self.rig.clone().dirs(dirs);
        for seed in 0..seeds {
            let out = self.home.path().join(format!("cut-{seed}"));
            let report = rig.cut_into(seed, &out).expect("a cut");
            check(seed, report, &out);
            fs::remove_dir_all(&out).expect("clean up");
        }
    }
}

/// Creates a file with synced content.
pub(crate) fn synced(path: &Path, content: &[u8]) -> fs::File {
    let mut file = fs::File::create(path).expect("create");
    file.write_all(content).expect("write");
    file.sync_all().expect("sync");
    file
}

/// Syncs a directory.
pub(crate) fn sync_dir(path: &Path) {
    fs::File::open(path).and_then(|dir| dir.sync_all()).expect("sync");
}
