//! Runs tests many times to find out how often they fail, also on a busy machine.

use crate::ci::lanes::Outcomes;
use crate::ci::one::{self, Cost, End, Surroundings};
use crate::ci::programs::Test;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs each test `times` times, one after the other, keeping every CPU busy if `busy`; reports how often each failed
/// or was skipped.
pub(super) fn run(tests: &[Test], times: u32, busy: bool, surroundings: &Surroundings<'_>) -> Outcomes {
    let over = AtomicBool::new(false);
    let ends: Vec<Ends> = std::thread::scope(|scope| {
        let loops = if busy { std::thread::available_parallelism().map_or(1, usize::from) } else { 0 };
        for _ in 0..loops {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let ends = tests.iter().map(|test| ends(test, times, surroundings)).collect();
        over.store(true, Ordering::Relaxed);
        ends
    });
    println!("\nfailures{}:", if busy { ", with a busy loop on each CPU" } else { "" });
    let mut outcomes = Outcomes::default();
    for (test, Ends { failed, skipped, why, cost }) in tests.iter().zip(ends) {
        // A test that was skipped has not shown that it is stable.
        let skips = if skipped > 0 { format!("; skipped {skipped} times") } else { String::new() };
        println!("{failed:>8} of {times}  {}{skips}", test.name);
        if failed > 0 {
            outcomes.failed.push(test.name.clone());
        } else if skipped > 0 {
            outcomes.skipped.push((test.name.clone(), format!("{skipped} of {times} times: {why}")));
        }
        outcomes.costs.insert(test.name.clone(), cost);
    }
    outcomes
}

/// How often a test failed or was skipped.
#[derive(Default)]
struct Ends {
    failed: u32,
    skipped: u32,
    /// Why it was skipped the last time.
    why: String,
    /// The cost of all its runs.
    cost: Cost,
}

/// Runs a test `times` times; the first failure is shown.
fn ends(test: &Test, times: u32, surroundings: &Surroundings<'_>) -> Ends {
    let mut ends = Ends::default();
    for _ in 0..times {
        let (end, cost) = one::run(test, 0, surroundings);
        ends.cost += cost;
        match end {
            End::Passed => {}
            End::Skipped(why) => (ends.skipped, ends.why) = (ends.skipped + 1, why),
            End::Failed(said) => {
                if ends.failed == 0 {
                    println!("FAILED  {}\n{}", test.name, said.trim_end());
                }
                ends.failed += 1;
            }
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ci::guest::Guest;

    #[test]
    fn failures_and_skips_are_counted_beside_busy_loops() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("program");
        // Passes twice, lacks something once, and then never passes again.
        let script = "#!/bin/sh\necho 'running 1 test'\necho x >> seen\nn=$(wc -l < seen)\n\
                      [ $n -ne 3 ] || echo 'skipped: there is one CPU'\n\
                      echo 'test result: ok. 1 passed; 0 failed'\n[ $n -le 3 ]\n";
        std::fs::write(&program, script).expect("it can be written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("it is ours");
        let test = Test {
            name: "x::y".to_owned(),
            within: "y".to_owned(),
            program: program.clone(),
            folder: folder.path().to_owned(),
            in_guest: false,
        };
        let guest = Guest::new(folder.path(), &program, &[]);
        let surroundings = Surroundings { root: folder.path(), binary: &program, thorough: false, guest };
        let tests = [test];
        let well = run(&tests, 2, true, &surroundings);
        assert!(well.failed.is_empty() && well.skipped.is_empty() && well.costs.contains_key("x::y"));
        let lacking = run(&tests, 1, false, &surroundings);
        assert!(lacking.failed.is_empty());
        assert_eq!(lacking.skipped, [("x::y".to_owned(), "1 of 1 times: there is one CPU".to_owned())]);
        assert_eq!(ends(&tests[0], 3, &surroundings).failed, 3);
        assert_eq!(run(&tests, 1, false, &surroundings).failed, ["x::y"]);
    }
}
