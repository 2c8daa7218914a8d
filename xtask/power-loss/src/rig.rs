//! The parent's side: run a child under the shim, kill it, cut the power.

use std::{
    env,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use crate::{Dirs, Error, Record, Report, cut::Cut, settle::settle, tree::Tree};

/// The file in the journal directory that holds the records.
pub const RECORDS_FILE: &str = "records";

/// The folder in the journal directory that keeps removed inodes alive.
pub const KEPT_FOLDER: &str = "kept";

const SHIM_FILE: &str = "libeverstep_power_loss_shim.so";

/// A directory that can lose power, and the journal that knows what it loses.
#[derive(Clone, Debug)]
pub struct Rig {
    root: PathBuf,
    journal: PathBuf,
    dirs: Dirs,
    failing: Option<String>,
}

impl Rig {
    /// Creates both directories if they are missing. They must lie on one file
    /// system, the journal outside the root.
    pub fn new(root: &Path, journal: &Path) -> Result<Self, Error> {
        fs::create_dir_all(root)?;
        fs::create_dir_all(journal.join(KEPT_FOLDER))?;
        let (root, journal) = (root.canonicalize()?, journal.canonicalize()?);
        if journal.starts_with(&root) {
            return Err(Error::JournalInside(journal));
        }
        Ok(Self {
            root,
            journal,
            dirs: Dirs::default(),
            failing: None,
        })
    }

    /// How durable directory entries are. The shim records the same for both,
    /// so one run can be cut either way.
    #[must_use]
    pub fn dirs(mut self, dirs: Dirs) -> Self {
        self.dirs = dirs;
        self
    }

    /// Of the syncs that a child makes of files whose path below the root has
    /// this part in it, the one with this number, from one, fails with an I/O
    /// error. Later ones of the same file succeed and make nothing durable, as
    /// the system may have dropped what it could not write.
    #[must_use]
    pub fn fail_sync(mut self, number: u64, part: &str) -> Self {
        self.failing = Some(format!("{number}:{part}"));
        self
    }

    /// Puts a command under the shim. It must be the only process that changes
    /// the root, and must be dead before the cut.
    pub fn wrap<'c>(&self, command: &'c mut Command) -> Result<&'c mut Command, Error> {
        self.settle()?;
        let mut preload = env::var_os("LD_PRELOAD").unwrap_or_default();
        if !preload.is_empty() {
            preload.push(":");
        }
        // Last, so that libraries which make calls fail come before it.
        preload.push(shim_path()?);
        if let Some(failing) = &self.failing {
            command.env("POWER_LOSS_FAIL_SYNC", failing);
        }
        Ok(command
            .env("LD_PRELOAD", preload)
            .env("POWER_LOSS_ROOT", &self.root)
            .env("POWER_LOSS_JOURNAL", &self.journal))
    }

    /// Cuts the power in place. The journal is empty afterwards: what the root
    /// then holds is durable. Without a cut the next child continues it.
    pub fn cut(&self, seed: u64) -> Result<Report, Error> {
        let mut name = OsString::from(&self.root);
        name.push(".after");
        let after = PathBuf::from(name);
        if after.exists() {
            fs::remove_dir_all(&after)?;
        }
        let report = self.cut_into(seed, &after)?;
        fs::remove_dir_all(&self.root)?;
        fs::rename(after, &self.root)?;
        fs::remove_dir_all(&self.journal)?;
        fs::create_dir_all(self.journal.join(KEPT_FOLDER))?;
        Ok(report)
    }

    /// Builds what a cut would leave in the new directory `out`, and leaves the
    /// root and the journal alone: one run can be cut with many seeds.
    pub fn cut_into(&self, seed: u64, out: &Path) -> Result<Report, Error> {
        let (records, tree) = self.settle()?;
        Cut::new(&records, &tree, seed, self.dirs).write_out(out)
    }

    fn settle(&self) -> Result<(Vec<Record>, Tree), Error> {
        let tree = Tree::read(&self.root, &self.journal.join(KEPT_FOLDER))?;
        let records = settle(&self.journal.join(RECORDS_FILE), &tree)?;
        Ok((records, tree))
    }
}

/// Where the preloaded library is: the variable `POWER_LOSS_SHIM`, or else the
/// target directory of the running executable, where it is built first (once
/// per process, so that it is never older than its source).
pub fn shim_path() -> Result<PathBuf, Error> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    if let Some(path) = env::var_os("POWER_LOSS_SHIM") {
        return Ok(path.into());
    }
    BUILT
        .get_or_init(|| build_shim().map_err(|error| error.to_string()))
        .clone()
        .map_err(Error::Shim)
}

fn build_shim() -> io::Result<PathBuf> {
    let executable = env::current_exe()?;
    let outside = || io::Error::other("the executable is not in a target directory");
    // target/<profile>/name, or deps/ and examples/ below that.
    let mut profile_dir = executable.parent().ok_or_else(outside)?;
    if ["deps", "examples"].iter().any(|folder| profile_dir.ends_with(folder)) {
        profile_dir = profile_dir.parent().ok_or_else(outside)?;
    }
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => return Err(outside()),
    };
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "-p",
            "everstep-power-loss-shim",
            "--profile",
            profile,
        ])
        .arg("--target-dir")
        .arg(profile_dir.parent().ok_or_else(outside)?)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    let path = profile_dir.join(SHIM_FILE);
    if output.status.success() && path.exists() {
        return Ok(path);
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
}
