//! Turns extracted packages into a system on which a service can run: the links of the merged /usr, a shell, the
//! standard directories, users, alternatives. Nothing here depends on the machine.

use super::alternatives::{self, Alternative};
use crate::tree::{Kind, Meta};
use crate::unpack::layer::Assembly;
use crate::unpack::rooted::{Below, Rooted};
use rustix::fs::FileType;
use std::io::Read;
use tare_core::fault::{Doing, Fault};

/// Directories that are links into /usr on every current Debian and Ubuntu.
const MERGED: &[&str] = &["bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// What a running service never reads, and traces of the build host.
const LEFT_OUT_BELOW: &[&[u8]] = &[
    b"usr/share/doc/",
    b"usr/share/man/",
    b"usr/share/info/",
    b"usr/share/locale/",
    b"usr/share/lintian/",
    b"usr/share/bug/",
    b"var/lib/apt/",
    b"var/lib/dpkg/",
    b"var/cache/",
    b"etc/apt/",
    b"boot/",
];
const LEFT_OUT: &[&[u8]] =
    &[b"etc/resolv.conf", b"etc/hostname", b"etc/fstab", b"etc/machine-id", b"var/log/bootstrap.log"];

/// The directories that every system has, with their modes.
const FOLDERS: &[(&str, u32)] = &[
    ("dev", 0o755),
    ("etc", 0o755),
    ("home", 0o755),
    ("proc", 0o555),
    ("root", 0o700),
    ("run", 0o755),
    ("sys", 0o555),
    ("tmp", 0o1777),
    ("var", 0o755),
    ("var/cache", 0o755),
    ("var/lib", 0o755),
    ("var/log", 0o755),
    ("var/tmp", 0o1777),
];

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\n";
const HOSTS: &str = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n";
const NAME_SERVICES: &str = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\n";

/// Whether an extracted entry is left out of the bundle.
pub(super) fn is_left_out(path: &[u8]) -> bool {
    LEFT_OUT.contains(&path) || LEFT_OUT_BELOW.iter().any(|folder| path.starts_with(folder))
}

/// Does what the packages' installation scripts would have done, as far as every service needs it.
pub(super) fn finish(assembly: &mut Assembly, scripts: &[String]) -> Result<(), Fault> {
    for (path, mode) in FOLDERS {
        if kind(assembly, path)?.is_none() {
            assembly.put_folder(path, *mode)?;
        }
    }
    for name in MERGED {
        merge_into_usr(assembly, name)?;
    }
    for (link, target) in [("var/run", "/run"), ("var/lock", "/run/lock")] {
        let path = Below::parse(link.as_bytes())?;
        if assembly.rooted.list_if_folder(&path)?.is_some_and(|names| names.len() == 0) {
            link_to(assembly, link, target)?;
        }
    }
    if kind(assembly, "usr/bin/sh")?.is_none() {
        for shell in ["dash", "bash"] {
            if kind(assembly, &format!("usr/bin/{shell}"))?.is_some() {
                link_to(assembly, "usr/bin/sh", shell)?;
                break;
            }
        }
    }
    for (path, master, otherwise) in [
        ("etc/passwd", "usr/share/base-passwd/passwd.master", PASSWD),
        ("etc/group", "usr/share/base-passwd/group.master", GROUP),
        ("etc/nsswitch.conf", "usr/share/base-files/nsswitch.conf", NAME_SERVICES),
        ("etc/hosts", "", HOSTS),
    ] {
        if kind(assembly, path)?.is_none() {
            let text = match read(assembly, master)? {
                // In the master copy, a star stands for "no password".
                Some(text) => text.replace(":*:", ":x:"),
                None => otherwise.to_owned(),
            };
            assembly.put_text(path, 0o644, &text)?;
        }
    }
    for alternative in alternatives::wanted(scripts.iter().map(String::as_str)) {
        link_alternative(assembly, &alternative)?;
    }
    Ok(())
}

/// Moves the content of `/<name>` to `/usr/<name>` and leaves a link. A package may ship a file under either path,
/// never both.
fn merge_into_usr(assembly: &mut Assembly, name: &str) -> Result<(), Fault> {
    let inner = format!("usr/{name}");
    match kind(assembly, name)? {
        Some(FileType::Directory) => {}
        None if matches!(name, "bin" | "sbin" | "lib") => {
            if kind(assembly, &inner)?.is_none() {
                assembly.put_folder(&inner, 0o755)?;
            }
            return link_to(assembly, name, &inner);
        }
        _ => return Ok(()),
    }
    if kind(assembly, &inner)?.is_none() {
        assembly.put_folder(&inner, 0o755)?;
    }
    merge(&assembly.rooted, &Below::parse(name.as_bytes())?, &Below::parse(inner.as_bytes())?)?;
    link_to(assembly, name, &inner)
}

fn merge(rooted: &Rooted, from: &Below, to: &Below) -> Result<(), Fault> {
    for name in rooted.list(from)?.iter() {
        let (old, new) = (from.join(name), to.join(name));
        match (rooted.kind(&old)?, rooted.kind(&new)?) {
            (_, None) => rooted.rename(&old, &new)?,
            (Some(FileType::Directory), Some(FileType::Directory)) => merge(rooted, &old, &new)?,
            // The one outside /usr is a compatibility link, or the same file.
            _ => {}
        }
    }
    Ok(())
}

/// `/link -> /etc/alternatives/name -> path`, if the file exists and the link's place is free.
fn link_alternative(assembly: &mut Assembly, alternative: &Alternative) -> Result<(), Fault> {
    let (link, path) = (in_usr(&alternative.link), in_usr(&alternative.path));
    if kind(assembly, &path)?.is_none() || kind(assembly, &link)?.is_some() {
        return Ok(());
    }
    link_to(assembly, &format!("etc/alternatives/{}", alternative.name), &alternative.path)?;
    link_to(assembly, &link, &format!("/etc/alternatives/{}", alternative.name))
}

/// An absolute path without its slash, as it is after the merge of /usr.
fn in_usr(path: &str) -> String {
    let path = path.trim_start_matches('/');
    let first = path.split('/').next().unwrap_or_default();
    if MERGED.contains(&first) { format!("usr/{path}") } else { path.to_owned() }
}

fn kind(assembly: &Assembly, path: &str) -> Result<Option<FileType>, Fault> {
    assembly.rooted.kind(&Below::parse(path.as_bytes())?)
}

fn link_to(assembly: &mut Assembly, path: &str, target: &str) -> Result<(), Fault> {
    let kind = Kind::Link(target.as_bytes().to_vec());
    let meta = Meta { mode: 0o777, ..Meta::default() };
    assembly.put(&Below::parse(path.as_bytes())?, &kind, &meta, &mut std::io::empty())
}

fn read(assembly: &Assembly, path: &str) -> Result<Option<String>, Fault> {
    if path.is_empty() {
        return Ok(None);
    }
    let Some(file) = assembly.rooted.open_file(&Below::parse(path.as_bytes())?)? else { return Ok(None) };
    let mut text = String::new();
    file.take(1 << 20).read_to_string(&mut text).doing(format_args!("read {path}"))?;
    Ok(Some(text))
}
