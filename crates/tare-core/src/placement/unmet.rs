//! What a machine cannot provide, and what can be done about it.

use std::fmt;

/// A wish that a machine cannot meet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unmet {
    /// The wish, and why it cannot be met.
    pub wish: String,
    /// What the user can do.
    pub remedy: &'static str,
}

impl Unmet {
    pub(super) fn new(wish: impl Into<String>, remedy: &'static str) -> Unmet {
        Unmet { wish: wish.into(), remedy }
    }
}

/// The wish alone: several may share a remedy.
impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.wish)
    }
}

/// There are too few CPUs, even where services share them.
pub(super) const LESS: &str = "lower `cpus` of 'resources', or what 'placement' keeps aside";
/// There are too few for a service to have its own.
pub(super) const SHARE: &str =
    "lower what is asked for, or write `over_commit: true` in 'placement' to let services share CPUs";
/// Named CPUs that are not available.
pub(super) const OTHERS: &str =
    "name CPUs that are there and not kept aside, as many as the service asks for, or choose a policy";
/// Named CPUs that serve something else.
pub(super) const FREE_ONES: &str =
    "name other CPUs, or write `over_commit: true` in 'placement' to let services share these";
/// The machine has no such parts.
pub(super) const POLICY: &str = "choose another policy, such as `core` or `thread`";
/// A device that is not there, while others are.
pub(super) const DEVICE: &str = "name one of these, or leave 'near' out";
/// The same when there is none at all.
pub(super) const NO_DEVICE: &str = "leave 'near' out";
