//! From a QoS to what is counted in each window.

use tare_core::load::{WindowCounts, WindowRow};
use tare_core::peak::{Count, Criterion};
use tare_core::qos::{EVERY_OPERATION, Qos};

/// No share of nought is allowed, else no count could be compared with it.
const ALLOWED_MIN: f64 = 1e-6;

/// What a QoS asks of every window, as criteria that can be counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    criteria: Vec<Criterion>,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// One operation's late ones.
    Late(String),
    /// All operations' late ones but these, taken together: nobody knows their names beforehand.
    LateBut(Vec<String>),
    /// All operations' failures.
    Failures,
    /// What was not answered of what was planned.
    Shortfall,
    /// How far the answers' mix is from what was asked.
    Mix,
}

impl Asked {
    /// Takes a QoS apart. `operations` are those of the protocol, none when nobody knows them.
    pub fn of(qos: &Qos, operations: &[String]) -> Asked {
        let mut asked = Asked { criteria: Vec::new(), parts: Vec::new() };
        let named: Vec<String> = qos.operations.keys().filter(|name| *name != EVERY_OPERATION).cloned().collect();
        let each = if operations.is_empty() { &named } else { operations };
        for operation in each {
            if let Some(limit) = qos.limits(operation).last() {
                let name = format!("{operation} {}", limit.describe());
                asked.add(Part::Late(operation.clone()), name, limit.allowed());
            }
        }
        if let Some(limit) = qos.operations.get(EVERY_OPERATION).and_then(|limits| limits.last())
            && operations.is_empty()
        {
            let name = format!("all operations {}", limit.describe());
            asked.add(Part::LateBut(named.clone()), name, limit.allowed());
        }
        if let Some(share) = qos.failures {
            asked.add(Part::Failures, "failures".to_owned(), share);
        }
        if let Some(share) = qos.achieved {
            asked.add(Part::Shortfall, "achieved of offered".to_owned(), 1.0 - share);
        }
        if let Some(share) = qos.mix {
            asked.add(Part::Mix, "mix".to_owned(), share);
        }
        asked
    }

    fn add(&mut self, part: Part, name: String, allowed: f64) {
        let late = matches!(part, Part::Late(_) | Part::LateBut(_));
        self.criteria.push(Criterion { name, allowed: allowed.max(ALLOWED_MIN), late });
        self.parts.push(part);
    }

    /// The criteria, in the order of [`Asked::counts`].
    pub fn criteria(&self) -> &[Criterion] {
        &self.criteria
    }

    /// What a window said about each. An operation that failed, was dropped or is not answered counts as late.
    pub fn counts(&self, row: &WindowRow) -> Vec<Count> {
        self.parts.iter().map(|part| count(part, row)).collect()
    }
}

fn count(part: &Part, row: &WindowRow) -> Count {
    let sum = |of: &dyn Fn(&WindowCounts) -> u64| row.operations.values().map(of).sum::<u64>() as f64;
    match part {
        Part::Late(operation) => row.operations.get(operation).map(late).unwrap_or_default(),
        Part::LateBut(named) => {
            let others =
                row.operations.iter().filter(|(name, _)| !named.contains(name)).map(|(_, counts)| late(counts));
            others.fold(Count::default(), |sum, one| Count { of: sum.of + one.of, over: sum.over + one.over })
        }
        Part::Failures => Count { of: sum(&|counts| counts.planned), over: sum(&|counts| counts.failed) },
        Part::Shortfall => {
            let of = sum(&|counts| counts.planned);
            Count { of, over: (of - sum(&|counts| counts.answered)).max(0.0) }
        }
        Part::Mix => {
            let (planned, answered) = (sum(&|counts| counts.planned), sum(&|counts| counts.answered));
            let asked = row.operations.values().filter(|counts| counts.planned > 0);
            let off = asked.map(|counts| {
                let share = counts.answered as f64 / answered.max(1.0);
                (share / (counts.planned as f64 / planned) - 1.0).abs()
            });
            // The share that it is off by, written as a count, so that it is compared with what is allowed like the
            // rest.
            Count { of: planned, over: planned * off.fold(0.0, f64::max) }
        }
    }
}

fn late(counts: &WindowCounts) -> Count {
    let over = (counts.over_limit + counts.failed + counts.unanswered).min(counts.planned);
    Count { of: counts.planned as f64, over: over as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tare_core::qos::QuantileLimit;

    fn qos() -> Qos {
        let limit = |ms: u64| vec![QuantileLimit { quantile: 0.99, within: Duration::from_millis(ms) }];
        let operations = [("*".to_owned(), limit(10)), ("get".to_owned(), limit(5))].into();
        Qos { operations, failures: Some(0.001), achieved: Some(0.995), mix: Some(0.1), ..Qos::default() }
    }

    fn row() -> WindowRow {
        let get = WindowCounts {
            planned: 1000,
            answered: 990,
            over_limit: 5,
            failed: 4,
            unanswered: 6,
            ..WindowCounts::default()
        };
        let set = WindowCounts { planned: 100, answered: 80, over_limit: 2, unanswered: 20, ..WindowCounts::default() };
        WindowRow { operations: [("get".into(), get), ("set".into(), set)].into(), ..WindowRow::default() }
    }

    #[test]
    fn every_part_of_a_qos_is_counted() {
        let asked = Asked::of(&qos(), &["get".to_owned(), "set".to_owned()]);
        let names: Vec<&str> = asked.criteria().iter().map(|criterion| criterion.name.as_str()).collect();
        let wanted = ["get p99 within 5 ms", "set p99 within 10 ms", "failures", "achieved of offered", "mix"];
        assert_eq!(names, wanted);
        assert_eq!(asked.criteria().iter().map(|c| c.late).collect::<Vec<_>>(), [true, true, false, false, false]);
        let counts = asked.counts(&row());
        assert_eq!((counts[0].of, counts[0].over), (1000.0, 15.0));
        assert_eq!((counts[1].of, counts[1].over), (100.0, 22.0));
        assert_eq!((counts[2].of, counts[2].over), (1100.0, 4.0));
        assert_eq!((counts[3].of, counts[3].over), (1100.0, 30.0));
        // set: 80 / 1070 answered against 100 / 1100 asked.
        let off = 1.0 - (80.0 / 1070.0) / (100.0 / 1100.0);
        assert!((counts[4].share().unwrap() - off).abs() < 1e-12);
    }

    #[test]
    fn operations_that_nobody_knows_are_counted_together() {
        let asked = Asked::of(&qos(), &[]);
        assert_eq!(asked.criteria()[1].name, "all operations p99 within 10 ms");
        assert!(asked.criteria()[1].late);
        assert_eq!(asked.counts(&row())[1], Count { of: 100.0, over: 22.0 });
    }
}
