//! A process that dies.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};

use everstep_power_loss::{Dirs, Rig};

use crate::Options;
use crate::at_sync::AtSync;

/// Where victims live, and how they are started.
pub(crate) struct Victim {
    /// The store that they have, one after the other.
    pub(crate) url: String,
    /// What power cuts took away so far, if there are any.
    pub(crate) cut: Option<Cut>,
    words: Vec<&'static str>,
    engine: String,
    rig: Option<Rig>,
    /// What the store lies below.
    root: PathBuf,
}

/// What became of writes that were not synced.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Cut {
    pub(crate) kept: u64,
    pub(crate) undone: u64,
    pub(crate) torn: u64,
    /// Cuts in which the name of a file was lost unless its directory had been synced.
    pub(crate) strict: u64,
    pub(crate) lenient: u64,
}

impl Victim {
    pub(crate) fn new(home: &Path, options: &Options) -> Result<Self, String> {
        let root = home.join("root");
        std::fs::create_dir_all(&root).map_err(|error| error.to_string())?;
        let rig = if options.power_loss {
            let journal = home.join("journal");
            std::fs::create_dir_all(&journal).map_err(|error| error.to_string())?;
            Some(Rig::new(&root, &journal).map_err(|error| error.to_string())?)
        } else {
            None
        };
        let canonical = root.canonicalize().map_err(|error| error.to_string())?;
        Ok(Self {
            root: canonical,
            url: format!("{}:{}", options.engine, root.join("store").display()),
            cut: rig.as_ref().map(|_| Cut::default()),
            words: if options.workflows {
                vec!["--workflows"]
            } else {
                Vec::new()
            },
            engine: options.engine.clone(),
            rig,
        })
    }

    /// Starts one, which dies at a sync if there is one given. What it says comes line by line.
    pub(crate) fn spawn(&self, words: &[String], dies: Option<AtSync>) -> Result<(Child, Receiver<String>), String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command
            .args(["--engine", &self.engine, "--child", &self.url])
            .args(&self.words)
            .args(words)
            .stdout(Stdio::piped());
        if let Some(rig) = &self.rig {
            rig.wrap(&mut command).map_err(|error| error.to_string())?;
        }
        if let Some(at) = dies {
            if self.rig.is_none() {
                let shim = everstep_power_loss::shim_path().map_err(|error| error.to_string())?;
                command.env("LD_PRELOAD", shim);
            }
            command.env("POWER_LOSS_TRAP", at.trap(&self.root));
        }
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let out = child.stdout.take().ok_or("the child has no standard output")?;
        let (sender, lines) = mpsc::channel();
        #[expect(clippy::disallowed_methods, reason = "a tool, not the runtime")]
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok((child, lines))
    }

    /// Kills one, if it is not dead yet.
    pub(crate) fn kill(mut child: Child) -> Result<ExitStatus, String> {
        child.kill().map_err(|error| error.to_string())?;
        child.wait().map_err(|error| error.to_string())
    }

    /// Takes away what was not synced, if that is what this run is about. By turns names are as durable as a journaling
    /// file system makes them, and only as POSIX promises: a store has to survive both.
    pub(crate) fn cut_power(&mut self, seed: u64) -> Result<(), String> {
        let (Some(rig), Some(cut)) = (&self.rig, &mut self.cut) else {
            return Ok(());
        };
        let (dirs, count) = if cut.strict == cut.lenient {
            (Dirs::Strict, &mut cut.strict)
        } else {
            (Dirs::Lenient, &mut cut.lenient)
        };
        *count += 1;
        let report = rig.clone().dirs(dirs).cut(seed).map_err(|error| error.to_string())?;
        cut.kept += report.kept as u64;
        cut.undone += report.undone as u64;
        cut.torn += report.torn as u64;
        Ok(())
    }
}

/// What a victim says: one line in one write, so that a kill leaves whole lines.
pub(crate) fn say(line: &str) {
    let line = format!("{line}\n");
    let mut out = std::io::stdout().lock();
    // The parent may have closed the pipe: then it is about to kill this process.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}
