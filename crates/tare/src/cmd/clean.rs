//! `tare clean`: removes what dead runs left, and nothing else.

use crate::cli::CleanArgs;
use crate::cmd::{note, print, tell};
use crate::{EXIT_FAILED, EXIT_OK, paths, session};
use tare_bundle::DataSets;
use tare_core::fault::Fault;
use tare_core::host::{Kept, Leftover};
use tare_layers::lock::MachineLock;
use tare_layers::{LAYERS, home, leftovers, owner};

pub(crate) fn clean(args: &CleanArgs) -> anyhow::Result<u8> {
    session::require_root("clean")?;
    // Held to the end: whoever weighs is not to be disturbed, and uses what is kept.
    let machine = MachineLock::take("tare clean")?;
    let live = owner::live_runs();
    let found = leftovers::of_dead_runs()?;
    let (kept, mut failed) = if args.all && machine.is_ok() { all_kept() } else { (Vec::new(), false) };
    if args.json {
        print(&listed(&found, &kept)?);
    }
    let say = |text: String| if args.json { note(&text) } else { tell(&text) };
    if let Err(holder) = &machine {
        let kept = if args.all { ", and so is what is kept" } else { "" };
        say(format!("a run is under way ({}) and is left alone{kept}", holder.what));
    }
    for run in &live {
        say(format!("run {run} is alive and is left alone"));
    }
    if let Err(fault) = home::look() {
        say(format!("{}; {}", fault.message, fault.remedy));
    }
    if let Some(fault) = leftovers::unseen() {
        note(&format!("what runs left in containers was not looked for: {fault}"));
        failed = true;
    }
    for thing in leftovers::left_alone() {
        say(format!("{thing} has a name like those of runs, but no mark of Tare's, and is left alone"));
    }
    let count = found.len() + kept.len();
    if args.dry_run {
        for left in &found {
            say(format!("would remove {} {} of run {}", left.kind, left.name, left.run));
        }
        for (_, kept) in &kept {
            say(format!("would remove {} {}", kept.kind, kept.name));
        }
        say(format!("{count} things"));
        return Ok(if failed { EXIT_FAILED } else { EXIT_OK });
    }
    failed |= remove_all(&found, &say);
    failed |= forget_all(&kept, &say);
    say(if count == 0 { "nothing to remove".to_owned() } else { format!("removed {count}") });
    Ok(if failed { EXIT_FAILED } else { EXIT_OK })
}

/// What would be removed, as JSON: what runs left names its run, what is kept names none.
fn listed(found: &[Leftover], kept: &[(Forget, Kept)]) -> anyhow::Result<String> {
    let found = found.iter().map(serde_json::to_value);
    let all: Result<Vec<_>, _> = found.chain(kept.iter().map(|(_, kept)| serde_json::to_value(kept))).collect();
    Ok(serde_json::to_string_pretty(&all?)?)
}

/// Removes what the run called `run` left, and says how much it was.
pub(crate) fn remove_of_run(run: &str) -> anyhow::Result<usize> {
    if owner::live_runs().iter().any(|live| live == run) {
        return Ok(0);
    }
    let mut found = leftovers::leftovers()?;
    found.retain(|left| left.run == run);
    for left in &found {
        leftovers::remove_of_dead_run(left)?;
    }
    Ok(found.len())
}

fn remove_all(found: &[Leftover], say: &dyn Fn(String)) -> bool {
    let mut failed = false;
    for left in found {
        // `tare resume` may have brought its run back since it was looked for.
        if owner::live_runs().contains(&left.run) {
            continue;
        }
        match leftovers::remove_of_dead_run(left) {
            Ok(()) => say(format!("removed {} {} of run {}", left.kind, left.name, left.run)),
            Err(fault) => {
                note(&format!("could not remove {} {}: {fault}", left.kind, left.name));
                failed = true;
            }
        }
    }
    failed
}

/// Removes something that is kept between runs.
type Forget = fn(&Kept) -> Result<(), Fault>;

/// What is kept between runs to save time: what layers made of bundles, and data sets; with how it is removed, and
/// whether somebody could not say.
fn all_kept() -> (Vec<(Forget, Kept)>, bool) {
    let (mut all, mut failed) = (Vec::new(), false);
    let layers = LAYERS.iter().map(|row| ((row.kept)(), row.forget, format!("layer '{}' keeps", row.name)));
    let data_sets = [(data_sets(), forget_data_set as Forget, "data sets are kept".to_owned())];
    for (kept, forget, what) in layers.chain(data_sets) {
        match kept {
            Ok(kept) => all.extend(kept.into_iter().map(|kept| (forget, kept))),
            Err(fault) => {
                note(&format!("could not see what {what}: {fault}"));
                failed = true;
            }
        }
    }
    (all, failed)
}

fn data_sets() -> Result<Vec<Kept>, Fault> {
    // In a folder of somebody else's nothing is kept.
    if home::look().is_err() {
        return Ok(Vec::new());
    }
    let keys = DataSets::open(&paths::bundles())?.list()?;
    Ok(keys.into_iter().map(|name| Kept { kind: "prepared data set".to_owned(), name, bundle: None }).collect())
}

fn forget_data_set(kept: &Kept) -> Result<(), Fault> {
    home::look()?;
    DataSets::open(&paths::bundles())?.remove(&kept.name)
}

fn forget_all(all: &[(Forget, Kept)], say: &dyn Fn(String)) -> bool {
    let mut failed = false;
    for (forget, kept) in all {
        match forget(kept) {
            Ok(()) => say(format!("removed {} {}", kept.kind, kept.name)),
            Err(fault) => {
                note(&format!("could not remove {} {}: {fault}", kept.kind, kept.name));
                failed = true;
            }
        }
    }
    failed
}

/// Removes what layers keep of the bundle with this digest; one that is absent keeps nothing.
pub(crate) fn forget_bundle(digest: &str) {
    let (mut all, _) = all_kept();
    all.retain(|(_, kept)| kept.bundle.as_deref() == Some(digest));
    forget_all(&all, &|_| {});
}
