//! What threads of services wait for: time off the CPU, by the system call that a thread is in.
//!
//! The kernel does not count this, so a thread of ours samples each thread about fifty times a second; a sample stands
//! for the time until the next sample of the same thread. All figures are thread-seconds: a helper thread that is never
//! used adds a second per second to `wait_lock_s`, and the thread of an idle server to `wait_net_s`. Threads inside a
//! guest are not visible from outside; a halted CPU of a guest waits in `wait_other_s`. A tool that runs in a service's
//! cgroup is counted with the service. Threads that live less than a second may be missed.

mod calls;
mod watch;

use crate::away::is_among;
use crate::pace::Pace;
use crate::root::Root;
use crate::source::{Of, Reading, SourceReader, SourceRow, SourceState};
use calls::NAMES;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tare_clock::monotonic_ns;
use tare_core::telemetry::Scope;
use watch::{Totals, Watch};

/// The row of [`crate::SOURCES`].
pub const ROW: SourceRow = SourceRow {
    name: "waits",
    about: "what threads of services wait for, sampled up to fifty times a second",
    metrics: &NAMES,
    probe,
    reader: |root, scopes| Box::new(WaitsReader::new(root, scopes)),
};

fn probe(root: &Root) -> SourceState {
    let told = |file: &str| root.text(file).is_some_and(|text| !text.is_empty());
    if told("proc/self/syscall") || told("proc/self/wchan") {
        return SourceState::Ready;
    }
    SourceState::Unavailable {
        why: "the kernel shows neither the system call nor the function in which a thread waits".to_owned(),
        how_to_check: "as root: cat /proc/self/syscall /proc/self/wchan".to_owned(),
    }
}

/// Shortest and longest pause between samples, ms. A fixed pause would beat with servers that wake at a fixed rate.
const PAUSES_MS: (u64, u64) = (15, 25);

/// By this factor pauses are longer if there are no other CPUs than the services': each sample takes a CPU from them.
const SELDOMER: u64 = 5;

/// The shares of a CPU that sampling, and searching for new threads, may take.
const LOOKING: f64 = 0.002;
const FINDING: f64 = 0.0005;

struct WaitsReader {
    totals: Arc<Mutex<Vec<Totals>>>,
    /// Sending true pauses the thread until false is sent; dropping the sender ends it.
    running: Option<(Sender<bool>, JoinHandle<()>)>,
}

impl WaitsReader {
    fn new(root: &Root, scopes: &[Scope]) -> WaitsReader {
        if !scopes.iter().any(|scope| scope.serving) {
            return WaitsReader { totals: Arc::default(), running: None };
        }
        let watch = Watch::new(root, scopes, monotonic_ns());
        let totals = Arc::new(Mutex::new(watch.totals().to_vec()));
        let (tell, told_to) = channel();
        let told = Arc::clone(&totals);
        let times = if is_among(root, scopes) { SELDOMER } else { 1 };
        let looks = move || keep_looking(watch, &told, &told_to, times);
        // Without the thread these metrics are absent, as on a machine that does not provide them.
        match std::thread::Builder::new().name("waits".to_owned()).spawn(looks) {
            Ok(thread) => WaitsReader { totals, running: Some((tell, thread)) },
            Err(_) => WaitsReader { totals: Arc::default(), running: None },
        }
    }
}

fn keep_looking(mut watch: Watch, told: &Mutex<Vec<Totals>>, told_to: &Receiver<bool>, times: u64) {
    let (mut looking, mut finding) = (Pace::new(LOOKING), Pace::new(FINDING));
    let mut seed = monotonic_ns() | 1;
    loop {
        // Xorshift is random enough to avoid falling into step with a service.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let pause = Duration::from_millis(times * (PAUSES_MS.0 + seed % (PAUSES_MS.1 - PAUSES_MS.0 + 1)));
        finding.keep(Duration::from_secs(1), || watch.find(monotonic_ns()));
        looking.keep(pause, || {
            watch.look(monotonic_ns());
            told.lock().unwrap_or_else(PoisonError::into_inner).copy_from_slice(watch.totals());
        });
        let wait = Duration::from_nanos(looking.due_ns().saturating_sub(monotonic_ns()).max(1_000_000));
        match told_to.recv_timeout(wait) {
            Ok(false) | Err(RecvTimeoutError::Timeout) => {}
            // The last samples stand for the rest as well.
            Ok(true) => {
                if told_to.iter().all(|rests| rests) {
                    return;
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl SourceReader for WaitsReader {
    fn read(&mut self, into: &mut Reading) {
        for (scope, totals) in self.totals.lock().unwrap_or_else(PoisonError::into_inner).iter().enumerate() {
            for (name, value) in NAMES.iter().zip(totals.iter().flatten()) {
                into.put(Of::Scope(scope), name, *value);
            }
        }
    }

    fn rest(&mut self, rests: bool) {
        if let Some((told_to, _)) = &self.running {
            // It fails if the thread is gone, which then samples nothing anyway.
            let _ = told_to.send(rests);
        }
    }
}

impl Drop for WaitsReader {
    fn drop(&mut self) {
        if let Some((tell, thread)) = self.running.take() {
            drop(tell);
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn values(reader: &mut WaitsReader) -> std::collections::BTreeMap<String, f64> {
        let mut reading = Reading::new(1);
        reader.read(&mut reading);
        reading.values(Of::Scope(0))
    }

    #[test]
    fn a_sleeper_sleeps_and_one_that_reads_waits_for_input() {
        if let SourceState::Unavailable { why, .. } = probe(&Root::machine()) {
            println!("skipped: {why}");
            return;
        }
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        let mut reads = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let named = |pid: u32| Scope { name: "s".to_owned(), serving: true, pids: vec![pid], cgroups: Vec::new() };
        let mut readers = [&sleeper, &reads].map(|child| WaitsReader::new(&Root::machine(), &[named(child.id())]));
        std::thread::sleep(Duration::from_millis(100));
        let before = readers.each_mut().map(values);
        let began_ns = monotonic_ns();
        std::thread::sleep(Duration::from_millis(900));
        let after = readers.each_mut().map(values);
        let elapsed_s = (monotonic_ns() - began_ns) as f64 * 1e-9;
        drop(readers);
        for child in [&mut sleeper, &mut reads] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        for (index, name) in ["wait_sleep_s", "wait_net_s"].into_iter().enumerate() {
            let ratio = (after[index][name] - before[index][name]) / elapsed_s;
            println!("  {name}: {ratio:.3} of the time");
            assert!((0.5..2.0).contains(&ratio), "{name} rose by {ratio} s a second");
        }
    }

    #[test]
    fn who_rests_looks_at_nothing_and_goes_on_behind_it() {
        if let SourceState::Unavailable { why, .. } = probe(&Root::machine()) {
            println!("skipped: {why}");
            return;
        }
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        let scope = Scope { name: "s".to_owned(), serving: true, pids: vec![sleeper.id()], cgroups: Vec::new() };
        let mut reader = WaitsReader::new(&Root::machine(), &[scope]);
        std::thread::sleep(Duration::from_millis(150));
        reader.rest(true);
        // A look that was going on is over.
        std::thread::sleep(Duration::from_millis(150));
        let at_rest = values(&mut reader);
        std::thread::sleep(Duration::from_millis(400));
        let still = values(&mut reader);
        reader.rest(false);
        std::thread::sleep(Duration::from_millis(300));
        let after = values(&mut reader);
        drop(reader);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert_eq!(at_rest, still);
        let grown = after["wait_sleep_s"] - still["wait_sleep_s"];
        assert!(grown > 0.4, "the last look stands for the rest: {grown}");
    }

    #[test]
    fn without_a_service_there_is_no_thread() {
        let idle = Scope { name: "s".to_owned(), serving: false, pids: vec![1], cgroups: Vec::new() };
        let mut reader = WaitsReader::new(&Root::machine(), &[idle]);
        assert!(reader.running.is_none() && values(&mut reader).is_empty());
    }

    #[test]
    fn a_machine_that_does_not_tell_says_so() {
        let keep = tempfile::tempdir().unwrap();
        assert!(matches!(probe(&Root::at(keep.path())), SourceState::Unavailable { .. }));
    }
}
