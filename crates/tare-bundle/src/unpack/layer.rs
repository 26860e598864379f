//! Applies one archive to a tree as a layer of an image: whiteouts hide what lies below.
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

/// The largest bundle, bytes, so that an archive that inflates without end is stopped. The free space on the disk is
/// another limit, see [`super::room`].
pub(crate) const MAX_BYTES: u64 = 64 << 30;
/// What is remembered of this many entries takes less than half of the memory that unpacking may take.
const MAX_ENTRIES: u64 = 1_000_000;
/// How many entries an image may have: a fixed number, and one more for every so many bytes of it as stored. Real
/// images need more bytes for an entry. Entries are limited because they take memory later.
const ENTRIES_BASE: u64 = 1 << 16;
const BYTES_FOR_ENTRY: u64 = 32;
/// How many bytes names, link targets and attributes may take: a fixed number, and so many for each entry, more than
/// the average of trees with long names.
const NAMES_BASE: u64 = 16 << 20;
const NAMES_FOR_ENTRY: u64 = 128;
/// How many bytes may follow the end of an archive: tape blocks are padded with zeros.
const TRAILING_MAX: u64 = 16 << 20;

/// How many of the devices that were left out are listed.
const SHOWN: usize = 20;
/// With more devices than this an image is refused.
const LEFT_OUT_MAX: usize = 10_000;
/// How many folders keep their modification time; all others get 0. Times are not part of a tree's digest.
const TIMED_MAX: usize = 200_000;

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Devices that the source of a tree has and that were left out.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    paths: BTreeSet<Below>,
}

impl LeftOut {
    /// Adds one.
    pub(crate) fn add(&mut self, path: Below) -> Result<(), Fault> {
        self.paths.insert(path);
        if self.paths.len() > LEFT_OUT_MAX {
            return Err(Fault::new(format!("it has more than {LEFT_OUT_MAX} device nodes, which are not copied"))
                .remedy("remove the devices from it: a service gets its own"));
        }
        Ok(())
    }

    /// Their paths in the tree, for people; only the first few if there are many.
    pub(crate) fn shown(&self) -> Vec<String> {
        let first = self.paths.iter().take(SHOWN).map(|path| format!("/{}", shown(path.bytes())));
        let more = self.paths.len().saturating_sub(SHOWN);
        first.chain((more > 0).then(|| format!("and {more} more"))).collect()
    }
}

/// A tree under construction.
pub(crate) struct Assembly {
    pub(crate) rooted: Rooted,
    /// The modification times of directories, set at the end because every new entry changes them. Their paths contain
    /// no link.
    folder_times: HashMap<Mark, i64>,
    marks: Marks,
    /// Later times only tell when the tree was built, and become 0.
    pub(crate) latest: i64,
    bytes: u64,
    names: u64,
    entries: u64,
    pub(super) entries_max: u64,
    /// The devices that were left out.
    pub(crate) left_out: LeftOut,
}

/// The hash of a path, which takes a fraction of its memory: all paths of a tree are remembered while a layer is
/// applied.
type Mark = u64;

/// Hashes paths with a random key, so that nobody can construct two paths with the same hash. By chance two of a
/// million paths share one in 3 of 100 million trees.
#[derive(Default)]
struct Marks(RandomState);

impl Marks {
    fn of(&self, path: &Below) -> Mark {
        self.0.hash_one(path.bytes())
    }
}

/// What a layer has done so far: the paths that it wrote, and the folders that it has cleared of hidden entries. No
/// path contains a link.
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

    /// Announces that so many more stored bytes will be applied, which limits how many entries they may hold.
    pub(crate) fn expect(&mut self, stored_bytes: u64) {
        let so_far = if self.entries_max == MAX_ENTRIES { ENTRIES_BASE } else { self.entries_max };
        self.entries_max = so_far.saturating_add(stored_bytes / BYTES_FOR_ENTRY).min(MAX_ENTRIES - 1);
    }

    /// Applies the archive `layer` on top of the tree, without the entries for which `skip` is true, and without
    /// devices: which of them a service may open is up to the form, not to the image.
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
        // Read the rest of the stream so that a digest over all of it can be checked.
        let mut rest = tarball.into_inner().take(TRAILING_MAX + 1);
        let trailing = std::io::copy(&mut rest, &mut std::io::sink()).doing("read the archive to its end")?;
        if trailing > TRAILING_MAX {
            return Err(Fault::new("more than 16 MiB follow the end of the archive").remedy("create the archive again"));
        }
        Ok(())
    }

    /// Whether an entry is a device, or another name of one. If so, whatever was in its place is removed.
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
        self.put_bytes(path, mode, text.as_bytes())
    }

    /// The same of bytes that need not be a text.
    pub(crate) fn put_bytes(&mut self, path: &str, mode: u32, mut bytes: &[u8]) -> Result<(), Fault> {
        let (kind, meta) = (Kind::File(bytes.len() as u64), Meta { mode, ..Meta::default() });
        self.put(&Below::parse(path.as_bytes())?, &kind, &meta, &mut bytes)
    }

    fn remember_time(&mut self, folder: Mark, mtime: i64) {
        if self.folder_times.len() < TIMED_MAX || self.folder_times.contains_key(&folder) {
            self.folder_times.insert(folder, mtime);
        }
    }

    /// Ends the construction by setting the time of every directory.
    pub(crate) fn finish(self) -> Result<(), Fault> {
        self.set_times(&Below::parse(b".")?)
    }

    /// Sets the times of a folder and of those in it.
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
                    // Bookkeeping of aufs, which nothing else reads.
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

    /// Removes what lower layers have put there, but not what this one has. A folder that was cleared holds nothing
    /// else any more, so further whiteouts do not search it again.
    pub(super) fn hide(
        &self,
        seen: &mut Seen,
        hidden: impl FnOnce(&Rooted, &dyn Fn(&Below) -> bool, Enters<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let Seen { written, cleared } = seen;
        let keep = |path: &Below| written.contains(&self.marks.of(path));
        hidden(&self.rooted, &keep, &mut |folder| cleared.insert(self.marks.of(folder)))
    }

    /// Counts an entry before it is made, and refuses one that exceeds the limits of a tree or of the disk. `kind` is
    /// none for a hard link.
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
            format!("{} entries, more than an image of this size can have", self.entries_max)
        } else if self.names > names_max {
            format!("{names_max} bytes of names and attributes, more than {} entries have", self.entries)
        } else {
            let with = |fault: Fault| fault.context(format_args!("entry '{}'", shown(path.bytes())));
            return self.rooted.room_for(size).map_err(with);
        };
        let path = shown(&path.bytes()[..path.bytes().len().min(300)]);
        Err(Fault::new(format!("with entry '{path}' the tree grows beyond {beyond}"))
            .remedy("use another image; this one is damaged, or made to fill memory or disk"))
    }
}
