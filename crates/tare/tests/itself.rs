//! What the command line generates about itself: completions, manual pages, its version.

use crate::cli::{root, said, tare};

#[test]
fn completions_and_manual_pages_are_made() {
    for shell in ["bash", "zsh", "fish"] {
        let output = tare().args(["completions", shell]).output().unwrap();
        assert!(output.status.success() && said(&output).contains("at-most"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    tare().arg("man").arg(folder.path()).assert().success();
    assert!(folder.path().join("tare-run.1").exists());
}

#[test]
fn completions_into_a_closed_pipe_are_no_error() {
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("tare"));
    command.args(["completions", "bash"]).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_version_names_the_commit_and_its_date() {
    let text = said(&tare().arg("--version").output().unwrap());
    let version = concat!("tare ", env!("CARGO_PKG_VERSION"));
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git").args(arguments).current_dir(root()).env("TZ", "UTC").output();
        output.ok().filter(|output| output.status.success()).map(|output| said(&output).trim().to_owned())
    };
    // A source tree inside another checkout, or in none.
    if git(&["rev-parse", "--show-prefix"]).as_deref() != Some("") {
        assert_eq!(text.trim(), version);
        return;
    }
    let known = text.trim().strip_prefix(version).and_then(|rest| rest.strip_prefix(" (")?.strip_suffix(')'));
    let (commit, date) = known.and_then(|known| known.split_once(' ')).expect(&text);
    assert_eq!(commit.len(), 10, "{text}");
    // The commit at build time: there may be newer ones.
    let of_commit = git(&["show", "--no-patch", "--format=%cd", "--date=format-local:%Y-%m-%d", commit]);
    assert_eq!(of_commit.as_deref(), Some(date), "{text}");
}
