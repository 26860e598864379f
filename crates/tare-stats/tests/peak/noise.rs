//! What a machine does to a deployment: by how much its capacity differs, second by second.

use crate::peak::random::Random;

/// Standard deviations on the log scale, times in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Noise {
    pub(crate) boot: f64,
    pub(crate) fast: f64,
    pub(crate) drift: f64,
    pub(crate) bursts_per_hour: f64,
    pub(crate) burst_s: f64,
    pub(crate) burst_depth: f64,
}

const FAST_S: f64 = 60.0;
const DRIFT_S: f64 = 3600.0;

pub(crate) const NONE: Noise =
    Noise { boot: 0.0, fast: 0.0, drift: 0.0, bursts_per_hour: 0.0, burst_s: 1.0, burst_depth: 0.0 };
pub(crate) const QUIET: Noise =
    Noise { boot: 0.003, fast: 0.007, drift: 0.003, bursts_per_hour: 1.0, burst_s: 6.0, burst_depth: 0.20 };
pub(crate) const SHARED: Noise =
    Noise { boot: 0.005, fast: 0.015, drift: 0.007, bursts_per_hour: 4.0, burst_s: 8.0, burst_depth: 0.25 };
pub(crate) const BAD: Noise =
    Noise { boot: 0.010, fast: 0.030, drift: 0.015, bursts_per_hour: 10.0, burst_s: 12.0, burst_depth: 0.35 };
/// A neighbour that takes a third for ten seconds, forty times an hour.
pub(crate) const NEIGHBOUR: Noise =
    Noise { boot: 0.005, fast: 0.010, drift: 0.005, bursts_per_hour: 40.0, burst_s: 10.0, burst_depth: 0.33 };

/// What a host does to everything on it, second by second: log capacity. Forms of a block share it.
pub(crate) fn host(noise: &Noise, seconds: usize, random: &mut Random) -> Vec<f64> {
    let step = |sd: f64, tau: f64| ((-1.0 / tau).exp(), sd * (1.0 - (-2.0 / tau).exp()).sqrt());
    let ((keep_fast, add_fast), (keep_drift, add_drift)) = (step(noise.fast, FAST_S), step(noise.drift, DRIFT_S));
    let (mut fast, mut drift) = (random.normal() * noise.fast, random.normal() * noise.drift);
    let (mut left, mut depth) = (0u32, 0.0);
    let mut capacity = Vec::with_capacity(seconds);
    for _ in 0..seconds {
        fast = keep_fast * fast + add_fast * random.normal();
        drift = keep_drift * drift + add_drift * random.normal();
        if left == 0 && noise.bursts_per_hour > 0.0 && random.uniform() < noise.bursts_per_hour / 3600.0 {
            left = random.exponential(noise.burst_s) as u32 + 1;
            depth = noise.burst_depth * (0.5 + random.uniform());
        }
        let burst = if left > 0 { (1.0_f64 - depth).ln() } else { 0.0 };
        left = left.saturating_sub(1);
        capacity.push(fast + drift + burst);
    }
    capacity
}
