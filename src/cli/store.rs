//! The commands that work on a store: verify, export, import, backup, accept-loss.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use everstep::InstanceId;
use everstep::storage::{OpenOptions, Store, Url};

use super::Outcome;

/// Options for a store that is there already: a mistyped path must not make a new one.
fn existing(url: &str) -> Result<OpenOptions, Box<dyn std::error::Error>> {
    let there = match url.parse()? {
        #[cfg(feature = "fjall")]
        Url::Fjall(path) => path.exists(),
        #[cfg(feature = "sled")]
        Url::Sled(path) => path.exists(),
        Url::Memory => false,
    };
    if there {
        Ok(OpenOptions::new())
    } else {
        Err(format!("there is no store at {url}").into())
    }
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The store: `./data`, `fjall:./data` or `sled:./data`
    store: String,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Write the listing index anew from what the instances say
    #[arg(long)]
    repair: bool,
}

impl Verify {
    pub(crate) fn run(&self) -> Outcome {
        let report = if self.repair {
            let store = existing(&self.store)?.open(&self.store)?;
            store.rebuild_index()?;
            store.verify()?
        } else {
            OpenOptions::new().verify(&self.store)?
        };
        if self.json {
            println!("{}", serde_json::to_string(&report)?);
        } else {
            println!("{report}");
        }
        if report.is_clean() {
            Ok(())
        } else {
            Err("the store has findings".into())
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The store
    store: String,
    /// Only this instance
    #[arg(long)]
    instance: Option<InstanceId>,
    /// The file to write, which must not exist (standard output if left out)
    #[arg(long, short)]
    out: Option<PathBuf>,
}

impl Export {
    pub(crate) fn run(&self) -> Outcome {
        let store = existing(&self.store)?.open(&self.store)?;
        let Some(path) = &self.out else {
            return self.write(&store, &mut std::io::stdout().lock());
        };
        // What a store holds is nobody else's business, nor is what comes out of it.
        let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        let mut out = BufWriter::new(file);
        self.write(&store, &mut out)?;
        // The store may be removed as soon as this command has succeeded, so the file has to be on the disk by then,
        // and its name.
        out.into_inner()?.sync_all()?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(())
    }

    fn write(&self, store: &Store, out: &mut dyn Write) -> Outcome {
        match &self.instance {
            Some(instance) => store.export_instance(instance, out)?,
            None => store.export(out)?,
        };
        Ok(out.flush()?)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The store to make; only one instance can be imported into a store that holds anything
    store: String,
    /// The file that `export` wrote
    file: PathBuf,
}

impl Import {
    pub(crate) fn run(&self) -> Outcome {
        let mut file = BufReader::new(File::open(&self.file)?);
        let (store, imported) = OpenOptions::new().import(&self.store, &mut file)?;
        store.close()?;
        println!("imported {} instances, {} rows", imported.instances, imported.rows);
        Ok(())
    }
}

#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// The store to copy
    store: String,
    /// The store to make
    target: String,
}

impl Backup {
    pub(crate) fn run(&self) -> Outcome {
        let copied = existing(&self.store)?.open(&self.store)?.backup(&self.target)?;
        println!("copied {} rows, {} bytes", copied.rows, copied.bytes);
        Ok(())
    }
}

#[derive(Debug, Args)]
pub(crate) struct AcceptLoss {
    /// The store
    store: String,
}

impl AcceptLoss {
    pub(crate) fn run(&self) -> Outcome {
        existing(&self.store)?.accept_loss(true).open(&self.store)?.close()?;
        println!("{} opens again; what was lost is written into its header", self.store);
        Ok(())
    }
}
