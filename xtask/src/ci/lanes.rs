//! Which tests run beside which. Tests that measure run alone, at the end. Before them, tests that run the whole of
//! Tare run one after the other, at the machine's full speed, and the others take the CPU time that these leave,
//! because they wait most of the time. So do tests in the guest. While tests are still being built, those that compute
//! wait: they would run as nice as the compiler.

use crate::ci::guest;
use crate::ci::left;
use crate::ci::one::{self, Cost, End, Surroundings};
use crate::ci::programs::Test;
use crate::ci::queue::Queue;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a test does to the machine, and what it tolerates beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Computes, and measures no time: runs beside anything but a measurement.
    Calm,
    /// Sleeps nearly all of its time, with peers that must not be late: several at once.
    Waits,
    /// Downloads and unpacks: two at once.
    Fetches,
    /// Owns containers, guests or networks, which carry the id of a run of its own: three at a time, beside the others.
    Owns,
    /// Runs the whole of Tare, which locks the machine and must find it clean, or leaves what a dead run leaves: one at
    /// a time, with priority over all others.
    Runs,
    /// Measures: nothing beside it.
    Alone,
    /// Measures how long others wait, and leaves CPUs idle most of the time: three at once, nothing else beside them.
    Times,
    /// Runs in the guest, which waits half of its time and is niced itself: one at a time, beside the others.
    Guest,
    /// Measures in the guest: nothing beside it.
    GuestAlone,
}

/// Every class, its name, and how nice its tests are to others: at 19, one gets a seventieth of what one at 0 gets.
const NICENESS: [(Class, &str, i32); 9] = [
    (Class::Calm, "calm", 19),
    (Class::Waits, "waits", 0),
    (Class::Fetches, "fetches", 15),
    (Class::Owns, "owns", 15),
    (Class::Runs, "runs", 0),
    (Class::Alone, "alone", 0),
    (Class::Times, "times", 0),
    (Class::Guest, "guest", 0),
    (Class::GuestAlone, "guest alone", 0),
];

/// The class of all tests whose full name has this prefix; the first match counts. All others are calm. Within a class,
/// tests run in the order of this table.
const CLASSES: &[(&str, Class)] = &[
    ("cgroup2::tare::end_to_end::accounts::", Class::GuestAlone),
    (guest::PREFIX, Class::Guest),
    // What else the machine does is in the rest.
    ("tare::end_to_end::accounts::", Class::Alone),
    // Two equal arms are held against each other.
    ("tare::end_to_end::chopped::", Class::Alone),
    ("tare::end_to_end::own::", Class::Alone),
    ("tare::end_to_end::peaking::", Class::Alone),
    // Operations that are started late count against the generator, and void the trial.
    ("tare::end_to_end::auction::the_auction_deploys_", Class::Alone),
    // How much CPU time a service got is held against a bound.
    ("tare::end_to_end::placing::services_run_", Class::Alone),
    ("tare::end_to_end::planted::", Class::Alone),
    ("tare::end_to_end::whole::a_feature_is_weighed", Class::Alone),
    ("tare::end_to_end::whole::a_published_port_is_explained", Class::Alone),
    // It has a run of its own for the network of its ssh server, and cleans the machine from in there.
    ("tare::end_to_end::machines::", Class::Runs),
    ("tare::end_to_end::", Class::Runs),
    // A server that sleeps, and says so where sleepers wake too late.
    ("tare::peak::", Class::Times),
    ("tare::load::", Class::Times),
    // It locks the machine for a moment, as `clean` does.
    ("tare::labs::a_machine_behind_a_command", Class::Runs),
    // Their output differs while a run is in progress.
    ("tare::cli::an_out_directory_that_cannot_be_written", Class::Runs),
    ("tare::cli::a_dry_run_of_clean_lists_what_is_kept", Class::Runs),
    ("tare-load::truth::", Class::Times),
    ("tare-load::turns::", Class::Times),
    // Visits a second are counted by kind.
    ("tare-load::nginx::", Class::Alone),
    ("tare-telemetry::probe_process::", Class::Alone),
    ("tare-bundle::engine::", Class::Owns),
    ("dist::installed::", Class::Owns),
    // They kill the owners of runs, and what those leave is what others clean up.
    ("tare-layers::contract::what_a_killed_", Class::Runs),
    // It locks the machine, as a run does.
    ("tare-layers::contract::no_service_is_reached_", Class::Runs),
    ("tare-layers::vm::a_killed_run_", Class::Runs),
    // It looks for KVM with a guest that every such look has the same name for.
    ("tare-layers::vm::what_cannot_be_had_", Class::Runs),
    // They make what a run makes, of no run that is alive.
    ("tare-layers::container::what_netavark_has_left_", Class::Runs),
    ("tare-layers::container::what_podman_has_left_", Class::Runs),
    ("tare-layers::cgroup::", Class::Runs),
    ("tare-layers::leftovers::", Class::Runs),
    ("tare-layers::local::", Class::Runs),
    ("tare-layers::network::", Class::Runs),
    ("tare-layers::opened::", Class::Runs),
    ("tare-layers::processes::", Class::Runs),
    ("tare-layers::settings::", Class::Runs),
    // The longest by far.
    ("tare-layers::vm::a_container_", Class::Owns),
    ("tare-layers::vm::containers_in_several_guests_", Class::Owns),
    ("tare-layers::vm::", Class::Owns),
    ("tare-layers::container::", Class::Owns),
    ("tare-layers::contract::", Class::Owns),
    // Downloads, which the tests that have Tare run need soon.
    ("tare::bundles::", Class::Fetches),
    ("tare-bundle::packages::", Class::Fetches),
    ("tare-bundle::kernel::", Class::Fetches),
    ("tare-load::companions::", Class::Waits),
    ("tare-load::databases::", Class::Waits),
    ("tare-load::contract::", Class::Waits),
    ("tare-load::echo::", Class::Waits),
    ("tare-load::peer::", Class::Waits),
];

/// How many tests that wait run at once.
const WAITING: usize = 4;
/// How many that download.
const FETCHING: usize = 2;
/// How many that compute.
const COMPUTING: usize = 2;
/// How many that own containers, guests or networks.
const OWNING: usize = 3;
/// How many that measure how long others wait: each sleeps two thirds of its time.
const TIMING: usize = 3;

/// The place in [`CLASSES`].
fn place(name: &str) -> usize {
    CLASSES.iter().position(|(prefix, _)| name.starts_with(prefix)).unwrap_or(CLASSES.len())
}

fn class(name: &str) -> Class {
    CLASSES.get(place(name)).map_or(Class::Calm, |(_, class)| *class)
}

/// Whether the test measures time on this machine.
pub(super) fn measures(name: &str) -> bool {
    matches!(class(name), Class::Alone | Class::Times)
}

fn name(own: Class) -> &'static str {
    NICENESS[own as usize].1
}

fn niceness(name: &str) -> i32 {
    NICENESS[class(name) as usize].2
}

/// The results of the tests.
#[derive(Default)]
pub(super) struct Outcomes {
    /// The cost of each test that was run.
    pub(super) costs: BTreeMap<String, Cost>,
    /// Names of the tests that failed.
    pub(super) failed: Vec<String>,
    /// Tests that were skipped, at least in part, and why.
    pub(super) skipped: Vec<(String, String)>,
    /// Tests that failed once and passed alone afterwards.
    pub(super) unsteady: Vec<(String, String)>,
    /// Tests that were left out, and why.
    pub(super) left: Vec<(String, &'static str)>,
    /// What each class of tests took, by its name.
    pub(super) lanes: BTreeMap<&'static str, Lane>,
}

/// What the tests of a class took.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// How many they are.
    pub(super) tests: usize,
    /// The time of all, one after the other.
    pub(super) wall: Duration,
    /// When the last of them ended, since the first test of all began.
    pub(super) ended: Duration,
}

/// Prints when each test is run.
pub(super) fn list(tests: &[Test]) {
    for test in tests {
        let when = name(class(&test.name));
        println!("{when:8} {}{}", test.name, if left::reason(&test.name).is_some() { "  (--thorough)" } else { "" });
    }
    println!("{} tests", tests.len());
}

/// Classes whose tests begin while others are still built: their tests wait most of the time, or go first anyway.
const EARLY: [Class; 4] = [Class::Waits, Class::Fetches, Class::Owns, Class::Runs];

/// Runs all tests, and runs those that failed once more, alone. A test that fails twice has failed; one that fails once
/// is named, so that somebody finds out why. Meanwhile has `others` find more tests, and runs those that are not among
/// the first; when it finds none at all, those that are running are the last.
pub(super) fn run(
    tests: Vec<Test>,
    others: impl FnOnce() -> Option<Vec<Test>> + Send,
    surroundings: &Surroundings<'_>,
) -> Outcomes {
    let stand = Stand { surroundings, began: Instant::now(), ends: Mutex::default() };
    let first: BTreeSet<String> = tests.iter().map(|test| test.name.clone()).collect();
    let lanes = NICENESS.map(|(class, ..)| Queue::new(EARLY.contains(&class)));
    let put = |tests: Vec<Test>| {
        let mut by_class: [Vec<Test>; NICENESS.len()] = Default::default();
        for test in tests {
            by_class[class(&test.name) as usize].push(test);
        }
        for (queue, tests) in lanes.iter().zip(by_class) {
            queue.add(tests, |test| place(&test.name));
        }
    };
    put(tests);
    let [calm, waits, fetches, owns, runs, alone, times, guest, guest_alone] = &lanes;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            match others() {
                Some(others) => put(others.into_iter().filter(|test| !first.contains(&test.name)).collect()),
                None => lanes.iter().for_each(Queue::clear),
            }
            lanes.iter().for_each(Queue::complete);
        });
        for (queue, workers) in [(calm, COMPUTING), (waits, WAITING), (fetches, FETCHING), (owns, OWNING), (runs, 1)] {
            for _ in 0..workers {
                scope.spawn(|| stand.work(queue));
            }
        }
        // By this thread: the guest ends with the one that booted it, and is wanted once more below.
        stand.work(guest);
    });
    stand.work(guest_alone);
    surroundings.guest.end();
    stand.work(alone);
    std::thread::scope(|scope| {
        for _ in 0..TIMING {
            scope.spawn(|| stand.work(times));
        }
    });
    let mut ends = stand.ends.into_inner().unwrap_or_else(PoisonError::into_inner);
    let once_more = |test: &Test| {
        println!("trying again, alone: {}", test.name);
        one::run(test, 0, surroundings)
    };
    let unsteady = try_again(&mut ends, once_more, || surroundings.guest.end());
    let mut outcomes = Outcomes { unsteady, ..Outcomes::default() };
    for Run { test, end, cost, after } in ends {
        let lane = outcomes.lanes.entry(name(class(&test.name))).or_default();
        (lane.tests, lane.wall, lane.ended) = (lane.tests + 1, lane.wall + cost.wall, lane.ended.max(after));
        match end {
            End::Passed => {}
            End::Skipped(why) => outcomes.skipped.push((test.name.clone(), why)),
            End::Failed(_) => outcomes.failed.push(test.name.clone()),
        }
        outcomes.costs.insert(test.name, cost);
    }
    outcomes
}

/// With more failures than this, none is tried again: so many are no coincidence.
const SECOND_TRIES: usize = 6;

/// Runs the tests that failed once more, by `run`, and puts how they ended then in the place of how they ended first.
/// Each is alone in a guest too, which `end_guest` ends. The tests that passed now.
fn try_again(ends: &mut [Run], run: impl Fn(&Test) -> (End, Cost), end_guest: impl Fn()) -> Vec<(String, String)> {
    let failed: Vec<&mut Run> = ends.iter_mut().filter(|run| matches!(run.end, End::Failed(_))).collect();
    let mut unsteady = Vec::new();
    if failed.len() > SECOND_TRIES {
        return unsteady;
    }
    for first in failed {
        let (end, cost) = run(&first.test);
        if first.test.in_guest {
            end_guest();
        }
        // A part that is skipped now, and was not when it failed, may be the part that failed.
        let was_skipped = |why: &str| match &first.end {
            End::Failed(said) => why.split("; ").all(|part| said.contains(&format!("skipped: {part}"))),
            _ => false,
        };
        let end = match end {
            End::Skipped(why) if !was_skipped(&why) => {
                End::Failed(format!("it was skipped on the second try, which proves nothing: {why}"))
            }
            end => end,
        };
        say(&first.test, &end, cost);
        if matches!(end, End::Passed | End::Skipped(_)) {
            unsteady.push((first.test.name.clone(), String::new()));
        }
        first.end = end;
        first.cost += cost;
    }
    unsteady
}

/// A test that has ended.
struct Run {
    test: Test,
    end: End,
    cost: Cost,
    /// When it ended, since the first began.
    after: Duration,
}

/// What the lanes share.
struct Stand<'a> {
    surroundings: &'a Surroundings<'a>,
    began: Instant,
    ends: Mutex<Vec<Run>>,
}

impl Stand<'_> {
    /// Runs the tests of a queue, one after the other, until it is empty.
    fn work(&self, queue: &Queue) {
        while let Some(test) = queue.next() {
            let (end, cost) = one::run(&test, niceness(&test.name), self.surroundings);
            // Held while it is said, so that what two tests say is not mixed.
            let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
            say(&test, &end, cost);
            ends.push(Run { test, end, cost, after: self.began.elapsed() });
        }
    }
}

/// Says how a test ended when that is worth a line: it took long, was skipped or failed.
fn say(test: &Test, end: &End, cost: Cost) {
    let seconds = cost.wall.as_secs_f64();
    match end {
        End::Passed if seconds < 5.0 => {}
        End::Passed => println!("passed   {seconds:6.1} s  {}", test.name),
        End::Skipped(why) => println!("skipped  {seconds:6.1} s  {}: {why}", test.name),
        End::Failed(said) => {
            println!("FAILED   {seconds:6.1} s  {}", test.name);
            // Set apart, so that a test of this very code is not taken for one that was skipped.
            said.trim_end().lines().for_each(|line| println!("    | {line}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ci::guest::Guest;
    use std::cell::RefCell;
    use std::path::Path;

    #[test]
    fn what_is_not_in_the_table_is_calm_and_what_is_measures_alone() {
        assert_eq!(class("tare-stats::ladder::a"), Class::Calm);
        assert_eq!(class("tare::end_to_end::kill::b"), Class::Runs);
        assert_eq!(class("tare::end_to_end::planted::c"), Class::Alone);
        assert_eq!(class("tare::endless"), Class::Calm);
        assert_eq!(class("cgroup2::tare::end_to_end::kill::b"), Class::Guest);
        assert_eq!(class("cgroup2::tare::end_to_end::accounts::b"), Class::GuestAlone);
    }

    #[test]
    fn every_class_is_in_the_table_at_its_own_place() {
        assert!(NICENESS.iter().enumerate().all(|(at, (class, ..))| *class as usize == at));
        assert_eq!((niceness("tare::peak::a"), niceness("tare-stats::a")), (0, 19));
    }

    fn test_of(within: &str, program: &Path, in_guest: bool) -> Test {
        let (name, within, folder) = (format!("x::{within}"), within.to_owned(), program.parent().expect("a folder"));
        Test { name, within, program: program.to_owned(), folder: folder.to_owned(), in_guest }
    }

    #[test]
    fn a_test_that_fails_once_is_named_and_one_that_fails_twice_or_is_skipped_then_has_failed() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("program");
        // `lacking` fails, and lacks something when it is run again; `partly` lacks it both times.
        let script = "#!/bin/sh\necho 'running 1 test'\necho 'test result: ok. 1 passed; 0 failed'\n\
                      case $1 in steady) exit 0;; bad) exit 1;; partly) echo 'skipped: one CPU';; esac\n\
                      [ -e once-$1 ] || { touch once-$1; exit 1; }\n[ $1 != lacking ] || echo 'skipped: one CPU'\n";
        std::fs::write(&program, script).expect("it can be written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("it is ours");
        let guest = Guest::new(folder.path(), &program, &[]);
        let surroundings = Surroundings { root: folder.path(), binary: &program, thorough: false, guest };
        let tests = ["steady", "bad", "unsteady", "lacking", "partly"].map(|within| test_of(within, &program, false));
        let mut outcomes = run(tests[..1].to_vec(), || Some(tests.to_vec()), &surroundings);
        outcomes.failed.sort();
        assert_eq!(outcomes.failed, ["x::bad", "x::lacking"]);
        outcomes.unsteady.sort();
        assert_eq!(outcomes.unsteady, ["x::partly", "x::unsteady"].map(|name| (name.to_owned(), String::new())));
        assert_eq!((outcomes.costs.len(), outcomes.skipped.len()), (5, 1));
    }

    #[test]
    fn of_what_cannot_be_built_no_test_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        let nowhere = folder.path().join("nothing");
        let guest = Guest::new(folder.path(), &nowhere, &[]);
        let surroundings = Surroundings { root: folder.path(), binary: &nowhere, thorough: false, guest };
        let outcomes = run(vec![test_of("calm", &nowhere, false)], || None, &surroundings);
        assert!(outcomes.failed.is_empty() && outcomes.costs.is_empty());
    }

    #[test]
    fn a_second_try_in_the_guest_leaves_none_to_the_next() {
        let failed = |within: &str, in_guest: bool| Run {
            test: test_of(within, Path::new("/f/p"), in_guest),
            end: End::Failed(String::new()),
            cost: Cost::default(),
            after: Duration::ZERO,
        };
        let mut ends = [failed("a", true), failed("b", true), failed("c", false)];
        let done = RefCell::new(Vec::new());
        let again = |test: &Test| {
            done.borrow_mut().push(test.within.clone());
            (End::Passed, Cost::default())
        };
        let unsteady = try_again(&mut ends, again, || done.borrow_mut().push("end".to_owned()));
        assert_eq!(*done.borrow(), ["a", "end", "b", "end", "c"]);
        assert!(unsteady.len() == 3 && ends.iter().all(|run| run.end == End::Passed));
    }
}
