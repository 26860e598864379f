//! What is built in that others wrote: its licences, origins and versions, held against `deny.toml` by cargo-deny.

use super::well;
use anyhow::Result;
use std::path::Path;
use std::process::{Command, Stdio};

/// What is checked without a network.
const CHECKS: [&str; 3] = ["licenses", "bans", "sources"];

/// Why it is not checked.
pub(super) const LACKS: &str = "there is no cargo-deny: 'cargo install cargo-deny --locked' brings it";

/// Why advisories are not checked.
pub(super) const LACKS_ADVISORIES: &str = "their database cannot be had here; licences, bans and sources are checked";

/// What was checked, and how it is.
pub(super) struct Checked {
    /// Whether all that was checked is in order.
    pub(super) well: bool,
    /// Whether advisories were checked too: where their database can be had.
    pub(super) advisories: bool,
}

/// Whether all of it is in order; `None` without cargo-deny.
pub(super) fn in_order(root: &Path) -> Result<Option<Checked>> {
    if !says_yes(Command::new("cargo").args(["deny", "--version"])) {
        return Ok(None);
    }
    let mut command = Command::new("cargo");
    command.args(["deny", "--locked", "check", "--hide-inclusion-graph"]).args(CHECKS).current_dir(root);
    // A network that swallows what is sent must not keep the gate waiting.
    let advisories = says_yes(Command::new("timeout").args(["30", "cargo", "deny", "fetch", "db"]).current_dir(root));
    command.args(advisories.then_some("advisories"));
    Ok(Some(Checked { well: well(&mut command)?, advisories }))
}

fn says_yes(command: &mut Command) -> bool {
    let output = command.stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.status.success())
}
