//! What the server asks of the machine, and does not know itself.

use tare_core::fault::Fault;
use tare_core::record::{EndRequest, Header};
use tare_stats::Occasions;

/// What else is known on this machine. The binary has it.
pub trait Surroundings: Send + Sync {
    /// By metric: what occasions add to the error between these two runs, as far as the history tells.
    ///
    /// # Errors
    /// When the history cannot be read.
    fn occasions(&self, before: &Header, after: &Header) -> Result<Occasions, Fault>;

    /// The ids of the runs that go on.
    fn live_runs(&self) -> Vec<String>;

    /// Whether this user may ask the run with this id to end.
    ///
    /// # Errors
    /// Why not.
    fn may_ask(&self, run: &str) -> Result<(), Fault>;

    /// Asks the run with this id to end.
    ///
    /// # Errors
    /// Why it was not asked.
    fn ask(&self, run: &str, request: EndRequest) -> Result<(), Fault>;
}
