//! `tare clean`: removes what dead runs left on this machine, and nothing else.

use crate::cli::CleanArgs;
use crate::kept::{Keeper, all_kept, forget_all};
use crate::layers::LAYERS;
use crate::terminal::{note, print, tell};
use crate::{EXIT_FAILED, EXIT_OK, session};
use tare_core::host::{CachedItem, Leftover};
use tare_layers::lock::MachineLock;
use tare_layers::{home, leftovers, owner};

pub(crate) fn clean(args: &CleanArgs) -> anyhow::Result<u8> {
    session::require_root("clean")?;
    // Held to the end: a run must not be disturbed, and it uses what is kept.
    let machine = MachineLock::take("tare clean")?;
    let live = owner::live_runs();
    let found = leftovers::of_dead_runs(LAYERS)?;
    let (kept, mut failed) = if args.all && machine.is_ok() { all_kept() } else { (Vec::new(), false) };
    if args.json {
        print(&listed(&found, &kept)?);
    }
    let say = |text: String| if args.json { note(&text) } else { tell(&text) };
    if let Err(holder) = &machine {
        let kept = if args.all { ", and so is everything kept between runs" } else { "" };
        say(format!("a run is in progress ({}) and is left alone{kept}", holder.what));
    }
    for run in &live {
        say(format!("run {run} is alive and is left alone"));
    }
    if let Err(fault) = home::look() {
        say(format!("{}; {}", fault.message, fault.remedy));
    }
    if let Some(fault) = leftovers::unseen() {
        note(&format!("could not look for leftovers in containers: {fault}"));
        failed = true;
    }
    for thing in leftovers::left_alone() {
        say(format!("{thing} is left alone: it is named like something of a run but does not carry Tare's mark"));
    }
    let count = found.len() + kept.len();
    if args.dry_run {
        for left in &found {
            say(format!("would remove {} {} of run {}", left.kind, left.name, left.run));
        }
        for (_, kept) in &kept {
            say(format!("would remove {} {}", kept.kind, kept.name));
        }
        say(format!("{count} in all"));
        return Ok(if failed { EXIT_FAILED } else { EXIT_OK });
    }
    failed |= remove_all(&found, &say);
    failed |= forget_all(&kept, &say);
    say(if count == 0 { "nothing to remove".to_owned() } else { format!("removed {count}") });
    Ok(if failed { EXIT_FAILED } else { EXIT_OK })
}

/// What would be removed, as JSON: leftovers name their run, what is kept between runs names none.
fn listed(found: &[Leftover], kept: &[(Keeper, CachedItem)]) -> anyhow::Result<String> {
    let found = found.iter().map(serde_json::to_value);
    let all: Result<Vec<_>, _> = found.chain(kept.iter().map(|(_, kept)| serde_json::to_value(kept))).collect();
    Ok(serde_json::to_string_pretty(&all?)?)
}

fn remove_all(found: &[Leftover], say: &dyn Fn(String)) -> bool {
    let mut failed = false;
    for left in found {
        // `tare resume` may have revived its run since the search.
        if owner::live_runs().contains(&left.run) {
            continue;
        }
        match leftovers::remove_of_dead_run(LAYERS, left) {
            Ok(()) => say(format!("removed {} {} of run {}", left.kind, left.name, left.run)),
            Err(fault) => {
                note(&format!("could not remove {} {}: {fault}", left.kind, left.name));
                failed = true;
            }
        }
    }
    failed
}
