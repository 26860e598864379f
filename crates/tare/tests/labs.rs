//! `tare lab` without a network: lab files, and this machine behind a command.

use crate::cli::{flat, said, tare};
use serde_json::Value;
use std::path::Path;
use std::process::Output;
use tare_testkit::files;

fn lab(folder: &Path, text: &str) -> String {
    files::write(&folder.join("tare/lab.yaml"), text).display().to_string()
}

fn run(args: &[&str]) -> Output {
    tare().args(args).output().unwrap()
}

#[test]
fn a_lab_is_listed_and_checked_without_reaching_a_machine() {
    let folder = tempfile::tempdir().unwrap();
    let text =
        "machines:\n  sut: {ssh: root@192.0.2.1, network: 192.0.2.1}\n  any: {command: [x, \"{tare}\", agent]}\n";
    let file = lab(folder.path(), text);
    let listed = run(&["lab", "list", "--lab", &file]);
    assert_eq!(listed.status.code(), Some(0), "{}", said(&listed));
    assert!(flat(&listed).contains("sut 192.0.2.1 ssh root@192.0.2.1 any - command x"), "{}", said(&listed));
    // The user's own file is found by itself.
    let found = tare().args(["lab", "list", "--json"]).env("XDG_CONFIG_HOME", folder.path()).output().unwrap();
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(found[0]["machine"], "sut", "{found}");
    assert_eq!(found[1]["way"], "command x", "{found}");
    let checked = run(&["check", &file]);
    assert_eq!(checked.status.code(), Some(0), "{}", said(&checked));
    assert!(flat(&checked).contains("lab of 2 machines, no mistakes"), "{}", said(&checked));
}

#[test]
fn mistakes_in_a_lab_or_on_the_command_line_exit_with_two() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = lab(folder.path(), "machines:\n  a: {slurm: {}}\n  b: {ssh: b, nettwork: 192.0.2.1}\n");
    let nowhere = folder.path().join("nowhere");
    for verb in ["list", "check", "clean"] {
        let output = run(&["lab", verb, "--lab", &wrong]);
        assert_eq!(output.status.code(), Some(2), "{verb}: {}", said(&output));
        assert!(flat(&output).contains("machines of the kind 'slurm' do not exist yet"), "{}", said(&output));
        assert!(flat(&output).contains("did you mean 'network'?"), "{}", said(&output));
        let output = tare().args(["lab", verb]).env("XDG_CONFIG_HOME", &nowhere).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{verb}: {}", said(&output));
        assert!(flat(&output).contains("there is no lab file"), "{}", said(&output));
    }
    let right = lab(folder.path(), "machines:\n  a: {ssh: a}\n");
    let output = run(&["lab", "check", "--lab", &right, "b"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(flat(&output).contains("the lab has no machine 'b'; it has a"), "{}", said(&output));
}

/// This machine, as if it were another: the program is brought, started and asked, and nothing but ssh is left out.
#[test]
fn a_machine_behind_a_command_is_reached_by_root_alone() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let text = format!(
        "machines:\n  here: {{command: [env, \"{{tare}}\", agent], home: {}}}\n  gone: {{command: [no-such-program, \
         \"{{tare}}\", agent]}}\n",
        home.display()
    );
    let file = lab(folder.path(), &text);
    let output = run(&["lab", "clean", "--lab", &file, "--dry-run", "--within", "2m"]);
    // One machine that cannot be had is said, whatever becomes of the other.
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(flat(&output).contains("reached by `no-such-program`, and there is none"), "{}", said(&output));
    let brought = std::fs::read_dir(folder.path().join("home-lab")).map_or(0, Iterator::count);
    if rustix::process::geteuid().is_root() {
        assert!(flat(&output).contains("in all"), "{}", said(&output));
        assert_eq!(brought, 1, "{}", said(&output));
    } else {
        assert!(flat(&output).contains("Tare is not root on here"), "{}", said(&output));
        assert_eq!(brought, 0, "{}", said(&output));
    }
}
