//! Searches on simulated systems, and what many of them amount to.

use crate::peak::noise::{NONE, Noise};
use crate::peak::system::{Feed, Make, System};
use std::time::Duration;
use tare_core::load::LoadProfile;
use tare_core::peak::{PeakOutcome, PeakPlan, PeakRules};
use tare_stats::peak::{Action, peak_search};

/// The reference system's peak, by [`truth`]; the other simulator of the same system says 1278.
pub(crate) const REFERENCE_PEAK: f64 = 1277.5;
/// The peaks of the other systems, by [`truth`].
pub(crate) const LOOSE_PEAK: f64 = 1763.4;
pub(crate) const OPEN_PEAK: f64 = 246.4;
pub(crate) const SINGLE_PEAK: f64 = 826.7;

/// Whether the series are to be as long as the figures in docs/src/methodology/peak-load.md ask: minutes instead of
/// seconds.
pub(crate) fn thorough() -> bool {
    std::env::var_os("TARE_THOROUGH").is_some()
}

/// Tare's search with its defaults.
pub(crate) fn staircase(make: &Make, start: f64) -> PeakPlan {
    let closed = LoadProfile::Closed { connections: 1, pipeline: 1 };
    let usual = PeakPlan::usual(&closed, Vec::new()).unwrap();
    PeakPlan { whole: make.feed != Feed::Open, start, at_least: start / 100.0, at_most: start * 1000.0, ..usual }
}

/// The published search with its defaults for the smallest size.
pub(crate) fn published() -> PeakPlan {
    let seconds = Duration::from_secs;
    PeakPlan {
        rules: PeakRules::Published,
        start: 100.0,
        at_least: 60.0,
        at_most: 3000.0,
        window: seconds(300),
        budget: Some(seconds(300 * 60)),
        ..staircase(&Make::reference(), 100.0)
    }
}

/// Carries a search out.
pub(crate) fn carry_out(system: &mut System, make: &Make, plan: &PeakPlan, hint: Option<f64>) -> PeakOutcome {
    let mut search = peak_search(plan, &make.criteria(), hint);
    loop {
        match search.next() {
            Action::Hold(hold) => {
                if hold.settle_s > 0.0 {
                    system.run(hold.level, hold.settle_s);
                }
                let counts = if hold.window_s > 0.0 { system.run(hold.level, hold.window_s) } else { Vec::new() };
                search.observe(hold.level, &counts);
            }
            Action::Done(outcome) => return *outcome,
        }
    }
}

pub(crate) fn search(make: &Make, noise: &Noise, seed: u64, plan: PeakPlan, hint: Option<f64>) -> PeakOutcome {
    carry_out(&mut System::deploy(make, noise, seed), make, &plan, hint)
}

/// Many independent searches, on two threads.
pub(crate) fn many(n: u64, one: impl Fn(u64) -> PeakOutcome + Sync) -> Found {
    let half = |parity: u64| (0..n).filter(|seed| seed % 2 == parity).map(&one).collect::<Vec<_>>();
    let (mut even, odd) = std::thread::scope(|scope| {
        let odd = scope.spawn(|| half(1));
        (half(0), odd.join().expect("no search panics"))
    });
    even.extend(odd);
    Found(even)
}

pub(crate) struct Found(pub(crate) Vec<PeakOutcome>);

impl Found {
    pub(crate) fn logs(&self) -> Vec<f64> {
        self.0.iter().filter_map(|outcome| Some(outcome.peak?.ln())).collect()
    }

    /// Geometric mean of the peaks.
    pub(crate) fn mean(&self) -> f64 {
        mean(&self.logs()).exp()
    }

    /// Standard deviation of the log peaks.
    pub(crate) fn spread(&self) -> f64 {
        sd(&self.logs())
    }

    pub(crate) fn load_minutes(&self) -> f64 {
        mean(&self.0.iter().map(|outcome| outcome.load_s / 60.0).collect::<Vec<_>>())
    }

    /// The share of intervals that hold `truth`.
    pub(crate) fn coverage(&self, truth: f64) -> f64 {
        let holds = |outcome: &&PeakOutcome| {
            outcome.low.zip(outcome.high).is_some_and(|(low, high)| low <= truth && truth <= high)
        };
        self.0.iter().filter(holds).count() as f64 / self.0.len() as f64
    }

    pub(crate) fn half_width(&self) -> f64 {
        mean(&self.0.iter().filter_map(|outcome| Some((outcome.high? / outcome.low?).ln() / 2.0)).collect::<Vec<_>>())
    }

    pub(crate) fn describe(&self, truth: f64) -> String {
        format!(
            "n {} mean {:.1} bias {:+.2} % cov {:.2} % load-min {:.1} hw {:.2} % cover {:.1} % (of own mean {:.1} %)",
            self.logs().len(),
            self.mean(),
            100.0 * (self.mean() / truth - 1.0),
            100.0 * self.spread(),
            self.load_minutes(),
            100.0 * self.half_width(),
            100.0 * self.coverage(truth),
            100.0 * self.coverage(self.mean()),
        )
    }
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub(crate) fn sd(values: &[f64]) -> f64 {
    let middle = mean(values);
    (values.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / (values.len() - 1) as f64).sqrt()
}

/// The share over the limit of the worst operation, in multiples of what is allowed, in so many thousand seconds of an
/// undisturbed, warm system.
pub(crate) fn multiples(make: &Make, level: f64, thousands: u32) -> f64 {
    let mut system = System::deploy(make, &NONE, 77).warm();
    system.run(level, 300.0);
    let mut total = vec![(0.0, 0.0); make.operations.len()];
    for _ in 0..thousands {
        for (sum, count) in total.iter_mut().zip(system.run(level, 1000.0)) {
            *sum = (sum.0 + count.of, sum.1 + count.over);
        }
    }
    total.iter().map(|(of, over)| over / of / 0.01).fold(0.0, f64::max)
}

/// The level at which an undisturbed system breaks its limit with just the share it may, in the long run: the root of
/// [`multiples`], by bisection of a long simulation.
pub(crate) fn truth(make: &Make, guess: f64) -> f64 {
    let (mut low, mut high) = (guess * 0.5, guess * 2.0);
    for _ in 0..14 {
        let middle = (low * high).sqrt();
        if multiples(make, middle, 20) > 1.0 { high = middle } else { low = middle }
    }
    (low * high).sqrt()
}
