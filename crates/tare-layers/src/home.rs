//! The folder in which Tare keeps things between runs, and the folders of runs in it.
//!
//! Both carry a mark from their birth on, for their names could be anybody's: what carries none is somebody else's, and
//! nothing in it is written or removed.

use crate::environment;
use crate::leftovers::{boot, is_run};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};

/// The file that marks the folder of what is kept.
const HOME_MARK: &str = ".tare-home";
/// What stands in it.
const HOME_TEXT: &str = "Tare keeps its bundles, guests and history here.\n";
/// The file that marks the folder of a run, with the run, the boot, the machine and the folder's own number in it: a
/// copy of the folder, or one of another machine that shares the disk, is told apart.
const RUN_MARK: &str = ".tare-run";
/// Below a run's folder: what is made for it.
const WORK: &str = "work";
/// In front of the name of a run's folder that is not whole.
const UNFINISHED: &str = ".unfinished-";

/// What Tare puts into its home, and versions before the mark did.
const OURS: [&str; 5] = ["bundles", "guest", "scratch", "history.db", "kvm.json"];

/// The home, made sure to be Tare's: one that is missing or empty is marked now, and so is one of a version that wrote
/// no mark.
///
/// # Errors
/// When it holds somebody else's things, or cannot be written.
pub fn claim() -> Result<PathBuf, Fault> {
    let home = environment::home();
    claim_at(&home)?;
    Ok(home)
}

/// Whether the home is Tare's or would be on being used. Nothing is written.
///
/// # Errors
/// When it holds somebody else's things.
pub fn look() -> Result<PathBuf, Fault> {
    let home = environment::home();
    look_at(&home).map(|_| home)
}

fn claim_at(home: &Path) -> Result<(), Fault> {
    if look_at(home)? {
        return Ok(());
    }
    let write = || {
        fs::create_dir_all(home)?;
        let mut new = OpenOptions::new();
        match new.write(true).create_new(true).mode(0o644).open(home.join(HOME_MARK)) {
            Ok(mut mark) => mark.write_all(HOME_TEXT.as_bytes()),
            // Another process of Tare's was faster.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    };
    write().doing(format!("mark {} as Tare's", home.display())).map_err(|fault| fault.remedy(NAME_A_FOLDER))
}

/// What to do about a home that cannot be used at all.
const NAME_A_FOLDER: &str = "name a folder that can be written in TARE_HOME";

/// Whether a home is marked already; an error when it is somebody else's.
fn look_at(home: &Path) -> Result<bool, Fault> {
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

/// Whether a version that wrote no mark has made a home: nothing is in it but what Tare puts there, and something that
/// nobody else makes is.
fn is_old_home(home: &Path, names: &[String]) -> bool {
    let known = |name: &String| OURS.contains(&name.as_str()) || name.starts_with("history.db-");
    let store = ["bundles", "recipes", "locks", "building"].iter().all(|part| home.join("bundles").join(part).is_dir());
    let text = fs::read(home.join("kvm.json")).unwrap_or_default();
    let finding = serde_json::from_slice::<serde_json::Value>(&text)
        .is_ok_and(|found| ["boot", "qemu", "kernel", "outcome"].iter().all(|field| found.get(field).is_some()));
    // The usual place is called by Tare's name.
    names.iter().all(known) && (store || finding || home == Path::new(environment::USUAL_HOME))
}

/// Where runs keep what must be on a disk: volumes of services and the like.
fn scratch_root() -> PathBuf {
    environment::home().join("scratch")
}

/// The folder of a run on a disk, which carries its mark.
pub(crate) fn run_folder(run: &str) -> PathBuf {
    scratch_root().join(run)
}

/// Where a run's trials have their folders.
pub(crate) fn work_folder(run: &str) -> PathBuf {
    run_folder(run).join(WORK)
}

/// Makes the folder of a run on a disk, marked from the moment it has its name.
pub(crate) fn create_run_folder(run: &str) -> Result<(), Fault> {
    let home = claim()?;
    let whole = run_folder(run);
    let unfinished = unfinished(&whole);
    let make = || -> std::io::Result<()> {
        fs::create_dir_all(home.join("scratch"))?;
        // Nobody else's business: volumes hold what services write, and guests' disks everything.
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

/// The marked folders of runs in the home, whole or not, and what else stands among them under a name like theirs.
pub(crate) fn run_folders() -> (Vec<(String, PathBuf)>, Vec<PathBuf>) {
    let (mut marked, mut strange) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(scratch_root()).into_iter().flatten().filter_map(Result::ok) {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        match (run_of_folder(&path), name.strip_prefix(UNFINISHED)) {
            (Some(run), _) => marked.push((run, path)),
            // What was killed before it could write its mark.
            (None, Some(run)) if is_run(run) && look().is_ok() && is_empty(&path) => {
                marked.push((run.to_owned(), path))
            }
            _ if is_run(&name) => strange.push(path),
            _ => {}
        }
    }
    (marked, strange)
}

/// The marked folder of a run at this path, whole or not.
pub(crate) fn marked_at(folder: &Path) -> Option<(String, PathBuf)> {
    let both = [folder.to_owned(), unfinished(folder)];
    both.into_iter().find_map(|path| Some((run_of_folder(&path)?, path)))
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Removes a run's folder, its mark last: one that is removed in part is known to the next attempt.
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
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let removed = if is_folder { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
        gone(removed).doing(doing())?;
    }
    gone(fs::remove_file(aside.join(RUN_MARK))).doing(doing())?;
    gone(fs::remove_dir(&aside)).doing(doing())
}

/// What this machine is known by, also after it was started anew.
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
