//! Applies one archive to a tree, as layers of images are applied: whiteouts hide what lies below.
//!
//! The whiteout rules are those of the OCI image format: `.wh.<name>` hides `<name>`, `.wh..wh..opq` hides all of its
//! directory, and both hide only what earlier layers put there, wherever in the layer they stand.

use super::rooted::{Below, Enters, Rooted};
use super::tarball::{Item, Tarball, What};
use crate::tree::{Kind, Meta, shown};
use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::BuildHasher;
use std::io::Read;
use tare_core::fault::{Doing, Fault};

/// How much one bundle may hold, so that an archive that inflates without end is stopped before the disk is full. What
/// is free on the disk bounds it as well, see [`super::room`].
pub(crate) const MAX_BYTES: u64 = 64 << 30;
/// What is remembered of so many takes less than half of the memory that unpacking may take.
const MAX_ENTRIES: u64 = 1_000_000;
/// An image of some size holds entries in proportion: so many in any case, and one for so many bytes of it as it is
/// stored. Every real one needs more bytes for an entry, and entries are what takes memory later.
const ENTRIES_BASE: u64 = 1 << 16;
const BYTES_FOR_ENTRY: u64 = 32;
/// How many bytes names, targets of links and attributes may have: so many in any case, and so many for each entry,
/// more than trees of long names have on average.
const NAMES_BASE: u64 = 16 << 20;
const NAMES_FOR_ENTRY: u64 = 128;
/// How much may follow the end of an archive: tape blocks are filled up with zeros.
const TRAILING_MAX: u64 = 16 << 20;

/// How many devices that were left out are named.
const SHOWN: usize = 20;
/// How many devices are left out before an image is refused.
const LEFT_OUT_MAX: usize = 10_000;
/// How many folders keep the time that was stated for them; all others have 0. It is no part of what a tree is.
const TIMED_MAX: usize = 200_000;

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Devices that are not in a tree though what it was made of names them.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    paths: BTreeSet<Below>,
}

impl LeftOut {
    /// Notes one.
    pub(crate) fn add(&mut self, path: Below) -> Result<(), Fault> {
        self.paths.insert(path);
        if self.paths.len() > LEFT_OUT_MAX {
            return Err(Fault::new(format!("more than {LEFT_OUT_MAX} device nodes are named, and none is taken"))
                .remedy("leave the devices out of it: a service has its own"));
        }
        Ok(())
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
    folder_times: HashMap<Mark, i64>,
    marks: Marks,
    /// Times after this one say when the tree was built, not what it is, and become 0.
    pub(crate) latest: i64,
    bytes: u64,
    names: u64,
    entries: u64,
    pub(super) entries_max: u64,
    /// The devices that were named to it and are not in it.
    pub(crate) left_out: LeftOut,
}

/// Stands for a path, in a fraction of its memory: all paths of a tree are remembered while a layer is applied.
type Mark = u64;

/// Makes marks. What they are made with is drawn at random, so nobody can make two paths have one; of a million paths
/// two have one by chance in 3 of 100 million trees.
#[derive(Default)]
struct Marks(RandomState);

impl Marks {
    fn of(&self, path: &Below) -> Mark {
        self.0.hash_one(path.bytes())
    }
}

/// What a layer has done so far: the paths that it has written, and the folders that it has looked through for what it
/// hides. All pass no link.
#[derive(Default)]
pub(super) struct Seen {
    written: HashSet<Mark>,
    cleared: HashSet<Mark>,
}

impl Assembly {
    pub(crate) fn new(rooted: Rooted) -> Self {
        Assembly {
            rooted,
            folder_times: HashMap::new(),
            marks: Marks::default(),
            latest: i64::MAX,
            bytes: 0,
            names: 0,
            entries: 0,
            entries_max: MAX_ENTRIES,
            left_out: LeftOut::default(),
        }
    }

    /// Says that what is to be applied takes so many bytes more where it is stored, which bounds what it may hold.
    pub(crate) fn expect(&mut self, stored_bytes: u64) {
        let so_far = if self.entries_max == MAX_ENTRIES { ENTRIES_BASE } else { self.entries_max };
        self.entries_max = so_far.saturating_add(stored_bytes / BYTES_FOR_ENTRY).min(MAX_ENTRIES - 1);
    }

    /// Applies the archive `layer` on top of what is there, without the entries that `skip` says, and without devices:
    /// which ones a service may open, is the form's business and not an image's.
    pub(crate) fn apply(&mut self, layer: impl Read, skip: &dyn Fn(&[u8]) -> bool) -> Result<(), Fault> {
        let mut tarball = Tarball::new(layer);
        let mut seen = Seen::default();
        while let Some(mut item) = tarball.next()? {
            if item.meta.mtime > self.latest {
                item.meta.mtime = 0;
            }
            let path = Below::parse(&item.path)?;
            if skip(path.bytes()) {
                continue;
            }
            let kind = if let What::New(kind) = &item.what { Some(kind) } else { None };
            self.count(&path, kind, &item.meta)?;
            if !self.is_device(&path, &item)? {
                self.place(&path, &item, &mut tarball, &mut seen)?;
            }
        }
        // What follows the end of the archive is read so that a digest over the whole stream can be checked.
        let mut rest = tarball.into_inner().take(TRAILING_MAX + 1);
        let trailing = std::io::copy(&mut rest, &mut std::io::sink()).doing("read the archive to its end")?;
        if trailing > TRAILING_MAX {
            return Err(Fault::new("more than 16 MiB follow the end of the archive").remedy("make the archive anew"));
        }
        Ok(())
    }

    /// Whether an entry is a device, or another name of one; whatever stood there is gone then.
    fn is_device(&mut self, path: &Below, item: &Item) -> Result<bool, Fault> {
        let another = |target: &Vec<u8>| Below::parse(target).is_ok_and(|target| self.left_out.paths.contains(&target));
        let is = match &item.what {
            What::New(kind) => kind.is_device(),
            What::HardLink(target) => another(target),
        };
        if is {
            self.rooted.remove(path, &|_| false, &mut |_| true)?;
            self.left_out.add(path.clone())?;
        } else {
            self.left_out.paths.remove(path);
        }
        Ok(is)
    }

    /// Puts one new entry.
    pub(crate) fn put(&mut self, path: &Below, kind: &Kind, meta: &Meta, content: &mut dyn Read) -> Result<(), Fault> {
        self.count(path, Some(kind), meta)?;
        let placed = self.rooted.put(path, kind, meta, content, &mut |_| {})?;
        if *kind == Kind::Folder {
            self.remember_time(self.marks.of(&placed), meta.mtime);
        }
        Ok(())
    }

    /// Puts a folder of root's.
    pub(crate) fn put_folder(&mut self, path: &str, mode: u32) -> Result<(), Fault> {
        let meta = Meta { mode, ..Meta::default() };
        self.put(&Below::parse(path.as_bytes())?, &Kind::Folder, &meta, &mut std::io::empty())
    }

    /// Puts a file of root's.
    pub(crate) fn put_text(&mut self, path: &str, mode: u32, text: &str) -> Result<(), Fault> {
        let (kind, meta) = (Kind::File(text.len() as u64), Meta { mode, ..Meta::default() });
        self.put(&Below::parse(path.as_bytes())?, &kind, &meta, &mut text.as_bytes())
    }

    fn remember_time(&mut self, folder: Mark, mtime: i64) {
        if self.folder_times.len() < TIMED_MAX || self.folder_times.contains_key(&folder) {
            self.folder_times.insert(folder, mtime);
        }
    }

    /// Ends the construction: gives every directory of the tree its time.
    pub(crate) fn finish(self) -> Result<(), Fault> {
        self.set_times(&Below::parse(b".")?)
    }

    /// Gives a folder and those in it their times.
    fn set_times(&self, folder: &Below) -> Result<(), Fault> {
        for name in self.rooted.list(folder)?.iter() {
            let path = folder.join(name);
            if self.rooted.kind(&path)? == Some(rustix::fs::FileType::Directory) {
                self.set_times(&path)?;
            }
        }
        let time = self.folder_times.get(&self.marks.of(folder)).copied().unwrap_or(0);
        self.rooted.set_folder_time(folder, time)
    }

    fn place(&mut self, path: &Below, item: &Item, content: &mut dyn Read, seen: &mut Seen) -> Result<(), Fault> {
        let refuse = |fault: Fault| fault.context(format_args!("entry '{}' is refused", shown(&item.path)));
        if let Some((folder, name)) = path.split() {
            if name == OPAQUE {
                return self.hide(seen, |rooted, keep, enters| rooted.clear(&folder, keep, enters)).map_err(refuse);
            }
            if let Some(hidden) = name.strip_prefix(WHITEOUT) {
                if hidden.starts_with(WHITEOUT) {
                    // Bookkeeping of aufs, which no other system reads.
                    return Ok(());
                }
                if matches!(hidden, b"" | b"." | b"..") {
                    return Err(refuse(Fault::new("a whiteout that names no file")));
                }
                let hidden = folder.join(hidden);
                return self.hide(seen, |rooted, keep, enters| rooted.remove(&hidden, keep, enters)).map_err(refuse);
            }
        }
        let mut above = Vec::new();
        let made = &mut |made| above.push(made);
        let placed = match &item.what {
            What::New(kind) => self.rooted.put(path, kind, &item.meta, content, made).map_err(refuse)?,
            What::HardLink(target) => {
                let target =
                    Below::parse(target).map_err(|fault| refuse(fault.context("the target of a hard link")))?;
                self.rooted.link(path, &target, made).map_err(refuse)?
            }
        };
        for made in above {
            seen.written.insert(self.marks.of(&made));
            self.count(&made, Some(&Kind::Folder), &Meta::default())?;
        }
        let mark = self.marks.of(&placed);
        if matches!(item.what, What::New(Kind::Folder)) {
            self.remember_time(mark, item.meta.mtime);
        }
        seen.written.insert(mark);
        Ok(())
    }

    /// Hides what layers below have put, but not what this one has. A folder that this layer has looked through holds
    /// nothing else any more, so no number of whiteouts makes it look again.
    pub(super) fn hide(
        &self,
        seen: &mut Seen,
        hidden: impl FnOnce(&Rooted, &dyn Fn(&Below) -> bool, Enters<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let Seen { written, cleared } = seen;
        let keep = |path: &Below| written.contains(&self.marks.of(path));
        hidden(&self.rooted, &keep, &mut |folder| cleared.insert(self.marks.of(folder)))
    }

    /// Counts an entry before it is made, and refuses one that goes beyond what a tree may hold, or the disk. A hard
    /// link is of no kind.
    fn count(&mut self, path: &Below, kind: Option<&Kind>, meta: &Meta) -> Result<(), Fault> {
        let size = if let Some(Kind::File(size)) = kind { *size } else { 0 };
        let target = if let Some(Kind::Link(target)) = kind { target.len() } else { 0 };
        let attributes: usize = meta.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(size);
        self.names += (path.bytes().len() + target + attributes) as u64;
        let names_max = NAMES_BASE + NAMES_FOR_ENTRY * self.entries;
        let beyond = if self.bytes > MAX_BYTES {
            "64 GiB".to_owned()
        } else if self.entries > self.entries_max {
            format!("{} entries, more than there can be in so small an image", self.entries_max)
        } else if self.names > names_max {
            format!("{names_max} bytes of names and attributes, more than {} entries have", self.entries)
        } else {
            let with = |fault: Fault| fault.context(format_args!("entry '{}'", shown(path.bytes())));
            return self.rooted.room_for(size).map_err(with);
        };
        let path = shown(&path.bytes()[..path.bytes().len().min(300)]);
        Err(Fault::new(format!("with entry '{path}' the tree grows beyond {beyond}"))
            .remedy("use another image; this one was made to fill memory or disk, or is damaged"))
    }
}
