//! A level over time: a rate, a number of users, a number of connections.

use crate::clock::SECOND_NS;

/// A moment and the level there.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    at_ns: u64,
    level: f64,
}

/// A level over time: straight lines between points, the first level before them and the last one after. Two points at
/// the same moment are a jump.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Levels(Vec<Point>);

fn seconds(span_ns: u64) -> f64 {
    span_ns as f64 / SECOND_NS as f64
}

/// A moment `seconds` after another, rounded down.
fn after(from_ns: u64, seconds: f64) -> u64 {
    // More than 500 years count as for ever.
    from_ns.saturating_add((seconds * SECOND_NS as f64) as u64)
}

impl Levels {
    /// A constant level from `at_ns` on.
    pub(crate) fn new(at_ns: u64, level: f64) -> Self {
        Levels(vec![Point { at_ns, level }])
    }

    /// Continues in a straight line to `level` at `at_ns`, which is not before the last point.
    pub(crate) fn line(&mut self, at_ns: u64, level: f64) {
        assert!(self.0.last().is_some_and(|last| last.at_ns <= at_ns), "levels go forward in time");
        self.0.push(Point { at_ns, level });
    }

    /// Stays constant until `at_ns` and jumps to `level` there.
    pub(crate) fn jump(&mut self, at_ns: u64, level: f64) {
        let last = self.0[self.0.len() - 1];
        self.line(at_ns.max(last.at_ns), last.level);
        self.line(at_ns.max(last.at_ns), level);
    }

    /// The level at a moment.
    pub(crate) fn at(&self, ns: u64) -> f64 {
        let next = self.0.partition_point(|point| point.at_ns <= ns);
        match (next.checked_sub(1), self.0.get(next)) {
            (None, _) => self.0[0].level,
            (Some(at), None) => self.0[at].level,
            (Some(at), Some(to)) => {
                let from = self.0[at];
                let share = (ns - from.at_ns) as f64 / (to.at_ns - from.at_ns) as f64;
                from.level + (to.level - from.level) * share
            }
        }
    }

    /// The first moment, not before `from_ns`, at which the level is at least `level`.
    pub(crate) fn reaches(&self, from_ns: u64, level: f64) -> Option<u64> {
        if self.at(from_ns) >= level {
            return Some(from_ns);
        }
        let next = self.0.partition_point(|point| point.at_ns <= from_ns);
        let to = next + self.0[next..].iter().position(|point| point.level >= level)?;
        let (from, to) = (to.checked_sub(1).map_or(self.0[to], |at| self.0[at]), self.0[to]);
        let rise = to.level - from.level;
        if rise <= 0.0 {
            return Some(to.at_ns);
        }
        let share = ((level - from.level) / rise).clamp(0.0, 1.0);
        Some(after(from.at_ns, seconds(to.at_ns - from.at_ns) * share).max(from_ns))
    }
}

/// A position in the area under the levels, for finding moments by area: if the level is a rate, the area is the
/// expected number of arrivals so far. It only moves forward.
#[derive(Debug, Clone)]
pub(crate) struct Cursor {
    segment: usize,
    // The area of the segments before it.
    base: f64,
}

impl Cursor {
    /// At the first point.
    pub(crate) fn new() -> Self {
        Cursor { segment: 0, base: 0.0 }
    }

    /// The moment at which the area under `levels`, from their first point on, reaches `area`; `u64::MAX` if it never
    /// does. `area` does not decrease from one call to the next, but levels may have been added.
    #[inline]
    pub(crate) fn moment(&mut self, levels: &Levels, area: f64) -> u64 {
        loop {
            let from = levels.0[self.segment];
            let rest = area - self.base;
            let Some(to) = levels.0.get(self.segment + 1) else {
                return if from.level > 0.0 { after(from.at_ns, rest / from.level) } else { u64::MAX };
            };
            let length = seconds(to.at_ns - from.at_ns);
            let whole = (from.level + to.level) / 2.0 * length;
            if rest < whole {
                // Of the two solutions of level * x + slope * x^2 / 2 = rest, the one that is stable for slope 0.
                let slope = (to.level - from.level) / length;
                let root = (from.level * from.level + 2.0 * slope * rest).max(0.0).sqrt();
                return after(from.at_ns, 2.0 * rest / (from.level + root)).min(to.at_ns);
            }
            self.base += whole;
            self.segment += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = SECOND_NS;

    fn ladder() -> Levels {
        let mut levels = Levels::new(10 * S, 0.0);
        levels.line(12 * S, 100.0);
        levels.line(15 * S, 100.0);
        levels.jump(15 * S, 40.0);
        levels.line(16 * S, 40.0);
        levels.line(18 * S, 10.0);
        levels
    }

    #[test]
    fn a_level_is_read_at_any_moment() {
        let levels = ladder();
        let cases = [(0, 0.0), (10, 0.0), (11, 50.0), (12, 100.0), (14, 100.0), (15, 40.0), (17, 25.0), (99, 10.0)];
        for (at, level) in cases {
            assert_eq!(levels.at(at * S), level, "{at}");
        }
        assert_eq!(levels.reaches(10 * S, 25.0), Some(10 * S + S / 2));
        assert_eq!(levels.reaches(13 * S, 25.0), Some(13 * S));
        assert_eq!(levels.reaches(18 * S, 25.0), None);
        let mut later = ladder();
        later.jump(30 * S, 70.0);
        assert_eq!(later.reaches(19 * S, 25.0), Some(30 * S));
    }

    #[test]
    fn areas_are_found_by_moment() {
        let levels = ladder();
        let mut cursor = Cursor::new();
        // 100 up to the end of the ramp, 300 more up to the jump, then 40, and a ramp of 50.
        let cases = [(25.0, 11.0), (100.0, 12.0), (250.0, 13.5), (420.0, 15.5), (440.0, 16.0), (490.0, 18.0)];
        for (area, at) in cases {
            let found = cursor.moment(&levels, area) as f64 / 1e9;
            assert!((found - at).abs() < 1e-6, "{area}: {found} instead of {at}");
        }
        assert_eq!(Cursor::new().moment(&Levels::new(0, 0.0), 1.0), u64::MAX);
    }

    proptest! {
        #[test]
        fn moments_never_go_back(
            steps in prop::collection::vec((0..3_000_000_000u64, 0.0..1000.0f64, any::<bool>()), 0..8),
            gaps in prop::collection::vec(0.0..50.0f64, 1..60),
        ) {
            let mut levels = Levels::new(0, 7.0);
            let mut at_ns = 0;
            for (span_ns, level, jump) in steps {
                at_ns += span_ns;
                if jump { levels.jump(at_ns, level) } else { levels.line(at_ns, level) }
            }
            levels.jump(at_ns, 5.0);
            let (mut cursor, mut area, mut last) = (Cursor::new(), 0.0, 0);
            for gap in gaps {
                area += gap;
                let moment = cursor.moment(&levels, area);
                prop_assert!(moment >= last && moment < u64::MAX);
                last = moment;
            }
        }
    }
}
