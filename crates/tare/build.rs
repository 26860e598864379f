//! Asks git for the commit of this checkout, for `tare --version` and for records. Outside a checkout it sets nothing.
//! It does not ask whether files differ from the commit: to keep that answer true, it would have to run at every build.

use std::path::Path;
use std::process::Command;

fn main() {
    // Naming any file keeps cargo from running this whenever a file of the package changes.
    println!("cargo::rerun-if-changed=build.rs");
    // A source tree inside another project's checkout is not described by that project's commit.
    if git(&["rev-parse", "--show-prefix"]).as_deref() != Some("crates/tare/") {
        return;
    }
    let Some((commit, seconds)) = git(&["log", "-1", "--format=%H %ct"]).as_deref().and_then(split) else { return };
    println!("cargo::rustc-env=TARE_GIT_COMMIT={commit}");
    println!("cargo::rustc-env=TARE_GIT_TIME={seconds}");
    // Each move of HEAD appends to its log. Without a log, HEAD itself changes, or its branch, which may be among the
    // packed refs. In a worktree these files lie in different folders; git knows where.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "logs/HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        // A missing file would count as changed at every build.
        if let Some(file) = git(&["rev-parse", "--git-path", name]).filter(|file| Path::new(file).is_file()) {
            println!("cargo::rerun-if-changed={file}");
        }
    }
}

fn split(line: &str) -> Option<(String, String)> {
    line.split_once(' ').map(|(commit, seconds)| (commit.to_owned(), seconds.to_owned()))
}

/// The output of git, run in the package's folder like this script.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
