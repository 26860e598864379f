//! Programs of this machine that containers are made with: where they are, and which version.

use crate::environment;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where such programs are in addition to the folders in PATH, which for a plain user has none for administrators.
const FOLDERS: [&str; 4] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"];

/// The folders in which programs are looked for.
pub(super) fn folders() -> Vec<PathBuf> {
    environment::path().into_iter().chain(FOLDERS.map(PathBuf::from)).collect()
}

/// The program of this name, which holds no `/`.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    folders().into_iter().map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// What a program says is its version.
pub(super) fn version_of(program: &Path) -> Option<String> {
    let said = Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    version_in(&String::from_utf8_lossy(&said.stdout))
}

/// The version in what a program says: `runc version 1.1.5+ds1`, `youki version: 0.3.3`, `kata-runtime  : 3.2.0`.
fn version_in(said: &str) -> Option<String> {
    let line = said.lines().next()?;
    // systemd's own number and, in brackets, that of the package; and LXC says nothing else.
    let package = line.strip_prefix("systemd ").and_then(|rest| rest.split_once('(')?.1.strip_suffix(')'));
    let alone = Some(line).filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    if let Some(version) = package.or(alone) {
        return Some(version.trim().to_owned());
    }
    let (_, version) = line.split_once(" version").or_else(|| line.split_once(" : "))?;
    let version = version.trim_start_matches(':').split(',').next()?.trim();
    (!version.is_empty()).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_say_their_versions_in_several_ways() {
        let ways = [
            ("runc version 1.1.5+ds1\ncommit: x", "1.1.5+ds1"),
            ("crun version 1.8.1\n", "1.8.1"),
            ("runsc version release-20240212.0\nspec: 1.1.0-rc.1", "release-20240212.0"),
            ("systemd 252 (252.39-1~deb12u2)\n+PAM", "252.39-1~deb12u2"),
            ("5.0.2\n", "5.0.2"),
            ("youki version: 0.3.3\ncommit: x", "0.3.3"),
            ("kata-runtime  : 3.2.0\n   commit   : x", "3.2.0"),
            ("Kata Containers containerd shim: id: \"io.containerd.kata.v2\", version: 3.2.0, commit: x", "3.2.0"),
        ];
        for (said, version) in ways {
            assert_eq!(version_in(said).as_deref(), Some(version), "{said}");
        }
        assert_eq!((version_in(""), version_in("usage: x"), version_in("x version")), (None, None, None));
    }
}
