//! Distributions of pauses.

use crate::units::exact_duration;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long something lasts, drawn anew each time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Always as long.
    Constant(Duration),
    /// Exponential; what is longer than `max` is cut to it.
    Exponential {
        /// The mean before cutting.
        mean: Duration,
        /// The longest.
        max: Duration,
    },
    /// Anything between, equally often.
    Uniform {
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// Normal; what lies outside is moved to the nearest bound.
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
    /// The mean, s, bounds taken into account: of the exponential, mean * (1 - exp(-max / mean)); the normal's is given
    /// as if its bounds cut both sides alike.
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
