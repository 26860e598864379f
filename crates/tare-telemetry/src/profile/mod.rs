//! Profiles serving processes: samples their call stacks and counts their system calls. That costs them time, so it is
//! done in trials that never count.
//!
//! It needs neither other programs nor counters of the processor, only a kernel that lets root use `perf_event_open`
//! and `bpf`.

mod call_names;
mod calls;
mod demangle;
mod elf;
mod fold;
mod ring;
mod symbols;

#[cfg(any(test, fuzzing))]
pub(crate) use elf::chew as chew_elf;

use crate::proc::{Members, named};
use crate::root::Root;
use call_names::name;
use calls::Calls;
use fold::Folding;
use ring::Ring;
use std::collections::{BTreeMap, HashMap};
use tare_clock::monotonic_ns;
use tare_core::fault::Fault;
use tare_core::profile::{CALL_STACKS, Profile, STACKS_PER_S, SYSTEM_CALLS};
use tare_core::telemetry::Scope;
use tare_core::units::CpuSet;

/// By scope and number of the call: how often it was made so far.
type Totals = BTreeMap<(usize, u32), u64>;

/// Profiles until it is dropped.
pub(crate) struct Profiler {
    root: Root,
    scopes: Vec<Scope>,
    members: Members,
    /// The scope of each serving process. Ended processes stay, because their calls and samples do.
    owners: HashMap<u32, usize>,
    rings: Vec<Ring>,
    calls: Option<Calls>,
    missing: BTreeMap<String, Fault>,
    folding: Folding,
    totals: Vec<(u64, Totals)>,
    buffer: Vec<u8>,
}

impl Profiler {
    /// Profiles the serving ones of these scopes from now on, as far as this machine allows.
    pub(crate) fn begin(root: &Root, scopes: &[Scope]) -> Profiler {
        let mut missing = BTreeMap::new();
        let rings = rings(root).unwrap_or_else(|fault| {
            missing.insert(CALL_STACKS.to_owned(), fault);
            Vec::new()
        });
        let calls = Calls::begin().map_err(|fault| missing.insert(SYSTEM_CALLS.to_owned(), fault)).ok();
        let serving: Vec<Scope> = scopes.iter().filter(|scope| scope.serving).cloned().collect();
        let mut profiler = Profiler {
            root: root.clone(),
            members: Members::new(root, &serving),
            owners: named(&serving),
            scopes: serving,
            rings,
            calls,
            missing,
            folding: Folding::default(),
            totals: Vec::new(),
            buffer: Vec::new(),
        };
        profiler.look();
        profiler.count();
        profiler
    }

    /// What this machine does not allow, and why.
    pub(crate) fn missing(root: &Root) -> BTreeMap<String, Fault> {
        Profiler::begin(root, &[]).missing
    }

    /// Takes the samples out of the kernel's rings. Call it often: the rings have room for seconds.
    pub(crate) fn drain(&mut self) {
        let Profiler { root, owners, rings, folding, .. } = self;
        for ring in rings {
            ring.drain(&mut |sample| {
                if let Some(scope) = owners.get(&sample.pid) {
                    folding.add(root, *scope, &sample);
                }
            });
        }
    }

    /// Finds processes that were started since.
    pub(crate) fn look(&mut self) {
        self.members.join_cgroups(&self.root, &self.scopes, &mut self.buffer);
        if let Some(listed) = self.members.listed(&self.root, &mut self.buffer) {
            self.owners.extend(self.members.settle(listed));
        }
    }

    /// Reads how often calls were made.
    pub(crate) fn count(&mut self) {
        let Some(calls) = &self.calls else { return };
        let mut totals = Totals::new();
        let (at_ns, counts) = promptly(|| calls.read());
        for count in counts {
            if let Some(scope) = self.owners.get(&count.pid) {
                *totals.entry((*scope, count.number)).or_default() += count.count;
            }
        }
        self.totals.push((at_ns, totals));
        thin(&mut self.totals);
    }

    /// The profile between two moments, ns.
    pub(crate) fn end(mut self, from_ns: u64, to_ns: u64) -> Profile {
        self.look();
        self.count();
        self.drain();
        let mut calls: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
        let numbers = self.totals.last().map(|(_, totals)| totals.keys().copied().collect()).unwrap_or_default();
        let numbers: Vec<(usize, u32)> = numbers;
        for key in numbers {
            let made = total_at(&self.totals, key, to_ns) - total_at(&self.totals, key, from_ns);
            // Interpolation leaves half a call of one that was made just outside.
            if made >= 0.5 {
                calls.entry(self.scopes[key.0].name.clone()).or_default().insert(name(key.1), made);
            }
        }
        let lost = self.rings.iter().map(Ring::lost).sum();
        let names: Vec<&str> = self.scopes.iter().map(|scope| scope.name.as_str()).collect();
        let stacks = self.folding.stacks(&self.root, &names, from_ns..to_ns);
        Profile { from_ns, to_ns, stacks_per_s: STACKS_PER_S, lost, calls, missing: self.missing, stacks }
    }
}

/// A ring for each CPU.
fn rings(root: &Root) -> Result<Vec<Ring>, Fault> {
    let online = root.text("sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = CpuSet::parse(&online).map_err(Fault::new)?;
    let opened: Result<Vec<Ring>, std::io::Error> =
        cpus.cpus().iter().map(|cpu| Ring::open(*cpu, STACKS_PER_S)).collect();
    opened.map_err(|error| {
        let fault = Fault::from_error("sample call stacks (perf_event_open)", &error);
        fault.remedy(match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => "run as root, or sysctl -w kernel.perf_event_paranoid=-1",
            _ => "use a kernel with CONFIG_PERF_EVENTS",
        })
    })
}

/// The result of `read`, and its time. A thread that is interrupted while it reads would date the result too late, so a
/// slow reading is repeated a few times.
fn promptly<T>(mut read: impl FnMut() -> T) -> (u64, T) {
    const PROMPT_NS: u64 = 2_000_000;
    let mut timed = || {
        let before_ns = monotonic_ns();
        let what = read();
        let took_ns = monotonic_ns() - before_ns;
        (took_ns, before_ns + took_ns / 2, what)
    };
    let mut best = timed();
    for _ in 0..3 {
        if best.0 <= PROMPT_NS {
            break;
        }
        let again = timed();
        // A later reading that took no longer is as good.
        if again.0 <= best.0 {
            best = again;
        }
    }
    (best.1, best.2)
}

/// Removes every second of the older counts when there are many. Under steady load the remaining ones say as much, and
/// the end of the load is among the newer ones.
fn thin(totals: &mut Vec<(u64, Totals)>) {
    const MANY: usize = 4096;
    if totals.len() > MANY {
        let mut at = 0;
        totals.retain(|_| {
            at += 1;
            at > MANY / 2 || at % 2 == 1
        });
    }
}

/// How often a call was made until a moment, interpolated between the two counts around it.
fn total_at(totals: &[(u64, Totals)], key: (usize, u32), at_ns: u64) -> f64 {
    let count = |at: usize| totals[at].1.get(&key).copied().unwrap_or(0) as f64;
    let after = totals.partition_point(|(look_ns, _)| *look_ns < at_ns);
    if after == 0 || after == totals.len() {
        return if totals.is_empty() { 0.0 } else { count(after.min(totals.len() - 1)) };
    }
    let (from_ns, to_ns) = (totals[after - 1].0, totals[after].0);
    let share = (at_ns - from_ns) as f64 / (to_ns - from_ns).max(1) as f64;
    count(after - 1) + share * (count(after) - count(after - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_long_to_read_is_read_again() {
        let mut reads = 0;
        let before_ns = monotonic_ns();
        let (at_ns, what) = promptly(|| {
            reads += 1;
            std::thread::sleep(std::time::Duration::from_millis(if reads == 1 { 200 } else { 0 }));
            reads
        });
        assert!(what > 1 && at_ns >= before_ns + 200_000_000, "{what}, {} ns", at_ns - before_ns);
    }

    #[test]
    fn of_many_counts_the_newer_half_and_the_first_are_kept() {
        let mut totals: Vec<(u64, Totals)> = Vec::new();
        for at_ns in 0..10_000 {
            totals.push((at_ns, Totals::new()));
            thin(&mut totals);
            assert!(totals.len() <= 4096);
        }
        assert_eq!(totals[0].0, 0);
        assert!(totals.iter().rev().zip((0..10_000).rev()).take(2048).all(|(count, at_ns)| count.0 == at_ns));
        assert!(totals.is_sorted_by_key(|count| count.0));
    }

    #[test]
    fn calls_are_those_between_two_moments() {
        let look = |at_ns, count| (at_ns, Totals::from([((0, 1), count)]));
        let totals = [look(100, 10), look(200, 30), look(300, 50)];
        let at = |ns| total_at(&totals, (0, 1), ns);
        assert_eq!((at(50), at(100), at(150), at(250), at(900)), (10.0, 10.0, 20.0, 40.0, 50.0));
        assert_eq!((total_at(&totals, (1, 1), 150), total_at(&[], (0, 1), 5)), (0.0, 0.0));
    }
}
