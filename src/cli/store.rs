//! The commands that work on a store: verify, export, import, backup, accept-loss.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use everstep::InstanceId;
use everstep::storage::{LeftOut, OpenOptions, Salvaged, Store};
use serde_json::json;

use super::look::{self, existing};
use super::problem::{Exit, Problem};
use super::{Outcome, Output, text};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everstep verify ./data            exits with 1 if anything is wrong
  everstep verify ./data --json
  everstep verify ./data --repair   writes the listing index anew")]
pub(crate) struct Verify {
    /// The store: `./data`, `fjall:./data` or `sled:./data`
    store: String,
    /// Write the listing index anew from what the instances say
    #[arg(long)]
    repair: bool,
}

impl Verify {
    pub(crate) fn run(&self, output: &mut Output) -> Outcome {
        let report = if self.repair {
            let store = look::open(&self.store)?;
            store.rebuild_index()?;
            store.verify()?
        } else {
            existing(&self.store)?.verify(&self.store)?
        };
        if output.json {
            output.object(&serde_json::to_value(&report)?)?;
        } else {
            for line in report.to_string().lines() {
                writeln!(output.out, "{}", text::plain(line))?;
            }
        }
        if report.is_clean() {
            Ok(())
        } else {
            Err(Problem::Silent(Exit::Wrong))
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everstep export ./data --out all.jsonl
  everstep export ./data --instance order-123 | less
  everstep export ./data --salvage --out sound.jsonl    what is not damaged

An export ends at the first thing that can't be read. With --salvage it goes on,
tells what it leaves out, and exits with 1 if there is anything.

The format is described in docs/export.md.")]
pub(crate) struct Export {
    /// The store
    store: String,
    /// Only this instance
    #[arg(long, value_parser = look::id)]
    instance: Option<String>,
    /// Write what is sound, and tell what is not
    #[arg(long, conflicts_with = "instance")]
    salvage: bool,
    /// A new file (standard output if left out)
    #[arg(long, short)]
    out: Option<PathBuf>,
}

impl Export {
    pub(crate) fn run(&self, output: &mut Output) -> Outcome {
        let store = look::open(&self.store)?;
        let instance = self.instance.as_deref().map(|id| look::find(&store, &self.store, id));
        let what = match instance.transpose()? {
            Some(instance) => What::Instance(instance),
            None if self.salvage => What::Sound { as_json: output.json },
            None => What::Store,
        };
        let Some(path) = &self.out else {
            let mut out = Outlet::new(io::stdout().lock(), "the output");
            return what.write(&store, &mut out)?.all_there();
        };
        // What a store holds is nobody else's business, nor is what comes out of it.
        let file = File::options().write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|error| Problem::file("write", path, error))?;
        let written = what.write_to_disk(&store, file, path);
        if written.is_err() {
            // Half a file is none.
            let _ = std::fs::remove_file(path);
        }
        let written = written?;
        let (instances, rows) = (written.instances, written.rows);
        if output.json {
            output.object(&json!({"instances": instances, "rows": rows, "left_out": written.left_out}))?;
        } else {
            let (instances, rows) = (text::many(instances, "instance"), text::many(rows, "row"));
            writeln!(output.out, "exported {instances}, {rows} to {}", path.display())?;
        }
        written.all_there()
    }
}

/// What to export.
enum What {
    Store,
    /// What is sound; of the rest is told.
    Sound {
        as_json: bool,
    },
    Instance(InstanceId),
}

/// What went into the file.
struct Written {
    instances: u64,
    rows: u64,
    /// How much was left out, which was told on the way.
    left_out: u64,
}

impl Written {
    /// What was left out was told, and the exit code tells it too.
    fn all_there(&self) -> Outcome {
        if self.left_out == 0 {
            Ok(())
        } else {
            Err(Problem::Silent(Exit::Wrong))
        }
    }
}

impl What {
    fn write_to_disk(&self, store: &Store, file: File, path: &Path) -> Outcome<Written> {
        let mut out = Outlet::new(BufWriter::new(file), &path.display().to_string());
        let all = self.write(store, &mut out)?;
        // The store may be removed as soon as this command has succeeded, so the file has to be on the disk by then,
        // and its name.
        let written = || {
            let file = out.to.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.sync_all()?;
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
        };
        written().map_err(|error| Problem::file("write", path, error))?;
        Ok(all)
    }

    fn write(&self, store: &Store, out: &mut Outlet<impl Write>) -> Outcome<Written> {
        let written = self.write_all(store, out).and_then(|all| Ok((all, out.flush()?)));
        match (written, out.refused.take()) {
            // What the store was told of a write is what the output said, and no failure of the store's.
            (Err(_), Some(error)) if error.kind() == io::ErrorKind::BrokenPipe => Err(Problem::Silent(Exit::Done)),
            (Err(_), Some(error)) => Err(Problem::File("write", out.name.clone(), error)),
            (written, _) => written.map(|(all, ())| all),
        }
    }

    fn write_all(&self, store: &Store, mut out: &mut dyn Write) -> Outcome<Written> {
        let all = match self {
            Self::Instance(instance) => store.export_instance(instance, &mut out)?,
            Self::Store => store.export(&mut out)?,
            Self::Sound { as_json } => {
                let mut tell = |left_out: LeftOut| tell(&left_out, *as_json);
                let Salvaged {
                    instances,
                    rows,
                    left_out,
                } = store.salvage(&mut out, &mut tell)?;
                return Ok(Written {
                    instances,
                    rows,
                    left_out,
                });
            }
        };
        Ok(Written {
            instances: all.instances,
            rows: all.rows,
            left_out: 0,
        })
    }
}

/// Where an export goes, which keeps what was wrong with it: whoever writes to it tells that as something of its own.
struct Outlet<W> {
    to: W,
    name: String,
    refused: Option<io::Error>,
}

impl<W> Outlet<W> {
    fn new(to: W, name: &str) -> Self {
        Self {
            to,
            name: name.to_owned(),
            refused: None,
        }
    }

    fn noted<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let told = io::Error::from(error.kind());
            if error.kind() != io::ErrorKind::Interrupted {
                self.refused = Some(error);
            }
            told
        })
    }
}

impl<W: Write> Write for Outlet<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes);
        self.noted(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.to.flush();
        self.noted(flushed)
    }
}

fn tell(left_out: &LeftOut, as_json: bool) {
    if as_json {
        return anstream::eprintln!("{}", text::plain_json(&json!({"left_out": left_out}).to_string()));
    }
    let LeftOut { instance, code, reason } = left_out;
    let whose = instance.as_deref().unwrap_or("of nobody in particular");
    anstream::eprintln!("left out: {}: {code} {}", text::plain(whose), text::plain(reason));
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  everstep import ./new-data all.jsonl")]
pub(crate) struct Import {
    /// A new store; a file with one instance may go into any store
    store: String,
    /// The file that `export` wrote
    file: PathBuf,
}

impl Import {
    pub(crate) fn run(&self, output: &mut Output) -> Outcome {
        let file = File::open(&self.file).map_err(|error| Problem::file("read", &self.file, error))?;
        let (store, imported) = OpenOptions::new().import(&self.store, &mut BufReader::new(file))?;
        store.close()?;
        let (instances, rows) = (imported.instances, imported.rows);
        if output.json {
            return output.object(&json!({"instances": instances, "rows": rows}));
        }
        Ok(writeln!(
            output.out,
            "imported {}, {}",
            text::many(instances, "instance"),
            text::many(rows, "row")
        )?)
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everstep backup ./data ./backup-monday
  everstep backup ./data sled:./as-sled     to another engine

While a program has the store open, it makes the backup itself:
`Runtime::backup`.")]
pub(crate) struct Backup {
    /// The store to copy
    store: String,
    /// The store to make
    target: String,
}

impl Backup {
    pub(crate) fn run(&self, output: &mut Output) -> Outcome {
        let copied = look::open(&self.store)?.backup(&self.target)?;
        let (rows, bytes) = (copied.rows, copied.bytes);
        if output.json {
            return output.object(&json!({"rows": rows, "bytes": bytes}));
        }
        Ok(writeln!(
            output.out,
            "copied {}, {bytes} bytes",
            text::many(rows, "row")
        )?)
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
A store that is behind its watermark, or whose log is damaged, has lost commits
that somebody was told about. Restoring a backup is better. If there is none,
this opens it with what is left and notes what is missing. What can't be read of
the log is kept, in the directory `damaged` of the store.

Example:
  everstep accept-loss ./data")]
pub(crate) struct AcceptLoss {
    /// The store
    store: String,
}

impl AcceptLoss {
    pub(crate) fn run(&self, output: &mut Output) -> Outcome {
        let store = existing(&self.store)?.accept_loss(true).open(&self.store)?;
        let losses = store.header().accepted_losses.len();
        store.close()?;
        if output.json {
            return output.object(&json!({"store": self.store, "accepted_losses": losses}));
        }
        let losses = if losses == 1 {
            "1 accepted loss".into()
        } else {
            format!("{losses} accepted losses")
        };
        let opens = format!("{} opens; its header notes {losses}", self.store);
        Ok(writeln!(output.out, "{opens}")?)
    }
}
