//! From samples to stacks with names: equal ones are counted together as they come, and named at the end.

use super::ring::Sample;
use super::symbols::{Files, Kernel, Mapped};
use crate::root::Root;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use tare_core::profile::Stack;

/// Addresses at and above this are markers: the addresses after them are in the kernel, in the process or in a guest.
const MARKS: u64 = -4095_i64 as u64;
const KERNEL: u64 = -128_i64 as u64;
const USER: u64 = -512_i64 as u64;

/// Samples so far.
#[derive(Default)]
pub(super) struct Folding {
    /// By scope, process, thread's name and addresses: the number of a stack.
    known: HashMap<Raw, usize>,
    /// When each sample came, and its stack.
    samples: Vec<(u64, usize)>,
    threads: HashMap<u32, String>,
    mapped: HashMap<u32, Mapped>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Raw {
    scope: usize,
    pid: u32,
    thread: String,
    chain: Vec<u64>,
}

impl Folding {
    /// Takes a sample of a process of this scope. What only a living process shows is read at its first sample.
    pub(super) fn add(&mut self, root: &Root, scope: usize, sample: &Sample) {
        let comm = || root.text(format!("proc/{}/task/{}/comm", sample.pid, sample.thread)).unwrap_or_default();
        let thread = self.threads.entry(sample.thread).or_insert_with(|| unnumbered(&comm())).clone();
        self.mapped.entry(sample.pid).or_insert_with(|| Mapped::read(root, sample.pid));
        let next = self.known.len();
        let raw = Raw { scope, pid: sample.pid, thread, chain: sample.chain.to_vec() };
        let stack = *self.known.entry(raw).or_insert(next);
        self.samples.push((sample.at_ns, stack));
    }

    /// The stacks met within a span of time, with names, sorted.
    pub(super) fn stacks(mut self, root: &Root, scopes: &[&str], within_ns: Range<u64>) -> Vec<Stack> {
        let mut samples = vec![0; self.known.len()];
        for (_, stack) in self.samples.iter().filter(|(at_ns, _)| within_ns.contains(at_ns)) {
            samples[*stack] += 1;
        }
        for (pid, mapped) in &mut self.mapped {
            // A library may have been loaded since; of a process that has ended, the last mappings stay.
            let now = Mapped::read(root, *pid);
            if !now.is_empty() {
                *mapped = now;
            }
        }
        let (kernel, mut files) = (Kernel::read(root), Files::default());
        let mut stacks: BTreeMap<Vec<String>, u64> = BTreeMap::new();
        for (raw, number) in self.known.iter().filter(|(_, number)| samples[**number] > 0) {
            let mut frames = vec![scopes[raw.scope].to_owned(), raw.thread.clone()];
            frames.extend(named(&raw.chain, &kernel, &self.mapped[&raw.pid], &mut files));
            *stacks.entry(frames).or_default() += samples[*number];
        }
        stacks.into_iter().map(|(frames, samples)| Stack { frames, samples }).collect()
    }
}

/// A thread's name without digits, because the threads of a pool are numbered: `io_thd_3` as `io_thd_`.
fn unnumbered(name: &str) -> String {
    name.replace(|c: char| c.is_ascii_digit(), "").trim_end_matches([':', '/', '-']).to_owned()
}

/// The functions of a chain, from the outermost on. The kernel follows frame pointers, which not every program keeps:
/// addresses outside of its code are left out.
fn named(chain: &[u64], kernel: &Kernel, mapped: &Mapped, files: &mut Files) -> Vec<String> {
    let (mut frames, mut place, mut innermost) = (Vec::new(), USER, true);
    for address in chain {
        if *address >= MARKS {
            (place, innermost) = (*address, true);
            continue;
        }
        // A return address may be the first byte of the next function; the call itself is before it.
        let at = if innermost { *address } else { address.saturating_sub(1) };
        innermost = false;
        match place {
            KERNEL => frames.push(kernel.name(at)),
            USER => frames.extend(files.name(mapped, at)),
            _ => frames.push("[guest]".to_owned()),
        }
    }
    frames.reverse();
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ns: u64, chain: &[u64]) -> Sample<'_> {
        Sample { at_ns, pid: 7, thread: 8, chain }
    }

    /// A machine with one process, of which nothing but its maps is known.
    fn machine() -> (tempfile::TempDir, Root) {
        let keep = tare_testkit::files::tree(&[
            ("proc/kallsyms", "ffffffff81000000 T entry\nffffffff81000100 t tcp_sendmsg\n"),
            ("proc/7/task/8/comm", "io_thd_3\n"),
            ("proc/7/maps", "1000-2000 r-xp 00000000 fd:00 5 /usr/bin/toy\n3000-4000 rw-p 00000000 00:00 0\n"),
        ]);
        let root = Root::at(keep.path());
        (keep, root)
    }

    #[test]
    fn equal_stacks_are_put_together_within_the_time_that_counts() {
        let (_keep, root) = machine();
        let mut folding = Folding::default();
        let chain = [KERNEL, 0xffff_ffff_8100_0120, 0xffff_ffff_8100_0090, USER, 0x1100, 0x3500, 0x1200];
        for at_ns in [5, 10, 15, 20] {
            folding.add(&root, 0, &sample(at_ns, &chain));
        }
        folding.add(&root, 0, &sample(12, &[USER, 0x1500]));
        let stacks = folding.stacks(&root, &["toy"], 10..20);
        let text = tare_core::profile::folded(&stacks);
        // What is mapped as data is no code; without its file a program is known by its name only.
        let wanted = "toy;io_thd_;[toy] 1\ntoy;io_thd_;[toy];[toy];entry_[k];tcp_sendmsg_[k] 2\n";
        assert_eq!(text, wanted);
    }
}
