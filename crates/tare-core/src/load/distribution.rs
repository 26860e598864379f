//! Distributions of pauses.

use crate::units::exact_duration;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long something lasts, drawn anew each time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Always the same.
    Constant(Duration),
    /// Exponential; longer values are cut to `max`.
    Exponential {
        /// The mean before cutting.
        mean: Duration,
        /// The longest.
        max: Duration,
    },
    /// Uniform between the two.
    Uniform {
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// Normal; values outside the bounds are moved to the nearest one.
    Normal {
        /// The mean before cutting.
        mean: Duration,
        /// The standard deviation before cutting.
        sd: Duration,
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
}

impl Distribution {
    /// The mean, s, with bounds taken into account: for the exponential, mean * (1 - exp(-max / mean)); for the normal,
    /// as if its bounds cut both sides equally.
    pub fn mean_s(&self) -> f64 {
        match self {
            Distribution::Constant(length) => length.as_secs_f64(),
            Distribution::Exponential { mean, max } => {
                let (mean, max) = (mean.as_secs_f64(), max.as_secs_f64());
                if mean > 0.0 { mean * (1.0 - (-max / mean).exp()) } else { 0.0 }
            }
            Distribution::Uniform { min, max } => (min.as_secs_f64() + max.as_secs_f64()) / 2.0,
            Distribution::Normal { mean, min, max, .. } => {
                mean.as_secs_f64().clamp(min.as_secs_f64(), max.as_secs_f64())
            }
        }
    }

    /// In words.
    pub fn describe(&self) -> String {
        let show = exact_duration;
        match self {
            Distribution::Constant(length) => show(*length),
            Distribution::Exponential { mean, max } => {
                format!("exponential, mean {}, at most {}", show(*mean), show(*max))
            }
            Distribution::Uniform { min, max } => format!("uniform, {} to {}", show(*min), show(*max)),
            Distribution::Normal { mean, sd, min, max } => {
                format!("normal, mean {}, deviation {}, {} to {}", show(*mean), show(*sd), show(*min), show(*max))
            }
        }
    }
}
