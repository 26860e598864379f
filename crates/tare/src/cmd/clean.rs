//! `tare clean`: removes what dead runs left, and nothing else.

use crate::cli::CleanArgs;
use crate::cmd::print;
use crate::{EXIT_FAILED, EXIT_OK, session};
use anyhow::Result;
use tare_core::host::Leftover;
use tare_layers::{container, leftovers};

pub(crate) fn clean(args: &CleanArgs) -> Result<u8> {
    session::require_root("clean")?;
    let live = leftovers::live_runs();
    let mut found = leftovers::leftovers()?;
    found.retain(|left| !live.contains(&left.run));
    if args.json {
        print(&serde_json::to_string_pretty(&found)?);
    }
    let say = |text: String| if args.json { eprintln!("{text}") } else { print(&text) };
    for run in &live {
        say(format!("run {run} is under way and is left alone"));
    }
    if args.dry_run {
        for left in &found {
            say(format!("would remove {} {} of run {}", left.kind, left.name, left.run));
        }
        say(format!("{} things", found.len()));
        return Ok(EXIT_OK);
    }
    let mut failed = remove_all(&found, &say);
    if args.all {
        failed |= remove_kept(&say);
    }
    say(if found.is_empty() { "nothing to remove".to_owned() } else { format!("removed {}", found.len()) });
    Ok(if failed { EXIT_FAILED } else { EXIT_OK })
}

/// Removes what the run called `run` left, and says how much it was.
pub(crate) fn remove_of_run(run: &str) -> Result<usize> {
    if leftovers::live_runs().iter().any(|live| live == run) {
        return Ok(0);
    }
    let mut found = leftovers::leftovers()?;
    found.retain(|left| left.run == run);
    for left in &found {
        leftovers::remove(left)?;
    }
    Ok(found.len())
}

fn remove_all(found: &[Leftover], say: &dyn Fn(String)) -> bool {
    let mut failed = false;
    for left in found {
        match leftovers::remove(left) {
            Ok(()) => say(format!("removed {} {} of run {}", left.kind, left.name, left.run)),
            Err(fault) => {
                eprintln!("could not remove {} {}: {fault}", left.kind, left.name);
                failed = true;
            }
        }
    }
    failed
}

/// What is kept between runs to save time: cached images.
fn remove_kept(say: &dyn Fn(String)) -> bool {
    let mut failed = false;
    for image in container::cached_images().unwrap_or_default() {
        match container::remove_image(&image.name) {
            Ok(()) => say(format!("removed image {}", image.name)),
            Err(fault) => {
                eprintln!("could not remove image {}: {fault}", image.name);
                failed = true;
            }
        }
    }
    failed
}
