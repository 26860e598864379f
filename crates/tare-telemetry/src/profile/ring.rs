//! Samples of call stacks, taken by the kernel: a ring buffer for each CPU.
//!
//! A timer of each CPU triggers the samples, so no counters of the processor are needed. Whole CPUs are sampled instead
//! of processes, because an event that follows a process costs time at each of its context switches.

use crate::perf_event::{self, Attributes, Whose};
use std::fs::File;
use std::io::Error;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Pages of a ring, a power of two: seconds of samples of a busy CPU.
const PAGES: usize = 64;

const SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;
/// With instruction, process and thread, time, and stack.
const SAMPLE: u64 = 1 | 2 | 4 | 32;
/// Not while the CPU is idle (`exclude_idle`); with times by a clock that can be chosen (`use_clockid`).
const FLAGS: u64 = 1 << 7 | 1 << 25;

/// A sample of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample<'a> {
    /// CLOCK_MONOTONIC, ns.
    pub(super) at_ns: u64,
    pub(super) pid: u32,
    pub(super) thread: u32,
    /// Addresses from the innermost on; markers among them say whether the next ones are in the kernel or the process.
    pub(super) chain: &'a [u64],
}

/// The samples of one CPU.
pub(super) struct Ring {
    /// Closing it ends the sampling.
    _event: File,
    memory: NonNull<u8>,
    length: usize,
    page: usize,
    record: Vec<u64>,
    lost: u64,
}

impl Ring {
    /// Samples `cpu` at this rate from now on.
    pub(super) fn open(cpu: u32, per_s: u32) -> Result<Ring, Error> {
        let attributes = Attributes {
            kind: SOFTWARE,
            config: CPU_CLOCK,
            sample_period: 1_000_000_000 / u64::from(per_s),
            sample_type: SAMPLE,
            flags: FLAGS,
            clock: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        };
        let event = perf_event::open(attributes, Whose::Cpu(cpu))?;
        let page = rustix::param::page_size();
        let length = page * (PAGES + 1);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of the event, of the size that the kernel expects: a page about it, and the ring.
        let memory =
            unsafe { libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, event.as_raw_fd(), 0) };
        match NonNull::new(memory.cast::<u8>()).filter(|_| memory != libc::MAP_FAILED) {
            Some(memory) => Ok(Ring { _event: event, memory, length, page, record: Vec::new(), lost: 0 }),
            None => Err(Error::last_os_error()),
        }
    }

    /// Hands over the samples since the last call.
    pub(super) fn drain(&mut self, each: &mut dyn FnMut(Sample)) {
        // The first page has, at these offsets, where the kernel writes next and where we read next.
        let (head, tail) = (self.word(1024), self.word(1032));
        // SAFETY: both lie in the mapping, aligned; the kernel writes the one and reads the other.
        let (head, tail) = unsafe { (&*head.cast::<AtomicU64>(), &*tail.cast::<AtomicU64>()) };
        let until = head.load(Ordering::Acquire);
        let mut at = tail.load(Ordering::Relaxed);
        while at < until {
            let header = self.read(at, 1)[0];
            let (kind, words) = (header as u32, ((header >> 48) / 8) as usize);
            if words == 0 {
                break;
            }
            self.read(at, words);
            match kind {
                RECORD_SAMPLE => parse(&self.record).into_iter().for_each(&mut *each),
                RECORD_LOST => self.lost += self.record.get(2).copied().unwrap_or(0),
                _ => {}
            }
            at += words as u64 * 8;
        }
        fence(Ordering::SeqCst);
        tail.store(until, Ordering::Release);
    }

    /// Samples lost because the ring was full.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    fn word(&self, byte: usize) -> *const u64 {
        assert!(byte + 8 <= self.length, "a word lies within the mapping");
        // SAFETY: it was just checked.
        unsafe { self.memory.as_ptr().add(byte).cast::<u64>().cast_const() }
    }

    /// Copies this many words of the ring, which may wrap around in between.
    fn read(&mut self, at: u64, words: usize) -> &[u64] {
        let ring = (self.length - self.page) as u64;
        self.record.clear();
        for word in 0..words as u64 {
            let byte = self.page + ((at + word * 8) % ring) as usize;
            // SAFETY: within the ring, aligned, and not written to before the tail has passed it.
            self.record.push(unsafe { self.word(byte).read_volatile() });
        }
        &self.record
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing of it has been lent out beyond a call.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.length) };
    }
}

const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;

/// A sample's words: header, instruction, process and thread, time, how many addresses, addresses.
fn parse(record: &[u64]) -> Option<Sample<'_>> {
    let (ids, at_ns, count) = (*record.get(2)?, *record.get(3)?, *record.get(4)?);
    let chain = record.get(5..5 + usize::try_from(count).ok()?)?;
    Some(Sample { at_ns, pid: ids as u32, thread: (ids >> 32) as u32, chain })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_taken_apart_and_a_torn_one_is_none() {
        let record = [9, 0xaa, 7 | 8 << 32, 5_000, 2, 0x10, 0x20];
        let sample = Sample { at_ns: 5_000, pid: 7, thread: 8, chain: &[0x10, 0x20] };
        assert_eq!(parse(&record), Some(sample));
        assert_eq!((parse(&record[..6]), parse(&[])), (None, None));
    }
}
