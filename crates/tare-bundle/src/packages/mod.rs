//! Bundles from Debian or Ubuntu packages.
//!
//! `mmdebstrap` fetches the packages with all their dependencies and extracts them; no installation script runs, so the
//! tree depends on the packages alone. [`finish`] then sets up what those scripts would have, and what every service
//! expects of a system.

mod alternatives;
mod finish;
pub(crate) mod sources;

use crate::command;
use crate::unpack::layer::Assembly;
use sources::Distribution;
use std::fs::File;
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};

/// Marks the lines with which the extraction hook separates packages from their scripts.
const MARK: &str = "=tare-package=";

/// Packages fetched and extracted.
pub(crate) struct Fetched {
    /// The extracted files.
    pub(crate) archive: PathBuf,
    /// Name, version and architecture of each package, sorted.
    pub(crate) packages: Vec<String>,
    scripts: Vec<String>,
}

/// Fetches `wanted` and what they depend on into an archive in the directory `work`.
///
/// `wanted` are package names or apt patterns. Works with mmdebstrap of Debian 12, Ubuntu 22.04 or later.
pub(crate) fn fetch(wanted: &[String], work: &Path) -> Result<Fetched, Fault> {
    let distribution = Distribution::of_host()?;
    let archive = work.join("packages.tar");
    let report = work.join("packages.report");
    let quoted = report.display().to_string();
    if quoted.contains('\'') {
        return Err(Fault::new(format!("the path {quoted} contains a quote, which cannot be passed to mmdebstrap")));
    }
    let hook = format!(
        "for deb in \"$1\"/var/cache/apt/archives/*.deb; do \
         dpkg-deb --show --showformat '{MARK} ${{Package}} ${{Version}} ${{Architecture}}\\n' \"$deb\"; \
         dpkg-deb --info \"$deb\" postinst 2>/dev/null || true; echo; done > '{quoted}'"
    );
    let mut arguments: Vec<String> = vec!["--variant=extract".into(), "--format=tar".into()];
    arguments.extend(wanted.iter().map(|package| format!("--include={package}")));
    arguments.push(format!("--extract-hook={hook}"));
    arguments.extend(["Acquire::Retries \"3\"", "Acquire::http::Timeout \"30\""].map(|o| format!("--aptopt={o}")));
    arguments.extend(transport_options().into_iter().map(|option| format!("--aptopt={option}")));
    arguments.extend([distribution.codename.clone(), archive.display().to_string()]);
    for (index, entry) in distribution.sources()?.iter().enumerate() {
        let key = entry.inline_key.as_ref().map(|text| {
            let path = work.join(format!("key-{index}.asc"));
            std::fs::write(&path, text).map(|()| path).doing("write a key of the package sources")
        });
        arguments.push(entry.line(key.transpose()?.as_deref()));
    }
    command::run("mmdebstrap", "mmdebstrap", &arguments).map_err(|fault| {
        let fault = fault.context(format_args!("could not fetch the packages {}", wanted.join(", ")));
        // In the words of apt, whose language is set.
        let absent = ["Unable to locate package", "has no installation candidate"];
        let fault = if absent.iter().any(|words| fault.log.contains(words)) { fault.as_mistake() } else { fault };
        if fault.remedy.is_empty() {
            fault.remedy("check the names with `apt-cache policy`, the network, and this machine's package sources")
        } else {
            fault
        }
    })?;
    let report = std::fs::read(&report).doing("read which packages were fetched")?;
    let (packages, scripts) = read_report(&String::from_utf8_lossy(&report));
    Ok(Fetched { archive, packages, scripts })
}

/// Builds the tree of a bundle from `packages`. Returns what was put in, sorted.
pub(crate) fn build(packages: &[String], work: &Path, assembly: &mut Assembly) -> Result<Vec<String>, Fault> {
    if packages.is_empty() {
        return Err(Fault::new("a bundle of packages names no package"));
    }
    // Packages do not list the essential ones among their dependencies.
    let mut wanted = vec!["?essential".to_owned()];
    wanted.extend_from_slice(packages);
    let start = crate::clock::unix_seconds();
    let fetched = fetch(&wanted, work)?;
    let archive = File::open(&fetched.archive).doing("open the extracted packages")?;
    assembly.latest = i64::try_from(start).unwrap_or(i64::MAX) - 60;
    assembly.apply(std::io::BufReader::with_capacity(1 << 18, archive), &finish::is_left_out)?;
    std::fs::remove_file(&fetched.archive).doing("remove the extracted packages")?;
    finish::finish(assembly, &fetched.scripts)?;
    Ok(fetched.packages)
}

/// How this machine's apt reaches its archives, where that is configured.
fn transport_options() -> Vec<String> {
    let arguments = ["dump", "--no-empty", "Acquire"].map(str::to_owned);
    let Ok(text) = command::run("apt-config", "apt", &arguments) else { return Vec::new() };
    let wanted = |line: &&str| {
        let name = line.split(' ').next().unwrap_or_default().to_ascii_lowercase();
        name.contains("::proxy") || name.contains("::forceipv") || name.starts_with("acquire::https::ca")
    };
    text.lines().filter(wanted).map(str::to_owned).collect()
}

/// Takes any text for the hook's report and for a list of sources: links must begin at the root, and each source must
/// fit on one line.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(text: &str) {
    let (packages, scripts) = read_report(&format!("{MARK}{text}"));
    assert!(!packages.is_empty() && scripts.len() <= packages.len());
    for alternative in alternatives::wanted(scripts.iter().map(String::as_str)) {
        assert!(alternative.link.starts_with('/') && alternative.path.starts_with('/'), "{alternative:?}");
        assert!(!alternative.name.contains('/'), "{alternative:?}");
    }
    for entry in sources::entries(text) {
        assert!(!entry.line(None).contains('\n') && !entry.suite.is_empty(), "{entry:?}");
    }
}

fn read_report(text: &str) -> (Vec<String>, Vec<String>) {
    let mut packages = Vec::new();
    let mut scripts = Vec::new();
    for part in text.split(MARK).skip(1) {
        let (package, script) = part.split_once('\n').unwrap_or((part, ""));
        packages.push(package.trim().to_owned());
        if script.contains("update-alternatives") {
            scripts.push(script.to_owned());
        }
    }
    packages.sort();
    (packages, scripts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_the_hook_is_read() {
        let text = format!("{MARK} b 2 amd64\n#!/bin/sh\nupdate-alternatives x\n\n{MARK} a 1:1.0-1 all\n\n");
        let (packages, scripts) = read_report(&text);
        assert_eq!(packages, ["a 1:1.0-1 all", "b 2 amd64"]);
        assert_eq!(scripts.len(), 1);
    }
}
