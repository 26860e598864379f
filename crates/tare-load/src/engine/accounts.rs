//! The CPU time that each load's services use in each turn, including the turns of other loads: a service that works
//! while another load has its turn takes time from that turn.
//!
//! Counters are read between the end of one turn and the start of the next, at a moment that belongs to neither.
//! Services of earlier turns are asleep by then and have been charged for all they did. The service that has just
//! answered may still be awake, and the kernel charges a running task only when it stops or at the tick, which is
//! milliseconds later: its counter is read once the next load has sent its first operations.

use crate::clock::SECOND_NS;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::pread;
use std::path::Path;
use tare_core::load::TurnUse;
use tare_core::telemetry::Scope;

/// The share of the turns' time that reading may take. If it would take more, only some rounds are counted.
const COST: f64 = 0.005;

/// A counter of CPU time.
enum Counter {
    /// Of a control group of version 1: the file contains nanoseconds and nothing else.
    Nanoseconds(OwnedFd),
    /// Of a control group of version 2: microseconds, on the first of several lines.
    Microseconds(OwnedFd),
    /// Of a process with all its threads: its CPU-time clock.
    Process(libc::clockid_t),
}

impl Counter {
    /// The counter of the first of these groups that has one.
    fn of_group(groups: &[String]) -> Option<Counter> {
        let open = |path: &Path| rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok();
        // On a machine with both versions, groups of version 2 have a `cpu.stat` that may count other processes.
        let first = groups.iter().find_map(|group| open(&Path::new(group).join("cpuacct.usage")));
        let second = || {
            let open = |group: &String| Some(Counter::Microseconds(open(&Path::new(group).join("cpu.stat"))?));
            groups.iter().filter_map(open).find(|counter| counter.ns().is_some())
        };
        first.map(Counter::Nanoseconds).or_else(second)
    }

    fn of_process(number: u32) -> Option<Counter> {
        let mut clock = 0;
        // SAFETY: the call only writes a clock id to the given place.
        let known = unsafe { libc::clock_getcpuclockid(libc::pid_t::try_from(number).ok()?, &raw mut clock) };
        (known == 0).then_some(Counter::Process(clock))
    }

    /// CPU time so far, ns; none if it can no longer be read.
    fn ns(&self) -> Option<u64> {
        match self {
            Counter::Nanoseconds(file) => number_at_start(file, b""),
            Counter::Microseconds(file) => number_at_start(file, b"usage_usec ")?.checked_mul(1000),
            Counter::Process(clock) => {
                let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                // SAFETY: the call only writes a time to the given place.
                let read = unsafe { libc::clock_gettime(*clock, &raw mut time) };
                let ns = || u64::try_from(time.tv_sec).ok()?.checked_mul(SECOND_NS)?.checked_add(time.tv_nsec as u64);
                if read == 0 { ns() } else { None }
            }
        }
    }
}

/// The number after `key` at the start of a file.
fn number_at_start(file: &OwnedFd, key: &[u8]) -> Option<u64> {
    let mut text = [0; 64];
    let length = pread(file, &mut text, 0).ok()?;
    let digits = text[..length].strip_prefix(key)?.split(|byte| !byte.is_ascii_digit()).next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// What serves each of the loads, and the CPU time it used in each load's turns.
pub(super) struct Accounts {
    // By load; none if any counter of it cannot be read.
    each: Vec<Option<Vec<Counter>>>,
    // By load: the value last read.
    seen_ns: Vec<u64>,
    // By load, and by the load whose turn it was.
    used: Vec<Vec<TurnUse>>,
    // The load whose turn is being counted, and since when.
    open: Option<(usize, u64)>,
    // The load that has just had its turn, still to be read, and the load whose turn that was if it is counted.
    late: Option<(usize, Option<usize>)>,
    // The total length of each load's counted turns.
    during_ns: Vec<u64>,
    // One round in this many is counted.
    every: u32,
}

impl Accounts {
    /// Opens the counters of what serves each of the loads; none if no load has any.
    pub(super) fn open(serving: &[Vec<Scope>]) -> Option<Accounts> {
        let of_scope = |scope: &Scope| match scope.cgroups.as_slice() {
            [] => scope.pids.iter().map(|number| Counter::of_process(*number)).collect(),
            groups => Counter::of_group(groups).map(|counter| vec![counter]),
        };
        let of_load = |scopes: &Vec<Scope>| {
            let counters: Option<Vec<Vec<Counter>>> = scopes.iter().map(of_scope).collect();
            counters.map(|counters| counters.into_iter().flatten().collect()).filter(|all: &Vec<_>| !all.is_empty())
        };
        let each: Vec<Option<Vec<Counter>>> = serving.iter().map(of_load).collect();
        let loads = each.len();
        each.iter().any(Option::is_some).then(|| Accounts {
            each,
            seen_ns: vec![0; loads],
            used: vec![vec![TurnUse::default(); loads]; loads],
            open: None,
            late: None,
            during_ns: vec![0; loads],
            every: 1,
        })
    }

    /// Works out how often a round may be counted, given turns of this length.
    pub(super) fn set_pace(&mut self, slice_ns: u64, clock_ns: impl Fn() -> u64) {
        let took_ns = |accounts: &mut Accounts| {
            let began_ns = clock_ns();
            (0..accounts.each.len()).for_each(|load| accounts.read(load, None));
            clock_ns() - began_ns
        };
        // The first reading is slow because the caches are cold.
        let took_ns = (0..3).map(|_| took_ns(self)).min().unwrap_or(0);
        self.every = (took_ns as f64 / (COST * slice_ns.max(1) as f64)).ceil().clamp(1.0, 1000.0) as u32;
    }

    /// Whether the round with this number is counted.
    pub(super) fn counts(&self, round: u32) -> bool {
        round.is_multiple_of(self.every)
    }

    /// Ends the turn of `ended` and begins that of `next`. A turn that is not counted is none.
    pub(super) fn pass(&mut self, ended: Option<usize>, next: Option<usize>, now_ns: u64) {
        self.read_late();
        let whose = self.open.take().map(|(whose, since_ns)| {
            self.during_ns[whose] += now_ns.saturating_sub(since_ns);
            whose
        });
        if whose.is_none() && next.is_none() {
            return;
        }
        (0..self.each.len()).filter(|load| Some(*load) != ended).for_each(|load| self.read(load, whose));
        self.late = ended.map(|ended| (ended, whose));
        self.open = next.map(|next| (next, now_ns));
    }

    /// Reads what served the previous turn, which is asleep by now.
    pub(super) fn read_late(&mut self) {
        if let Some((load, whose)) = self.late.take() {
            self.read(load, whose);
        }
    }

    /// Reads what serves a load. What it has used since the last reading is attributed to the turn of `whose`, if that
    /// turn is counted.
    fn read(&mut self, load: usize, whose: Option<usize>) {
        let Some(counters) = &self.each[load] else { return };
        let Some(now_ns) = counters.iter().map(Counter::ns).sum::<Option<u64>>() else {
            // The service is gone, so its total is unknown.
            self.each[load] = None;
            return;
        };
        if let Some(whose) = whose {
            self.used[load][whose].cpu_ns += now_ns.saturating_sub(self.seen_ns[load]);
        }
        self.seen_ns[load] = now_ns;
    }

    /// What serves `load` has used so far in those of its own turns that were counted; none if that is unknown. The
    /// last turn is included once the next load has begun or all turns are over.
    pub(super) fn own(&self, load: usize) -> Option<TurnUse> {
        let used = self.used.get(load)?.get(load).filter(|_| self.each[load].is_some())?;
        Some(TurnUse { during_ns: self.during_ns[load], ..*used })
    }

    /// What serves `load` used in the turns of each load; empty if that is unknown.
    pub(super) fn used(&self, load: usize) -> Vec<TurnUse> {
        if self.each[load].is_none() || self.during_ns.iter().all(|during_ns| *during_ns == 0) {
            return Vec::new();
        }
        let with = |(of, during_ns): (&TurnUse, &u64)| TurnUse { during_ns: *during_ns, ..*of };
        self.used[load].iter().zip(&self.during_ns).map(with).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// The files read from groups of version 1, and one group of version 2.
    struct Groups(tempfile::TempDir);

    impl Groups {
        fn new() -> Groups {
            Groups(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn charge(&self, name: &str, used_ns: u64) {
            std::fs::create_dir_all(self.path(name)).unwrap();
            std::fs::write(self.path(name).join("cpuacct.usage"), format!("{used_ns}\n")).unwrap();
        }

        fn scope(&self, name: &str) -> Vec<Scope> {
            let cgroups = vec![self.path(name).display().to_string()];
            vec![Scope { name: name.to_owned(), serving: true, pids: vec![1], cgroups }]
        }
    }

    #[test]
    fn what_is_used_goes_to_the_turn_in_which_it_is_used() {
        let groups = Groups::new();
        groups.charge("a", 100);
        groups.charge("b", 200);
        let mut accounts = Accounts::open(&[groups.scope("a"), groups.scope("b")]).unwrap();
        accounts.pass(None, Some(0), 1_000);
        // The first load has its turn; the second one's service does some work of its own.
        groups.charge("a", 150);
        groups.charge("b", 201);
        accounts.pass(Some(0), Some(1), 2_000);
        // What the first did at the very end is charged during the next turn, and is read then.
        groups.charge("a", 155);
        accounts.read_late();
        // The first also works during the second one's turn.
        groups.charge("a", 162);
        groups.charge("b", 301);
        accounts.pass(Some(1), None, 4_000);
        groups.charge("b", 303);
        accounts.read_late();
        let used = |cpu_ns, during_ns| TurnUse { cpu_ns, during_ns };
        assert_eq!(accounts.used(0), [used(55, 1_000), used(7, 2_000)]);
        assert_eq!(accounts.used(1), [used(1, 1_000), used(102, 2_000)]);
    }

    #[test]
    fn what_is_used_between_counted_rounds_counts_nowhere() {
        let groups = Groups::new();
        groups.charge("a", 0);
        let mut accounts = Accounts::open(&[groups.scope("a")]).unwrap();
        accounts.pass(None, None, 0);
        groups.charge("a", 1_000);
        accounts.pass(Some(0), Some(0), 500);
        // The load has consecutive turns: the end of the last one is not counted.
        groups.charge("a", 1_010);
        accounts.read_late();
        groups.charge("a", 1_030);
        accounts.pass(Some(0), None, 600);
        accounts.read_late();
        groups.charge("a", 9_000);
        accounts.pass(Some(0), None, 900);
        assert_eq!(accounts.used(0), [TurnUse { cpu_ns: 20, during_ns: 100 }]);
    }

    #[test]
    fn few_rounds_are_counted_where_reading_takes_long_for_such_turns() {
        let groups = Groups::new();
        groups.charge("a", 0);
        let mut accounts = Accounts::open(&[groups.scope("a")]).unwrap();
        let now_ns = std::cell::Cell::new(0);
        // Each reading of the clock is 10 us after the previous one.
        let clock = || now_ns.replace(now_ns.get() + 10_000);
        accounts.set_pace(10_000_000, clock);
        assert!(accounts.counts(1) && accounts.counts(2));
        accounts.set_pace(1_000_000, clock);
        assert!(!accounts.counts(1) && accounts.counts(2) && !accounts.counts(3) && accounts.counts(4));
    }

    #[test]
    fn a_group_of_version_2_and_a_process_are_read_and_what_is_gone_is_not_known() {
        let groups = Groups::new();
        std::fs::create_dir_all(groups.path("second")).unwrap();
        std::fs::write(groups.path("second/cpu.stat"), "usage_usec 77\nuser_usec 70\nsystem_usec 7\n").unwrap();
        assert_eq!(Counter::of_group(&groups.scope("second")[0].cgroups).unwrap().ns(), Some(77_000));
        // A group of version 1 beside one of version 2: its `cpu.stat` only reports throttling.
        std::fs::create_dir_all(groups.path("other")).unwrap();
        std::fs::write(groups.path("other/cpu.stat"), "nr_periods 0\n").unwrap();
        assert!(Counter::of_group(&groups.scope("other")[0].cgroups).is_none());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let scope = Scope { name: "p".into(), serving: true, pids: vec![child.id()], cgroups: Vec::new() };
        let mut accounts = Accounts::open(&[vec![scope], Vec::new()]).unwrap();
        accounts.pass(None, Some(0), 0);
        accounts.pass(Some(0), None, 100);
        accounts.read_late();
        assert_eq!((accounts.used(0).len(), accounts.used(1).len()), (2, 0));
        child.kill().unwrap();
        child.wait().unwrap();
        accounts.pass(None, Some(0), 200);
        assert!(accounts.used(0).is_empty(), "it has ended");
        assert!(Accounts::open(&[groups.scope("nowhere")]).is_none() && Accounts::open(&[]).is_none());
    }
}
