//! From addresses to names: the kernel's from its symbol table, those of processes from the files that they map.

use super::demangle::readable;
use super::elf::Symbols;
use crate::root::Root;
use crate::scan::{hexadecimal, lines, words};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use tare_core::profile::IN_KERNEL;

/// The kernel's functions, sorted by address.
pub(super) struct Kernel(Vec<(u64, String)>);

impl Kernel {
    /// Empty if the kernel does not show them.
    pub(super) fn read(root: &Root) -> Kernel {
        let text = std::fs::read(root.path("proc/kallsyms")).unwrap_or_default();
        let function = |line: &[u8]| {
            let mut words = words(line);
            let (at, kind, name) = (hexadecimal(words.next()?)?, words.next()?, words.next()?);
            let code = matches!(kind, b"t" | b"T" | b"w" | b"W") && at != 0;
            code.then(|| (at, String::from_utf8_lossy(name).into_owned()))
        };
        let mut functions: Vec<(u64, String)> = lines(&text).filter_map(function).collect();
        functions.sort_unstable();
        Kernel(functions)
    }

    /// The function at an address.
    pub(super) fn name(&self, at: u64) -> String {
        let behind = self.0.partition_point(|(begin, _)| *begin <= at);
        let name = behind.checked_sub(1).map_or("kernel", |index| self.0[index].1.as_str());
        format!("{}{IN_KERNEL}", readable(name))
    }
}

/// The executable mappings of a process.
pub(super) struct Mapped(Vec<Part>);

struct Part {
    from: u64,
    to: u64,
    /// Its offset in the file.
    offset: u64,
    /// The file: device and inode number.
    file: (u64, u64),
    /// The file's name without folders; for memory without a file, the kernel's name for it.
    module: String,
    /// Opened while the process was alive, whatever root it sees.
    open: Option<File>,
}

impl Mapped {
    /// Of a running process; empty if it is gone.
    pub(super) fn read(root: &Root, pid: u32) -> Mapped {
        let text = std::fs::read(root.path(format!("proc/{pid}/maps"))).unwrap_or_default();
        let part = |line: &[u8]| {
            let mut words = words(line);
            let range = words.next()?;
            let dash = range.iter().position(|byte| *byte == b'-')?;
            let (from, to) = (hexadecimal(&range[..dash])?, hexadecimal(&range[dash + 1..])?);
            let may_run = words.next()?.get(2) == Some(&b'x');
            let offset = hexadecimal(words.next()?)?;
            let device = words.next()?.iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
            let number = crate::scan::number(words.next()?)?;
            let path = words.next().map(|path| String::from_utf8_lossy(path).into_owned());
            let module = path.as_deref().map_or("anonymous", |path| path.rsplit('/').next().unwrap_or(path));
            let module = module.trim_matches(['[', ']']).to_owned();
            // This link leads to the file itself, whatever its path means to the process.
            let link = root.path(format!("proc/{pid}/map_files/{from:x}-{to:x}"));
            let open = (may_run && number > 0).then(|| File::open(link).ok()).flatten();
            may_run.then_some(Part { from, to, offset, file: (device, number), module, open })
        };
        Mapped(lines(&text).filter_map(part).collect())
    }

    /// Whether nothing is known of the process.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn part(&self, at: u64) -> Option<&Part> {
        self.0.iter().find(|part| (part.from..part.to).contains(&at))
    }
}

/// The largest program or library whose symbols are read, bytes: all of it is read into memory. Of a larger one only
/// the name is shown.
const FILE_MAX: u64 = 1 << 30;

/// The content of a regular file of at most `bytes_max` bytes; none of other files.
fn within(file: &File, bytes_max: u64) -> Option<Vec<u8>> {
    let facts = file.metadata().ok().filter(|facts| facts.is_file() && facts.len() <= bytes_max)?;
    let mut bytes = Vec::new();
    // It may grow meanwhile.
    file.take(facts.len()).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The symbols of files, read once each.
#[derive(Default)]
pub(super) struct Files {
    symbols: HashMap<(u64, u64), Symbols>,
    /// By symbol: its name as in the source.
    readable: HashMap<String, String>,
}

impl Files {
    /// The function at an address of a process, else `[module]`; none if the address is not in executable memory.
    pub(super) fn name(&mut self, mapped: &Mapped, at: u64) -> Option<String> {
        let part = mapped.part(at)?;
        let symbols = self.symbols.entry(part.file).or_insert_with(|| {
            part.open.as_ref().and_then(|file| within(file, FILE_MAX)).map(|b| Symbols::of(&b)).unwrap_or_default()
        });
        let name = symbols.at(at - part.from + part.offset);
        let Some(name) = name else { return Some(format!("[{}]", part.module)) };
        if let Some(known) = self.readable.get(name) {
            return Some(known.clone());
        }
        Some(self.readable.entry(name.to_owned()).or_insert_with(|| readable(name)).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_for_symbols_has_a_length() {
        let keep = tempfile::tempdir().unwrap();
        let path = keep.path().join("library");
        std::fs::write(&path, b"1234").unwrap();
        assert_eq!(within(&File::open(&path).unwrap(), 4).unwrap(), b"1234");
        assert_eq!(within(&File::open(&path).unwrap(), 3), None);
        // A terabyte that takes no room.
        File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(within(&File::open(&path).unwrap(), FILE_MAX), None);
        assert_eq!(within(&File::open("/dev/zero").unwrap(), FILE_MAX), None);
    }

    #[test]
    fn the_kernel_s_functions_reach_to_the_next_one() {
        let text = "ffffffff81000200 T tcp_sendmsg\nffffffff81000100 t do_sys\nffffffff81000180 D data\n";
        let keep = tare_testkit::files::tree(&[("proc/kallsyms", text)]);
        let kernel = Kernel::read(&Root::at(keep.path()));
        assert_eq!(kernel.name(0xffff_ffff_8100_01f0), "do_sys_[k]");
        assert_eq!(kernel.name(0xffff_ffff_8100_0200), "tcp_sendmsg_[k]");
        assert_eq!(kernel.name(5), "kernel_[k]");
    }

    #[test]
    fn what_this_process_runs_has_a_name() {
        let mapped = Mapped::read(&Root::machine(), std::process::id());
        let own = super::Kernel::read as *const () as u64;
        if !mapped.0.iter().any(|part| part.open.is_some()) {
            println!("skipped: /proc/PID/map_files cannot be read, as by another user than root");
            return;
        }
        let name = Files::default().name(&mapped, own).expect("it is mapped");
        assert_eq!(name, "tare_telemetry::profile::symbols::Kernel::read");
        assert!(mapped.part(16).is_none() && !mapped.is_empty());
    }
}
