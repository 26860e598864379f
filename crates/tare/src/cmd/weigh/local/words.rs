//! The words of a command of this machine: which program they start, what it is called, and which folders are its own.

use crate::mistake::Mistake;
use crate::paths;
use anyhow::Result;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// Programs that run a script, or a module, which the service is called after. Their versions are left out.
const INTERPRETERS: [&str; 14] =
    ["python", "pypy", "node", "nodejs", "deno", "bun", "java", "ruby", "perl", "php", "lua", "bash", "dash", "sh"];
/// Where nothing of a command can be: in every form these hold what the kernel says, or begin empty, in memory.
const ELSEWHERE: [&str; 5] = ["/proc", "/sys", "/dev", "/run", "/tmp"];
/// Folders at the top that hold what systems consist of, never a program's own folder.
const SYSTEM: [&str; 10] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "boot", "nix"];

/// The program that a command's first word names, as a shell that stands in `here` finds it.
///
/// # Errors
/// When there is none.
pub(super) fn find(word: &str, here: &Path, path: Option<&OsStr>) -> Result<PathBuf> {
    let runs = |place: &Path| place.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0);
    let told = |text: String, to_do: &str| Err(Mistake::new(format!("{text}\n  to do: {to_do}")).into());
    if word.contains('/') {
        // The last link stays: some programs do what they are called.
        let whole = here.join(word);
        let folder = paths::plain(whole.parent().unwrap_or(here));
        let place = folder.join(whole.file_name().unwrap_or_default());
        return match place.metadata() {
            Ok(_) if runs(&place) => Ok(place),
            Ok(_) => told(format!("{word} is no file that can be executed"), "name a program, or `chmod +x` it"),
            Err(error) => told(format!("{word} cannot be started: {error}"), "name a program of this machine"),
        };
    }
    let folders = path.map(std::env::split_paths).into_iter().flatten();
    match folders.map(|folder| here.join(folder).join(word)).find(|place| runs(place)) {
        Some(place) => Ok(place),
        None if here.join(word).is_file() => {
            told(format!("{word} is in no folder of PATH"), &format!("for the one in the current folder, ./{word}"))
        }
        None => told(
            format!("{word} is in no folder of PATH"),
            "write its path; sudo may have another PATH than your shell: `command -v NAME` shows it",
        ),
    }
}

/// What the service is called: its script or module, or else its program.
pub(super) fn name(words: &[String]) -> String {
    let text = |name: Option<&OsStr>| name.unwrap_or_default().to_string_lossy().into_owned();
    let Some((first, rest)) = words.split_first() else { return String::new() };
    let program = text(Path::new(first).file_name());
    let versionless = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !INTERPRETERS.contains(&versionless) {
        return program;
    }
    let module = rest.iter().position(|word| word == "-m").and_then(|at| rest.get(at + 1));
    let script = || rest.iter().find(|word| !word.starts_with('-') && Path::new(word).is_file());
    match module {
        Some(module) => module.clone(),
        None => script().map_or(program, |script| text(Path::new(script).file_stem())),
    }
}

/// Whether a path is where nothing of a command can be.
pub(super) fn is_elsewhere(path: &Path) -> bool {
    ELSEWHERE.iter().any(|place| path.starts_with(place))
}

/// Refuses a program, or a file that the command names, that no form could have where it is.
///
/// # Errors
/// Which one it is.
pub(super) fn check_places(program: &Path, words: &[String], here: &Path) -> Result<()> {
    let named = words.iter().skip(1).filter(|word| !word.starts_with('-')).map(|word| paths::plain(&here.join(word)));
    let mut all = std::iter::once(program.to_owned()).chain(named.filter(|path| path.is_file()));
    let Some(there) = all.find(|path| is_elsewhere(path)) else { return Ok(()) };
    let text = format!("{} is below a folder that is empty, and in memory, in every form", there.display());
    Err(Mistake::new(format!("{text}\n  to do: move it, for example below /srv or /opt")).into())
}

/// The folders of the command itself, whose content may be copied whole: the current one, that of the program, and
/// those of files that its words name; none that a system or a home consists of.
pub(super) fn own_folders(program: &Path, words: &[String], here: &Path) -> Vec<PathBuf> {
    let named = words.iter().skip(1).map(|word| here.join(word)).filter(|path| path.is_file());
    let files = std::iter::once(program.to_owned()).chain(named);
    let folders = files.filter_map(|file| Some(paths::plain(&file).parent()?.to_owned()));
    let mut own: Vec<PathBuf> = std::iter::once(here.to_owned()).chain(folders).filter(|path| is_own(path)).collect();
    own.sort();
    own.dedup();
    own
}

fn is_own(folder: &Path) -> bool {
    let parts: Vec<OsString> = folder
        .components()
        .filter_map(|part| if let Component::Normal(name) = part { Some(name.to_owned()) } else { None })
        .collect();
    let Some(top) = parts.first().and_then(|top| top.to_str()) else { return false };
    let least = match top {
        // A home, or a folder of a system's state, is more than one program's.
        "home" | "var" => 3,
        "root" | "opt" | "srv" | "mnt" | "media" => 2,
        _ => 1,
    };
    !SYSTEM.contains(&top) && !is_elsewhere(folder) && parts.len() >= least
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().canonicalize().unwrap();
        let program = tare_testkit::files::write(&here.join("bin/server"), b"#!/bin/sh\n");
        tare_testkit::files::write(&here.join("note"), b"x");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("server", here.join("bin/other")).unwrap();
        let path = here.join("none").into_os_string();
        let of = |word: &str| find(word, &here, Some(&path));
        assert_eq!(of("./bin/../bin/server").unwrap(), program);
        assert_eq!(of("bin/other").unwrap(), here.join("bin/other"), "it may do what it is called");
        assert_eq!(find("server", &here, Some(here.join("bin").as_os_str())).unwrap(), program);
        let told = |word: &str| of(word).unwrap_err().to_string();
        assert!(told("./note").contains("chmod +x"), "{}", told("./note"));
        assert!(told("note").contains("./note"), "{}", told("note"));
        assert!(told("server").contains("command -v"), "{}", told("server"));
        assert!(told("./none").contains("cannot be started"), "{}", told("./none"));
    }

    #[test]
    fn a_script_gives_its_name() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert_eq!(name(&words(&format!("/usr/bin/python3.11 -u {} {{port}}", script.display()))), "Cargo");
        assert_eq!(name(&words("python3 -m http.server {port}")), "http.server");
        assert_eq!(name(&words("./server -m x")), "server");
        assert_eq!(name(&words("node --version")), "node");
    }

    #[test]
    fn folders_of_systems_and_homes_are_nobodys_own() {
        for own in ["/srv/app", "/home/me/app", "/app", "/var/www/app", "/root/app"] {
            assert!(is_own(Path::new(own)), "{own}");
        }
        for other in ["/", "/home/me", "/root", "/usr/lib/x", "/etc/nginx", "/var/lib", "/srv", "/tmp/app"] {
            assert!(!is_own(Path::new(other)), "{other}");
        }
    }
}
