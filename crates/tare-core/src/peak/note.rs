//! What is to be known of a search besides its peak. Words are made of it where reports are made.

use crate::qos::Share;
use serde::{Deserialize, Serialize};

/// Something that a reader of a peak must know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PeakNote {
    /// Coming from below it keeps the QoS up to a load at which, once broken, it does not recover; the peak is the one
    /// from which it does.
    Memory,
    /// Windows either kept the QoS with ease or lost it altogether.
    Cliff,
    /// The share over the limit rises so slowly that the peak hangs on the limit that was chosen.
    GentleSlope {
        /// So much more load, as a share, doubles the share over the limit.
        doubles_at: f64,
    },
    /// Windows below the peak had far more over the limit than they may.
    Disturbed {
        /// So many windows.
        windows: u32,
        /// Of so many that the estimate rests on.
        of: u32,
        /// More than so many times what is allowed.
        times: f64,
    },
    /// The staircase never came to stand around one load.
    Astray,
    /// The interval is wide.
    Wide {
        /// It reaches so far to either side, as a share.
        half_width: f64,
    },
    /// An operation had another share of all right answers than the QoS asks of it.
    MixOff {
        /// The operation.
        operation: String,
        /// What is asked.
        asked: Share,
        /// What it had, of 1.
        had: f64,
    },
    /// In some windows the generator may have been the limit, not the service.
    GeneratorDoubtful {
        /// In how many.
        windows: u32,
    },
}
