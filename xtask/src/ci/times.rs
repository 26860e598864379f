//! The summary of the gate: times and results.

use crate::ci::Step;
use crate::ci::lanes::Outcomes;
use std::fmt::Write;

/// The number of longest tests to name.
const NAMED: usize = 25;

/// The times of every test, as a table for a spreadsheet: name, seconds, and seconds of CPU time.
pub(super) fn of_all(outcomes: &Outcomes) -> String {
    let lines = outcomes.costs.iter().map(|(name, cost)| {
        let (wall, cpu) = (cost.wall.as_secs_f64(), cost.cpu.as_secs_f64());
        format!("{name}\t{wall:.2}\t{cpu:.2}\n")
    });
    std::iter::once("test\tseconds\tCPU seconds\n".to_owned()).chain(lines).collect()
}

/// The end of the gate's output: times by step and of the longest tests, failures and skips, and the counts.
pub(super) fn table(steps: &[Step], outcomes: &Outcomes) -> String {
    let mut text = String::new();
    let mut costs: Vec<_> = outcomes.costs.iter().collect();
    costs.sort_by(|a, b| b.1.wall.cmp(&a.1.wall).then_with(|| a.0.cmp(b.0)));
    if costs.len() > 1 {
        let cpu: f64 = costs.iter().map(|(_, cost)| cost.cpu.as_secs_f64()).sum();
        let _ = writeln!(text, "\nthe longest of {} tests, which took {cpu:.0} s of CPU time:", costs.len());
        for (name, cost) in costs.iter().take(NAMED) {
            let (wall, cpu) = (cost.wall.as_secs_f64(), cost.cpu.as_secs_f64());
            let _ = writeln!(text, "{wall:>8.1} s  {cpu:>6.1} s of CPU  {name}");
        }
    }
    let _ = writeln!(text, "\nsteps:");
    for step in steps {
        let _ = writeln!(text, "{:>8.1} s  {}{}", step.seconds, step.name, if step.well { "" } else { ": FAILED" });
    }
    if outcomes.lanes.len() > 1 {
        let _ = writeln!(text, "\ntests by what may run beside them, their total time, and when the last ended:");
        for (name, lane) in &outcomes.lanes {
            let (wall, ended) = (lane.wall.as_secs_f64(), lane.ended.as_secs_f64());
            let _ = writeln!(text, "{wall:>8.1} s  until {ended:>6.1} s  {name}, {}", lane.tests);
        }
    }
    let lacked = steps.iter().filter_map(|step| Some((step.name.to_owned(), step.lacked?.to_owned())));
    let skipped: Vec<(String, String)> = lacked.chain(outcomes.skipped.iter().cloned()).collect();
    for (heading, tests) in [("skipped", &skipped), ("passed only on the second try", &outcomes.unsteady)] {
        if !tests.is_empty() {
            let _ = writeln!(text, "\n{heading}:");
            for (name, why) in tests {
                let _ = writeln!(text, "  {name}{}{why}", if why.is_empty() { "" } else { ": " });
            }
        }
    }
    if !outcomes.left.is_empty() {
        let _ = writeln!(text, "\nleft to './test --thorough':");
        for (name, why) in &outcomes.left {
            let _ = writeln!(text, "  {name}: {why}");
        }
    }
    if !outcomes.failed.is_empty() {
        let _ = writeln!(text, "\nfailed:");
        for name in &outcomes.failed {
            let _ = writeln!(text, "  {name}");
        }
    }
    let bad: Vec<&str> = steps.iter().filter(|step| !step.well).map(|step| step.name).collect();
    if !bad.is_empty() {
        let _ = writeln!(text, "\nfailed steps: {}", bad.join(", "));
    }
    let failed = outcomes.failed.len();
    let passed = outcomes.costs.len() - failed - outcomes.skipped.len();
    let _ = writeln!(text, "{passed} passed, {failed} failed, {} skipped", skipped.len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ci::lanes::Lane;
    use crate::ci::one::Cost;
    use std::time::Duration;

    #[test]
    fn everything_that_did_not_simply_pass_is_named() {
        let cost = |name: &str, seconds| {
            (name.to_owned(), Cost { wall: Duration::from_secs(seconds), cpu: Duration::from_secs(2 * seconds) })
        };
        let lane = |(name, tests, wall, ended)| {
            let [wall, ended] = [wall, ended].map(Duration::from_secs);
            (name, Lane { tests, wall, ended })
        };
        let outcomes = Outcomes {
            costs: [cost("a", 1), cost("b", 3), cost("c", 2), cost("d", 0)].into(),
            failed: vec!["b".to_owned()],
            skipped: vec![("c".to_owned(), "no engine".to_owned())],
            unsteady: vec![("d".to_owned(), String::new())],
            left: vec![("e".to_owned(), "it is long")],
            lanes: [("calm", 3, 4, 4), ("runs", 1, 2, 6)].map(lane).into(),
        };
        let steps = [
            Step { name: "dependencies", well: true, seconds: 0.1, lacked: Some("no tool") },
            Step { name: "tests", well: false, seconds: 6.04, lacked: None },
        ];
        let table = table(&steps, &outcomes);
        let expected = "
the longest of 4 tests, which took 12 s of CPU time:
     3.0 s     6.0 s of CPU  b
     2.0 s     4.0 s of CPU  c
     1.0 s     2.0 s of CPU  a
     0.0 s     0.0 s of CPU  d

steps:
     0.1 s  dependencies
     6.0 s  tests: FAILED

tests by what may run beside them, their total time, and when the last ended:
     4.0 s  until    4.0 s  calm, 3
     2.0 s  until    6.0 s  runs, 1

skipped:
  dependencies: no tool
  c: no engine

passed only on the second try:
  d

left to './test --thorough':
  e: it is long

failed:
  b

failed steps: tests
2 passed, 1 failed, 2 skipped
";
        assert_eq!(table, expected);
        let all = "test\tseconds\tCPU seconds\na\t1.00\t2.00\nb\t3.00\t6.00\nc\t2.00\t4.00\nd\t0.00\t0.00\n";
        assert_eq!(of_all(&outcomes), all);
    }
}
