//! The same program of the same commit makes the same bytes.

use crate::{VERSION, contents, dist, expect, is_checkout, said};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A stand-in for the program that says what is asked of it when it is packaged.
fn stand_in(folder: &Path, version: &str) -> PathBuf {
    let path = folder.join("program");
    let script = format!(
        "#!/bin/sh\ncase $1 in\n--version) echo 'tare {version} (1a2b3c4d5e 2026-11-24)' ;;\n\
         man) echo .TH > \"$2/tare.1\"; echo .TH > \"$2/tare-run.1\" ;;\ncompletions) echo \"for $2\" ;;\nesac\n"
    );
    std::fs::create_dir_all(folder).expect("it can be made");
    std::fs::write(&path, script).expect("it can be written");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).expect("it is ours");
    path
}

#[test]
fn the_same_program_makes_the_same_bytes() {
    if !is_checkout() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    expect(&mut dist(&stand_in(&folder.path().join("a"), VERSION), &first, &[]));
    // At another second, from another folder, and with everything closed to others.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let again = dist(&stand_in(&folder.path().join("b/c"), VERSION), &second, &[]);
    let mut masked = Command::new("sh");
    masked.args(["-c", "umask 077; exec \"$@\"", "sh"]).arg(again.get_program()).args(again.get_args());
    expect(masked.current_dir("/"));
    let (first_files, second_files) = (contents(&first), contents(&second));
    let names: Vec<&str> = first_files.iter().map(|(name, _)| name.as_str()).collect();
    let prefix = format!("tare-{VERSION}-{}-linux", std::env::consts::ARCH);
    let made = [format!("{prefix}-image.tar"), format!("{prefix}.tar.gz")];
    assert_eq!(names[0], "SHA256SUMS");
    assert_eq!(names[1..3], made);
    assert!(names[3].starts_with(&format!("tare_{VERSION}_")) && names.len() == 4, "{names:?}");
    for ((name, first), (_, second)) in first_files.iter().zip(&second_files) {
        assert!(first == second, "{name} differs");
    }
    assert_eq!(
        expect(Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(&first)).lines().count(),
        3
    );
}

#[test]
fn the_commits_time_is_that_of_everything() {
    if !is_checkout() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let binary = stand_in(folder.path(), VERSION);
    let listed = |name: &str, time: &str| {
        let out = folder.path().join(name);
        expect(dist(&binary, &out, &["--only", "deb"]).env("SOURCE_DATE_EPOCH", time));
        expect(Command::new("dpkg-deb").arg("--contents").arg(crate::file(&out, ".deb")).env("TZ", "UTC"))
    };
    // Also when that is in the future.
    for (name, time, shown) in [("past", "86400", "1970-01-02 00:00"), ("future", "4102444800", "2100-01-01 00:00")] {
        let listed = listed(name, time);
        assert!(listed.lines().count() > 150, "{listed}");
        assert!(listed.lines().all(|line| line.contains(shown) && line.contains(" root/root ")), "{listed}");
    }
}

#[test]
fn a_program_of_another_version_is_refused() {
    if !is_checkout() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let binary = stand_in(folder.path(), "99.0.0");
    let output = dist(&binary, &folder.path().join("out"), &[]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("it says 'tare 99.0.0 (1a2b3c4d5e 2026-11-24)'"), "{}", said(&output));
}
