//! How fast a load was at what time: spans of its turns, short compared with disturbances that affect all loads for
//! seconds.

use super::turn::Worked;
use crate::clock::SECOND_NS;
use tare_core::load::{TurnSpan, TurnUse};

/// The longest span, unless it is a single turn, ns.
const LONGEST_NS: u64 = SECOND_NS / 4;

/// The most spans kept: about the first quarter of an hour.
const MOST: usize = 4096;

/// The turns of one load, span by span.
#[derive(Default)]
pub(super) struct Spans {
    rows: Vec<TurnSpan>,
    // What had been used when a turn was last added.
    counted: TurnUse,
}

impl Spans {
    /// Adds a turn that has just ended and counts as `took_ns` long. `used` is what serves the load has used in all its
    /// own turns before this one; the increase belongs to the turn added last, because it becomes known only now.
    pub(super) fn add(&mut self, turn: &Worked, took_ns: u64, used: Option<TurnUse>) {
        let since = used.map_or_else(TurnUse::default, |used| used.since(self.counted));
        self.counted = used.unwrap_or(self.counted);
        let is_full = self.rows.len() == MOST;
        let Some(last) = self.rows.last_mut().filter(|_| !is_full) else {
            self.rows.extend((!is_full).then(|| row(turn, took_ns)));
            return;
        };
        last.used = last.used + since;
        if turn.end_ns.saturating_sub(last.from_ns) > LONGEST_NS {
            self.rows.push(row(turn, took_ns));
            return;
        }
        last.to_ns = turn.end_ns;
        (last.answers, last.active_ns) = (last.answers + turn.answers, last.active_ns + took_ns);
    }

    /// All spans, once all turns are over; `used` is what serves the load has used in all its own turns.
    pub(super) fn rows(&self, used: Option<TurnUse>) -> Vec<TurnSpan> {
        let mut rows = self.rows.clone();
        if let Some((last, used)) = rows.last_mut().filter(|_| self.rows.len() < MOST).zip(used) {
            last.used = last.used + used.since(self.counted);
        }
        rows
    }
}

fn row(turn: &Worked, active_ns: u64) -> TurnSpan {
    let Worked { start_ns, end_ns, answers, .. } = *turn;
    TurnSpan { from_ns: start_ns, to_ns: end_ns, answers, active_ns, used: TurnUse::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(start_ms: u64, end_ms: u64, answers: u64) -> Worked {
        let (start_ns, end_ns) = (start_ms * 1_000_000, end_ms * 1_000_000);
        Worked { start_ns, end_ns, stuck_ns: 0, answers, lost: false, amid: None }
    }

    fn used(cpu_ns: u64, during_ns: u64) -> TurnUse {
        TurnUse { cpu_ns, during_ns }
    }

    #[test]
    fn turns_become_spans_and_what_was_used_in_each_comes_with_the_next() {
        let mut spans = Spans::default();
        spans.add(&turn(1_000, 1_020, 5), 20, Some(used(0, 0)));
        spans.add(&turn(1_100, 1_120, 6), 21, Some(used(100, 10)));
        // Reaches beyond a quarter of a second.
        spans.add(&turn(1_240, 1_260, 7), 22, Some(used(300, 20)));
        // Longer than a span.
        spans.add(&turn(2_000, 2_900, 8), 900, Some(used(600, 30)));
        let rows = spans.rows(Some(used(1_000, 40)));
        let ms = |rows: &[TurnSpan]| -> Vec<(u64, u64)> {
            rows.iter().map(|row| (row.from_ns / 1_000_000, row.to_ns / 1_000_000)).collect()
        };
        assert_eq!(ms(&rows), [(1_000, 1_120), (1_240, 1_260), (2_000, 2_900)]);
        assert_eq!(
            rows.iter().map(|row| (row.answers, row.active_ns)).collect::<Vec<_>>(),
            [(11, 41), (7, 22), (8, 900)]
        );
        assert_eq!(rows.iter().map(|row| row.used).collect::<Vec<_>>(), [used(300, 20), used(300, 10), used(400, 10)]);
    }

    #[test]
    fn what_is_not_counted_is_not_known_and_there_is_an_end_to_spans() {
        let mut spans = Spans::default();
        for number in 0..2 * MOST as u64 {
            spans.add(&turn(1_000 * number, 1_000 * number + 300, 1), 300, None);
        }
        let rows = spans.rows(None);
        assert_eq!(rows.len(), MOST);
        assert!(rows.iter().all(|row| row.used.is_none()));
    }
}
