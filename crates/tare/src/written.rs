//! Writes files for people, completely or not at all.

mod spot;

use crate::paths;
use anyhow::{Context, Result};
use rustix::fs::{AtFlags, Mode, OFlags, Uid, openat, renameat, unlinkat};
use spot::Spot;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use tare_core::fault::{Doing, Fault};

/// Writes `text` to `path`, completely or not at all. What is no regular file, such as a device or a pipe, is written
/// to directly.
///
/// # Errors
/// When it cannot be written, or when another user could redirect what root writes.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<(), Fault> {
    // A link is kept; what it points to is replaced.
    let spot = Spot::behind(path)?;
    let written = match spot.opened {
        Some(flags) => write_into(&spot, flags, text),
        None => replace(&spot, text.as_bytes(), 0o666).map(drop),
    };
    written.doing(format!("write {}", path.display()))
}

/// Appends to what is already open, such as redirected output, which may have content.
fn write_into(spot: &Spot, flags: OFlags, text: &str) -> std::io::Result<()> {
    let flags = flags | OFlags::WRONLY | OFlags::APPEND | OFlags::NOCTTY | OFlags::CLOEXEC;
    File::from(openat(&spot.folder, &spot.name, flags, Mode::empty())?).write_all(text.as_bytes())
}

/// Writes a file of a record, such as its page: only its owner may read it, as with the rest of the record, and under
/// sudo its owner is the calling user.
pub(crate) fn write_own_file(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    let written = Spot::at(path).and_then(|spot| replace(&spot, content.as_ref(), 0o600));
    let written = written.map(|file| hand_to_caller(&file));
    written.with_context(|| format!("could not write {}", path.display()))
}

/// Makes the folder of a record and missing folders above it. Only its owner may look into it; under sudo that is the
/// calling user.
pub(crate) fn make_own_folder(path: &Path) -> std::io::Result<()> {
    match make_new_folder(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// The same for a folder that must not be there yet: another user may have put one there, or a link to one.
pub(crate) fn make_new_folder(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    std::fs::DirBuilder::new().mode(0o700).create(path)?;
    hand_folder_to_caller(path);
    Ok(())
}

/// Gives a folder that was made for a record to the user who called sudo.
pub(crate) fn hand_folder_to_caller(path: &Path) {
    // Do not follow a link that has taken its place.
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    if let Ok(folder) = rustix::fs::open(path, flags, Mode::empty()) {
        hand_to_caller(&folder);
    }
}

/// Gives what was made for a record, and is open, to the user who called sudo.
///
/// Failing to hand it over is no reason to end a run: root can still read it.
pub(crate) fn hand_to_caller(file: impl AsFd) {
    if let Some(uid) = paths::behind_sudo().filter(|_| rustix::process::geteuid().is_root()) {
        let _ = rustix::fs::fchown(file, Some(Uid::from_raw(uid)), None);
    }
}

fn replace(spot: &Spot, content: &[u8], mode: u32) -> std::io::Result<File> {
    let mut partial = spot.name.clone();
    partial.push(format!(".{}.partial", std::process::id()));
    // Created anew: in a shared folder, an existing file or link of this name would be somebody else's.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(&spot.folder, &partial, flags, Mode::from_raw_mode(mode))?);
    let renamed = |()| Ok(renameat(&spot.folder, &partial, &spot.folder, &spot.name)?);
    if let Err(error) = file.write_all(content).and_then(renamed) {
        let _ = unlinkat(&spot.folder, &partial, AtFlags::empty());
        return Err(error);
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    const OTHER: u32 = 4242;

    #[test]
    fn a_file_is_replaced_and_a_pipe_is_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "old").unwrap();
        symlink(&file, &link).unwrap();
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
    fn links_are_followed_as_the_kernel_does() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("deep/er")).unwrap();
        symlink("deep/er", at("way")).unwrap();
        symlink("../beside", at("deep/er/up")).unwrap();
        // A dangling link: its target is created. `way/..` is the parent of the link's target.
        for (name, made) in [("way/up", "deep/beside"), ("way/../file", "deep/file"), ("way/./new", "deep/er/new")] {
            write_file(&at(name), name).unwrap();
            assert_eq!(std::fs::read_to_string(at(made)).unwrap(), name);
        }
        assert!(at("way/up").is_symlink());
        symlink("round", at("round")).unwrap();
        for (name, why) in [
            ("round", "symbolic links"),
            ("deep", "Is a directory"),
            ("way/..", "Is a directory"),
            ("missing/file", "No such file"),
            ("deep/file/x", "Not a directory"),
        ] {
            let fault = write_file(&at(name), "").unwrap_err();
            let wanted = format!("could not write {}: ", at(name).display());
            assert!(fault.message.starts_with(&wanted) && fault.message.contains(why), "{fault}");
        }
        // An open file has a name of the kernel's, under which it must not be replaced by another.
        let open = File::create(at("open")).unwrap();
        (&open).write_all(b"before, ").unwrap();
        let name = format!("/proc/self/fd/{}", open.as_raw_fd());
        symlink(&name, at("output")).unwrap();
        for path in [Path::new(&name), &at("output")] {
            write_file(path, "behind. ").unwrap();
        }
        assert_eq!(std::fs::read_to_string(at("open")).unwrap(), "before, behind. behind. ");
        std::fs::remove_file(at("open")).unwrap();
        write_file(&at("output"), "nowhere else").unwrap();
        assert!(!at("open").exists());
    }

    #[test]
    fn root_does_not_follow_what_another_user_has_put_there() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mode =
            |name: &str, mode| std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(mode)).unwrap();
        for name in ["all", "etc", "home"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        mode("all", 0o1777);
        std::fs::write(at("etc/profile"), "root's").unwrap();
        let link = |name: &str, target: &str, owner| {
            symlink(target, at(name)).unwrap();
            lchown(at(name), Some(owner), None).unwrap();
        };
        link("all/report.html", "../etc/profile", OTHER);
        link("all/whole", at("etc").to_str().unwrap(), OTHER);
        link("all/new.html", "../etc/new", OTHER);
        link("etc/by-way", "../all/whole/profile", 0);
        rustix::fs::mkfifoat(rustix::fs::CWD, at("all/pipe"), Mode::RWXU).unwrap();
        lchown(at("all/pipe"), Some(OTHER), None).unwrap();
        lchown(at("home"), Some(OTHER), None).unwrap();
        link("home/report.html", "../etc/profile", OTHER);
        for (name, what) in [
            ("all/report.html", "all/report.html is a link of user 4242"),
            ("all/whole/profile", "all/whole is a link of user 4242"),
            ("all/new.html", "all/new.html is a link of user 4242"),
            ("etc/by-way", "all/whole is a link of user 4242"),
            ("all/pipe", "all/pipe is a pipe or device of user 4242"),
            ("home/report.html", "home/report.html is a link of user 4242"),
        ] {
            let fault = write_file(&at(name), "replaced").unwrap_err();
            assert!(fault.message.contains(what) && fault.mistake && !fault.remedy.is_empty(), "{name}: {fault}");
        }
        assert_eq!(std::fs::read_to_string(at("etc/profile")).unwrap(), "root's");
        assert_eq!(std::fs::read_dir(at("etc")).unwrap().count(), 2, "nothing was made");
        // Root's own link is followed everywhere, another user's only where that user could not have put it.
        link("all/own.html", "../etc/profile", 0);
        link("etc/handed-on.html", "profile", OTHER);
        for name in ["all/own.html", "etc/handed-on.html"] {
            write_file(&at(name), name).unwrap();
            assert_eq!(std::fs::read_to_string(at("etc/profile")).unwrap(), name);
        }
        // Other users' files are replaced rather than written into.
        std::fs::write(at("all/theirs"), "theirs").unwrap();
        lchown(at("all/theirs"), Some(OTHER), None).unwrap();
        write_file(&at("all/theirs"), "root's").unwrap();
        assert_eq!(std::fs::read_to_string(at("all/theirs")).unwrap(), "root's");
    }

    #[test]
    fn only_the_owner_can_read_a_record() {
        let above = tempfile::tempdir().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let folder = above.path().join("records/r");
        make_own_folder(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
        make_own_folder(&folder).unwrap();
        assert_eq!(make_new_folder(&folder).unwrap_err().kind(), ErrorKind::AlreadyExists);
        symlink(&folder, above.path().join("link")).unwrap();
        assert_eq!(make_new_folder(&above.path().join("link")).unwrap_err().kind(), ErrorKind::AlreadyExists);
        let page = folder.join("report.html");
        std::fs::write(&page, "older, and open to all").unwrap();
        write_own_file(&page, "new").unwrap();
        assert_eq!((mode(&page), std::fs::read_to_string(&page).unwrap().as_str()), (0o600, "new"));
        let taken = above.path().join("taken");
        std::fs::write(&taken, "").unwrap();
        assert_eq!(make_own_folder(&taken).unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
}
