//! The folder in which Tare keeps things between runs, and the folders of runs in it.
//!
//! Both carry a mark from the moment they exist, since anybody could use their names: a folder without a mark is
//! somebody else's, and nothing in it is written or removed.

use crate::environment;
use crate::hands::foreign;
use crate::marks::{boot, is_run};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};
use tare_removal::remove_tree;

/// The file that marks the home folder.
const HOME_MARK: &str = ".tare-home";
/// The text in it.
const HOME_TEXT: &str = "Tare keeps its bundles, guests and history here.\n";
/// The file that marks a run's folder. It holds the run, the boot, the machine and the folder's own inode number, so
/// that a copy of the folder, or one from another machine that shares the disk, can be told apart.
const RUN_MARK: &str = ".tare-run";
/// Below the home: the folders of runs.
const SCRATCH: &str = "scratch";
/// Below a run's folder: what is made for it.
const WORK: &str = "work";
/// The prefix of a run folder's name while the folder is incomplete.
const UNFINISHED: &str = ".unfinished-";

/// What Tare puts into its home, and what versions without the mark put there.
const OURS: [&str; 5] = ["bundles", "guest", SCRATCH, "history.db", "kvm.json"];

/// The home, ensured to be Tare's: a missing or empty one is marked now, and so is one from a version that wrote no
/// mark.
///
/// # Errors
/// When it holds somebody else's things, somebody else can change it, or it cannot be written.
pub fn claim() -> Result<PathBuf, Fault> {
    let home = environment::home();
    claim_at(&home)?;
    Ok(home)
}

/// Whether the home is Tare's, or would become so when used. Nothing is written.
///
/// # Errors
/// When it holds somebody else's things, or somebody else can change it.
pub fn look() -> Result<PathBuf, Fault> {
    let home = environment::home();
    look_at(&home).map(|_| home)
}

fn claim_at(home: &Path) -> Result<(), Fault> {
    if look_at(home)? {
        return Ok(());
    }
    let make = || fs::DirBuilder::new().recursive(true).mode(0o755).create(home);
    let doing = || format!("mark {} as Tare's", home.display());
    make().doing(doing()).map_err(|fault| fault.remedy(NAME_A_FOLDER))?;
    // Somebody else may have been faster, where everybody may create folders.
    check_hands(home)?;
    let write = || {
        let mut new = OpenOptions::new();
        match new.write(true).create_new(true).mode(0o644).open(home.join(HOME_MARK)) {
            Ok(mut mark) => mark.write_all(HOME_TEXT.as_bytes()),
            // Another Tare process was faster.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    };
    write().doing(doing()).map_err(|fault| fault.remedy(NAME_A_FOLDER))
}

/// Refuses, as root, a home that another user could have put something into or could replace: what is kept there is
/// run, mounted and removed with root's rights.
fn check_hands(home: &Path) -> Result<(), Fault> {
    let own = rustix::process::geteuid();
    if !own.is_root() {
        return Ok(());
    }
    let kept = fs::read_dir(home).into_iter().flatten().filter_map(Result::ok);
    let kept = kept.filter(|entry| entry.file_name().to_str().is_some_and(is_ours)).map(|entry| entry.path());
    for path in std::iter::once(home.to_owned()).chain(kept) {
        let found = foreign(&path, own.as_raw()).doing(format!("see in whose hands {} is", path.display()))?;
        let Some(found) = found else { continue };
        let message = format!(
            "Tare keeps in {} what it runs as root, and {} {}: something else could be put in its place",
            home.display(),
            found.path.display(),
            found.why
        );
        return Err(Fault::new(message).remedy(format!(
            "set TARE_HOME to a folder that only root may write to, as all folders above it, such as {}",
            environment::USUAL_HOME
        )));
    }
    Ok(())
}

/// Whether this is the name of something that Tare, or an earlier version, keeps in its home.
fn is_ours(name: &str) -> bool {
    OURS.contains(&name) || name.starts_with("history.db-") || name == HOME_MARK
}

/// What to do about a home that cannot be used at all.
const NAME_A_FOLDER: &str = "name a folder that can be written in TARE_HOME";

/// Whether a home is already marked; an error when it is somebody else's.
fn look_at(home: &Path) -> Result<bool, Fault> {
    check_hands(home)?;
    if home.join(HOME_MARK).symlink_metadata().is_ok_and(|facts| facts.is_file()) {
        return Ok(true);
    }
    let names = match fs::read_dir(home) {
        Ok(entries) => entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect::<Vec<_>>(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => {
            let fault = Fault::from_error(format_args!("look into {}", home.display()), &error);
            return Err(fault.remedy(NAME_A_FOLDER));
        }
    };
    if names.is_empty() || is_old_home(home, &names) {
        return Ok(false);
    }
    let fault = Fault::new(format!(
        "TARE_HOME, {}, holds things that are not Tare's, and Tare puts nothing among them and removes none",
        home.display()
    ));
    let mark = home.join(HOME_MARK);
    Err(fault.remedy(format!(
        "set TARE_HOME to an empty folder, such as {}; if all in it is Tare's, say so: touch {}",
        home.join("tare").display(),
        mark.display()
    )))
}

/// Whether a version that wrote no mark made this home: it contains only what Tare puts there, including something that
/// nobody else makes.
fn is_old_home(home: &Path, names: &[String]) -> bool {
    let store = ["bundles", "recipes", "locks", "building"].iter().all(|part| home.join("bundles").join(part).is_dir());
    let text = fs::read(home.join("kvm.json")).unwrap_or_default();
    let finding = serde_json::from_slice::<serde_json::Value>(&text)
        .is_ok_and(|found| ["boot", "qemu", "kernel", "outcome"].iter().all(|field| found.get(field).is_some()));
    // The usual place bears Tare's name.
    names.iter().all(|name| is_ours(name)) && (store || finding || home == Path::new(environment::USUAL_HOME))
}

/// Where runs keep what must be on a disk, such as volumes of services.
fn scratch_root() -> PathBuf {
    environment::home().join(SCRATCH)
}

/// A run's folder on a disk, which carries its mark.
pub(crate) fn run_folder(run: &str) -> PathBuf {
    scratch_root().join(run)
}

/// Where a run's trials have their folders.
pub fn work_folder(run: &str) -> PathBuf {
    run_folder(run).join(WORK)
}

/// Makes a run's folder on a disk, marked from the moment it has its name.
pub(crate) fn create_run_folder(run: &str) -> Result<(), Fault> {
    let home = claim()?;
    let whole = run_folder(run);
    let unfinished = unfinished(&whole);
    let make = || -> std::io::Result<()> {
        fs::create_dir_all(home.join(SCRATCH))?;
        // Private: volumes hold what services write, and guests' disks hold everything.
        fs::DirBuilder::new().mode(0o700).create(&unfinished)?;
        let number = fs::symlink_metadata(&unfinished)?.ino();
        let mut mark = File::create_new(unfinished.join(RUN_MARK))?;
        writeln!(mark, "{run} {} {} {number}", boot(), machine())?;
        fs::create_dir(unfinished.join(WORK))?;
        fs::rename(&unfinished, &whole)
    };
    make().doing(format!("make {}", whole.display())).inspect_err(|_| {
        let _ = remove_marked(&unfinished);
    })
}

fn unfinished(whole: &Path) -> PathBuf {
    let name = whole.file_name().unwrap_or_default().to_string_lossy().into_owned();
    whole.with_file_name(format!("{UNFINISHED}{name}"))
}

/// The run whose folder this is; `None` when it carries no mark, or that of another folder or machine.
pub(crate) fn run_of_folder(folder: &Path) -> Option<String> {
    let facts = fs::symlink_metadata(folder).ok().filter(fs::Metadata::is_dir)?;
    let text = fs::read_to_string(folder.join(RUN_MARK)).ok()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let [run, _, on, number] = words[..] else { return None };
    let name = folder.file_name()?.to_str()?;
    let own = name.strip_prefix(UNFINISHED).unwrap_or(name) == run;
    (is_run(run) && own && on == machine() && number == facts.ino().to_string()).then(|| run.to_owned())
}

/// The marked folders of runs in the home, complete or not, and anything else there that has a name like theirs.
pub(crate) fn run_folders() -> (Vec<(String, PathBuf)>, Vec<PathBuf>) {
    let (mut marked, mut strange) = (Vec::new(), Vec::new());
    let home = environment::home();
    // Where others may write, a mark proves nothing.
    if check_hands(&home).is_err() {
        return (marked, strange);
    }
    for entry in fs::read_dir(home.join(SCRATCH)).into_iter().flatten().filter_map(Result::ok) {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        match run_of_folder(&path) {
            Some(run) => marked.push((run, path)),
            None if is_run(name.strip_prefix(UNFINISHED).unwrap_or(&name)) => strange.push(path),
            None => {}
        }
    }
    (marked, strange)
}

/// A run's folder, complete or not, at the place that the run's own directory names: marked, or empty if the run was
/// killed before it could write the mark. `None` if another user may have put it there since.
pub(crate) fn noted_at(folder: &Path) -> Option<(String, PathBuf)> {
    if in_other_hands(folder) {
        return None;
    }
    let unfinished = unfinished(folder);
    let marked = |path: &Path| Some((run_of_folder(path)?, path.to_owned()));
    let unmarked = || Some((folder.file_name()?.to_str()?.to_owned(), unfinished.clone()));
    let unmarked = || unmarked().filter(|(run, path)| is_run(run) && is_empty(path));
    marked(folder).or_else(|| marked(&unfinished)).or_else(unmarked)
}

/// A run's folder, which exists under its own name or, if incomplete, under the other.
pub(crate) fn standing(folder: &Path) -> Option<PathBuf> {
    [folder.to_owned(), unfinished(folder)].into_iter().find(|path| path.symlink_metadata().is_ok())
}

/// Whether, for root, another user may put something into the parent of this folder, or replace that parent.
pub(crate) fn in_other_hands(folder: &Path) -> bool {
    let own = rustix::process::geteuid();
    let above = folder.parent().unwrap_or(folder);
    own.is_root() && !foreign(above, own.as_raw()).is_ok_and(|found| found.is_none())
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Removes a run's folder, its mark last: the next attempt recognises one that is only partly removed.
pub(crate) fn remove_marked(folder: &Path) -> Result<(), Fault> {
    let gone = |done: std::io::Result<()>| match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    };
    let doing = || format!("remove {}", folder.display());
    let aside = if folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(UNFINISHED)) {
        folder.to_owned()
    } else {
        let aside = unfinished(folder);
        gone(fs::rename(folder, &aside)).doing(doing())?;
        aside
    };
    let Ok(entries) = fs::read_dir(&aside) else { return Ok(()) };
    for entry in entries.filter_map(Result::ok).filter(|entry| entry.file_name() != RUN_MARK) {
        // Services had their volumes below it.
        gone(remove_tree(&entry.path())).doing(doing())?;
    }
    gone(fs::remove_file(aside.join(RUN_MARK))).doing(doing())?;
    gone(fs::remove_dir(&aside)).doing(doing())
}

/// What identifies this machine, also after a restart.
fn machine() -> String {
    let id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    match id.trim() {
        "" => rustix::system::uname().nodename().to_string_lossy().replace(char::is_whitespace, "-"),
        id => id.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_marked_once_and_somebody_elses_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        claim_at(&home).unwrap();
        fs::write(home.join("notes"), "mine, added later").unwrap();
        claim_at(&home).unwrap();
        let data = folder.path().join("data");
        fs::create_dir_all(data.join("scratch/thesis")).unwrap();
        let fault = claim_at(&data).unwrap_err();
        assert!(fault.message.contains("not Tare's") && fault.remedy.contains("TARE_HOME"), "{fault}");
        assert!(!data.join(HOME_MARK).exists());
    }

    #[test]
    fn a_home_of_a_version_without_a_mark_is_taken_over_when_all_in_it_is_tares() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        for part in ["bundles", "recipes", "locks", "building"] {
            fs::create_dir_all(home.join("bundles").join(part)).unwrap();
        }
        fs::create_dir(home.join("scratch")).unwrap();
        fs::write(home.join("photo.jpg"), "").unwrap();
        claim_at(home).unwrap_err();
        fs::remove_file(home.join("photo.jpg")).unwrap();
        claim_at(home).unwrap();
        assert!(home.join(HOME_MARK).exists());
    }

    #[test]
    fn a_folder_is_a_runs_by_its_mark_and_a_copy_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("abc123");
        fs::create_dir(&own).unwrap();
        assert_eq!(run_of_folder(&own), None);
        let number = fs::metadata(&own).unwrap().ino();
        let mark = |run: &str, machine: &str| format!("{run} {} {machine} {number}\n", boot());
        fs::write(own.join(RUN_MARK), mark("abc123", &machine())).unwrap();
        assert_eq!(run_of_folder(&own).as_deref(), Some("abc123"));
        let copy = folder.path().join("copy/abc123");
        fs::create_dir_all(&copy).unwrap();
        fs::copy(own.join(RUN_MARK), copy.join(RUN_MARK)).unwrap();
        assert_eq!(run_of_folder(&copy), None, "another folder has another number");
        for other in [mark("abc124", &machine()), mark("abc123", "another-machine"), "abc123\n".to_owned()] {
            fs::write(own.join(RUN_MARK), other).unwrap();
            assert_eq!(run_of_folder(&own), None);
        }
    }

    #[test]
    fn an_empty_folder_is_a_run_s_where_the_run_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let (noted, unfinished) = (folder.path().join("abc123"), folder.path().join(".unfinished-abc123"));
        assert_eq!(noted_at(&noted), None);
        fs::create_dir(&unfinished).unwrap();
        assert_eq!(noted_at(&noted), Some(("abc123".to_owned(), unfinished.clone())));
        fs::write(unfinished.join("thesis"), "").unwrap();
        assert_eq!(noted_at(&noted), None, "it is not empty");
        fs::create_dir(&noted).unwrap();
        assert_eq!(noted_at(&noted), None, "whole and without a mark");
        fs::create_dir(folder.path().join(".unfinished-notes")).unwrap();
        assert_eq!(noted_at(&folder.path().join("notes")), None, "no run is called so");
    }

    #[test]
    fn a_home_that_another_may_change_is_refused_as_root() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("way/home");
        claim_at(&home).unwrap();
        let refused = |path: &Path| {
            let fault = claim_at(&home).expect_err("it was taken");
            assert!(fault.message.contains(&path.display().to_string()), "{fault}");
            assert!(fault.remedy.contains("TARE_HOME"), "{fault}");
            assert!(look_at(&home).is_err());
        };
        // The folder itself, its parent, and its contents.
        fs::create_dir(home.join("bundles")).unwrap();
        for path in [home.clone(), folder.path().join("way"), home.join("bundles")] {
            std::os::unix::fs::lchown(&path, Some(4242), None).unwrap();
            refused(&path);
            std::os::unix::fs::lchown(&path, Some(0), None).unwrap();
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o775)).unwrap();
            refused(&path);
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            claim_at(&home).unwrap();
        }
        // Where everybody may create folders, as in /tmp, an existing one belongs to somebody.
        let shared = folder.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, std::os::unix::fs::PermissionsExt::from_mode(0o1777)).unwrap();
        claim_at(&shared.join("ours")).unwrap();
        fs::create_dir(shared.join("planted")).unwrap();
        std::os::unix::fs::lchown(shared.join("planted"), Some(4242), None).unwrap();
        claim_at(&shared.join("planted")).unwrap_err();
        claim_at(&shared).unwrap_err();
    }

    #[test]
    fn a_noted_folder_in_other_hands_is_left_alone() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let folder = tempfile::tempdir().unwrap();
        let scratch = folder.path().join("scratch");
        fs::create_dir_all(scratch.join(".unfinished-abc123")).unwrap();
        let noted = scratch.join("abc123");
        assert!(noted_at(&noted).is_some());
        for path in [&scratch, &folder.path().to_owned()] {
            std::os::unix::fs::lchown(path, Some(4242), None).unwrap();
            assert!(noted_at(&noted).is_none() && in_other_hands(&noted), "{}", path.display());
            assert_eq!(standing(&noted), Some(scratch.join(".unfinished-abc123")));
            std::os::unix::fs::lchown(path, Some(0), None).unwrap();
        }
        assert!(noted_at(&noted).is_some());
    }

    #[test]
    fn what_is_removed_in_part_keeps_its_mark() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("abc123");
        fs::create_dir_all(own.join("work/deep")).unwrap();
        fs::write(own.join(RUN_MARK), "x").unwrap();
        remove_marked(&own).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        remove_marked(&own).unwrap();
    }
}
