//! How a run ends, and that a user asked it to.

use crate::{Event, Stop};
use tare_core::record::{BUDGET_SPENT, COMPLETE, DECIDED, FITTED, INTERRUPTED, ON_REQUEST, PRECISE_ENOUGH};

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every trial of the plan is on disk.
    Complete,
    /// As many whole rounds of the plan as fit into the given time are on disk.
    Fitted,
    /// The user stopped the run.
    Interrupted,
    /// Another block would have exceeded the given time before the run had found what it was looking for.
    BudgetSpent,
    /// The intervals are as narrow as the study asked for.
    PreciseEnough,
    /// One form is better than every other, beyond chance.
    Decided,
    /// The user wanted no more than the block that was being measured.
    OnRequest,
}

impl Ending {
    /// The word for it in the record.
    pub fn word(self) -> &'static str {
        match self {
            Ending::Complete => COMPLETE,
            Ending::Fitted => FITTED,
            Ending::Interrupted => INTERRUPTED,
            Ending::BudgetSpent => BUDGET_SPENT,
            Ending::PreciseEnough => PRECISE_ENOUGH,
            Ending::Decided => DECIDED,
            Ending::OnRequest => ON_REQUEST,
        }
    }
}

/// Whether it was told that a user asked the run to end after its block.
#[derive(Debug, Default)]
pub(crate) struct Request {
    told: bool,
}

impl Request {
    /// Tells it, once.
    pub(crate) fn tell(&mut self, stop: &Stop, subscriber: &mut dyn FnMut(&Event)) {
        if let Some(by) = stop.asked_by().filter(|_| !self.told) {
            self.told = true;
            subscriber(&Event::EndAsked { by: by.clone() });
        }
    }
}
