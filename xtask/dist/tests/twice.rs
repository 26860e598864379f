//! The program itself, built twice from one commit at two places.

use crate::{contents, expect, is_checkout};
use std::path::Path;
use std::process::Command;

/// A copy of this checkout at its commit, with what is packaged of it.
fn build(checkout: &Path, out: &Path) {
    let mut git = Command::new("git");
    git.args(["clone", "--quiet"]).arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).arg(checkout);
    expect(&mut git);
    // Closed to others, and where nothing is remembered of another build.
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "umask 077; exec \"$@\"",
        "sh",
        env!("CARGO_BIN_EXE_xtask-dist"),
        "--quick",
        "--only",
        "tarball",
    ]);
    command.arg("--checkout").arg(checkout).arg("--out").arg(out).env_remove("CARGO_TARGET_DIR").current_dir("/");
    expect(&mut command);
    std::fs::remove_dir_all(checkout).expect("it is ours");
}

#[test]
fn what_is_built_of_one_commit_at_two_places_is_the_same() {
    if !is_checkout() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    build(&folder.path().join("here"), &first);
    build(&folder.path().join("elsewhere/with a much longer name"), &second);
    let (first, second) = (contents(&first), contents(&second));
    assert_eq!(first.len(), 2, "a tarball and the digests");
    for ((name, first), (_, second)) in first.iter().zip(&second) {
        assert!(first == second, "{name} differs");
    }
}
