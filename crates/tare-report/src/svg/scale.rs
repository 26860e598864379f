//! From values to places, and the values worth a tick.

/// More ticks than any scale of sound values has.
const TICKS_MOST: usize = 1000;

/// A scale of values onto an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    log: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// From `low..high` in value to `from..to` in place.
    pub(super) fn linear(low: f64, high: f64, from: f64, to: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Scale { log: false, low, high, from, to }
    }

    /// The same on a logarithmic scale; both ends are positive. What a hostile record says is beyond all measure is cut
    /// off, because a scale has a tick for each power of ten.
    pub(super) fn log(low: f64, high: f64, from: f64, to: f64) -> Self {
        let low = low.clamp(1e-12, 1e12);
        let high = high.min(1e13);
        let high = if high > low { high } else { low * 2.0 };
        Scale { log: true, low, high, from, to }
    }

    /// Where `value` stands; values outside stand outside.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(1e-12) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    /// Whether `value` is on the scale.
    pub(super) fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Round values on the scale, about `count` of them.
    pub(super) fn ticks(&self, count: usize) -> Vec<f64> {
        let wide = self.log && self.high / self.low > 6.0;
        let ticks = if wide { self.decades(count) } else { self.steps(count) };
        ticks.into_iter().filter(|tick| self.holds(*tick)).collect()
    }

    fn steps(&self, count: usize) -> Vec<f64> {
        let step = round_step((self.high - self.low) / count as f64);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).take(TICKS_MOST).map(|n| n as f64 * step).collect()
    }

    /// 1, 2 and 5 times powers of ten; only the powers when those are enough.
    fn decades(&self, count: usize) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let factors: &[f64] = if decades * 3.0 <= count as f64 * 1.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        (first..=last).flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power))).collect()
    }
}

/// The next of 1, 2, 5 times a power of ten.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= step * 0.999).unwrap_or(10.0);
    factor * power
}

/// A tick's label without needless zeros.
pub(super) fn tick_text(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match value {
        v if !v.is_finite() => v.to_string(),
        v if v >= 1e6 => format!("{}M", tick_text(v / 1e6)),
        v if v >= 1e4 => format!("{}k", tick_text(v / 1e3)),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_on_the_scale() {
        assert_eq!(Scale::linear(0.0, 98_200.0, 0.0, 1.0).ticks(4).len(), 2);
        let ticks = Scale::log(0.83, 1.04, 0.0, 1.0).ticks(5);
        let texts: Vec<String> = ticks.iter().map(|tick| tick_text(*tick)).collect();
        assert_eq!(texts, ["0.85", "0.9", "0.95", "1"]);
        let wide = Scale::log(0.05, 12.0, 0.0, 1.0).ticks(8);
        assert!(wide.contains(&1.0) && wide.iter().all(|tick| (0.05..=12.0).contains(tick)), "{wide:?}");
        assert_eq!(tick_text(98_000.0), "98k");
    }

    #[test]
    fn a_scale_without_extent_still_places() {
        assert!(Scale::linear(3.0, 3.0, 0.0, 10.0).place(3.0).is_finite());
        assert!(Scale::log(0.0, 0.0, 0.0, 10.0).place(0.0).is_finite());
    }

    #[test]
    fn values_beyond_all_measure_have_few_ticks() {
        let ends = [0.0, 1e-320, 1.0, 1e300, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        for (low, high) in ends.into_iter().flat_map(|low| ends.map(|high| (low, high))) {
            for scale in [Scale::log(low, high, 0.0, 1.0), Scale::linear(low, high, 0.0, 1.0)] {
                assert!(scale.ticks(5).len() <= TICKS_MOST, "{low} to {high}");
            }
        }
        assert_eq!(tick_text(f64::INFINITY), "inf");
        assert_eq!(tick_text(f64::NAN), "NaN");
        assert!(tick_text(f64::MAX).ends_with('M'));
    }
}
