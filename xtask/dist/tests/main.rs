//! What is released, as its users get it.

mod installed;
mod same;

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
    let mut git = Command::new("git");
    git.args(["rev-parse", "--is-inside-work-tree"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let is = git.output().is_ok_and(|output| output.status.success());
    if !is {
        println!("skipped: this is no checkout of git");
    }
    is
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
