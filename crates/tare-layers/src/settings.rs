//! Settings of this machine that a run changes: written down before each is changed, and put back when the run is
//! closed, or cleaned up after; unless somebody else has changed it since.

use crate::leftovers::{boot, boot_of, run_directory};
use std::fs;
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};

/// The folder of the notes in a run's directory.
const FOLDER: &str = "settings";

/// Where the setting in `file` is written down: its value of before, and the one that the run gave it.
fn note(run: &str, file: &Path) -> PathBuf {
    let name = file.display().to_string().replace('%', "%25").replace('/', "%2f");
    run_directory(run).join(FOLDER).join(name)
}

/// The values of before and of the run, of a note.
fn read(note: &Path) -> Option<(String, String)> {
    let text = fs::read_to_string(note).ok()?;
    let (before, given) = text.split_once('\n')?;
    Some((before.to_owned(), given.trim_end().to_owned()))
}

fn value(file: &Path) -> std::io::Result<String> {
    Ok(fs::read_to_string(file)?.trim().to_owned())
}

/// Gives a setting another value in the name of a run. In a guest there is no run's directory, and nothing to put back.
pub(crate) fn change(run: &str, file: &Path, given: &str) -> Result<(), Fault> {
    if run_directory(run).is_dir() {
        let note = note(run, file);
        let doing = || format!("write down the value of {}", file.display());
        let now = value(file).doing(doing())?;
        // The run may change it twice: before the first time counts.
        let before = read(&note).filter(|(_, given)| *given == now).map_or(now, |(before, _)| before);
        let folder = run_directory(run).join(FOLDER);
        let write = || {
            fs::create_dir_all(&folder)?;
            let partial = folder.join(".partial");
            fs::write(&partial, format!("{before}\n{given}\n"))?;
            fs::rename(&partial, &note)
        };
        write().doing(doing())?;
    }
    fs::write(file, given).doing(format!("write {given} to {}", file.display()))
}

/// Puts back what the run has changed, as far as it still is as the run left it.
pub(crate) fn restore(run: &str) -> Result<(), Fault> {
    // Whoever started the machine anew has put all back.
    if boot_of(run).as_deref() != Some(boot()) {
        return Ok(());
    }
    let notes = fs::read_dir(run_directory(run).join(FOLDER)).into_iter().flatten().filter_map(Result::ok);
    for note in notes {
        let name = note.file_name().to_string_lossy().replace("%2f", "/").replace("%25", "%");
        let Some((before, given)) = read(&note.path()).filter(|_| name.starts_with('/')) else { continue };
        let file = Path::new(&name);
        if value(file).is_ok_and(|now| now == given) {
            fs::write(file, &before).doing(format!("put {before} back into {name}"))?;
        }
        fs::remove_file(note.path()).doing(format!("forget the value of {name}"))?;
    }
    Ok(())
}
