//! Asks git of which commit this is a checkout, for `tare --version` and for records. Outside of a checkout nothing is
//! known, and nothing is said. Whether files differ from the commit is not asked: to keep the answer true, this would
//! have to run at every build.

use std::path::Path;
use std::process::Command;

fn main() {
    // Naming a file at all keeps cargo from running this whenever any file of the package changes.
    println!("cargo::rerun-if-changed=build.rs");
    // A source tree that lies inside of somebody else's checkout is not what that one's commit is about.
    if git(&["rev-parse", "--show-prefix"]).as_deref() != Some("crates/tare/") {
        return;
    }
    let Some((commit, seconds)) = git(&["log", "-1", "--format=%H %ct"]).as_deref().and_then(split) else { return };
    println!("cargo::rustc-env=TARE_GIT_COMMIT={commit}");
    println!("cargo::rustc-env=TARE_GIT_TIME={seconds}");
    // Each move of HEAD is a line of its log. Where no log is kept, HEAD itself moves, or its branch, which may stand
    // in the list of packed ones. In a worktree these lie in different folders; git knows in which.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "logs/HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        // A file that is not there would count as changed at every build.
        if let Some(file) = git(&["rev-parse", "--git-path", name]).filter(|file| Path::new(file).is_file()) {
            println!("cargo::rerun-if-changed={file}");
        }
    }
}

fn split(line: &str) -> Option<(String, String)> {
    line.split_once(' ').map(|(commit, seconds)| (commit.to_owned(), seconds.to_owned()))
}

/// What git answers, which runs in the package's folder as this does.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
