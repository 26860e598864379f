//! What new runs are made of on this machine, and what starts them.

use std::path::Path;
use tare_core::fault::Fault;

/// A form that a new study may have.
#[derive(Debug, Clone, Copy)]
pub struct OfferedForm {
    /// Its name in the study.
    pub name: &'static str,
    /// Its stack of layers, as YAML.
    pub stack: &'static str,
    /// The layers that this machine must have for it, by their names.
    pub layers: &'static [&'static str],
}

/// What new runs need. The binary has it; a server without it starts none.
pub trait Weighing: Send + Sync {
    /// The program that checks and runs studies, by its verbs `doctor`, `check` and `run`.
    fn program(&self) -> &Path;

    /// The names of the workloads that a new study may have.
    fn workloads(&self) -> Vec<String>;

    /// The forms that a new study may have, the one to compare with first.
    fn forms(&self) -> &'static [OfferedForm];

    /// The names of the studies that are there.
    fn studies(&self) -> Vec<String>;

    /// The text of the study with this name; none if there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    fn study(&self, name: &str) -> Result<Option<String>, Fault>;

    /// Whether this user may start a run.
    ///
    /// # Errors
    /// Why not.
    fn may_run(&self) -> Result<(), Fault>;

    /// Whether no run is in progress on this machine. To be asked only by who is about to start one.
    ///
    /// # Errors
    /// Which one is.
    fn is_free(&self) -> Result<(), Fault>;
}
