//! Samples threads, some at a time, and adds up the times that the samples stand for.

use super::calls::{Call, DOINGS, Doing, by_channel, call, is_frozen, state, writes_through};
use crate::proc::Members;
use crate::root::{KeptFile, Root};
use std::collections::{BTreeMap, HashSet};
use tare_core::telemetry::Scope;

/// How many threads are sampled at once. If there are more, each is sampled less often, and a sample stands for longer.
const MOST_LOOKS: usize = 64;

/// Thread-seconds of a scope by what its threads did; none while none of its threads could be sampled.
pub(super) type Totals = Option<[f64; DOINGS]>;

/// The threads of scopes that serve.
pub(super) struct Watch {
    root: Root,
    scopes: Vec<Scope>,
    members: Members,
    processes: BTreeMap<u32, usize>,
    known: HashSet<u32>,
    threads: Vec<Thread>,
    /// Whose turn is next.
    next: usize,
    /// By scope: how many threads were doing what when last sampled.
    seen: Vec<[u32; DOINGS]>,
    totals: Vec<Totals>,
    /// Until when the totals are added up.
    until_ns: u64,
    buffer: Vec<u8>,
}

impl Watch {
    /// Watches the threads of these scopes from `now_ns` on.
    pub(super) fn new(root: &Root, scopes: &[Scope], now_ns: u64) -> Watch {
        let mut watch = Watch {
            root: root.clone(),
            scopes: scopes.to_vec(),
            members: Members::new(root, scopes),
            processes: BTreeMap::new(),
            known: HashSet::new(),
            threads: Vec::new(),
            next: 0,
            seen: vec![[0; DOINGS]; scopes.len()],
            totals: vec![None; scopes.len()],
            until_ns: now_ns,
            buffer: Vec::new(),
        };
        watch.find(now_ns);
        watch
    }

    /// By scope, what its threads did while they were watched.
    pub(super) fn totals(&self) -> &[Totals] {
        &self.totals
    }

    /// Finds processes and threads that were started since.
    pub(super) fn find(&mut self, now_ns: u64) {
        self.add_up(now_ns);
        self.members.join_cgroups(&self.root, &self.scopes, &mut self.buffer);
        let Some(listed) = self.members.listed(&self.root, &mut self.buffer) else { return };
        self.members.forget_gone();
        let settled = self.members.settle(listed);
        self.processes.extend(settled.into_iter().filter(|(_, scope)| self.scopes[*scope].serving));
        let Watch { root, processes, known, threads, seen, totals, buffer, .. } = self;
        processes.retain(|pid, scope| {
            let tasks = format!("proc/{pid}/task");
            let Ok(entries) = std::fs::read_dir(root.path(&tasks)) else { return false };
            for entry in entries.flatten() {
                let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
                if known.contains(&id) {
                    continue;
                }
                if let Some(thread) = Thread::open(root, &tasks, id, *scope, buffer) {
                    known.insert(id);
                    seen[*scope][thread.last as usize] += 1;
                    threads.push(thread);
                    totals[*scope].get_or_insert_default();
                }
            }
            true
        });
    }

    /// Samples the threads whose turn it is.
    pub(super) fn look(&mut self, now_ns: u64) {
        self.add_up(now_ns);
        for _ in 0..MOST_LOOKS.min(self.threads.len()) {
            if self.next >= self.threads.len() {
                self.next = 0;
            }
            let Some(thread) = self.threads.get_mut(self.next) else { return };
            let seen = &mut self.seen[thread.scope];
            seen[thread.last as usize] -= 1;
            if thread.look(&self.root, &mut self.buffer).is_some() {
                seen[thread.last as usize] += 1;
                self.next += 1;
            } else {
                self.known.remove(&thread.id);
                self.threads.swap_remove(self.next);
            }
        }
    }

    /// Adds the time until now. Each sample stands for the time until the same thread's next one, so that all of a
    /// thread's time is covered, however many threads there are.
    fn add_up(&mut self, now_ns: u64) {
        let passed_s = now_ns.saturating_sub(self.until_ns) as f64 * 1e-9;
        self.until_ns = self.until_ns.max(now_ns);
        for (totals, seen) in self.totals.iter_mut().zip(&self.seen) {
            for (total, threads) in totals.iter_mut().flatten().zip(seen) {
                *total += f64::from(*threads) * passed_s;
            }
        }
    }
}

/// One thread.
struct Thread {
    id: u32,
    /// Its folder in `/proc`.
    folder: String,
    scope: usize,
    asked: Asked,
    stat: KeptFile,
    last: Doing,
}

/// The file that shows what a thread is in.
enum Asked {
    /// `/proc/<pid>/task/<tid>/syscall`
    Call(KeptFile),
    /// `/proc/<pid>/task/<tid>/wchan`, if the other is refused or not built in.
    Channel(KeptFile),
}

impl Thread {
    /// None if it is gone, or if neither file shows what it is doing.
    fn open(root: &Root, tasks: &str, id: u32, scope: usize, buffer: &mut Vec<u8>) -> Option<Thread> {
        let folder = format!("{tasks}/{id}");
        let open = |name: &str| KeptFile::open(root.path(format!("{folder}/{name}")));
        // The file can always be opened; only reading it shows whether that is allowed.
        let asked = open("syscall").filter(|file| file.read(buffer).and_then(call).is_some()).map(Asked::Call);
        let asked = asked.or_else(|| open("wchan").map(Asked::Channel))?;
        let stat = open("stat")?;
        let mut thread = Thread { id, folder, scope, asked, stat, last: Doing::Other };
        thread.look(root, buffer).map(|_| thread)
    }

    fn look(&mut self, root: &Root, buffer: &mut Vec<u8>) -> Option<Doing> {
        self.last = match &self.asked {
            Asked::Call(file) => match call(file.read(buffer)?)? {
                Call::Is(Doing::Running) => Doing::Running,
                // A stopped thread still shows the call in which it was stopped.
                call => match (state(self.stat.read(buffer)?)?, call) {
                    (b'T' | b't', _) => Doing::Stopped,
                    (b'D', _) if self.is_frozen(root) => Doing::Stopped,
                    (_, Call::Is(doing)) => doing,
                    (b'D', Call::Unless(_)) => Doing::Disk,
                    (b'D', Call::Writes(file)) => {
                        let facts = root.text(format!("{}/fdinfo/{file}", self.folder));
                        if facts.is_some_and(|facts| writes_through(&facts)) { Doing::Sync } else { Doing::Disk }
                    }
                    (_, Call::Unless(doing)) => doing,
                    (_, Call::Writes(_)) => Doing::Net,
                    // It is no longer stopped.
                    (_, Call::Resumed) if self.last == Doing::Stopped => Doing::Net,
                    (_, Call::Resumed) => self.last,
                },
            },
            Asked::Channel(file) => {
                let state = state(self.stat.read(buffer)?)?;
                by_channel(state, file.read(buffer)?)?
            }
        };
        Some(self.last)
    }

    /// Whether a thread that cannot be interrupted is held by a freezer and does not wait for a disk.
    fn is_frozen(&self, root: &Root) -> bool {
        root.text(format!("{}/wchan", self.folder)).is_some_and(|channel| is_frozen(&channel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const SECOND: u64 = 1_000_000_000;

    fn write(root: &Path, file: &str, text: &str) {
        tare_testkit::files::write(&root.join(file), text);
    }

    fn thread(root: &Path, pid: u32, tid: u32, state: char, file: &str, text: &str) {
        let stat = format!("{tid} (x) {state} 1 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 10 4096 1 0\n");
        write(root, &format!("proc/{pid}/stat"), &stat);
        write(root, &format!("proc/{pid}/task/{tid}/stat"), &stat);
        write(root, &format!("proc/{pid}/task/{tid}/{file}"), text);
    }

    fn scope(serving: bool, pids: &[u32], cgroups: &[&str]) -> Scope {
        let cgroups = cgroups.iter().map(|path| (*path).to_owned()).collect();
        Scope { name: "s".to_owned(), serving, pids: pids.to_vec(), cgroups }
    }

    fn of(watch: &Watch, scope: usize, doing: Doing) -> f64 {
        watch.totals()[scope].expect("threads were seen")[doing as usize]
    }

    #[test]
    fn each_thread_is_asked_and_its_state_decides_about_files() {
        let keep = tempfile::tempdir().unwrap();
        let root = Root::at(keep.path());
        let line = |call: libc::c_long| format!("{call} 0x5 0x7f21d9f0 0x0 0x0 0x0 0x0 0x7ffd4c30 0x7f21da01\n");
        thread(keep.path(), 10, 10, 'S', "syscall", &line(libc::SYS_epoll_pwait));
        thread(keep.path(), 10, 11, 'D', "syscall", &line(libc::SYS_pread64));
        thread(keep.path(), 10, 12, 'S', "syscall", &line(libc::SYS_read));
        thread(keep.path(), 20, 20, 'S', "wchan", "futex_wait_queue");
        thread(keep.path(), 30, 30, 'R', "syscall", "running\n");
        write(keep.path(), "sys/fs/cgroup/b/cgroup.procs", "20\n10\n");
        let scopes = [scope(true, &[10], &[]), scope(true, &[], &["/sys/fs/cgroup/b"]), scope(false, &[30], &[])];
        let mut watch = Watch::new(&root, &scopes, 0);
        assert_eq!(of(&watch, 0, Doing::Net), 0.0, "what was before is not told");
        watch.look(2 * SECOND);
        assert_eq!((of(&watch, 0, Doing::Net), of(&watch, 0, Doing::Disk)), (4.0, 2.0));
        assert_eq!((of(&watch, 1, Doing::Lock), watch.totals()[1].unwrap().iter().sum()), (2.0, 2.0));
        assert_eq!(watch.totals()[2], None, "what does not serve is left alone");
        // A freeze ends calls, which are taken up again.
        thread(keep.path(), 20, 20, 'S', "wchan", "0");
        thread(keep.path(), 10, 10, 'S', "syscall", &line(libc::SYS_restart_syscall));
        watch.look(3 * SECOND);
        assert_eq!((of(&watch, 0, Doing::Net), of(&watch, 1, Doing::Lock)), (6.0, 3.0));
        watch.look(4 * SECOND);
        assert_eq!((of(&watch, 0, Doing::Net), of(&watch, 1, Doing::Lock)), (8.0, 3.0));
        assert_eq!(watch.threads.len(), 3, "who tells nothing any more is not asked again");
    }

    #[test]
    fn a_write_to_a_file_that_is_opened_to_be_safe_waits_for_that() {
        let keep = tempfile::tempdir().unwrap();
        let line =
            |file: u32| format!("{} {file:#x} 0x7f21d9f0 0x8 0x0 0x0 0x0 0x7ffd4c30 0x7f21da01\n", libc::SYS_write);
        for (tid, file) in [(10, 5), (11, 6), (12, 7)] {
            thread(keep.path(), 10, tid, 'D', "syscall", &line(file));
        }
        thread(keep.path(), 10, 13, 'S', "syscall", &line(5));
        for tid in 10..14 {
            write(keep.path(), &format!("proc/10/task/{tid}/fdinfo/5"), "pos:\t0\nflags:\t02010001\n");
            write(keep.path(), &format!("proc/10/task/{tid}/fdinfo/6"), "pos:\t0\nflags:\t02000001\n");
        }
        let mut watch = Watch::new(&Root::at(keep.path()), &[scope(true, &[10], &[])], 0);
        watch.look(SECOND);
        let told = [Doing::Sync, Doing::Disk, Doing::Net].map(|doing| of(&watch, 0, doing));
        assert_eq!(told, [1.0, 2.0, 1.0], "of a file that is closed already nothing is known");
    }

    #[test]
    fn who_is_stopped_or_frozen_waits_neither_for_load_nor_for_a_disk() {
        let keep = tempfile::tempdir().unwrap();
        let line = |call: libc::c_long| format!("{call} 0x5 0x7f21d9f0 0x0 0x0 0x0 0x0 0x7ffd4c30 0x7f21da01\n");
        thread(keep.path(), 10, 10, 'T', "syscall", &line(libc::SYS_epoll_pwait));
        thread(keep.path(), 10, 11, 't', "syscall", "-1 0x7ffd2c6f1e48 0x7f2b3c0f5a11\n");
        // As Linux 6.18 shows a thread that a freezer of version 1 holds.
        thread(keep.path(), 10, 12, 'D', "syscall", &line(libc::SYS_clock_nanosleep));
        write(keep.path(), "proc/10/task/12/wchan", "hrtimer_nanosleep");
        thread(keep.path(), 10, 13, 'D', "syscall", &line(libc::SYS_pread64));
        write(keep.path(), "proc/10/task/13/wchan", "folio_wait_bit_common");
        let mut watch = Watch::new(&Root::at(keep.path()), &[scope(true, &[10], &[])], 0);
        watch.look(SECOND);
        assert_eq!([Doing::Stopped, Doing::Disk].map(|doing| of(&watch, 0, doing)), [3.0, 1.0]);
        thread(keep.path(), 10, 10, 'S', "syscall", &line(libc::SYS_restart_syscall));
        watch.look(2 * SECOND);
        watch.look(3 * SECOND);
        assert_eq!(of(&watch, 0, Doing::Net), 1.0, "it goes on");
    }

    #[test]
    fn however_many_threads_there_are_all_of_their_time_is_told() {
        let keep = tempfile::tempdir().unwrap();
        let root = Root::at(keep.path());
        for tid in 10..(10 + 3 * MOST_LOOKS as u32 / 2) {
            thread(keep.path(), 10, tid, 'R', "syscall", "running\n");
        }
        let mut watch = Watch::new(&root, &[scope(true, &[10], &[])], 0);
        (1..=60).for_each(|tick| watch.look(tick * SECOND / 10));
        let told = of(&watch, 0, Doing::Running) / (6.0 * 1.5 * MOST_LOOKS as f64);
        assert!((0.999..1.001).contains(&told), "{told}");
    }
}
