//! Files that Tare writes for a person: whole or not at all.

use crate::paths;
use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags, Uid};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Writes `text` to `path`, whole or not at all. What is no file, such as a device or a pipe, is written to as it is.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<()> {
    // A link stays one, and what it names is replaced.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let written = match std::fs::metadata(&target) {
        Ok(there) if !there.is_file() => {
            OpenOptions::new().write(true).open(&target).and_then(|mut file| file.write_all(text.as_bytes()))
        }
        _ => replace(&target, text, 0o666).map(drop),
    };
    written.with_context(|| format!("could not write {}", path.display()))
}

/// Writes a file of a record, such as its page: it is its owner's alone, as the rest of the record, and if root became
/// root by sudo, whoever called that owns it.
pub(crate) fn write_own_file(path: &Path, text: &str) -> Result<()> {
    let written = replace(path, text, 0o600).map(|file| hand_to_caller(&file));
    written.with_context(|| format!("could not write {}", path.display()))
}

/// Makes the folder of a record, if it is not there, and those above it that are missing. It is nobody else's to look
/// into; who called sudo owns one that is made.
pub(crate) fn make_own_folder(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
        Ok(()) => {
            hand_folder_to_caller(path);
            Ok(())
        }
    }
}

/// Gives a folder that was made for a record to whoever called sudo.
pub(crate) fn hand_folder_to_caller(path: &Path) {
    // A link that has taken its place leads to nothing of ours.
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    if let Ok(folder) = rustix::fs::open(path, flags, Mode::empty()) {
        hand_to_caller(&folder);
    }
}

/// What stays root's can be read by root: no reason for a run to end.
fn hand_to_caller(file: impl AsFd) {
    if let Some(uid) = paths::behind_sudo().filter(|_| rustix::process::geteuid().is_root()) {
        let _ = rustix::fs::fchown(file, Some(Uid::from_raw(uid)), None);
    }
}

fn replace(path: &Path, text: &str, mode: u32) -> std::io::Result<File> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(name);
    // Made new: in a folder that many may write to, a file or link of this name would be somebody else's.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&partial)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| std::fs::rename(&partial, path));
    if let Err(error) = written {
        let _ = std::fs::remove_file(&partial);
        return Err(error);
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_replaced_and_what_is_none_is_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_file(&link, "new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read_to_string(pipe).unwrap()
        });
        write_file(&pipe, "piped").unwrap();
        assert_eq!(reader.join().unwrap(), "piped");
        assert!(!pipe.is_file());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing else is left");
    }

    #[test]
    fn what_belongs_to_a_record_is_its_owner_s_alone() {
        let above = tempfile::tempdir().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let folder = above.path().join("records/r");
        make_own_folder(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
        make_own_folder(&folder).unwrap();
        let page = folder.join("report.html");
        std::fs::write(&page, "older, and open to all").unwrap();
        write_own_file(&page, "new").unwrap();
        assert_eq!((mode(&page), std::fs::read_to_string(&page).unwrap().as_str()), (0o600, "new"));
        let taken = above.path().join("taken");
        std::fs::write(&taken, "").unwrap();
        assert_eq!(make_own_folder(&taken).unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
}
