//! Where Tare keeps and finds things. The only file of this crate that reads the environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};
use tare_core::workload::USUAL_PATH;
use tare_layers::hands;

/// The folder of bundles, of guests' parts and of the history: `$TARE_HOME`, else `/var/lib/tare`.
pub(crate) fn home() -> PathBuf {
    let stated = std::env::var_os("TARE_HOME").filter(|home| !home.is_empty());
    stated.map_or_else(|| PathBuf::from("/var/lib/tare"), PathBuf::from)
}

/// Removes empty entries from PATH, which mean the current directory: anybody may have put programs there.
pub(crate) fn keep_current_directory_off_path() {
    let Some(path) = std::env::var_os("PATH") else { return };
    let cleaned = without_empty(&path);
    if cleaned != path {
        // SAFETY: called before there is any other thread that could read the environment.
        unsafe { std::env::set_var("PATH", cleaned) };
    }
}

/// Where to look for programs.
pub(crate) fn search_path() -> Option<OsString> {
    std::env::var_os("PATH")
}

/// The variables of this process that are text, by name.
pub(crate) fn environment() -> BTreeMap<String, String> {
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    std::env::vars_os().filter_map(text).collect()
}

fn without_empty(path: &OsStr) -> OsString {
    let folders = std::env::split_paths(path).filter(|folder| !folder.as_os_str().is_empty());
    match std::env::join_paths(folders) {
        Ok(path) if !path.is_empty() => path,
        // An empty PATH would be the current directory again.
        _ => USUAL_PATH.into(),
    }
}

/// The folder of bundles.
pub(crate) fn bundles() -> PathBuf {
    home().join("bundles")
}

/// The file of the history.
pub(crate) fn history() -> PathBuf {
    home().join("history.db")
}

/// The folder of the record of a calibration in progress.
pub(crate) fn calibration() -> PathBuf {
    home().join("calibration")
}

/// The default folder of records.
pub(crate) fn records() -> PathBuf {
    PathBuf::from("records")
}

/// Folders in which studies and workloads are looked up by name: those that come with the program, and the current one.
/// For root, without those into which another user could have put something, unless that user could also have replaced
/// this program.
pub(crate) fn data_folders(kind: &str) -> Vec<PathBuf> {
    let program = std::env::current_exe().unwrap_or_default();
    let is_own = |place: &PathBuf| hands::is_own(place, behind_sudo());
    // A user whose program root runs needs no other way in.
    let beside = program.parent().unwrap_or(&program);
    let along = folders_of(&program, kind).into_iter().filter(|folder| is_trusted(folder, beside));
    along.chain(Some(PathBuf::from(kind)).filter(is_own)).collect()
}

/// Whether only users who can write to `trusted`, on whose content root relies already, can write to the folder; or
/// whether it is root's own.
pub(crate) fn is_trusted(folder: &Path, trusted: &Path) -> bool {
    hands::is_own(folder, behind_sudo()) || hands::is_no_more_open(folder, trusted)
}

/// The user who became root by sudo(8).
pub(crate) fn behind_sudo() -> Option<u32> {
    std::env::var("SUDO_UID").ok()?.parse().ok()
}

/// The same with the user's group.
pub(crate) fn user_behind_sudo() -> Option<(u32, u32)> {
    let group = std::env::var("SUDO_GID").ok()?.parse().ok()?;
    Some((behind_sudo()?, group))
}

/// Folders above the program, for one that was built in its source tree; and `share/tare` below the prefix that it was
/// installed in, such as `/usr` for `/usr/bin/tare`.
fn folders_of(program: &Path, kind: &str) -> Vec<PathBuf> {
    let above = program.ancestors().skip(1).take(4).map(|folder| folder.join(kind));
    let installed = program.ancestors().nth(2).map(|folder| folder.join("share/tare").join(kind));
    above.chain(installed).collect()
}

/// Whether colour is wanted on a terminal (<https://no-color.org>).
pub(crate) fn colour_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The absolute `path` without detours: `a/b/../c` below `/x` is `/x/a/c`, unless `b` is a link. Parts that do not
/// exist yet are taken as plain names.
pub(crate) fn plain(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = whole.ancestors().find_map(|known| Some((known.canonicalize().ok()?, whole.strip_prefix(known).ok()?)));
    let Some((mut plain, rest)) = found else { return whole };
    for part in rest.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// `path`, relative to the current folder if it is below it.
pub(crate) fn relative(path: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here).map_or_else(|_| path.to_owned(), Path::to_owned)
}

/// The same as a text.
pub(crate) fn shown(path: &Path) -> String {
    // Drops the `.` of a `./folder` that was joined to another path.
    relative(path).components().collect::<PathBuf>().display().to_string()
}

/// The lab file that is used by default: `tare/lab.yaml` below `$XDG_CONFIG_HOME`, else below `~/.config`.
pub(crate) fn lab() -> Option<PathBuf> {
    let whole = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let folder = whole("XDG_CONFIG_HOME").or_else(|| Some(whole("HOME")?.join(".config")))?;
    Some(folder.join("tare/lab.yaml"))
}

/// The folder of the user's session, which nobody else can open, if there is one.
pub(crate) fn runtime_folder() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_program_finds_its_studies() {
        let found = |program: &str| folders_of(Path::new(program), "studies");
        assert_eq!(found("/usr/bin/tare").last(), Some(&PathBuf::from("/usr/share/tare/studies")));
        assert_eq!(found("/opt/tare/bin/tare").last(), Some(&PathBuf::from("/opt/tare/share/tare/studies")));
        assert!(found("/src/target/release/tare").contains(&PathBuf::from("/src/studies")));
        assert_eq!(found(""), Vec::<PathBuf>::new());
    }

    #[test]
    fn empty_entries_of_path_are_removed() {
        let cleaned = |path: &str| without_empty(OsStr::new(path)).into_string().unwrap();
        assert_eq!(cleaned(":/usr/bin::/bin:"), "/usr/bin:/bin");
        assert_eq!(cleaned("/usr/bin"), "/usr/bin");
        for path in ["", ":", "::"] {
            assert_eq!(cleaned(path), USUAL_PATH);
        }
    }

    #[test]
    fn a_plain_path_has_no_detours_and_follows_links() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::create_dir_all(root.join("far/away")).unwrap();
        std::os::unix::fs::symlink(root.join("far/away"), root.join("link")).unwrap();
        assert_eq!(plain(&root.join("a/b/../../a/./b")), root.join("a/b"));
        assert_eq!(plain(&root.join("link/..")), root.join("far"));
        assert_eq!(plain(&root.join("a/../missing/./x/../y")), root.join("missing/y"));
        assert_eq!(plain(Path::new(".")), std::env::current_dir().unwrap());
    }
}
