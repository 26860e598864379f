//! From samples to estimates, by pure functions: no clock, no files, no randomness.
//!
//! [`trial_metrics`] turns what one trial recorded into its figures. [`analyse`] turns a whole record into everything
//! a report shows: ratios to the baseline with their intervals, verdicts, and what was the same in all forms.
//!
//! The unit of the statistics is the trial, one fresh deployment; never a request or a second. Trials are compared
//! inside blocks only, on the log scale, so that what the machine did to a whole block cancels.

mod absolute;
mod account;
mod advice;
mod analyse;
mod analysis;
mod apparatus;
mod arm;
mod best;
mod between_runs;
mod bound;
mod ceiling;
mod change_points;
mod claim;
mod compare;
mod components;
mod condition;
mod contrast;
mod counts;
mod cpu;
mod differing;
mod equivalence;
mod estimate;
mod evidence;
mod failures;
mod family;
mod finding;
mod follows;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod gate;
mod histogram;
mod interval;
mod ladder;
mod metrics;
mod nested;
mod occasion;
mod pair;
mod paired;
pub mod peak;
pub mod power;
mod probe_cost;
mod profile;
mod qos;
mod quantile;
mod ratios;
mod response;
mod resting;
mod same;
mod scale_out;
mod scaling;
mod sequential;
mod slices;
mod so_far;
mod stalls;
mod steady;
mod trial;
mod verdict;
mod voids;
mod warming;
mod warmth;
mod warn;
mod warnings;
mod welch;
mod width;

pub use absolute::{AbsoluteDifference, absolute_difference, difference_at, ratio_to};
pub use account::{CpuAccount, CpuPart, CpuUser, SoftInterrupts, interrupts_apart};
pub use advice::{AdviceGains, MetricGains, VariantGain};
pub use analyse::analyse;
pub use analysis::{Aim, Analysis, ratio_of};
pub use apparatus::Apparatus;
pub use arm::{Arm, Reason};
pub use best::{Contest, Lead, NoContest, contest, decided, is_lead_look};
pub use between_runs::changes_explained;
pub use bound::{Bound, BoundCause, Side};
pub use ceiling::{Ceiling, Ceilings, Remedy};
pub use change_points::{
    CHANGE_P, CHANGE_SHARE, CHANGE_VALUES_MIN, CHANGE_WINDOW, ChangePoint, Segment, Series, SeriesChange, SeriesPoint,
    change_points,
};
pub use compare::{Change, Difference, changes, changes_from, conditions, differences};
pub use components::Components;
pub use condition::{Condition, Conditions, OfForm, OfService, baseline_of};
pub use contrast::{Contrast, Figure};
pub use cpu::resting_share;
pub use differing::{Differing, differing};
pub use estimate::{BlockValue, Estimate};
pub use evidence::{Evidence, evidence};
pub use failures::{FailedShare, MoreFailed};
pub use family::Method;
pub use finding::{Confidence, Differs, Explanation, Finding, Tested, variants_of_rules};
pub use gate::{Bounded, Bounds, GateCheck, GateOutcome, GateReason, Learned, WhichRecord, gate, gate_outcome};
pub use histogram::{CurvePoint, Percentiles, latency_curve, percentiles};
pub use interval::Interval;
pub use ladder::{Cost, LadderCosts, MetricRungCosts, Orders, RungCost};
pub use nested::Nested;
pub use occasion::{Equals, OCCASION_RUNS, Occasion, Occasions, are_alike, equals, varies_alike};
pub use probe_cost::{FormProbeCost, ProbeCost, ProbeEffect, ProbeRatio};
pub use profile::{CallRow, Flame, FormProfile, TimeRow, flame};
pub use qos::{Breach, Broken, OffShare, QosKept, SeenInstead, off_shares};
pub use quantile::student_quantile;
pub use ratios::{AtSpeed, Follows, LeftCold, LeftStill, MetricAnalysis, Ratio};
pub use response::{
    ArmCosts, ArmLevels, CostRatio, LevelMetric, LevelState, LoadResponse, PartCost, Seen, ServiceCosts, level_figures,
};
pub use resting::{Resting, cpu_share, leave_out_rest, share_in_others_turns};
pub use same::{BitsDifference, BitsSeen, Cell, ResourceRow, Sameness, ServiceBits, ServiceResources};
pub use scale_out::{Grown, Growth, ScaleOut};
pub use scaling::{
    Caution, FormScaling, Law, LawFit, LevelRow, LevelValue, Pairing, Parameter, Scaling, scaling, scaling_of_records,
    scaling_of_steps,
};
pub use sequential::{is_look, precise_enough};
pub use slices::{SliceLoad, Sliced, fairness, side_by_side, sliced};
pub use so_far::{RatioSoFar, SoFar};
pub use stalls::{Counted, Stall, Stalls};
pub use steady::{has_settled, steady_looks};
pub use trial::{TrialFigures, trial_metrics};
pub use verdict::{Verdict, Withheld, percent_at_most, percent_text, ratio_text};
pub use warming::Warming;
pub use warmth::{Loss, Warmth};
pub use warn::missing;
pub use warnings::{MachineFacts, Missing, Unfinished, Unsteady, Warning};
