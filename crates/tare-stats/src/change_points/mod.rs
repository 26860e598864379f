//! Change points in a series of records: since when a form's ratio to its baseline is another one.
//!
//! Ratios are followed, not absolute values: a ratio inside a record does not see what the machine did between two
//! records. docs/src/methodology/history.md has the method in words.

mod detect;
mod kinship;
mod segments;
mod series;
mod winsor;

pub use detect::{CHANGE_P, CHANGE_SHARE, CHANGE_VALUES_MIN, CHANGE_WINDOW, ChangePoint, change_points};
pub use segments::Segment;
pub use series::{Series, SeriesChange, SeriesPoint};
