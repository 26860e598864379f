//! Trials from as close as somebody wants to see them: a stretch of their seconds, and their CPUs.

use crate::live::{LiveLooks, RATE};
use crate::svg::{Limits, closer, heat};
use tare_core::record::TrialData;

pub use crate::svg::{CloseTrial, Stretch};

impl LiveLooks {
    /// Throughput and p99 of an arm's trials within a stretch of time, as SVG, on scales that hold `all` trials of
    /// these arms: those of real forms share theirs, an emulated one has its own.
    pub fn closer<'a>(
        &self,
        arm: &str,
        trials: &[CloseTrial<'_>],
        stretch: Stretch,
        all: impl Iterator<Item = (&'a str, &'a [CloseTrial<'a>])>,
    ) -> String {
        let Some(look) = self.look(arm) else { return String::new() };
        let limits = if look.hatched {
            stretch.limits(trials, Limits::default())
        } else {
            let real = all.filter(|(arm, _)| !self.is_emulated(arm));
            real.fold(Limits::default(), |limits, (_, trials)| stretch.limits(trials, limits))
        };
        closer(look, trials, stretch, limits, RATE)
    }
}

/// How busy each CPU was in a trial, as SVG; none without telemetry by CPU.
pub fn trial_heat(trial: &TrialData) -> Option<String> {
    let load = trial.record.load.as_ref()?;
    heat(&trial.record.trial.arm(), &trial.telemetry, load.measure_start_ns, load.measure_end_ns)
}
