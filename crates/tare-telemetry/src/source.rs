//! A telemetry source: its metrics, whether this machine has it, and how it is read. Each source is a folder and a row
//! of [`crate::SOURCES`].

use crate::root::Root;
use serde::Serialize;
use std::collections::BTreeMap;
use tare_core::telemetry::{METRICS, Scope};

/// A row of the table of sources.
pub struct SourceRow {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    /// The metrics it may provide; all of them are in [`METRICS`].
    pub metrics: &'static [&'static str],
    /// Whether this machine has it.
    pub probe: fn(&Root) -> SourceState,
    /// Makes its reader for these scopes. If several sources provide a metric of a scope, the earliest row is used.
    pub reader: fn(&Root, &[Scope]) -> Box<dyn SourceReader>,
}

/// Whether a source can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceState {
    /// It can.
    Ready,
    /// It cannot.
    Unavailable {
        /// Why not.
        why: String,
        /// How to check that, or to change it.
        how_to_check: String,
    },
}

/// Reads one source repeatedly.
pub trait SourceReader: Send {
    /// Reads the source and puts what could be read.
    fn read(&mut self, into: &mut Reading);

    /// Makes it leave out what is costly and nobody asks of a guest.
    fn trim_for_guest(&mut self) {}

    /// Pauses or resumes what it does between readings.
    fn rest(&mut self, _rests: bool) {}
}

/// What a value describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// The machine as a whole.
    Machine,
    /// The scope with this index.
    Scope(usize),
}

/// Collects values and guarantees that a counter never decreases, and that a metric of a scope always comes from the
/// same source, so that it never jumps.
#[derive(Debug, Default)]
pub struct Reading {
    source: usize,
    subjects: Vec<Subject>,
}

#[derive(Debug, Default)]
struct Subject {
    values: BTreeMap<String, Value>,
}

#[derive(Debug)]
struct Value {
    source: usize,
    counter: bool,
    fresh: bool,
    value: f64,
}

impl Reading {
    /// For the machine and this many scopes.
    pub fn new(scopes: usize) -> Reading {
        Reading { source: 0, subjects: (0..=scopes).map(|_| Subject::default()).collect() }
    }

    /// Starts another reading: a value that is not put again becomes absent, unless it is a counter.
    pub fn start(&mut self) {
        for value in self.subjects.iter_mut().flat_map(|subject| subject.values.values_mut()) {
            value.fresh = false;
        }
    }

    /// Sets the source of the values that follow.
    pub fn from_source(&mut self, source: usize) {
        self.source = source;
    }

    /// Puts a value. `metric` is a name of [`METRICS`], with `@` and a number for a single CPU.
    pub fn put(&mut self, of: Of, metric: &str, value: f64) {
        let index = match of {
            Of::Machine => 0,
            Of::Scope(index) => index + 1,
        };
        let values = &mut self.subjects[index].values;
        if let Some(known) = values.get_mut(metric) {
            if known.source == self.source {
                known.value = if known.counter { known.value.max(value) } else { value };
                known.fresh = true;
            }
            return;
        }
        let name = metric.split_once('@').map_or(metric, |(name, _)| name);
        let row = METRICS.iter().find(|row| row.name == name);
        let counter = row.unwrap_or_else(|| panic!("source puts '{metric}', which is not a metric")).counter;
        values.insert(metric.to_owned(), Value { source: self.source, counter, fresh: true, value });
    }

    /// The current values. A counter that could not be read again keeps its last value, unless it is a single CPU's,
    /// which has gone offline.
    pub fn values(&self, of: Of) -> BTreeMap<String, f64> {
        let index = match of {
            Of::Machine => 0,
            Of::Scope(index) => index + 1,
        };
        let standing = |name: &str, value: &Value| value.fresh || (value.counter && !name.contains('@'));
        let values = self.subjects[index].values.iter();
        values.filter(|(name, value)| standing(name, value)).map(|(name, value)| (name.clone(), value.value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_keeps_its_source_and_a_counter_never_falls() {
        let mut reading = Reading::new(1);
        let of = Of::Scope(0);
        reading.put(of, "cpu_total_s", 5.0);
        reading.from_source(1);
        reading.put(of, "cpu_total_s", 9.0);
        reading.put(of, "memory_bytes", 7.0);
        assert_eq!(reading.values(of)["cpu_total_s"], 5.0);
        reading.start();
        reading.from_source(0);
        reading.put(of, "cpu_total_s", 4.0);
        assert_eq!(reading.values(of), BTreeMap::from([("cpu_total_s".to_owned(), 5.0)]));
    }
}
