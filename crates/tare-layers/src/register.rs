//! What a run creates in the kernel under a name that anybody could choose: links, network namespaces, cgroups. Each is
//! recorded in the run's directory before it is created, and its identity in the kernel as soon as it exists. So
//! somebody else's object of the same name can be told apart, and a kill at any moment leaves nothing unknown.
//!
//! The register lives as long as what it records: until the machine restarts.

use crate::marks::{boot, run_directory};
use crate::netlink;
use crate::owner::boot_of;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};

/// The folder of the register in a run's directory.
const FOLDER: &str = "made";
/// The folder that records what an engine is being asked to make.
const ASKED: &str = "asked";

/// What the kernel keeps under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A network link, by its name.
    Link,
    /// A network namespace, by its file.
    Namespace,
    /// A cgroup, by its directory.
    Cgroup,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Link, Kind::Namespace, Kind::Cgroup];

    /// In words.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::Link => "link",
            Kind::Namespace => "network namespace",
            Kind::Cgroup => "cgroup",
        }
    }

    /// What the kernel identifies the object of this name by, and never gives to another until the machine restarts;
    /// `None` when there is none.
    fn identity(self, name: &str) -> Option<String> {
        match self {
            Kind::Link => netlink::link_index(name).map(|index| index.to_string()),
            Kind::Namespace | Kind::Cgroup => {
                let facts = fs::symlink_metadata(name).ok()?;
                Some(format!("{}:{}", facts.dev(), facts.ino()))
            }
        }
    }
}

/// Where an object is recorded; `None` where there is no run directory: in a guest, which goes as a whole.
fn entry(run: &str, kind: Kind, name: &str) -> Option<PathBuf> {
    let folder = run_directory(run).join(FOLDER);
    folder.is_dir().then(|| folder.join(format!("{}:{}", kind.word(), escaped(name))))
}

fn escaped(name: &str) -> String {
    name.replace('%', "%25").replace('/', "%2f")
}

fn unescaped(name: &str) -> String {
    name.replace("%2f", "/").replace("%25", "%")
}

/// Creates the register of a run whose directory is `directory`.
pub(crate) fn create(directory: &Path) -> Result<(), Fault> {
    for folder in [FOLDER, ASKED] {
        let folder = directory.join(folder);
        fs::create_dir(&folder).doing(format!("make {}", folder.display()))?;
    }
    Ok(())
}

/// Asks an engine to make something. Its name is recorded until the engine has answered: if this process is killed in
/// the meantime, the engine may still make it after others have looked for what the run left.
pub(crate) fn asking<T>(run: &str, name: &str, ask: impl FnOnce() -> T) -> Result<T, Fault> {
    let folder = run_directory(run).join(ASKED);
    if folder.is_dir() {
        fs::write(folder.join(escaped(name)), "").doing(format!("write down that '{name}' is being made"))?;
    }
    let answer = ask();
    answered(run, name)?;
    Ok(answer)
}

/// Records that an engine has made or refused what it was asked for.
pub(crate) fn answered(run: &str, name: &str) -> Result<(), Fault> {
    match fs::remove_file(run_directory(run).join(ASKED).join(escaped(name))) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).doing(format!("write down that '{name}' is no longer being made"))
        }
        _ => Ok(()),
    }
}

/// The names of what a run was asking an engine for when last seen.
pub(crate) fn asked(run: &str) -> Vec<String> {
    let entries = fs::read_dir(run_directory(run).join(ASKED)).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| Some(unescaped(entry.file_name().to_str()?))).collect()
}

/// Records that the run is about to make something, unless it already exists: then it is either the run's, as recorded
/// earlier, or somebody else's, and nothing is written.
pub(crate) fn intend(run: &str, kind: Kind, name: &str) -> Result<(), Fault> {
    match entry(run, kind, name) {
        Some(entry) if kind.identity(name).is_none() => {
            fs::write(&entry, "").doing(format!("write down the {} {name} as the run's", kind.word()))
        }
        _ => Ok(()),
    }
}

/// Records how the kernel identifies what [`intend`] announced, or that it does not exist after all.
pub(crate) fn settle(run: &str, kind: Kind, name: &str) -> Result<(), Fault> {
    let Some(entry) = entry(run, kind, name) else { return Ok(()) };
    // An identity that is already recorded stays, and so does the absence of an announcement.
    if !fs::read_to_string(&entry).is_ok_and(|known| known.is_empty()) {
        return Ok(());
    }
    let settled = match kind.identity(name) {
        Some(identity) => fs::write(&entry, identity),
        None => fs::remove_file(&entry),
    };
    settled.doing(format!("write down which {} {name} is", kind.word()))
}

/// Makes something on behalf of a run.
pub(crate) fn make<T>(run: &str, kind: Kind, name: &str, make: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    intend(run, kind, name)?;
    let made = make();
    let settled = settle(run, kind, name);
    let made = made?;
    settled.map(|()| made)
}

/// Whether the object of this name is the run's.
pub(crate) fn is_made(run: &str, kind: Kind, name: &str) -> bool {
    entry(run, kind, name).is_some_and(|entry| {
        fs::read_to_string(entry).is_ok_and(|known| {
            let there = kind.identity(name);
            there.is_some_and(|there| known == there || known.is_empty() || is_husk(kind, name))
        })
    })
}

/// Whether an object with a name of the run's is known to be somebody else's.
pub(crate) fn is_foreign(run: &str, kind: Kind, name: &str) -> bool {
    entry(run, kind, name).is_some() && !is_made(run, kind, name)
}

/// Whether all that is left of a namespace is the empty file that it was mounted on.
fn is_husk(kind: Kind, name: &str) -> bool {
    kind == Kind::Namespace
        && fs::symlink_metadata(name).is_ok_and(|facts| facts.is_file() && facts.len() == 0)
        && !is_namespace(Path::new(name))
}

/// Whether a namespace is mounted at this path.
pub(crate) fn is_namespace(path: &Path) -> bool {
    /// The type of the file system that namespaces are files of.
    const NSFS: i128 = 0x6e73_6673;
    rustix::fs::statfs(path).is_ok_and(|facts| i128::from(facts.f_type) == NSFS)
}

/// What a run has made that still exists; nothing from an earlier boot does.
pub(crate) fn standing(run: &str) -> Vec<(Kind, String)> {
    if boot_of(run).as_deref() != Some(boot()) {
        return Vec::new();
    }
    let entries = fs::read_dir(run_directory(run).join(FOLDER)).into_iter().flatten().filter_map(Result::ok);
    let parse = |entry: fs::DirEntry| {
        let text = entry.file_name().into_string().ok()?;
        let (word, escaped) = text.split_once(':')?;
        let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word)?;
        Some((kind, unescaped(escaped)))
    };
    let mut all: Vec<(Kind, String)> = entries.filter_map(parse).collect();
    all.retain(|(kind, name)| is_made(run, *kind, name));
    all.sort();
    all
}
