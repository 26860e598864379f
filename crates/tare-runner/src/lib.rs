//! Runs a plan: trials in order, each in stages, each on disk before the next starts.
//!
//! **Architecture invariant:** the runner sees traits only. It knows no layer, workload, protocol or telemetry source,
//! reads no clock but the one it is given, and starts no process itself, so that the order in which it does things is
//! tested without root.

mod again;
mod alternate;
mod apparatus;
mod bits;
mod chop;
mod clock;
mod deploying;
mod duet;
mod ending;
mod event;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod inside;
mod keeping;
mod once;
mod pace;
mod peak;
mod placing;
mod preparing;
mod probe_rests;
mod profiling;
mod progress;
mod read_record;
mod readiness;
mod record_dir;
mod record_files;
mod run;
mod settling;
mod stages;
mod standing;
mod suite_dir;
mod together;
mod trial;

pub use apparatus::{Apparatus, DataSet, Place, Restored, RunInside, Stop};
pub use clock::{Clock, SystemClock};
pub use ending::Ending;
pub use event::{Event, Subscriber};
pub use once::{Attempt, Once, TryLoad, Watched};
pub use pace::{FormPace, Pace, overheads};
pub use read_record::read_record;
pub use record_dir::{EventLog, RecordDir, taken};
pub use run::Run;
pub use standing::{StandingDeployment, StandingService};
pub use suite_dir::{create_suite, is_suite, read_suite, read_suite_header};
