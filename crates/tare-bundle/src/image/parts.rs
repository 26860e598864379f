//! The parts of an image by name: files of a folder, or members of an archive, read in place.

use crate::tree::{self, Kind};
use crate::unpack::compression;
use crate::unpack::room::Roomy;
use crate::unpack::rooted::{Below, Rooted};
use crate::unpack::tarball::{Tarball, What};
use rustix::fs::{FileType, Mode, OFlags};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use tare_core::fault::{Doing, Fault};

/// The largest document of an image, bytes: the image format's own recommendation for a manifest.
const MAX_DOCUMENT: u64 = 4 << 20;
/// The most bytes that the names of an archive's members may take in all; most of them are digests.
const MAX_NAMES: usize = 16 << 20;
/// The most members an archive of an image has; each layer takes up to four.
const MAX_MEMBERS: usize = 100_000;
/// How many links from member to member are followed; old archives share layers by a link.
const MAX_HOPS: usize = 4;

/// Where an image's parts are.
pub(super) enum Parts {
    /// An OCI layout folder.
    Folder(Rooted),
    /// An uncompressed archive.
    Archive {
        /// The archive, or its decompressed copy, opened once: its name could lead to another file the next time.
        archive: Arc<File>,
        /// Members by name.
        members: HashMap<Vec<u8>, Member>,
    },
}

/// A member of an archive.
pub(super) enum Member {
    /// Bytes of the archive: offset, length.
    Bytes(u64, u64),
    /// Another name of a member.
    Same(Vec<u8>),
    /// A link out of the archive: file trees have such links, images have none.
    Outside(Vec<u8>),
}

impl Parts {
    /// Opens a layout folder or an archive, compressed or not.
    pub(super) fn open(path: &Path, work: &Path) -> Result<Parts, Fault> {
        match Opened::open(path)? {
            Opened::Plain(parts) => Ok(parts),
            Opened::Compressed(file) => {
                let plain = File::create_new(work.join("image.tar")).doing("decompress it")?;
                inflate(&mut compression::plain(file, compression::ARCHIVE_WINDOW_LOG)?, plain)?;
                Parts::of_archive(File::open(work.join("image.tar")).doing("open it")?)
            }
        }
    }

    fn of_archive(archive: File) -> Result<Parts, Fault> {
        let members = index(&archive)?;
        Ok(Parts::Archive { archive: Arc::new(archive), members })
    }

    /// Whether there is a part of this name, or a link, which cannot be opened.
    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Parts::Folder(root) => {
                let kind = Below::parse(name.as_bytes()).and_then(|path| root.kind(&path));
                kind.is_ok_and(|kind| matches!(kind, Some(FileType::RegularFile | FileType::Symlink)))
            }
            Parts::Archive { members, .. } => members.contains_key(name.as_bytes()),
        }
    }

    /// The size of a part of a layout folder, bytes; 0 for an archive, which is one file.
    pub(super) fn bytes_in_folder(&self, name: &str) -> Result<u64, Fault> {
        let Parts::Folder(root) = self else { return Ok(0) };
        let file = root.open_file(&Below::parse(name.as_bytes())?)?;
        file.map_or(Ok(0), |file| file.metadata().map(|facts| facts.len()).doing("see how large it is"))
    }

    /// Opens a part.
    pub(super) fn open_part(&self, name: &str) -> Result<Box<dyn Read>, Fault> {
        let missing = || {
            Fault::new(format!("its part '{}' is missing", tree::shown(name.as_bytes())))
                .remedy("save the image again; parts that a registry keeps elsewhere are not fetched")
        };
        let path = Below::parse(name.as_bytes())?;
        match self {
            Parts::Folder(root) => match (root.open_file(&path)?, root.link_target(&path)?) {
                (Some(file), _) => Ok(Box::new(file)),
                (None, Some(target)) => Err(is_link(path.bytes(), &target)),
                (None, None) => Err(missing()),
            },
            Parts::Archive { archive, members } => {
                let mut name = path.bytes();
                for _ in 0..=MAX_HOPS {
                    match members.get(name).ok_or_else(missing)? {
                        Member::Same(other) => name = other,
                        Member::Outside(target) => {
                            let (name, target) = (tree::shown(name), tree::shown(target));
                            return Err(Fault::new(format!(
                                "its part '{name}' is a link that leaves the archive, to '{target}'"
                            )));
                        }
                        Member::Bytes(offset, length) => {
                            let from = From { file: archive.clone(), at: *offset };
                            return Ok(Box::new(from.take(*length)));
                        }
                    }
                }
                Err(Fault::new(format!("its part '{}' is one of too many links in a row", tree::shown(name))))
            }
        }
    }

    /// Reads a document, and checks it against its digest if there is one.
    pub(super) fn document(&self, name: &str, digest: Option<&str>) -> Result<Vec<u8>, Fault> {
        let mut bytes = Vec::new();
        let mut part = self.open_part(name)?.take(MAX_DOCUMENT + 1);
        part.read_to_end(&mut bytes).doing(format_args!("read its part '{}'", tree::shown(name.as_bytes())))?;
        if bytes.len() as u64 > MAX_DOCUMENT {
            return Err(Fault::new(format!("its part '{}' is larger than 4 MiB", tree::shown(name.as_bytes()))));
        }
        if let Some(digest) = digest {
            let mut hash = Sha256::new();
            hash.update(&bytes);
            check(name, digest, Some(&crate::digest::named(hash)))?;
        }
        Ok(bytes)
    }
}

/// What the path of an image names.
pub(super) enum Opened {
    /// A layout folder or an uncompressed archive.
    Plain(Parts),
    /// A compressed archive.
    Compressed(File),
}

impl Opened {
    /// Opens it once, without waiting for a pipe or a device.
    pub(super) fn open(path: &Path) -> Result<Opened, Fault> {
        let unwaiting = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, OFlags::RDONLY | unwaiting, Mode::empty());
        let file = file.map(File::from).doing("open it").map_err(|fault| fault.remedy(super::NAME_ONE))?;
        let facts = file.metadata().doing("open it")?;
        if facts.is_dir() {
            return Ok(Opened::Plain(Parts::Folder(Rooted::of(file.into()))));
        }
        if !facts.is_file() {
            return Err(Fault::new("it is neither a file nor a folder"));
        }
        let mut start = [0_u8; 8];
        let count = file.read_at(&mut start, 0).doing("read it")?;
        compression::check_readable(&start[..count])?;
        if compression::is_compressed(&start[..count]) {
            return Ok(Opened::Compressed(file));
        }
        Parts::of_archive(file).map(Opened::Plain)
    }
}

/// Reads a file from an offset on, independently of other readers.
struct From {
    file: Arc<File>,
    at: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Some tools, bazel's among them, put links to files elsewhere into a layout folder. They are not followed: a
/// stranger's folder could make us read any file of this machine.
fn is_link(name: &[u8], target: &[u8]) -> Fault {
    let (name, target) = (tree::shown(name), tree::shown(target));
    Fault::new(format!("its part '{name}' is a link, to '{target}', and links are not followed here"))
        .remedy("copy the folder with its links replaced by files (`cp -rL FOLDER COPY`), and name the copy")
}

/// Compares the digest of a part with the one it should have.
pub(super) fn check(name: &str, wanted: &str, found: Option<&str>) -> Result<(), Fault> {
    if found == Some(wanted) {
        return Ok(());
    }
    let (name, wanted) = (tree::shown(name.as_bytes()), tree::shown(wanted.as_bytes()));
    let found = found.unwrap_or("nothing that could be read");
    Err(Fault::new(format!("its part '{name}' is damaged: it should be {wanted} and is {found}"))
        .remedy("copy or save the image again"))
}

/// Decompresses an archive. Stops before the disk is full, and at a size that no image has.
fn inflate(from: &mut dyn Read, into: File) -> Result<(), Fault> {
    let mut into = Roomy::new(into);
    let copied = std::io::copy(from, &mut into).doing("decompress it");
    into.refused().map_or(copied, Err).map(drop)
}

fn index(archive: &File) -> Result<HashMap<Vec<u8>, Member>, Fault> {
    let length = archive.metadata().doing("read it")?.len();
    let mut tarball = Tarball::new(archive);
    let (mut members, mut names) = (HashMap::new(), 0);
    while let Some(item) = tarball.next_seeking()? {
        let name = Below::parse(&item.path)?;
        let member = match item.what {
            What::New(Kind::File(size)) => {
                let offset = tarball.offset();
                if offset.saturating_add(size) > length {
                    let name = tree::shown(name.bytes());
                    return Err(Fault::new(format!("it is cut off in the middle of its part '{name}'")));
                }
                Member::Bytes(offset, size)
            }
            What::New(Kind::Link(target)) => resolve(&name, &target).map_or(Member::Outside(target), Member::Same),
            What::HardLink(target) => Member::Same(Below::parse(&target)?.bytes().to_vec()),
            _ => continue,
        };
        names += name.bytes().len();
        if let Member::Same(other) | Member::Outside(other) = &member {
            names += other.len();
        }
        members.insert(name.bytes().to_vec(), member);
        if members.len() > MAX_MEMBERS || names > MAX_NAMES {
            return Err(Fault::new("it has more than 100000 parts or 16 MiB of names, more than any image"));
        }
    }
    if members.is_empty() {
        return Err(Fault::new("it is an empty archive"));
    }
    Ok(members)
}

/// The member that a symbolic link names: old archives share layers by `../<layer>/layer.tar`. None if it leads out of
/// the archive.
fn resolve(name: &Below, target: &[u8]) -> Option<Vec<u8>> {
    if target.starts_with(b"/") {
        return None;
    }
    let folder = name.split().map(|(folder, _)| folder.bytes().to_vec()).unwrap_or_default();
    let mut parts: Vec<&[u8]> = folder.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join(&b'/'))
}
