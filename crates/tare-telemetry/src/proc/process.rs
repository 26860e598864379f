//! One process: its files, its threads and its usage so far.

use super::counts::*;
use crate::root::{KeptFile, Root};
use crate::scan::{after_name, keyed, lines, number, number_at, words};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The content of a line of `/proc/<pid>/stat`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Stat {
    pub(super) parent: u32,
    pub(super) started: u64,
    pub(super) threads: u64,
    resident_pages: u64,
    /// Used by the process itself with all its threads, including those that ended.
    own: Counts,
    /// Used by children that ended and were waited for, and by theirs.
    reaped: Counts,
}

/// Seconds of a time in clock ticks.
pub(crate) fn ticks(count: u64) -> f64 {
    static PER_SECOND: OnceLock<f64> = OnceLock::new();
    count as f64 / PER_SECOND.get_or_init(|| rustix::param::clock_ticks_per_second().max(1) as f64)
}

impl Stat {
    /// Reads the line. Fields are numbered as in proc_pid_stat(5), minus the three up to the state.
    pub(super) fn parse(text: &[u8]) -> Option<Stat> {
        let mut fields = [0_u64; 42];
        for (field, word) in fields.iter_mut().zip(words(after_name(text)?)) {
            *field = number(word).unwrap_or(0);
        }
        let counts = |user: u64, system: u64, guest: u64, minor: u64, major: u64| {
            let mut counts = Counts::default();
            // The kernel's user time contains guest time; here each second is counted once.
            counts.set(USER, ticks(user.saturating_sub(guest)));
            counts.set(SYSTEM, ticks(system));
            counts.set(TOTAL, ticks(user.saturating_add(system)));
            counts.set(GUEST, ticks(guest));
            counts.set(MINOR, minor as f64);
            counts.set(MAJOR, major as f64);
            counts
        };
        Some(Stat {
            parent: u32::try_from(fields[1]).ok()?,
            started: fields[19],
            threads: fields[17],
            resident_pages: fields[21],
            own: counts(fields[11], fields[12], fields[40], fields[7], fields[9]),
            reaped: counts(fields[13], fields[14], fields[41], fields[8], fields[10]),
        })
    }
}

/// A process that is watched until it is gone.
#[derive(Debug)]
pub(super) struct Process {
    pid: u32,
    stat_file: KeptFile,
    io_file: Option<KeptFile>,
    stat: Stat,
    threads: Vec<Thread>,
    /// Usage of ended threads, as last seen.
    ended: Counts,
    own: Counts,
    /// Usage of ended children.
    carried: Counts,
    /// CPU time of its threads by the CPU on which they were seen, s, since watching began.
    on: BTreeMap<u32, f64>,
    own_io_before: [f64; 2],
    reaped_before: Counts,
}

impl Process {
    /// Starts watching a process; none if it does not exist.
    pub(super) fn open(root: &Root, pid: u32, buffer: &mut Vec<u8>) -> Option<Process> {
        let stat_file = KeptFile::open(root.path(format!("proc/{pid}/stat")))?;
        let stat = Stat::parse(stat_file.read(buffer)?)?;
        let io_file = KeptFile::open(root.path(format!("proc/{pid}/io")));
        let mut process = Process {
            pid,
            stat_file,
            io_file,
            stat,
            threads: Vec::new(),
            ended: Counts::default(),
            own: Counts::default(),
            carried: stat.reaped,
            on: BTreeMap::new(),
            own_io_before: [0.0; 2],
            reaped_before: stat.reaped,
        };
        process.read(root, true, buffer).then_some(process)
    }

    pub(super) fn parent(&self) -> u32 {
        self.stat.parent
    }

    /// Resident memory, bytes.
    pub(super) fn resident_bytes(&self) -> f64 {
        self.stat.resident_pages as f64 * rustix::param::page_size() as f64
    }

    pub(super) fn thread_count(&self) -> f64 {
        self.stat.threads as f64
    }

    /// The usage of the process and its ended children.
    pub(super) fn used(&self) -> Counts {
        let mut used = self.own;
        used.add(&self.carried);
        used
    }

    /// CPU time of its threads by the CPU on which each was last seen, s, since watching began.
    pub(super) fn on(&self) -> &BTreeMap<u32, f64> {
        &self.on
    }

    /// Reads it again; false if it is gone. `started` says whether any thread may have started since.
    pub(super) fn read(&mut self, root: &Root, started: bool, buffer: &mut Vec<u8>) -> bool {
        let Some(stat) = self.stat_file.read(buffer).and_then(Stat::parse) else { return false };
        if stat.started != self.stat.started {
            return false;
        }
        self.reaped_before = self.stat.reaped;
        self.own_io_before = [self.own.or_zero(READ), self.own.or_zero(WRITE)];
        self.stat = stat;
        for counter in [USER, SYSTEM, GUEST, MINOR, MAJOR] {
            self.own.raise(counter, stat.own.or_zero(counter));
        }
        self.read_io(buffer);
        if started || stat.threads != self.threads.len() as u64 {
            self.find_threads(root);
        }
        self.read_threads(buffer);
        true
    }

    fn read_io(&mut self, buffer: &mut Vec<u8>) {
        let Some(text) = self.io_file.as_ref().and_then(|file| file.read(buffer)) else { return };
        if let (Some(read), Some(written)) = (keyed(text, "read_bytes"), keyed(text, "write_bytes")) {
            self.own.raise(READ, read as f64);
            self.own.raise(WRITE, written as f64);
        }
    }

    fn find_threads(&mut self, root: &Root) {
        let tasks = format!("proc/{}/task", self.pid);
        let Ok(entries) = std::fs::read_dir(root.path(&tasks)) else { return };
        for entry in entries.flatten() {
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if !self.threads.iter().any(|thread| thread.id == id) {
                self.threads.extend(Thread::open(root, &tasks, id));
            }
        }
    }

    fn read_threads(&mut self, buffer: &mut Vec<u8>) {
        let (ended, on) = (&mut self.ended, &mut self.on);
        self.threads.retain_mut(|thread| {
            let alive = thread.read(buffer);
            if let Some((cpu, seconds)) = thread.ran.take() {
                *on.entry(cpu).or_default() += seconds;
            }
            if !alive {
                ended.add(&thread.used);
            }
            alive
        });
        let mut sum = self.ended;
        for thread in &self.threads {
            sum.add(&thread.used);
        }
        for counter in [WAIT, VOLUNTARY, INVOLUNTARY, MIGRATIONS] {
            if let Some(value) = sum.get(counter) {
                self.own.raise(counter, value);
            }
        }
        // The threads' clocks are exact but miss what a thread used after it was last seen; the process's ticks are
        // coarse but complete. Neither exceeds the true value, so the greater one is closer to it.
        self.own.raise(TOTAL, sum.or_zero(TOTAL).max(self.stat.own.or_zero(TOTAL)));
    }

    /// Adds the usage of children that are gone, as last seen. The kernel keeps the full usage of children that were
    /// waited for; of others (adopted, or SIGCHLD is ignored) only the last reading is known. Call once after every
    /// reading.
    pub(super) fn bury(&mut self, gone: &Counts) {
        for counter in 0..COUNTERS {
            let last_seen = gone.or_zero(counter);
            let credit = match counter {
                USER | SYSTEM | TOTAL | GUEST | MINOR | MAJOR => {
                    last_seen.max(self.stat.reaped.or_zero(counter) - self.reaped_before.or_zero(counter))
                }
                // Of a child that was waited for, the kernel adds these to the parent's own.
                READ | WRITE => {
                    let grown = self.own.or_zero(counter) - self.own_io_before[counter - READ];
                    (last_seen - grown).max(0.0)
                }
                _ => last_seen,
            };
            if credit > 0.0 {
                self.carried.set(counter, self.carried.or_zero(counter) + credit);
            }
        }
    }
}

/// One thread: time on a CPU, time waiting for one, switches and migrations.
#[derive(Debug)]
struct Thread {
    id: u32,
    schedstat: KeptFile,
    switches: Option<Switches>,
    /// `/proc/<tid>/stat`, which names the CPU.
    place: Option<KeptFile>,
    runs: Option<u64>,
    used: Counts,
    /// Where it last ran, and for how long since the previous reading, s; taken by the caller.
    ran: Option<(u32, f64)>,
}

/// The file with a thread's context switches.
#[derive(Debug)]
enum Switches {
    /// `/proc/<tid>/sched`, which has migrations too.
    Sched(KeptFile),
    /// `/proc/<tid>/status`.
    Status(KeptFile),
}

impl Thread {
    fn open(root: &Root, tasks: &str, id: u32) -> Option<Thread> {
        let open = |name: &str| KeptFile::open(root.path(format!("{tasks}/{id}/{name}")));
        let schedstat = open("schedstat").or_else(|| open("stat"))?;
        let switches = open("sched").map(Switches::Sched).or_else(|| open("status").map(Switches::Status));
        let place = open("stat");
        Some(Thread { id, schedstat, switches, place, runs: None, used: Counts::default(), ran: None })
    }

    /// Reads it; false if it is gone.
    fn read(&mut self, buffer: &mut Vec<u8>) -> bool {
        let Some(text) = self.schedstat.read(buffer) else { return false };
        let line = lines(text).next().unwrap_or_default();
        let before = self.used.get(TOTAL);
        // Three numbers: ns on a CPU, ns waiting for one, times put on one. A kernel that does not keep them writes 0 0
        // 0; then the line, or the `stat` opened instead, only tells that the thread exists.
        let runs = match (number_at(line, 0), number_at(line, 1), number_at(line, 2), number_at(line, 3)) {
            (Some(on), Some(waiting), Some(runs), None) if runs > 0 => {
                self.used.raise(TOTAL, on as f64 * 1e-9);
                self.used.raise(WAIT, waiting as f64 * 1e-9);
                Some(runs)
            }
            _ => None,
        };
        // A thread that has not run since has not switched or migrated either. Most threads sleep, and these files are
        // the expensive ones.
        if runs.is_none() || runs != self.runs {
            self.read_switches(buffer);
            self.ran = self.ran_since(before, buffer);
        }
        self.runs = runs;
        true
    }

    /// Where it ran since the previous reading, as far as one sample can tell. None at the first reading: it may have
    /// run anywhere before.
    fn ran_since(&self, before: Option<f64>, buffer: &mut Vec<u8>) -> Option<(u32, f64)> {
        let seconds = self.used.get(TOTAL)? - before?;
        let text = self.place.as_ref().filter(|_| seconds > 0.0)?.read(buffer)?;
        // Field 39 of proc_pid_stat(5); the word after the name is field 3.
        let cpu = words(after_name(text)?).nth(36).and_then(number)?;
        Some((u32::try_from(cpu).ok()?, seconds))
    }

    fn read_switches(&mut self, buffer: &mut Vec<u8>) {
        let (file, voluntary, involuntary) = match &self.switches {
            Some(Switches::Sched(file)) => (file, "nr_voluntary_switches", "nr_involuntary_switches"),
            Some(Switches::Status(file)) => (file, "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"),
            None => return,
        };
        let Some(text) = file.read(buffer) else { return };
        for (counter, key) in [(VOLUNTARY, voluntary), (INVOLUNTARY, involuntary), (MIGRATIONS, "se.nr_migrations")] {
            if let Some(value) = keyed(text, key) {
                self.used.raise(counter, value as f64);
            }
        }
    }
}

/// A line as the kernel writes it, behind the name.
#[cfg(any(test, fuzzing))]
const BEHIND_NAME: &[u8] = b") S 5 1 1 0 -1 0 11 12 13 14 300 200 30 20 20 0 4 0 999 4096 25 0";

/// Takes any bytes for the line of a process, and for a process's name, which shifts no field.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(bytes: &[u8]) {
    for used in Stat::parse(bytes).iter().flat_map(|stat| [stat.own, stat.reaped]) {
        let parts = used.or_zero(USER).max(used.or_zero(SYSTEM));
        assert!(used.or_zero(TOTAL) >= parts && parts >= 0.0, "{used:?}");
    }
    let named = |name: &[u8]| Stat::parse(&[&b"77 ("[..], name, BEHIND_NAME].concat()).expect("the line is whole");
    assert_eq!(named(bytes), named(b"redis"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_process_name_does_not_shift_the_fields() {
        let stat = Stat::parse(&[&b"77 (a) b (c"[..], BEHIND_NAME].concat()).unwrap();
        assert_eq!((stat.parent, stat.started, stat.threads, stat.resident_pages), (5, 999, 4, 25));
        assert_eq!(stat.own.or_zero(TOTAL), ticks(500));
        assert_eq!(stat.reaped.or_zero(SYSTEM), ticks(20));
        assert_eq!((stat.own.or_zero(MINOR), stat.own.or_zero(MAJOR)), (11.0, 13.0));
        assert_eq!(Stat::parse(b"no bracket"), None);
    }

    #[test]
    fn numbers_at_their_ends_are_added() {
        let most = u64::MAX;
        let line = format!("7 (x) S 5 1 1 0 -1 0 {most} {most} {most} {most} {most} {most} {most} {most}");
        let stat = Stat::parse(line.as_bytes()).unwrap();
        assert_eq!((stat.own.or_zero(TOTAL), stat.reaped.or_zero(TOTAL)), (ticks(most), ticks(most)));
    }
}
