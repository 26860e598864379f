//! Which kernel modules a guest needs, in the order to load them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use tare_core::bundle::Kernel;
use tare_core::fault::{Doing, Fault};

/// What every guest needs: the buses, the devices, the file system of its disks.
const ALWAYS: &[&str] =
    &["virtio_pci", "virtio_mmio", "virtio_blk", "virtio_net", "virtio_console", "ext4", "crc32c_generic", "overlay"];

/// Modules that some kernels lack and that a guest can do without, as long as its machine type has the other.
const OPTIONAL: &[&str] = &["virtio_mmio", "virtio_pci", "crc32c_generic"];

/// The files to load for what every guest needs and for `more`, each after those it depends on. Modules built into the
/// kernel need no file; whatever the kernel lacks of `more` is left out.
///
/// # Errors
/// When the kernel has a required module neither as a file nor built in.
pub(super) fn to_load(kernel: &Kernel, more: &[String]) -> Result<Vec<PathBuf>, Fault> {
    let read = |name: &str| fs::read_to_string(kernel.modules.join(name));
    let Ok(dependencies) = read("modules.dep") else {
        // A kernel without modules has everything built in, or the guest says on its console what is missing.
        return Ok(Vec::new());
    };
    let table = Table::new(&dependencies, &read("modules.builtin").unwrap_or_default());
    let files = table.order(ALWAYS, more).map_err(|missing| {
        let message = format!("the guest's kernel {} has no module '{missing}'", kernel.release);
        Fault::new(message).remedy("use another kernel for guests, such as Debian's linux-image-cloud-amd64")
    })?;
    Ok(files.iter().map(|file| kernel.modules.join(file)).collect())
}

/// Whether a kernel has a module, as a file or built in. One without a list of modules is taken to have it built in.
pub(super) fn has(kernel: &Kernel, module: &str) -> bool {
    let read = |name: &str| fs::read_to_string(kernel.modules.join(name));
    let Ok(dependencies) = read("modules.dep") else { return true };
    let table = Table::new(&dependencies, &read("modules.builtin").unwrap_or_default());
    table.files.contains_key(module) || table.built_in.contains(module)
}

/// A kernel's modules and their dependencies.
struct Table<'a> {
    /// By module name: its file, and the files it depends on as `modules.dep` lists them.
    files: BTreeMap<String, (&'a str, Vec<&'a str>)>,
    built_in: BTreeSet<String>,
}

impl<'a> Table<'a> {
    fn new(dependencies: &'a str, built_in: &str) -> Self {
        let mut files = BTreeMap::new();
        for line in dependencies.lines() {
            let Some((file, needs)) = line.split_once(':') else { continue };
            files.insert(name_of(file), (file, needs.split_whitespace().collect()));
        }
        Table { files, built_in: built_in.lines().map(name_of).collect() }
    }

    fn order(&self, needed: &[&str], more: &[String]) -> Result<Vec<&'a str>, String> {
        let (mut seen, mut ordered) = (BTreeSet::new(), Vec::new());
        let needed = needed.iter().map(|name| (*name, !OPTIONAL.contains(name)));
        for (name, must) in needed.chain(more.iter().map(|name| (name.as_str(), false))) {
            let name = name.replace('-', "_");
            let Some((file, _)) = self.files.get(&name) else {
                if !must || self.built_in.contains(&name) {
                    continue;
                }
                return Err(name);
            };
            self.visit(file, &mut seen, &mut ordered);
        }
        Ok(ordered)
    }

    /// Adds a file after those it depends on, unless its module was `seen` before. A real list has no cycles, as such
    /// modules could never be loaded; but anybody may supply a kernel, so each module is visited once, and a chain of
    /// any length needs no more stack.
    fn visit(&self, file: &'a str, seen: &mut BTreeSet<String>, ordered: &mut Vec<&'a str>) {
        // What is still to be visited, the next one last, and whether everything that it needs has been.
        let mut ahead = vec![(file, false)];
        while let Some((file, is_ready)) = ahead.pop() {
            let name = name_of(file);
            if is_ready {
                ordered.push(file);
            } else if !seen.contains(&name) {
                ahead.push((file, true));
                // The list has what must come first at its end.
                let needs = self.files.get(&name).into_iter().flat_map(|(_, needs)| needs);
                ahead.extend(needs.map(|need| (*need, false)));
                seen.insert(name);
            }
        }
    }
}

/// `kernel/fs/ext4/ext4.ko.xz` is the module `ext4`; `-` and `_` are the same letter in names.
fn name_of(file: &str) -> String {
    let file = file.trim().rsplit('/').next().unwrap_or_default();
    file.split(".ko").next().unwrap_or_default().replace('-', "_")
}

/// A module's content, decompressed: kernels of older distributions cannot decompress modules themselves.
///
/// # Errors
/// When it cannot be read or decompressed.
pub(super) fn content(path: &Path) -> Result<Vec<u8>, Fault> {
    let raw = fs::read(path).doing(format!("read the kernel module {}", path.display()))?;
    let unpacked = match path.extension().and_then(|extension| extension.to_str()) {
        Some("ko") => return Ok(raw),
        Some("gz") => {
            let mut bytes = Vec::new();
            flate2::read::GzDecoder::new(raw.as_slice()).read_to_end(&mut bytes).map(|_| bytes)
        }
        Some("zst") => zstd::stream::decode_all(raw.as_slice()),
        Some("xz") => return unpack_xz(path),
        other => return Err(Fault::new(format!("{}: no idea how to unpack {other:?}", path.display()))),
    };
    unpacked.doing(format!("unpack the kernel module {}", path.display()))
}

fn unpack_xz(path: &Path) -> Result<Vec<u8>, Fault> {
    let doing = format!("unpack the kernel module {}", path.display());
    let out = Command::new("xz").arg("-dc").arg(path).output().doing(&doing);
    let out = out.map_err(|fault| fault.remedy("apt-get install xz-utils"))?;
    if out.status.success() {
        return Ok(out.stdout);
    }
    Err(Fault::new(format!("could not {doing}")).with_log(String::from_utf8_lossy(&out.stderr)))
}

/// Reads any text as a kernel's modules.dep: every module is loaded once, and after what it needs except in cycles.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(text: &str) {
    let table = Table::new(text, "");
    let all: Vec<String> = table.files.keys().cloned().collect();
    let ordered = table.order(&[], &all).expect("none must be there");
    let at: BTreeMap<String, usize> = ordered.iter().enumerate().map(|(at, file)| (name_of(file), at)).collect();
    assert_eq!(at.len(), ordered.len(), "one comes twice: {ordered:?}");
    for (name, (_, needs)) in &table.files {
        assert!(at.contains_key(name) && needs.iter().all(|need| at.contains_key(&name_of(need))), "{name} is missing");
        // A module whose needs have no needs themselves is in no cycle.
        let ends = |need: &&str| table.files.get(&name_of(need)).is_none_or(|(_, more)| more.is_empty());
        let is_late = needs.iter().all(|need| at[&name_of(need)] <= at[name]);
        assert!(is_late || !needs.iter().all(ends), "{name} comes too early: {ordered:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "\
kernel/drivers/virtio/virtio.ko:
kernel/drivers/virtio/virtio_ring.ko: kernel/drivers/virtio/virtio.ko
kernel/drivers/net/virtio_net.ko.xz: kernel/net/net_failover.ko kernel/net/failover.ko kernel/drivers/virtio/virtio_ring.ko kernel/drivers/virtio/virtio.ko
kernel/drivers/block/virtio-blk.ko: kernel/drivers/virtio/virtio_ring.ko kernel/drivers/virtio/virtio.ko
kernel/net/failover.ko:
kernel/net/net_failover.ko: kernel/net/failover.ko
";

    fn order(names: &[&str]) -> Result<Vec<&'static str>, String> {
        Table::new(DEP, "kernel/fs/ext4/ext4.ko\n").order(names, &["no_such".to_owned()])
    }

    #[test]
    fn every_module_comes_after_what_it_needs() {
        let ordered = order(&["virtio_net", "virtio_blk", "ext4", "virtio_mmio"]).unwrap();
        let at = |part: &str| ordered.iter().position(|file| file.contains(part)).unwrap();
        assert!(at("virtio.ko") < at("virtio_ring") && at("virtio_ring") < at("virtio_net"));
        assert!(at("/failover") < at("net_failover") && at("net_failover") < at("virtio_net"));
        assert_eq!(ordered.len(), 6, "each once: {ordered:?}");
    }

    #[test]
    fn modules_that_need_each_other_are_loaded_once_each() {
        let all = |text: &'static str| Table::new(text, "").order(&[], &["a".to_owned()]).unwrap();
        assert_eq!(all("a.ko: b.ko\nb.ko: a.ko\n"), ["b.ko", "a.ko"]);
        assert_eq!(all("a.ko: a.ko\n"), ["a.ko"]);
        assert_eq!(all("a.ko: b.ko c.ko\nb.ko: c.ko\nc.ko: a.ko\n"), ["c.ko", "b.ko", "a.ko"]);
    }

    #[test]
    fn a_chain_of_any_length_is_followed() {
        let length = 100_000;
        let chain: String = (0..length).map(|at| format!("m{at}.ko: m{}.ko\n", at + 1)).collect();
        let table = Table::new(&chain, "");
        let ordered = table.order(&[], &["m0".to_owned()]).unwrap();
        assert_eq!((ordered.len(), ordered[0]), (length + 1, "m100000.ko"));
    }

    #[test]
    fn a_module_that_is_nowhere_is_named() {
        assert_eq!(order(&["br_netfilter"]), Err("br_netfilter".to_owned()));
    }
}
