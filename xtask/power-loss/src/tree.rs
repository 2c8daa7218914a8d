//! The names below the root: which directory calls which inode what.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use crate::{
    Error,
    record::{Change, FileId},
};

/// A directory and a name in it.
pub(crate) type Name = (FileId, Vec<u8>);

/// Names keyed by the directory's inode and not by path, so that renaming a
/// directory leaves everything below it alone.
#[derive(Clone)]
pub(crate) struct Tree {
    root: FileId,
    entries: BTreeMap<Name, FileId>,
    places: HashMap<FileId, PathBuf>,
}

impl Tree {
    /// Walks the root, and the shelf where the shim keeps removed inodes.
    pub(crate) fn read(root: &Path, kept: &Path) -> Result<Self, Error> {
        let id = fs::metadata(root)?.ino();
        let places = HashMap::from([(id, root.to_owned())]);
        let mut tree = Self {
            root: id,
            entries: BTreeMap::new(),
            places,
        };
        if kept.exists() {
            for entry in fs::read_dir(kept)? {
                let entry = entry?;
                tree.places.insert(entry.metadata()?.ino(), entry.path());
            }
        }
        tree.walk(root, id)?;
        Ok(tree)
    }

    fn walk(&mut self, path: &Path, dir: FileId) -> Result<(), Error> {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            let id = metadata.ino();
            self.entries.insert((dir, entry.file_name().as_bytes().to_vec()), id);
            self.places.insert(id, entry.path());
            if metadata.is_dir() {
                self.walk(&entry.path(), id)?;
            } else if !metadata.is_file() {
                return Err(Error::Unsupported(entry.path()));
            }
        }
        Ok(())
    }

    /// Where an inode can be read now, if it still has a name.
    pub(crate) fn place(&self, id: FileId) -> Option<&Path> {
        self.places.get(&id).map(PathBuf::as_path)
    }

    pub(crate) fn get(&self, name: &Name) -> Option<FileId> {
        self.entries.get(name).copied()
    }

    pub(crate) fn undo(&mut self, changes: &[Change]) {
        for change in changes.iter().rev() {
            self.set(change, change.before);
        }
    }

    pub(crate) fn redo(&mut self, changes: &[Change]) {
        for change in changes {
            self.set(change, change.after);
        }
    }

    fn set(&mut self, change: &Change, meaning: Option<FileId>) {
        let name = (change.dir, change.name.clone());
        match meaning {
            Some(id) => self.entries.insert(name, id),
            None => self.entries.remove(&name),
        };
    }

    /// Builds the tree in the new directory `out`, with the given content for
    /// the files in `images` and the present content for all others.
    pub(crate) fn write_out(&self, images: &HashMap<FileId, Vec<u8>>, out: &Path) -> Result<(), Error> {
        fs::create_dir(out)?;
        self.write_dir(self.root, images, out, &mut HashMap::new())
    }

    fn write_dir(
        &self,
        dir: FileId,
        images: &HashMap<FileId, Vec<u8>>,
        out: &Path,
        written: &mut HashMap<FileId, PathBuf>,
    ) -> Result<(), Error> {
        let names = (dir, Vec::new())..(dir + 1, Vec::new());
        for ((_, name), &id) in self.entries.range(names) {
            let to = out.join(OsStr::from_bytes(name));
            let Some(from) = self.place(id) else {
                return Err(Error::Unseen(format!("{} is gone", to.display())));
            };
            if from.is_dir() {
                fs::create_dir(&to)?;
                self.write_dir(id, images, &to, written)?;
            } else if let Some(twin) = written.get(&id) {
                fs::hard_link(twin, &to)?;
            } else {
                match images.get(&id) {
                    Some(image) => copy_sparse(image.as_slice(), &to)?,
                    None => copy_sparse(File::open(from)?, &to)?,
                }
                written.insert(id, to.clone());
            }
            fs::set_permissions(&to, fs::metadata(from)?.permissions())?;
        }
        Ok(())
    }
}

/// Preallocated journals are mostly zeros: leave those as holes.
fn copy_sparse(mut from: impl Read, to: &Path) -> io::Result<()> {
    let mut file = File::create_new(to)?;
    let (zeros, mut block) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let mut length = 0;
    loop {
        let count = from.read(&mut block)?;
        if count == 0 {
            return file.set_len(length);
        }
        length += count as u64;
        if block[..count] == zeros[..count] {
            file.seek(SeekFrom::Start(length))?;
        } else {
            file.write_all(&block[..count])?;
        }
    }
}
