//! Profiled trials: one for each form that the study asks for, after everything that counts. Profiled services run
//! slower, so these trials affect neither outcomes, estimates nor the choice of blocks.

use crate::progress::Progress;
use crate::run::{Run, RunContext};
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::plan::{PlannedTrial, plan_profiles};

impl Run<'_> {
    /// The number of profiled trials that the study asks for, and of those on disk.
    pub(crate) fn profiles(&self) -> (u32, u32) {
        let planned = plan_profiles(&self.header.study);
        let done = planned.iter().filter(|trial| self.record.has_profile(trial.index)).count();
        (planned.len() as u32, done as u32)
    }

    fn profiles_left(&self) -> Vec<PlannedTrial> {
        let mut planned = plan_profiles(&self.header.study);
        planned.retain(|trial| !self.record.has_profile(trial.index));
        planned
    }

    /// How long the profiled trials that are not yet on disk will take.
    pub(crate) fn of_profiles(&self, state: &Progress) -> Duration {
        self.profiles_left().iter().map(|trial| self.expected(state, trial)).sum()
    }

    /// Runs the profiled trials that are not yet on disk, unless the user has asked the run to end. Returns whether the
    /// user has stopped it.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub(crate) fn profile(&mut self, state: &Progress, context: &mut RunContext) -> Result<bool, Fault> {
        let open = self.profiles_left();
        for (at, trial) in open.iter().enumerate() {
            if context.stop.raised() {
                return Ok(true);
            }
            if context.stop.asked_by().is_some() {
                return Ok(false);
            }
            let left = open[at..].iter().map(|trial| self.expected(state, trial)).sum::<Duration>();
            self.announce(trial, left, context)?;
            let Some(data) = self.one(trial, state, context) else { return Ok(true) };
            self.record.write_profile(&data)?;
            self.tell_end(&data, context)?;
        }
        Ok(false)
    }
}
