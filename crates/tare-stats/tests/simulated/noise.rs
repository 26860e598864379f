//! Machines that are quiet, shared or bad, made of random numbers: what a deployment, a minute, an hour and an
//! interruption do to throughput. All on the log scale.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Random numbers from a seed.
pub(crate) struct Random(Xoshiro256PlusPlus, Option<f64>);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed), None)
    }

    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Box and Muller: two at a time.
    pub(crate) fn normal(&mut self) -> f64 {
        if let Some(kept) = self.1.take() {
            return kept;
        }
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        let (sine, cosine) = (2.0 * std::f64::consts::PI * self.uniform()).sin_cos();
        self.1 = Some(radius * sine);
        radius * cosine
    }

    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }
}

/// How restless a machine is. Standard deviations on the log scale.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    /// Between deployments.
    deployment: f64,
    /// The share of deployments that are slow, and by how much.
    slow: (f64, f64),
    /// Of a disturbance that fades within a minute.
    minute: f64,
    /// Of one that fades within an hour.
    hour: f64,
    /// Of a steady drift, per hour.
    trend: f64,
    /// Interruptions: how many an hour, how many seconds each lasts on average, which share of the machine they take.
    bursts: (f64, f64, f64),
    /// Of a measurement of 15 s, all else being equal.
    measurement: f64,
}

/// A machine that nobody else uses.
pub(crate) const QUIET: Setting = Setting {
    name: "quiet",
    deployment: 0.003,
    slow: (0.0, 0.0),
    minute: 0.007,
    hour: 0.003,
    trend: 0.001,
    bursts: (1.0, 6.0, 0.20),
    measurement: 0.005,
};

/// A machine with neighbours.
pub(crate) const SHARED: Setting = Setting {
    name: "shared",
    deployment: 0.005,
    slow: (0.1, 0.015),
    minute: 0.015,
    hour: 0.010,
    trend: 0.003,
    bursts: (4.0, 8.0, 0.25),
    measurement: 0.010,
};

/// A machine that one would rather not measure on.
pub(crate) const BAD: Setting = Setting {
    name: "bad",
    deployment: 0.010,
    slow: (0.2, 0.03),
    minute: 0.030,
    hour: 0.025,
    trend: 0.008,
    bursts: (10.0, 12.0, 0.35),
    measurement: 0.015,
};

pub(crate) const SETTINGS: [Setting; 3] = [QUIET, SHARED, BAD];

impl Setting {
    /// What one deployment happens to get; zero on average.
    pub(crate) fn deployment(&self, random: &mut Random) -> f64 {
        let (share, by) = self.slow;
        let slow = if random.uniform() < share { by } else { 0.0 };
        self.deployment * random.normal() - slow + share * by
    }

    /// The error of a measurement of so many seconds.
    pub(crate) fn measurement(&self, random: &mut Random, seconds: f64) -> f64 {
        self.measurement * (15.0 / seconds).sqrt() * random.normal()
    }

    /// What two halves of a machine do not have in common: a third of the minute's disturbance.
    pub(crate) fn of_one_half(&self) -> Setting {
        Setting { minute: 0.3 * self.minute, hour: 0.0, trend: 0.0, bursts: (0.0, 1.0, 0.0), ..*self }
    }
}

/// What a machine does to whoever runs on it, over time.
pub(crate) struct Environment {
    step_s: f64,
    /// The sum of the logs before each step.
    sums: Vec<f64>,
}

impl Environment {
    /// Draws `length_s` seconds of it, in steps of `step_s`.
    pub(crate) fn draw(random: &mut Random, setting: &Setting, length_s: f64, step_s: f64) -> Environment {
        let steps = (length_s / step_s).ceil() as usize + 1;
        let mut taken = vec![0.0; steps];
        let (per_hour, mean_s, depth) = setting.bursts;
        let mut at = if per_hour > 0.0 { random.exponential(3600.0 / per_hour) } else { f64::INFINITY };
        while at < length_s {
            let (depth, mut left, mut from) = (depth * (0.5 + random.uniform()), random.exponential(mean_s), at);
            while left > 0.0 && ((from / step_s) as usize) < steps {
                let step = (from / step_s) as usize;
                let within = left.min((step + 1) as f64 * step_s - from).max(1e-6);
                taken[step] += depth * within / step_s;
                (left, from) = (left - within, from + within);
            }
            at += random.exponential(3600.0 / per_hour);
        }
        // Two processes that forget: first order, standard deviation as stated at every moment.
        let (keep_minute, keep_hour) = ((-step_s / 60.0).exp(), (-step_s / 3600.0).exp());
        let (fresh_minute, fresh_hour) = ((1.0 - keep_minute.powi(2)).sqrt(), (1.0 - keep_hour.powi(2)).sqrt());
        let (mut minute, mut hour) = (setting.minute * random.normal(), setting.hour * random.normal());
        let trend = setting.trend * random.normal() * step_s / 3600.0;
        let mut sums = Vec::with_capacity(steps + 1);
        let mut sum = 0.0;
        sums.push(sum);
        for (step, taken) in taken.iter().enumerate() {
            sum += minute + hour + trend * step as f64 + (-taken.min(0.8)).ln_1p();
            sums.push(sum);
            minute = keep_minute * minute + fresh_minute * setting.minute * random.normal();
            if setting.hour > 0.0 {
                hour = keep_hour * hour + fresh_hour * setting.hour * random.normal();
            }
        }
        Environment { step_s, sums }
    }

    /// The mean over a stretch of time.
    pub(crate) fn mean(&self, from_s: f64, to_s: f64) -> f64 {
        let at = |time: f64| {
            let (whole, part) = ((time / self.step_s) as usize, (time / self.step_s).fract());
            let next = self.sums[(whole + 1).min(self.sums.len() - 1)];
            self.sums[whole] + part * (next - self.sums[whole])
        };
        (at(to_s) - at(from_s)) * self.step_s / (to_s - from_s)
    }
}
