//! Which files of this machine a command gets along: those that it named while it was watched, with the links that led
//! there, and whole folders of its own that it has listed.

use super::words::is_elsewhere;
use crate::cmd::weigh::folder::is_ours;
use rustix::fs::OFlags;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use tare_bundle::{Needs, needs};
use tare_layers::opened::{Names, Use};
use tare_runner::Stop;

/// How many links a path may lead through; the kernel's own limit.
const LINKS_MAX: usize = 40;
/// A file that was only looked at, and not opened, is taken up to this size, bytes.
const LOOKED_AT_MAX: u64 = 16 << 20;
/// How many interpreters and loaders may need one another.
const NEEDS_MAX: usize = 4;
/// Files of the machine that say who it is: in a bundle they would be wrong, or tell what is nobody's business.
const REPLACED: [&str; 10] = [
    "/etc/passwd",
    "/etc/group",
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/machine-id",
    "/etc/resolv.conf",
    "/etc/sudoers",
    "/etc/mtab",
];
/// Names of files and folders that hold keys and passwords.
const SECRETS: [&str; 10] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".password-store",
    ".netrc",
    ".pgpass",
    ".git-credentials",
];
/// What is no part of a program, and may be large.
const BESIDE: [&str; 3] = [".git", ".hg", ".svn"];
/// The links by which systems have `/bin` and others below `/usr`.
const MERGED: [&str; 6] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// The files of a command, by their real paths: none leads through a link.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    /// Links, with their targets.
    pub(super) links: BTreeMap<PathBuf, PathBuf>,
    pub(super) folders: BTreeSet<PathBuf>,
    pub(super) files: BTreeSet<PathBuf>,
    /// What it used and does not get, with the reason.
    pub(super) left_out: BTreeMap<PathBuf, String>,
}

impl Tree {
    /// Whether a folder is in it.
    pub(super) fn holds(&self, folder: &Path) -> bool {
        let below = |path: &PathBuf| path.starts_with(folder);
        folder != Path::new("/") && [&self.folders, &self.files].iter().any(|paths| paths.iter().any(below))
    }
}

/// How much of whole folders may be taken.
pub(super) struct Room {
    pub(super) bytes: u64,
    pub(super) entries: usize,
}

/// How the command came to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It looked whether it is there, or what it is.
    Looked,
    /// It opened it by its name.
    Opened,
    /// It listed the folder in which it is, or something that leads there; it has not named it.
    Listed,
}

/// Chooses the files of a command.
pub(super) struct Chooser<'a> {
    /// The user who typed the command.
    user: u32,
    /// The command's own folders.
    own: &'a [PathBuf],
    /// Whether the user wants to end that.
    stop: &'a Stop,
    /// What was named by an option: secrets too.
    with: Vec<PathBuf>,
    /// What the command, or this program, made meanwhile.
    made: BTreeSet<PathBuf>,
    listed: BTreeSet<PathBuf>,
    pub(super) tree: Tree,
}

impl<'a> Chooser<'a> {
    /// Nothing of `apart`, to which is copied, is ever taken. Once the user has ended that, what is taken is of no use.
    pub(super) fn new(user: u32, own: &'a [PathBuf], apart: &Path, stop: &'a Stop) -> Chooser<'a> {
        let mut tree = Tree::default();
        for link in MERGED.map(PathBuf::from) {
            if let Ok(target) = fs::read_link(&link) {
                tree.links.insert(link, target);
            }
        }
        let (made, listed) = (BTreeSet::from([apart.to_owned()]), BTreeSet::new());
        Chooser { user, own, stop, with: Vec::new(), made, listed, tree }
    }

    /// Takes what was named, and what programs among that need to be started.
    pub(super) fn take_all(&mut self, names: &Names, room: &mut Room) {
        let made = |(path, _): (&PathBuf, &Use)| Some(follow(path.parent()?)?.real.join(path.file_name()?));
        let stop = self.stop;
        let goes_on = |_: &(&PathBuf, &Use)| !stop.raised();
        self.made.extend(names.iter().take_while(goes_on).filter(|(_, how)| how.made).filter_map(made));
        for (path, how) in names.iter().take_while(goes_on) {
            self.take(path, if how.opened { Way::Opened } else { Way::Looked }, how.made);
            if how.run {
                self.take_needs(path);
            }
        }
        let mut whole: Vec<PathBuf> = Vec::new();
        for folder in std::mem::take(&mut self.listed) {
            if whole.iter().any(|above| folder.starts_with(above)) {
                continue;
            }
            if self.take_whole(&folder, room) {
                whole.push(folder);
            } else {
                let why = "of this folder only the files that it opened: all of it is too much (--with PATH)";
                self.tree.left_out.insert(folder, why.to_owned());
            }
        }
    }

    /// Takes a file or a whole folder that an option names. Returns whether there was room for it.
    pub(super) fn take_named(&mut self, path: &Path, room: &mut Room) -> bool {
        let Some(found) = follow(path) else { return false };
        self.with.push(found.real.clone());
        self.take(path, Way::Opened, false);
        !found.facts.is_dir() || self.take_whole(&found.real, room)
    }

    /// Takes what a path leads to; `made` says whether it was made meanwhile.
    fn take(&mut self, path: &Path, way: Way, made: bool) {
        let Some(found) = follow(path) else {
            // The same in every form, or empty there: the service misses only files that were there before.
            if path.starts_with("/tmp") && way != Way::Looked && !made && path.is_file() {
                let why = "/tmp is empty, and in memory, in every form";
                self.tree.left_out.insert(path.to_owned(), why.to_owned());
            }
            return;
        };
        if self.is_made(&found.real) {
            return;
        }
        self.tree.links.extend(found.links);
        if found.facts.is_dir() {
            if way != Way::Looked && self.own.iter().any(|own| found.real.starts_with(own)) {
                self.listed.insert(found.real.clone());
            }
            self.tree.folders.insert(found.real);
        } else if found.facts.is_file() {
            self.take_file(found.real, &found.facts, way);
        }
    }

    fn take_file(&mut self, real: PathBuf, facts: &Metadata, way: Way) {
        if self.tree.files.contains(&real) {
            return;
        }
        let is_secret = |part: Component<'_>| SECRETS.iter().any(|name| part.as_os_str() == OsStr::new(name));
        let named = self.with.iter().any(|with| real.starts_with(with));
        // What only lies beside files that it needs stays private.
        let meant = named || (way == Way::Opened && self.own.iter().any(|own| real.starts_with(own)));
        let why = if REPLACED.iter().any(|path| real == Path::new(path)) {
            // Nothing is missing: each form has its own.
            return;
        } else if !named && real.components().any(is_secret) {
            "it may hold a secret (--with PATH)"
        } else if facts.mode() & 0o004 == 0 && !(meant && facts.uid() == self.user) {
            "not everybody may read it (--with PATH)"
        } else if way == Way::Looked && facts.len() > LOOKED_AT_MAX {
            return;
        } else {
            self.tree.files.insert(real);
            return;
        };
        if way != Way::Looked {
            self.tree.left_out.insert(real, why.to_owned());
        }
    }

    /// The interpreter of a script and the loader of a program, which the kernel opens by itself.
    fn take_needs(&mut self, path: &Path) {
        let mut path = path.to_owned();
        for _ in 0..NEEDS_MAX {
            let Some((mut file, _)) = follow(&path).and_then(|found| open_file(&found.real)) else { return };
            path = match needs(&mut file) {
                Ok(Needs::Interpreter(other) | Needs::Loader(other)) => PathBuf::from(other),
                Ok(Needs::Nothing) | Err(_) => return,
            };
            self.take(&path, Way::Opened, false);
        }
    }

    /// Takes all that is in a folder; returns false, having taken nothing, if there is not enough room for that.
    fn take_whole(&mut self, folder: &Path, room: &mut Room) -> bool {
        let (mut found, mut open) = (Vec::new(), vec![folder.to_owned()]);
        let mut bytes = 0_u64;
        while let Some(next) = open.pop() {
            if self.stop.raised() {
                return false;
            }
            for entry in fs::read_dir(&next).into_iter().flatten().filter_map(Result::ok) {
                let (path, Ok(facts)) = (entry.path(), entry.metadata()) else { continue };
                let beside = BESIDE.iter().any(|name| entry.file_name() == OsStr::new(name));
                if beside || is_elsewhere(&path) || self.is_made(&path) || (facts.is_dir() && is_ours(&path)) {
                    continue;
                }
                bytes = bytes.saturating_add(if facts.is_file() { facts.len() } else { 0 });
                if found.len() >= room.entries || bytes > room.bytes {
                    return false;
                }
                if facts.is_dir() {
                    open.push(path.clone());
                }
                found.push((path, facts));
            }
        }
        room.entries -= found.len();
        room.bytes -= bytes;
        for (path, facts) in found {
            if facts.is_dir() {
                self.tree.folders.insert(path);
            } else if facts.is_symlink() {
                // With what it leads to, unless that is nowhere.
                self.take(&path, Way::Listed, false);
            } else if facts.is_file() {
                self.take_file(path, &facts, Way::Listed);
            }
        }
        true
    }

    fn is_made(&self, path: &Path) -> bool {
        path.ancestors().any(|above| self.made.contains(above))
    }
}

/// Opens a regular file to read it, without waiting for anybody; none if it is something else. What is no regular file
/// is not opened either, since that may already do something; unless it takes the place of one just then.
pub(super) fn open_file(path: &Path) -> Option<(File, Metadata)> {
    path.symlink_metadata().ok().filter(Metadata::is_file)?;
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
    let facts = file.metadata().ok().filter(Metadata::is_file)?;
    Some((file, facts))
}

/// What a path leads to.
pub(super) struct Followed {
    /// Its path without links.
    pub(super) real: PathBuf,
    pub(super) facts: Metadata,
    /// The links on the way.
    links: Vec<(PathBuf, PathBuf)>,
}

/// Follows an absolute path; none if it leads nowhere, or where nothing of a command can be.
pub(super) fn follow(path: &Path) -> Option<Followed> {
    let (mut ahead, mut real, mut links) = (parts(path), PathBuf::from("/"), Vec::new());
    let mut facts = real.symlink_metadata().ok()?;
    while let Some(part) = ahead.pop_front() {
        if part == ".." {
            real.pop();
        } else {
            real.push(part);
        }
        if is_elsewhere(&real) {
            return None;
        }
        facts = real.symlink_metadata().ok()?;
        if facts.is_symlink() {
            if links.len() == LINKS_MAX {
                return None;
            }
            let target = fs::read_link(&real).ok()?;
            links.push((real.clone(), target.clone()));
            real = if target.is_absolute() { PathBuf::from("/") } else { real.parent()?.to_owned() };
            facts = real.symlink_metadata().ok()?;
            parts(&target).into_iter().rev().for_each(|part| ahead.push_front(part));
        }
    }
    Some(Followed { real, facts, links })
}

/// The components of a path that lead somewhere else.
fn parts(path: &Path) -> VecDeque<OsString> {
    let leads = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().filter(leads).map(|part| part.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_pipe_that_was_to_be_run_is_not_waited_for() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RWXU).unwrap();
        fs::write(at("file"), "#!/bin/sh\n").unwrap();
        symlink("file", at("link")).unwrap();
        assert!(open_file(&at("pipe")).is_none() && open_file(&at("link")).is_none());
        let run = Use { run: true, opened: true, ..Use::default() };
        let (own, stop) = ([at("")], Stop::default());
        let mut chooser = Chooser::new(rustix::process::geteuid().as_raw(), &own, &at("weigh"), &stop);
        let mut room = Room { bytes: 1 << 20, entries: 10 };
        chooser.take_all(&[(at("pipe"), run), (at("link"), run)].into(), &mut room);
        assert!(chooser.tree.files.contains(&at("file")) && !chooser.tree.files.contains(&at("pipe")));
        assert!(follow(Path::new("/bin/sh")).is_some_and(|shell| chooser.tree.files.contains(&shell.real)));
    }

    #[test]
    fn what_lies_beside_stays_private_unless_it_is_named() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let app = folder.path().canonicalize().unwrap();
        let private = |name: &str| {
            let path = tare_testkit::files::write(&app.join(name), b"x");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            path
        };
        let (used, beside, behind, seen) = (private("used"), private("beside"), private("deep/key"), private("seen"));
        let shared = tare_testkit::files::write(&app.join("page"), b"x");
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o644)).unwrap();
        symlink("deep/key", app.join("link")).unwrap();
        let opened = Use { opened: true, ..Use::default() };
        let names: Names = [(app.clone(), opened), (used.clone(), opened), (seen.clone(), Use::default())].into();
        let (own, stop, user) = ([app.clone()], Stop::default(), rustix::process::geteuid().as_raw());
        let chosen = |with: &[&PathBuf]| {
            let mut chooser = Chooser::new(user, &own, Path::new("/none"), &stop);
            let mut room = Room { bytes: 1 << 20, entries: 100 };
            assert!(with.iter().all(|path| chooser.take_named(path, &mut room)));
            chooser.take_all(&names, &mut room);
            chooser.tree
        };
        let tree = chosen(&[]);
        assert_eq!(tree.files, BTreeSet::from([used.clone(), shared.clone()]));
        let left_out: Vec<&PathBuf> = tree.left_out.keys().collect();
        assert_eq!(left_out, [&beside, &behind, &seen]);
        assert!(tree.left_out[&beside].contains("not everybody may read it (--with PATH)"));
        let tree = chosen(&[&beside]);
        assert!(tree.files.contains(&beside) && !tree.files.contains(&behind));
        let tree = chosen(&[&app]);
        assert_eq!(tree.files, BTreeSet::from([used, beside, behind, seen, shared]));
        stop.raise();
        assert!(chosen(&[]).files.is_empty(), "the user has ended that");
    }
}
