//! The Debian package, made by dpkg-deb of a folder in which everything stands as it will.

use crate::archive::compressed;
use crate::output_of;
use crate::shipped::{DOCUMENTS, Release, THIRD_PARTY, ZSH_COMPLETIONS};
use crate::tree::{Entry, Tree};
use anyhow::{Context, Result, bail};
use md5::{Digest, Md5};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// What Tare calls, of which each form and workload needs some. Reports, checks and load need none of it, so nothing is
/// a dependency.
const RECOMMENDED: &str = "docker.io | docker-ce | podman, runc | crun, mmdebstrap, qemu-system-x86, iproute2, iptables, \
                           e2fsprogs, kmod, xz-utils, zstd, ca-certificates, apparmor";

const ABOUT: &str = "\
scale for deployment forms
 Tare runs the same bits as plain processes, in a container, in a virtual
 machine and in a container inside a virtual machine, drives the same load at
 each, and says what each form costs on this machine, with a confidence
 interval.
";

/// The name and the bytes of the package.
pub(crate) fn package(release: &Release) -> Result<(String, Vec<u8>)> {
    let tree = installed(release)?;
    let told = control(release, &tree);
    let folder = tempfile::tempdir()?;
    let root = folder.path().join("root");
    let top = Entry::Folder(0o755);
    let all = || [("", &top)].into_iter().chain(told.entries()).chain(tree.entries());
    for (path, entry) in all() {
        put(&root.join(path), entry).with_context(|| format!("could not put {path} into the package"))?;
    }
    // dpkg-deb gives what is newer than SOURCE_DATE_EPOCH that time, and leaves what is older, as when that is to come.
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(release.time);
    for (path, _) in all() {
        File::open(root.join(path))?.set_modified(time).with_context(|| format!("could not date {path}"))?;
    }
    let name = format!("tare_{}_{}.deb", release.version, release.architecture());
    let file = folder.path().join(&name);
    let mut dpkg = Command::new("dpkg-deb");
    // Not zstd, which Ubuntu's takes by itself and older Debians do not read.
    dpkg.args(["--root-owner-group", "-Zxz", if release.quick { "-z0" } else { "-z6" }, "--build"]);
    dpkg.arg(&root).arg(&file).env("SOURCE_DATE_EPOCH", release.time.to_string());
    output_of(&mut dpkg).context("a Debian package is made by dpkg-deb, of the package dpkg")?;
    Ok((name, fs::read(&file)?))
}

/// Where the package puts everything.
fn installed(release: &Release) -> Result<Tree> {
    let changes = format!("{DOCUMENTS}/CHANGELOG.md");
    let mut tree = release.tree.below("usr", |path| {
        if let Some(name) = path.strip_prefix(ZSH_COMPLETIONS) {
            return Some(format!("share/zsh/vendor-completions{name}"));
        }
        // These go into the files that Debian has for them.
        let other = path == changes || path == THIRD_PARTY || path.starts_with(&format!("{DOCUMENTS}/LICENSE-"));
        (!other).then(|| path.to_owned())
    });
    tree.file(&format!("usr/{DOCUMENTS}/changelog.gz"), compressed(content(&release.tree, &changes)?, 9)?);
    let mit = content(&release.tree, &format!("{DOCUMENTS}/LICENSE-MIT"))?;
    let others = content(&release.tree, THIRD_PARTY)?;
    let copyright = format!(
        "Tare is licensed under the MIT licence, which follows, or the Apache License 2.0, at your choice. On Debian systems \
         the latter\nis found in /usr/share/common-licenses/Apache-2.0, the GNU licences beside it.\n\n{}\n{}\n{}",
        String::from_utf8_lossy(mit),
        "-".repeat(80),
        String::from_utf8_lossy(others)
    );
    tree.file(&format!("usr/{DOCUMENTS}/copyright"), copyright.into_bytes());
    Ok(tree)
}

fn content<'a>(tree: &'a Tree, wanted: &str) -> Result<&'a [u8]> {
    match tree.entries().find(|(path, _)| *path == wanted) {
        Some((_, Entry::File(content, _))) => Ok(content),
        _ => bail!("there is no {wanted}"),
    }
}

/// What dpkg has to know of the package.
fn control(release: &Release, tree: &Tree) -> Tree {
    let mut kibibytes = 0;
    let mut sums = String::new();
    for (path, entry) in tree.entries() {
        let Entry::File(content, _) = entry else { continue };
        kibibytes += content.len().div_ceil(1024);
        sums += &format!("{}  {path}\n", crate::hexadecimal(&Md5::digest(content)));
    }
    let (version, architecture) = (release.version, release.architecture());
    let control = format!(
        "Package: tare\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: The Tare authors\n\
         Installed-Size: {kibibytes}\nRecommends: {RECOMMENDED}\nSection: utils\n\
         Priority: optional\nDescription: {ABOUT}"
    );
    let mut tree = Tree::default();
    tree.file("DEBIAN/control", control.into_bytes());
    tree.file("DEBIAN/md5sums", sums.into_bytes());
    tree
}

fn put(place: &Path, entry: &Entry) -> Result<()> {
    let mode = match entry {
        Entry::Folder(mode) => {
            fs::create_dir_all(place)?;
            mode
        }
        Entry::File(content, mode) => {
            fs::write(place, content)?;
            mode
        }
    };
    Ok(fs::set_permissions(place, Permissions::from_mode(*mode))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `./quickstart` installs for running Tare is what the package recommends.
    #[test]
    fn what_running_needs_is_recommended() {
        let script = include_str!("../../install.sh");
        let needs = script.split("\nrun_needs() {").nth(1).and_then(|rest| rest.split("\n}").next());
        let words = needs.expect("the function is there").split_whitespace();
        let packages = words.filter_map(|word| Some(word.split_once('=')?.0));
        // What is left of a comparison of the shell's is no name.
        let packages: Vec<&str> = packages.filter(|package| package.starts_with(char::is_alphabetic)).collect();
        assert!(packages.len() > 8, "{packages:?}");
        let recommended: Vec<&str> = RECOMMENDED.split([',', '|']).map(str::trim).collect();
        // The script itself asks the engine with curl.
        let missing = packages.iter().filter(|package| **package != "curl" && !recommended.contains(package));
        assert_eq!(missing.collect::<Vec<_>>(), Vec::<&&str>::new());
    }
}
