//! Settling until throughput is steady.
//!
//! The trials of the first block are loaded for as long as the study allows, and note when they first were steady.
//! Every trial of later blocks settles for the longest of these times: if forms settled for different times, they would
//! be compared at different ages, and a form that happens to be quiet would be measured earlier.

use crate::Event;
use crate::inside::inside;
use crate::trial::{Entry, Trial, drive_limit};
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::host::Host;
use tare_core::load::{LoadPlan, LoadSummary, LoadTask, SecondRow};
use tare_stats::{has_settled, steady_looks};

/// The least length of a stretch of load while settling; its end counts as measured only because a load needs that.
const STRETCH: Duration = Duration::from_secs(5);
const STRETCH_END: Duration = Duration::from_secs(1);

impl Trial<'_, '_> {
    /// Loads for as long as the first block has found, or else for `within`, and notes when throughput was steady. The
    /// seconds count as settling.
    pub(crate) fn settle(&mut self, host: &mut dyn Host, entry: &Entry, within: Duration) -> Result<(), Fault> {
        if let Some(known) = self.inputs.settle_for {
            return self.stretch(host, entry, known.saturating_sub(STRETCH_END)).map(drop);
        }
        let (began, first) = (self.clock.now(), self.data.seconds.len());
        let looks = steady_looks(within);
        let (mut looked, mut steady) = (0, None);
        let length = self.inputs.study.settle.max(STRETCH);
        loop {
            // Stretches of load follow each other immediately; only the start of a process is in between.
            let summary = self.stretch(host, entry, length)?;
            let spent = self.clock.now().saturating_sub(began);
            let due = looks.iter().filter(|look| **look <= spent).count();
            if due > looked && steady.is_none() {
                let measure = self.inputs.study.measure;
                steady = has_settled(&self.data.seconds[first..], measure, within).then_some(spent);
            }
            looked = due;
            if spent + length > within || self.stop.raised() || summary.operations.is_empty() {
                break;
            }
        }
        self.data.record.steady_after_s = steady.map(|steady| steady.as_secs_f64());
        if steady.is_none() {
            let within = tare_core::units::exact_duration(within);
            let warning = format!("throughput was not shown to be steady within {within}");
            self.data.record.warnings.push(warning);
        }
        Ok(())
    }

    fn stretch(&mut self, host: &mut dyn Host, entry: &Entry, settle: Duration) -> Result<LoadSummary, Fault> {
        let plan = LoadPlan { settle, measure: STRETCH_END, ..self.load_plan(entry, LoadTask::Run) };
        let (tell, data) = (&mut *self.tell, &mut self.data);
        let mut inside = inside(host, &entry.instance, self.stop);
        self.apparatus.drive(&plan, drive_limit(&plan), self.stop, &mut inside, &mut |row| {
            let row = SecondRow { measured: false, ..row.clone() };
            data.seconds.push(row.clone());
            tell(Event::Second { row });
        })
    }
}
