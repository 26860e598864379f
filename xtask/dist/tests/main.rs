//! What is released, as its users get it.

mod installed;
mod same;
mod twice;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a command says and whether it succeeds.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs a command that must succeed; what it says.
fn expect(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}:\n{}", said(&output));
    said(&output)
}

/// Whether this is a checkout of git, as what is released is made of a commit; says so if not.
fn is_checkout() -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace");
    let is = checkout(root).unwrap_or_else(|refusal| panic!("{refusal}"));
    if !is {
        println!("skipped: this is no checkout of git");
    }
    is
}

/// Whether `root` is a checkout.
///
/// # Errors
/// What git says where it is one that git does not read: that is no reason to skip anything.
fn checkout(root: &Path) -> Result<bool, String> {
    if root.join(".git").symlink_metadata().is_err() {
        return Ok(false);
    }
    let output = Command::new("git").args(["rev-parse", "--is-inside-work-tree"]).current_dir(root).output();
    let output = output.map_err(|error| format!("could not run git: {error}"))?;
    if output.status.success() {
        return Ok(true);
    }
    let remedy = format!("git config --global --add safe.directory '{}'", root.display());
    let said = said(&output);
    Err(format!("{said}git does not read this checkout; where another user owns it, this helps: {remedy}"))
}

#[test]
fn only_what_is_no_checkout_is_taken_for_none() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(checkout(folder.path()), Ok(false));
    std::fs::write(folder.path().join(".git"), "no place\n").expect("it can be written");
    let refusal = checkout(folder.path()).expect_err("git refuses it");
    assert!(refusal.contains("invalid gitfile") && refusal.contains("--add safe.directory"), "{refusal}");
}

/// Packages `binary` into `out`.
fn dist(binary: &Path, out: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask-dist"));
    command.arg("--quick").arg("--binary").arg(binary).arg("--out").arg(out).args(arguments);
    command
}

/// The one file of a folder whose name ends so.
fn file(folder: &Path, ending: &str) -> PathBuf {
    let files = std::fs::read_dir(folder).expect("it is a folder").map(|entry| entry.expect("it is read").path());
    let mut fitting: Vec<PathBuf> = files.filter(|path| path.display().to_string().ends_with(ending)).collect();
    assert_eq!(fitting.len(), 1, "{fitting:?}");
    fitting.remove(0)
}

/// Puts a folder's files, which must be texts or small, beside their names.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let names = std::fs::read_dir(folder).expect("it is a folder").map(|entry| entry.expect("it is read").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names.into_iter().map(|name| (name.clone(), std::fs::read(folder.join(name)).expect("it is read"))).collect()
}
