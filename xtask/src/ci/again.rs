//! A test run many times: how often it fails, also where the machine is busy with something else.

use crate::ci::one::{self, End, Surroundings};
use crate::ci::programs::Test;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs each test `times` times, one after the other, while `busy` keeps every CPU busy; says how often each failed.
/// Whether none did.
pub(super) fn run(tests: &[Test], times: u32, busy: bool, surroundings: &Surroundings<'_>) -> bool {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let loops = if busy { std::thread::available_parallelism().map_or(1, usize::from) } else { 0 };
        for _ in 0..loops {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let failures: Vec<u32> = tests.iter().map(|test| failures(test, times, surroundings)).collect();
        over.store(true, Ordering::Relaxed);
        println!("\nfailures{}:", if busy { ", with a busy loop on each CPU" } else { "" });
        for (test, failed) in tests.iter().zip(&failures) {
            println!("{failed:>8} of {times}  {}", test.name);
        }
        failures.iter().all(|failed| *failed == 0)
    })
}

/// How often a test failed; the first failure is shown.
fn failures(test: &Test, times: u32, surroundings: &Surroundings<'_>) -> u32 {
    let mut failed = 0;
    for _ in 0..times {
        if let (End::Failed(said), _) = one::run(test, 0, surroundings) {
            if failed == 0 {
                println!("FAILED  {}\n{}", test.name, said.trim_end());
            }
            failed += 1;
        }
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ci::guest::Guest;

    #[test]
    fn failures_are_counted_beside_busy_loops() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("program");
        // Passes twice, and then never again.
        let script = "#!/bin/sh\necho 'running 1 test'\necho x >> seen\n[ $(wc -l < seen) -le 2 ]\n";
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
        assert!(run(std::slice::from_ref(&test), 2, true, &surroundings));
        assert_eq!(failures(&test, 3, &surroundings), 3);
        assert!(!run(&[test], 1, false, &surroundings));
    }
}
