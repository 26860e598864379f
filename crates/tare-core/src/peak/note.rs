//! What a reader must know about a search in addition to its peak. The report puts it into words.

use crate::qos::Share;
use serde::{Deserialize, Serialize};

/// Something that a reader of a peak must know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PeakNote {
    /// Coming from below, the service keeps the QoS up to a load at which, once it has broken the QoS, it does not
    /// recover; the peak is the load at which it does.
    Memory,
    /// Windows either kept the QoS easily or broke it completely.
    Cliff,
    /// The share over the limit rises so slowly that the peak depends on the limit that was chosen.
    GentleSlope {
        /// The additional load, as a share, that doubles the share over the limit.
        doubles_at: f64,
    },
    /// Windows below the peak had far more over the limit than allowed.
    Disturbed {
        /// How many windows.
        windows: u32,
        /// Out of how many that the estimate rests on.
        of: u32,
        /// They had more than this many times what is allowed.
        times: f64,
    },
    /// The staircase never settled around one load.
    Astray,
    /// The interval is wide.
    Wide {
        /// How far it reaches to either side, as a share.
        half_width: f64,
    },
    /// An operation had a different share of all correct answers than the QoS asks for.
    MixOff {
        /// The operation.
        operation: String,
        /// The share that is asked for.
        asked: Share,
        /// The share that it had, of 1.
        had: f64,
    },
    /// In some windows the generator may have been the limit, not the service.
    GeneratorDoubtful {
        /// How many windows.
        windows: u32,
    },
}
