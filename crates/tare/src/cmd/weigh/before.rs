//! A folder that the same command has made before: it is taken as it is, and what has changed since is told.

use super::Made;
use super::origins::{LIST, Origins};
use crate::session;
use anyhow::Result;
use std::path::PathBuf;
use tare_runner::Stop;

/// Has images built again. Ends early, without an error, once the user ends it.
pub(super) type BuildAgain<'b> = &'b mut dyn FnMut(&Stop, &mut dyn FnMut(&str)) -> Result<()>;

/// Takes the folder. What it was made of is `now` so; if it names images that are built, these are to be of the sources
/// as they are now, by `build`.
///
/// # Errors
/// When an image cannot be built.
pub(super) fn take(
    folder: PathBuf,
    now: &Origins,
    verb: &str,
    build: Option<BuildAgain<'_>>,
    say: &mut dyn FnMut(&str),
) -> Result<Made> {
    let shown = folder.display();
    say(&format!("{shown} exists already, made by this command: used as it is; remove it to start anew"));
    let then = Origins::of(&folder);
    let mut changed = match &then {
        Some(then) => then.changed_files(now),
        None => vec![format!("{LIST} is missing, so it is unknown what has changed since")],
    };
    changed.iter().for_each(|line| say(line));
    if let Some(build) = build {
        session::require_root(verb)?;
        let stop = session::stop_on_signals()?;
        let built = build(&stop, say);
        if stop.raised() {
            return Ok(Made::Interrupted(Some(folder)));
        }
        built?;
    }
    let images = then.map(|then| then.changed_images()).unwrap_or_default();
    images.iter().for_each(|line| say(line));
    changed.extend(images);
    if !changed.is_empty() {
        let what = "the folder stays as it was made, with its port, load and connections";
        say(&format!("{what}; to start anew, remove {shown}, or name another: --out DIR"));
    }
    Ok(Made::Before(folder))
}
