//! Profiled trials: one of each form that the study asks for, behind everything that counts. What is watched closely
//! runs slower, so nothing of these goes into outcomes, expectations or the choice of blocks.

use crate::progress::Progress;
use crate::run::{Run, RunContext};
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::plan::{PlannedTrial, plan_profiles};

impl Run<'_> {
    /// How many profiled trials the study asks for, and how many of them are on disk.
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

    /// How long the profiled trials that are not on disk will take.
    pub(crate) fn of_profiles(&self, state: &Progress) -> Duration {
        self.profiles_left().iter().map(|trial| self.expected(state, trial)).sum()
    }

    /// Runs the profiled trials that are not on disk. Whether the user asked for the end meanwhile.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub(crate) fn profile(&mut self, state: &Progress, context: &mut RunContext) -> Result<bool, Fault> {
        let open = self.profiles_left();
        for (at, trial) in open.iter().enumerate() {
            if context.stop.raised() {
                return Ok(true);
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
