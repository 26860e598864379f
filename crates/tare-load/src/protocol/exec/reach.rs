//! Whether a tool may use its files. It runs as a user without rights, and what root has installed or written may be
//! for root alone: then the file that is in the way is named.

use super::process::find_program;
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use tare_core::fault::Fault;

/// How many interpreters may stand behind each other, as the kernel has it.
const INTERPRETERS_MAX: usize = 4;
/// As much of a script's first line as the kernel reads, bytes.
const FIRST_LINE: u64 = 256;

/// Checks that every user may start this program, which the command calls `name`, and, if it is a script, the
/// interpreter that its first line names.
///
/// # Errors
/// What is in the way, and what to do.
pub(super) fn check_program(program: &Path, name: &str) -> Result<(), Fault> {
    let mut program = program.to_owned();
    let mut whose = format!("the load tool '{name}'");
    for _ in 0..INTERPRETERS_MAX {
        let interpreter = interpreter(&program);
        let wanted = if interpreter.is_some() { Access::READ_OK | Access::EXEC_OK } else { Access::EXEC_OK };
        if let Some(closed) = in_the_way(&program, wanted) {
            let (at, closed) = (program.display(), closed.display());
            let text = format!("{whose} is {at}, but not every user may use {closed}, and no tool runs as root");
            return Err(Fault::new(text).remedy("install it for all users, for example in /usr/local/bin"));
        }
        let Some(next) = interpreter else { return Ok(()) };
        let found = match PathBuf::from(&next) {
            path if !path.is_absolute() => find_program(&next),
            path => (path.exists() || in_the_way(&path, Access::EXEC_OK).is_some()).then_some(path),
        };
        let Some(found) = found else {
            let text = format!("{whose} is {}, a script for {next}, which is not there", program.display());
            return Err(Fault::new(text).remedy(format!("install {next}, or the tool anew")));
        };
        whose = format!("the interpreter of the load tool '{name}'");
        program = found;
    }
    Ok(())
}

/// The program that the first line of a script names, by its path or, behind `env`, its name.
fn interpreter(program: &Path) -> Option<String> {
    let mut first = Vec::new();
    File::open(program).ok().filter(is_regular)?.take(FIRST_LINE).read_to_end(&mut first).ok()?;
    let line = first.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_whitespace();
    let path = words.next()?;
    let is_name = |word: &&str| !word.starts_with('-') && !word.contains('=');
    let by_env = path.ends_with("/env").then(|| words.find(is_name)).flatten();
    Some(by_env.unwrap_or(path).to_owned())
}

fn is_regular(file: &File) -> bool {
    file.metadata().is_ok_and(|data| data.is_file())
}

/// What a tool that has failed could not read: a file that one of its arguments names, with what to do, or one that its
/// messages name as denied. `directory` is where it started.
pub(super) fn denied(arguments: &[String], directory: Option<&str>, log: &str) -> Option<String> {
    let start = directory.map_or_else(PathBuf::new, PathBuf::from);
    let named = arguments.iter().filter_map(|word| match word.split_once('=') {
        Some((_, value)) if word.starts_with('-') => Some(value),
        _ => (!word.starts_with('-')).then_some(word.as_str()),
    });
    let named = named.filter(|word| !word.is_empty());
    // Of what lies in a folder that is closed nobody can say whether it is there, but the tool has wanted it.
    let named = named.map(|word| (start.join(word), word)).filter(|(file, word)| file.exists() || log.contains(*word));
    let mut named = named.map(|(file, _)| file);
    let quotes = |c: char| c.is_whitespace() || "'\"`()[]<>,;:=".contains(c);
    let denials = log.lines().filter(|line| line.contains("ermission denied"));
    let mut told = denials.flat_map(|line| line.split(quotes)).filter(|word| word.starts_with('/')).map(PathBuf::from);
    if let Some((file, closed)) = named.find_map(closed) {
        return Some(advice(&file, &closed));
    }
    let (file, _) = told.find_map(closed)?;
    // A tool prints what it likes, and root reads this: it is not told to open that file to everybody.
    Some(format!("the tool runs as a user without rights, and says that it may not read {}", file.display()))
}

/// A file by its whole path, with what keeps a tool from it.
fn closed(file: PathBuf) -> Option<(PathBuf, PathBuf)> {
    let file = std::path::absolute(file).ok()?;
    let closed = in_the_way(&file, Access::READ_OK)?;
    Some((file, closed))
}

/// What to do about a file that the command names, from which `closed` keeps the tool.
fn advice(file: &Path, closed: &Path) -> String {
    let (shown, at) = (file.display(), closed.display());
    // The tool may have put a link there: what it leads to is not told to be opened to everybody.
    if file.canonicalize().is_ok_and(|real| real != file) {
        return format!("the tool runs as a user without rights, who may not use {at}, and {shown} leads there");
    }
    if file == closed {
        return format!(
            "the tool runs as a user without rights, who may not read {at}: let every user, chmod a+r {at}"
        );
    }
    format!(
        "the tool runs as a user without rights, who may not enter {at}: copy {shown} to where every user may read it, \
         such as /usr/local, and name it there"
    )
}

/// What keeps a tool from its file: the file, or a folder that leads to it. Nothing if the file is not there.
fn in_the_way(file: &Path, wanted: Access) -> Option<PathBuf> {
    // Where links lead, as far as they can be followed.
    let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let mut folders: Vec<&Path> = real.ancestors().skip(1).collect();
    folders.reverse();
    if let Some(folder) = folders.into_iter().find(|folder| is_denied(folder, Access::EXEC_OK)) {
        return Some(folder.to_owned());
    }
    let is_folder = real.is_dir();
    is_denied(&real, if is_folder { Access::EXEC_OK } else { wanted }).then_some(real)
}

/// Whether a tool may not use this so. It has the rights of this process, or of anybody if this is root's.
fn is_denied(path: &Path, wanted: Access) -> bool {
    if !rustix::process::geteuid().is_root() {
        return access(path, wanted) == Err(Errno::ACCESS);
    }
    let bits = [(Access::READ_OK, 0o004), (Access::EXEC_OK, 0o001)];
    let needed = bits.iter().filter(|(kind, _)| wanted.contains(*kind)).fold(0, |all, (_, bit)| all | bit);
    path.metadata().is_ok_and(|data| data.mode() & needed != needed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    /// A folder that every user may enter, with what is written there.
    fn stage(files: &[(&str, &str, u32)]) -> tempfile::TempDir {
        let folder = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir().unwrap();
        for (name, text, mode) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(*mode)).unwrap();
        }
        folder
    }

    fn close(path: &Path) {
        fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
    }

    #[test]
    fn a_first_line_names_the_interpreter() {
        let lines = [
            ("#!/bin/sh\n", Some("/bin/sh")),
            ("#! /usr/bin/python3 -s\nx", Some("/usr/bin/python3")),
            ("#!/usr/bin/env -S A=1 python3 -s", Some("python3")),
            ("\x7fELF", None),
            ("#!", None),
        ];
        for (text, wanted) in lines {
            let stage = stage(&[("tool", text, 0o755)]);
            assert_eq!(interpreter(&stage.path().join("tool")).as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn a_tool_whose_interpreter_is_for_root_alone_is_told_with_what_is_in_the_way() {
        let stage = stage(&[("venv/bin/python", "", 0o755), ("tool", "", 0o755), ("gone", "#!/no/such", 0o755)]);
        let (venv, tool) = (stage.path().join("venv"), stage.path().join("tool"));
        fs::write(&tool, format!("#!{}/bin/python\n", venv.display())).unwrap();
        assert_eq!(check_program(&tool, "tool"), Ok(()));
        let told = check_program(&stage.path().join("gone"), "gone").unwrap_err();
        assert!(told.message.contains("a script for /no/such, which is not there"), "{told}");
        fs::set_permissions(&venv, Permissions::from_mode(0o600)).unwrap();
        let told = check_program(&tool, "tool").unwrap_err();
        let wanted = format!("the interpreter of the load tool 'tool' is {}/bin/python, but not every", venv.display());
        assert!(told.message.starts_with(&wanted), "{told}");
        fs::set_permissions(&venv, Permissions::from_mode(0o755)).unwrap();
        close(&tool);
        assert!(check_program(&tool, "tool").unwrap_err().message.contains("not every user may use"));
    }

    #[test]
    fn what_a_failed_tool_could_not_read_is_named() {
        let stage = stage(&[("own/load.py", "", 0o644), ("plan", "", 0o644)]);
        let [own, plan] = ["own", "plan"].map(|name| stage.path().join(name));
        let command = |path: &Path| vec!["-u".to_owned(), path.display().to_string()];
        assert_eq!(denied(&command(&plan), None, "No such file"), None);
        assert_eq!(denied(&["x".to_owned()], stage.path().to_str(), "Permission denied: '/no/such'"), None);
        close(&plan);
        let told = denied(&command(&plan), None, "").unwrap();
        assert!(told.ends_with(&format!("chmod a+r {}", plan.display())), "{told}");
        assert_eq!(denied(&["-u".to_owned(), "plan".to_owned()], stage.path().to_str(), ""), Some(told.clone()));
        let log = format!("PermissionError: [Errno 13] Permission denied: '{}'", plan.display());
        let said = denied(&["x".to_owned()], None, &log).unwrap();
        assert_eq!(
            said,
            format!("the tool runs as a user without rights, and says that it may not read {}", plan.display())
        );
        assert_eq!(denied(&command(&plan), None, &log), Some(told.clone()), "the command names it too");
        assert_eq!(denied(&[format!("--plan={}", plan.display())], None, ""), Some(told));
        let script = own.join("load.py");
        fs::set_permissions(&own, Permissions::from_mode(0o600)).unwrap();
        let log = format!("cannot open {}", script.display());
        let told = denied(&command(&script), None, &log).unwrap();
        assert!(told.contains(&format!("may not enter {}: copy {}", own.display(), script.display())), "{told}");
        fs::set_permissions(&own, Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn nobody_is_told_to_open_a_file_that_a_tool_only_speaks_of_or_links_to() {
        let stage = stage(&[("shadow", "", 0o644)]);
        let [shadow, link] = ["shadow", "link"].map(|name| stage.path().join(name));
        std::os::unix::fs::symlink(&shadow, &link).unwrap();
        close(&shadow);
        let at = shadow.display();
        let spoken = denied(&[], None, &format!("cat: {at}: Permission denied"));
        let linked = denied(&[link.display().to_string()], None, "");
        for told in [spoken, linked] {
            let told = told.unwrap();
            assert!(told.contains(&at.to_string()), "{told}");
            assert!(["chmod", "copy"].iter().all(|word| !told.contains(word)), "{told}");
        }
    }
}
