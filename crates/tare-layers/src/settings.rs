//! Machine settings that a run changes: each is recorded before it is changed, and put back when the run is closed or
//! cleaned up after, unless somebody else has changed it since.

pub(crate) mod controllers;

use crate::marks::{boot, run_directory, run_of_mark};
use crate::owner::boot_of;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};

/// The folder of the notes in a run's directory.
const FOLDER: &str = "settings";

/// Where the setting in `file` is recorded: its value before, and the one that the run gave it.
fn note(run: &str, file: &Path) -> PathBuf {
    let name = file.display().to_string().replace('%', "%25").replace('/', "%2f");
    run_directory(run).join(FOLDER).join(name)
}

/// The values that a note records: before the run, and given by the run.
fn read(note: &Path) -> Option<(String, String)> {
    let text = fs::read_to_string(note).ok()?;
    let (before, given) = text.split_once('\n')?;
    Some((before.to_owned(), given.trim_end().to_owned()))
}

fn value(file: &Path) -> std::io::Result<String> {
    Ok(fs::read_to_string(file)?.trim().to_owned())
}

/// Changes a setting on behalf of a run. In a guest there is no run directory, and nothing to put back.
pub(crate) fn change(run: &str, file: &Path, given: &str) -> Result<(), Fault> {
    if run_directory(run).is_dir() {
        let note = note(run, file);
        let doing = || format!("write down the value of {}", file.display());
        let now = value(file).doing(doing())?;
        // The run may change it twice: the value before the first change counts.
        let before = read(&note).filter(|(_, given)| *given == now).map_or(now, |(before, _)| before);
        write_down(run, file, &before, given).doing(doing())?;
    }
    fs::write(file, given).doing(format!("write {given} to {}", file.display()))
}

/// What a file held before this run changed it, if the run has done so.
pub(crate) fn before(run: &str, file: &Path) -> Option<String> {
    read(&note(run, file)).map(|(before, _)| before)
}

fn write_down(run: &str, file: &Path, before: &str, given: &str) -> std::io::Result<()> {
    let folder = run_directory(run).join(FOLDER);
    fs::create_dir_all(&folder)?;
    let partial = folder.join(".partial");
    fs::write(&partial, format!("{before}\n{given}\n"))?;
    fs::rename(&partial, note(run, file))
}

/// Records that a run is about to add words to a setting that is a list, which it may do several times. Lists that
/// belong to the run's own groups go with the groups, and those of a guest with the guest.
fn note_added(run: &str, file: &Path, added: &[&str]) -> Result<(), Fault> {
    let own = file.parent().and_then(Path::file_name).and_then(OsStr::to_str).and_then(run_of_mark);
    if own.is_some() || !run_directory(run).is_dir() {
        return Ok(());
    }
    let earlier = read(&note(run, file)).map_or(String::new(), |(_, added)| added + " ");
    write_down(run, file, "", &(earlier + &added.join(" ")))
        .doing(format!("write down what is added to {}", file.display()))
}

/// Records that only some of the words were added to such a list.
fn keep_added(run: &str, file: &Path, kept: impl Fn(&str) -> bool) -> Result<(), Fault> {
    let Some((_, added)) = read(&note(run, file)) else { return Ok(()) };
    let words: Vec<&str> = added.split(' ').filter(|word| kept(word)).collect();
    write_down(run, file, "", &words.join(" ")).doing(format!("write down what was added to {}", file.display()))
}

/// Puts back what the run has changed, as long as it still has the value that the run gave it.
pub(crate) fn restore(run: &str) -> Result<(), Fault> {
    // A restart of the machine has put everything back.
    if boot_of(run).as_deref() != Some(boot()) {
        return Ok(());
    }
    let notes = fs::read_dir(run_directory(run).join(FOLDER)).into_iter().flatten().filter_map(Result::ok);
    for note in notes {
        let name = note.file_name().to_string_lossy().replace("%2f", "/").replace("%25", "%");
        let Some((before, given)) = read(&note.path()).filter(|_| name.starts_with('/')) else { continue };
        let file = Path::new(&name);
        if file.ends_with(controllers::HANDED_DOWN) {
            controllers::take_back(file, &given.split(' ').collect::<Vec<_>>())?;
        } else if value(file).is_ok_and(|now| now == given) {
            fs::write(file, &before).doing(format!("put {before} back into {name}"))?;
        }
        fs::remove_file(note.path()).doing(format!("forget the value of {name}"))?;
    }
    Ok(())
}
