//! From samples to estimates, by pure functions: no clock, no files, no randomness.
//!
//! [`trial_metrics`] turns what one trial recorded into its figures. [`analyse`] turns a whole record into everything
//! a report shows: ratios to the baseline with their intervals, verdicts, and what was the same in all forms.
//!
//! The unit of the statistics is the trial, one fresh deployment; never a request or a second. Trials are compared
//! inside blocks only, on the log scale, so that what the machine did to a whole block cancels.

mod analyse;
mod analysis;
mod compare;
mod cpu;
mod family;
mod histogram;
mod paired;
mod quantile;
mod same;
mod steady;
mod trial;
mod verdict;

pub use analyse::analyse;
pub use analysis::{
    Analysis, Apparatus, Arm, BitsDifference, BlockValue, Cell, Estimate, Interval, Method, MetricAnalysis, Ratio,
    Reason, ResourceRow, Sameness, ServiceBits, ServiceResources, Verdict, ratio_of,
};
pub use compare::{Change, changes};
pub use histogram::{CurvePoint, Percentiles, latency_curve, percentiles};
pub use quantile::{dunnett_quantile, student_quantile};
pub use trial::trial_metrics;
pub use verdict::{percent_text, ratio_text};
