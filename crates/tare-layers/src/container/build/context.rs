//! The files that a build may use: those of a folder, as an archive that is made while it is sent.
//!
//! No link is followed on the way to them, so that nothing outside of the folder is read: links are sent as links.

use super::ignored::Ignored;
use bytes::Bytes;
use rustix::fs::{Dir, Mode, OFlags, ResolveFlags, openat2, readlinkat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use tar::{Builder, EntryType, Header};
use tare_core::fault::{Doing, Fault};

/// What a folder that can be built has, the first of these that is there.
const DOCKERFILES: [&str; 2] = ["Dockerfile", "Containerfile"];
/// What names the files that are not sent.
const IGNORE_FILE: &str = ".dockerignore";
/// The longest of these, bytes.
const IGNORE_BYTES_MAX: u64 = 1 << 20;
/// The most files and folders that are sent; a folder with more is hardly one to build from.
const ENTRIES_MAX: usize = 1_000_000;
/// How much of a file is sent at once.
const CHUNK_BYTES: u64 = 256 * 1024;
/// The unit of an archive, bytes.
const BLOCK_BYTES: u64 = 512;

/// To examine a name without opening it, be it a link.
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// To read it, without waiting for a writer or taking on a controlling terminal.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
/// Links may lead to other names of the folder.
const WITHIN: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);
/// No link is followed.
const UNLINKED: ResolveFlags = WITHIN.union(ResolveFlags::NO_SYMLINKS);

/// The files of a folder that a build may use.
#[derive(Debug)]
pub(super) struct Context {
    top: OwnedFd,
    entries: Vec<Entry>,
    /// The name of the file that says how to build.
    pub(super) dockerfile: String,
    /// The size of all files, bytes.
    pub(super) bytes: u64,
    /// What is neither a file, a folder nor a link, and is not sent.
    pub(super) left_out: Vec<PathBuf>,
}

#[derive(Debug)]
struct Entry {
    path: PathBuf,
    mode: u32,
    modified: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Folder,
    File(u64),
    Link(PathBuf),
}

impl Context {
    /// Looks through a folder, without opening its files. What is right below it and `is_no_source` is left out. The
    /// file of the name `dockerfile` says how to build, else the usual one.
    ///
    /// # Errors
    /// As a mistake: there is no such folder, it has no Dockerfile, or its `.dockerignore` cannot be understood. Or it
    /// cannot be read.
    pub(super) fn of(
        folder: &Path,
        dockerfile: Option<&str>,
        is_no_source: &dyn Fn(&Path) -> bool,
    ) -> Result<Context, Fault> {
        let shown = folder.display();
        let top = rustix::fs::open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let top = top.doing(format_args!("open the folder {shown}")).map_err(Fault::as_mistake)?;
        let is_there = |name: &&str| openat2(&top, *name, LOOK, Mode::empty(), WITHIN).is_ok();
        let found = match dockerfile {
            Some(name) => Some(name).filter(is_there),
            None => DOCKERFILES.into_iter().find(is_there),
        };
        let Some(dockerfile) = found else {
            let fault = Fault::new(format!("the folder {shown} has no {}", dockerfile.unwrap_or(DOCKERFILES[0])));
            return Err(fault.remedy("name a folder with a Dockerfile, or an image").as_mistake());
        };
        // As the engine and the archive name it: without `./` before it.
        let parts = Path::new(dockerfile).components().filter(|part| *part != Component::CurDir);
        let dockerfile = parts.collect::<PathBuf>().display().to_string();
        let in_folder = |fault: Fault| fault.context(format_args!("the folder {shown}"));
        let ignored = ignored(&top).map_err(in_folder)?;
        let mut context = Context { top, entries: Vec::new(), dockerfile, bytes: 0, left_out: Vec::new() };
        let is_source = |path: &Path| path.components().count() > 1 || !is_no_source(&folder.join(path));
        context.collect(&ignored, &is_source).map_err(in_folder)?;
        Ok(context)
    }

    /// How many files, folders and links it has.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The archive of it, piece by piece.
    pub(super) fn archive(self) -> Archive {
        let builder = Builder::new(Vec::new());
        Archive { top: self.top, entries: self.entries.into_iter(), sending: None, builder, ended: false }
    }

    fn collect(&mut self, ignored: &Ignored, is_source: &dyn Fn(&Path) -> bool) -> Result<(), Fault> {
        let mut open = vec![PathBuf::new()];
        while let Some(folder) = open.pop() {
            for name in names(&self.top, &folder)? {
                let path = folder.join(name);
                if !is_source(&path) {
                    continue;
                }
                let kept_out = !self.is_of_build(&path) && ignored.has(&path.to_string_lossy());
                let Some((found, facts)) = look(&self.top, &path)? else { continue };
                let kind = facts.file_type();
                if kind.is_dir() && (!kept_out || ignored.lets_in_again()) {
                    open.push(path.clone());
                }
                if kept_out {
                    continue;
                }
                let what = if kind.is_dir() {
                    What::Folder
                } else if kind.is_file() {
                    self.bytes += facts.len();
                    What::File(facts.len())
                } else if kind.is_symlink() {
                    What::Link(target(&found, &path)?)
                } else {
                    self.left_out.push(path);
                    continue;
                };
                let modified = u64::try_from(facts.mtime()).unwrap_or(0);
                self.entries.push(Entry { path, mode: facts.mode() & 0o7777, modified, what });
                if self.entries.len() > ENTRIES_MAX {
                    let fault = Fault::new(format!("it has more than {ENTRIES_MAX} files"));
                    return Err(fault.remedy("name those that the build does not need in .dockerignore").as_mistake());
                }
            }
        }
        // The same files make the same archive, and folders come before what is in them.
        self.entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }

    /// Whether the engine needs this file for the build itself, so that it is always sent.
    fn is_of_build(&self, path: &Path) -> bool {
        path == Path::new(&self.dockerfile) || path == Path::new(IGNORE_FILE)
    }
}

/// The rules of a folder's `.dockerignore`; none if it has no such file.
fn ignored(top: &OwnedFd) -> Result<Ignored, Fault> {
    let file = match openat2(top, IGNORE_FILE, READ, Mode::empty(), WITHIN) {
        Err(Errno::NOENT) => return Ok(Ignored::default()),
        other => File::from(other.doing(format_args!("open its {IGNORE_FILE}"))?),
    };
    let reading = || format!("read its {IGNORE_FILE}");
    let facts = file.metadata().doing(reading())?;
    if !facts.is_file() || facts.len() > IGNORE_BYTES_MAX {
        return Err(Fault::new(format!("its {IGNORE_FILE} is not a file of at most 1 MiB")).as_mistake());
    }
    let mut bytes = Vec::new();
    file.take(IGNORE_BYTES_MAX).read_to_end(&mut bytes).doing(reading())?;
    Ignored::read(&String::from_utf8_lossy(&bytes))
}

/// The names in a folder.
fn names(top: &OwnedFd, folder: &Path) -> Result<Vec<OsString>, Fault> {
    let path = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let listing = || format!("list {}", path.display());
    let open = openat2(top, path, READ | OFlags::DIRECTORY, Mode::empty(), UNLINKED).doing(listing())?;
    let mut names = Vec::new();
    for entry in Dir::read_from(&open).doing(listing())? {
        let name = entry.doing(listing())?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}

/// What a name stands for; none if it has gone since it was listed.
fn look(top: &OwnedFd, path: &Path) -> Result<Option<(File, std::fs::Metadata)>, Fault> {
    let looking = || format!("look at {}", path.display());
    let found = match openat2(top, path, LOOK, Mode::empty(), UNLINKED) {
        Err(Errno::NOENT) => return Ok(None),
        other => File::from(other.doing(looking())?),
    };
    let facts = found.metadata().doing(looking())?;
    Ok(Some((found, facts)))
}

/// Where a link leads.
fn target(link: &File, path: &Path) -> Result<PathBuf, Fault> {
    let target = readlinkat(link, "", Vec::<u8>::new()).doing(format_args!("read the link {}", path.display()))?;
    Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
}

/// An archive in pieces, each made when it is asked for. Everything belongs to root, as in builds by the engine's own
/// program.
pub(super) struct Archive {
    top: OwnedFd,
    entries: std::vec::IntoIter<Entry>,
    sending: Option<Sending>,
    builder: Builder<Vec<u8>>,
    ended: bool,
}

impl Iterator for Archive {
    type Item = io::Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let piece = self.piece();
        self.ended |= piece.is_err();
        Some(piece.map(Bytes::from))
    }
}

impl Archive {
    fn piece(&mut self) -> io::Result<Vec<u8>> {
        if let Some(sending) = &mut self.sending {
            let piece = sending.piece()?;
            if sending.left == 0 {
                self.sending = None;
            }
            return Ok(piece);
        }
        match self.entries.next() {
            Some(entry) => self.head(&entry)?,
            None => {
                self.ended = true;
                self.builder.finish()?;
            }
        }
        Ok(std::mem::take(self.builder.get_mut()))
    }

    /// Writes what comes before an entry's content, which follows in pieces of its own.
    fn head(&mut self, entry: &Entry) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_mode(entry.mode);
        header.set_mtime(entry.modified);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(0);
        match &entry.what {
            What::Folder => {
                header.set_entry_type(EntryType::Directory);
                self.builder.append_data(&mut header, &entry.path, io::empty())
            }
            What::Link(target) => {
                header.set_entry_type(EntryType::Symlink);
                self.builder.append_link(&mut header, &entry.path, target)
            }
            What::File(size) => {
                header.set_entry_type(EntryType::Regular);
                header.set_size(*size);
                if *size > 0 {
                    self.sending = Some(Sending::open(&self.top, &entry.path, *size)?);
                }
                self.builder.append_data(&mut header, &entry.path, io::empty())
            }
        }
    }
}

/// A file whose content is being sent.
struct Sending {
    file: File,
    path: PathBuf,
    size: u64,
    left: u64,
}

impl Sending {
    fn open(top: &OwnedFd, path: &Path, size: u64) -> io::Result<Sending> {
        let file = File::from(openat2(top, path, READ, Mode::empty(), UNLINKED)?);
        Ok(Sending { file, path: path.to_owned(), size, left: size })
    }

    /// The next of it; with the last comes what fills a block.
    fn piece(&mut self) -> io::Result<Vec<u8>> {
        let wanted = usize::try_from(self.left.min(CHUNK_BYTES)).expect("a chunk fits into memory");
        let mut bytes = vec![0; wanted];
        let count = self.file.read(&mut bytes)?;
        if count == 0 {
            return Err(io::Error::other(format!("{} became shorter while it was sent", self.path.display())));
        }
        bytes.truncate(count);
        self.left -= count as u64;
        if self.left == 0 {
            let filled = self.size.next_multiple_of(BLOCK_BYTES) - self.size;
            bytes.resize(count + usize::try_from(filled).expect("a block fits into memory"), 0);
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    /// What is sent of a folder, by path: the kind, and the content or where a link leads.
    fn sent(folder: &Path) -> BTreeMap<String, (EntryType, String)> {
        let pieces: Vec<Bytes> = Context::of(folder, None, &|_| false).unwrap().archive().map(Result::unwrap).collect();
        let bytes = pieces.concat();
        let mut archive = tar::Archive::new(&bytes[..]);
        let mut all = BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let link = entry.link_name().unwrap().map(|link| link.display().to_string());
            let kind = entry.header().entry_type();
            let content = link.unwrap_or_else(|| io::read_to_string(&mut entry).unwrap());
            all.insert(path, (kind, content));
        }
        all
    }

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        folder
    }

    #[test]
    fn files_folders_and_links_are_sent_as_they_are() {
        let (long, large) = (format!("{}/{}", "n".repeat(120), "m".repeat(150)), "x".repeat(600_000));
        let folder = folder(&[
            ("Dockerfile", "FROM scratch"),
            ("a/empty", ""),
            (long.as_str(), "long"),
            ("large", large.as_str()),
        ]);
        std::fs::set_permissions(folder.path().join("a/empty"), std::fs::Permissions::from_mode(0o750)).unwrap();
        symlink("../large", folder.path().join("a/link")).unwrap();
        let sent = sent(folder.path());
        assert_eq!(sent["Dockerfile"], (EntryType::Regular, "FROM scratch".to_owned()));
        assert_eq!(sent["a"].0, EntryType::Directory);
        assert_eq!(sent["a/empty"], (EntryType::Regular, String::new()));
        assert_eq!(sent["a/link"], (EntryType::Symlink, "../large".to_owned()));
        assert_eq!((sent[&long].1.as_str(), sent["large"].1.len()), ("long", 600_000));
        assert_eq!(sent.len(), 7);
    }

    #[test]
    fn no_link_leads_out_of_the_folder() {
        let outside = folder(&[("secret", "s")]);
        let folder = folder(&[("Dockerfile", "FROM scratch")]);
        symlink(outside.path(), folder.path().join("out")).unwrap();
        symlink(outside.path().join("secret"), folder.path().join("file")).unwrap();
        let all = sent(folder.path());
        assert_eq!(all.keys().collect::<Vec<_>>(), ["Dockerfile", "file", "out"]);
        assert!(all["out"].0 == EntryType::Symlink && all["file"].0 == EntryType::Symlink);
        symlink(outside.path().join("secret"), folder.path().join(".dockerignore")).unwrap();
        let fault = Context::of(folder.path(), None, &|_| false).unwrap_err();
        assert!(fault.message.contains("open its .dockerignore"), "{fault}");
    }

    #[test]
    fn what_dockerignore_names_is_not_sent_but_the_build_has_its_files() {
        let files = [
            ("Dockerfile", "FROM scratch"),
            (".dockerignore", "*\n!src\nsrc/*.o\n"),
            ("secret", "s"),
            ("src/x.c", "c"),
            ("src/x.o", "o"),
        ];
        let folder = folder(&files);
        let all = sent(folder.path());
        assert_eq!(all.keys().collect::<Vec<_>>(), [".dockerignore", "Dockerfile", "src", "src/x.c"]);
    }

    #[test]
    fn what_is_no_file_is_named_and_not_sent() {
        let folder = folder(&[("Containerfile", "FROM scratch")]);
        let _socket = UnixListener::bind(folder.path().join("socket")).unwrap();
        let context = Context::of(folder.path(), None, &|_| false).unwrap();
        assert_eq!((context.dockerfile.as_str(), context.len()), ("Containerfile", 1));
        let named = Context::of(folder.path(), Some("./Containerfile"), &|_| false).unwrap();
        assert_eq!(named.dockerfile, "Containerfile");
        let fault = Context::of(folder.path(), Some("../Containerfile"), &|_| false).unwrap_err();
        assert!(fault.mistake && fault.message.contains("has no ../Containerfile"), "{fault}");
        assert_eq!(context.left_out, [PathBuf::from("socket")]);
    }

    #[test]
    fn a_folder_that_cannot_be_built_is_a_mistake() {
        let folder = folder(&[("x", "")]);
        let fault = Context::of(folder.path(), None, &|_| false).unwrap_err();
        assert!(fault.mistake && fault.message.ends_with("has no Dockerfile"), "{fault}");
        let fault = Context::of(&folder.path().join("none"), None, &|_| false).unwrap_err();
        assert!(fault.mistake && fault.message.contains("could not open the folder"), "{fault}");
    }

    #[test]
    fn a_file_that_becomes_shorter_ends_the_archive_with_an_error() {
        let folder = folder(&[("Dockerfile", "FROM scratch")]);
        let archive = Context::of(folder.path(), None, &|_| false).unwrap().archive();
        std::fs::write(folder.path().join("Dockerfile"), "").unwrap();
        let last = archive.last().unwrap().unwrap_err();
        assert!(last.to_string().contains("Dockerfile became shorter"), "{last}");
    }
}
