//! Reads all sources together: one set of rows per reading.

use crate::SOURCES;
use crate::root::Root;
use crate::source::{Of, Reading, SourceReader, SourceState};
use tare_clock::monotonic_ns;
use tare_core::fault::Fault;
use tare_core::telemetry::{Scope, TelemetryRow, Vantage, WHOLE_MACHINE};

/// Reads the machine and scopes repeatedly. Counters in its rows never decrease.
pub struct Sampler {
    scopes: Vec<Scope>,
    readers: Vec<Box<dyn SourceReader>>,
    reading: Reading,
}

impl Sampler {
    /// A sampler of these scopes.
    ///
    /// # Errors
    /// When no source can be read; the message says why for each.
    pub fn new(root: &Root, scopes: &[Scope]) -> Result<Sampler, Fault> {
        let mut why_not = Vec::new();
        let mut ready = false;
        let mut readers = Vec::new();
        for row in SOURCES {
            match (row.probe)(root) {
                SourceState::Ready => {
                    ready |= !row.metrics.is_empty();
                    readers.push((row.reader)(root, scopes));
                }
                SourceState::Unavailable { why, how_to_check } => why_not.push(format!("{why} (see {how_to_check})")),
            }
        }
        if !ready {
            let why = why_not.join("; ");
            return Err(Fault::new(format!("nothing can be sampled: {why}")).remedy("mount /proc, then try again"));
        }
        Ok(Sampler { scopes: scopes.to_vec(), readers, reading: Reading::new(scopes.len()) })
    }

    /// Leaves out what is costly to read and is asked of this machine only, not of a guest: there it would be read on
    /// the services' CPUs, for nobody.
    #[must_use]
    pub fn inside_a_guest(mut self) -> Sampler {
        for reader in &mut self.readers {
            reader.trim_for_guest();
        }
        self
    }

    /// Pauses or resumes what sources do between readings.
    pub fn rest(&mut self, rests: bool) {
        self.readers.iter_mut().for_each(|reader| reader.rest(rests));
    }

    /// Reads everything once. The machine's row comes first; a scope has no row if nothing of it can be read.
    pub fn sample(&mut self) -> Vec<TelemetryRow> {
        self.reading.start();
        for (index, reader) in self.readers.iter_mut().enumerate() {
            self.reading.from_source(index);
            reader.read(&mut self.reading);
        }
        let at_ns = monotonic_ns();
        let row = |scope: &str, serving: bool, of: Of| TelemetryRow {
            at_ns,
            vantage: Vantage::Host,
            scope: scope.to_owned(),
            serving,
            values: self.reading.values(of),
        };
        let mut rows = vec![row(WHOLE_MACHINE, false, Of::Machine)];
        rows.extend(self.scopes.iter().enumerate().map(|(i, scope)| row(&scope.name, scope.serving, Of::Scope(i))));
        rows.retain(|row| !row.values.is_empty());
        rows
    }
}
