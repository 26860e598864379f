//! Provides nothing: to see what sampling itself costs, and as a stand-in when there is nothing to read.

use crate::root::Root;
use crate::source::{Reading, SourceReader, SourceRow, SourceState};
use tare_core::telemetry::Scope;

/// The row of [`crate::SOURCES`].
pub const ROW: SourceRow = SourceRow {
    name: "null",
    about: "provides nothing, to see what sampling itself costs",
    metrics: &[],
    probe: |_: &Root| SourceState::Ready,
    reader: |_: &Root, _: &[Scope]| Box::new(NullReader),
};

struct NullReader;

impl SourceReader for NullReader {
    fn read(&mut self, _: &mut Reading) {}
}
