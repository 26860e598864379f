//! Applies one archive to a tree, as layers of images are applied: whiteouts hide what lies below.
//!
//! The whiteout rules are those of the OCI image format: `.wh.<name>` hides `<name>`, `.wh..wh..opq` hides all of its
//! directory, and both hide only what earlier layers put there, wherever in the layer they stand.

use super::rooted::{Below, Rooted};
use super::tarball::{Item, Tarball, What};
use crate::tree::{Kind, shown};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::Read;
use tare_core::fault::Fault;

/// How much one bundle may hold, so that an archive that inflates without end is stopped before the disk is full.
const MAX_BYTES: u64 = 64 << 30;
const MAX_ENTRIES: u64 = 4_000_000;

/// How many devices that were left out are named.
const SHOWN: usize = 20;

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Devices that are not in a tree though what it was made of names them.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    paths: BTreeSet<Below>,
}

impl LeftOut {
    /// Notes one.
    pub(crate) fn add(&mut self, path: Below) {
        self.paths.insert(path);
    }

    /// Their paths in the tree, as a person reads them; none but the first few where there are many.
    pub(crate) fn shown(&self) -> Vec<String> {
        let first = self.paths.iter().take(SHOWN).map(|path| format!("/{}", shown(path.bytes())));
        let more = self.paths.len().saturating_sub(SHOWN);
        first.chain((more > 0).then(|| format!("and {more} more"))).collect()
    }
}

/// A tree under construction.
pub(crate) struct Assembly {
    pub(crate) rooted: Rooted,
    /// The modification times of directories, set at the end because every new entry changes them. Their paths pass no
    /// link.
    folder_times: HashMap<Below, i64>,
    /// Times after this one say when the tree was built, not what it is, and become 0.
    pub(crate) latest: i64,
    bytes: u64,
    entries: u64,
    /// The devices that were named to it and are not in it.
    pub(crate) left_out: LeftOut,
}

impl Assembly {
    pub(crate) fn new(rooted: Rooted) -> Self {
        Assembly {
            rooted,
            folder_times: HashMap::new(),
            latest: i64::MAX,
            bytes: 0,
            entries: 0,
            left_out: LeftOut::default(),
        }
    }

    /// Applies the archive `layer` on top of what is there, without the entries that `skip` says, and without devices:
    /// which ones a service may open, is the form's business and not an image's.
    pub(crate) fn apply(&mut self, layer: impl Read, skip: &dyn Fn(&[u8]) -> bool) -> Result<(), Fault> {
        let mut tarball = Tarball::new(layer);
        let mut written = HashSet::new();
        while let Some(mut item) = tarball.next()? {
            if item.meta.mtime > self.latest {
                item.meta.mtime = 0;
            }
            let path = Below::parse(&item.path)?;
            if skip(path.bytes()) {
                continue;
            }
            self.count(&item)?;
            if !self.is_device(&path, &item)? {
                self.place(&path, &item, &mut tarball, &mut written)?;
            }
        }
        // What follows the end of the archive is read so that a digest over the whole stream can be checked.
        let mut rest = tarball.into_inner();
        std::io::copy(&mut rest, &mut std::io::sink())
            .map(|_| ())
            .map_err(|error| Fault::from_error("read the archive to its end", &error))
    }

    /// Whether an entry is a device, or another name of one; whatever stood there is gone then.
    fn is_device(&mut self, path: &Below, item: &Item) -> Result<bool, Fault> {
        let another = |target: &Vec<u8>| Below::parse(target).is_ok_and(|target| self.left_out.paths.contains(&target));
        let is = match &item.what {
            What::New(kind) => kind.is_device(),
            What::HardLink(target) => another(target),
        };
        if is {
            self.rooted.remove(path, &|_| false)?;
            self.left_out.paths.insert(path.clone());
        } else {
            self.left_out.paths.remove(path);
        }
        Ok(is)
    }

    /// Puts one new entry.
    pub(crate) fn put(
        &mut self,
        path: &Below,
        kind: &Kind,
        meta: &crate::tree::Meta,
        content: &mut dyn Read,
    ) -> Result<(), Fault> {
        let placed = self.rooted.put(path, kind, meta, content, &mut |_| {})?;
        if *kind == Kind::Folder {
            self.folder_times.insert(placed, meta.mtime);
        }
        Ok(())
    }

    /// Ends the construction: gives every directory of the tree its time.
    pub(crate) fn finish(self) -> Result<(), Fault> {
        let mut folders = vec![Below::parse(b".")?];
        while let Some(folder) = folders.pop() {
            for name in self.rooted.list(&folder)? {
                let path = folder.join(&name);
                if self.rooted.kind(&path)? == Some(rustix::fs::FileType::Directory) {
                    folders.push(path);
                }
            }
            self.rooted.set_folder_time(&folder, self.folder_times.get(&folder).copied().unwrap_or(0))?;
        }
        Ok(())
    }

    fn place(
        &mut self,
        path: &Below,
        item: &Item,
        content: &mut dyn Read,
        written: &mut HashSet<Below>,
    ) -> Result<(), Fault> {
        let refuse = |fault: Fault| fault.context(format_args!("entry '{}' is refused", shown(&item.path)));
        if let Some((folder, name)) = path.split() {
            if name == OPAQUE {
                return self.rooted.clear(&folder, &|path| written.contains(path)).map_err(refuse);
            }
            if let Some(hidden) = name.strip_prefix(WHITEOUT) {
                if hidden.starts_with(WHITEOUT) {
                    // Bookkeeping of aufs, which no other system reads.
                    return Ok(());
                }
                if matches!(hidden, b"" | b"." | b"..") {
                    return Err(refuse(Fault::new("a whiteout that names no file")));
                }
                return self.rooted.remove(&folder.join(hidden), &|path| written.contains(path)).map_err(refuse);
            }
        }
        let made = &mut |made| {
            written.insert(made);
        };
        let placed = match &item.what {
            What::New(kind) => self.rooted.put(path, kind, &item.meta, content, made).map_err(refuse)?,
            What::HardLink(target) => {
                let target =
                    Below::parse(target).map_err(|fault| refuse(fault.context("the target of a hard link")))?;
                self.rooted.link(path, &target, made).map_err(refuse)?
            }
        };
        if matches!(item.what, What::New(Kind::Folder)) {
            self.folder_times.insert(placed.clone(), item.meta.mtime);
        }
        written.insert(placed);
        Ok(())
    }

    fn count(&mut self, item: &Item) -> Result<(), Fault> {
        self.entries += 1;
        if let What::New(Kind::File(size)) = item.what {
            self.bytes = self.bytes.saturating_add(size);
        }
        if self.bytes > MAX_BYTES || self.entries > MAX_ENTRIES {
            let path = shown(&item.path);
            return Err(Fault::new(format!(
                "with entry '{path}' the tree grows beyond 64 GiB or four million entries"
            )));
        }
        Ok(())
    }
}
