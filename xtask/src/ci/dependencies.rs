//! Checks the licences, sources and versions of third-party code against `deny.toml`, by cargo-deny.

use super::{skips, well};
use anyhow::Result;
use std::path::Path;
use std::process::{Command, Stdio};

/// The checks that need no network.
const CHECKS: [&str; 3] = ["licenses", "bans", "sources"];

/// Why nothing is checked.
pub(super) const LACKS: &str = "cargo-deny is missing; install it with 'cargo install cargo-deny --locked'";

/// Why advisories are not checked.
pub(super) const LACKS_ADVISORIES: &str = "their database is not reachable; licences, bans and sources are checked";

/// The result of the checks.
pub(super) struct Checked {
    /// Whether everything that was checked is in order.
    pub(super) well: bool,
    /// Whether advisories were checked too, which needs their database.
    pub(super) advisories: bool,
}

/// Whether all of it is in order; `None` without cargo-deny.
pub(super) fn in_order(root: &Path) -> Result<Option<Checked>> {
    if !says_yes(Command::new("cargo").args(["deny", "--version"])) {
        return Ok(None);
    }
    let mut command = Command::new("cargo");
    command.args(["deny", "--locked", "check", "--hide-inclusion-graph"]).args(CHECKS).current_dir(root);
    let advisories = says_yes(&mut fetch(root, skips::decides()));
    command.args(advisories.then_some("advisories"));
    Ok(Some(Checked { well: well(&mut command)?, advisories }))
}

/// Fetches the advisories' database. A network that drops packets must not hold up the gate; but the machine that
/// `decides` waits long enough for the whole database, which is large the first time.
fn fetch(root: &Path, decides: bool) -> Command {
    let seconds = if decides { "300" } else { "30" };
    let mut command = Command::new("timeout");
    command.args([seconds, "cargo", "deny", "fetch", "db"]).current_dir(root);
    command
}

fn says_yes(command: &mut Command) -> bool {
    let output = command.stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_that_decides_waits_longer_for_advisories() {
        let limit = |decides: bool| fetch(Path::new("/"), decides).get_args().next().map(ToOwned::to_owned);
        assert_eq!((limit(true), limit(false)), (Some("300".into()), Some("30".into())));
    }
}
