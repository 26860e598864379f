//! Whose a run is: the process that made it, while that lives.

use super::{RUN_ROOT, boot, check_run, is_run, remove_tree, remove_whole, run_directory, scratch_directory};
use crate::local::processes;
use crate::{home, register, settings};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};

/// The file in a run's directory that says where its directory on a disk is.
pub(super) const SCRATCH_NOTE: &str = "scratch";
/// The file that says whose the run is: a process, when it was started, and in which boot.
const OWNER_NOTE: &str = "owner";

/// A run's claim on this machine: while it stands, the run counts as alive as long as this process lives.
#[derive(Debug)]
pub struct RunMark {
    run: String,
}

impl RunMark {
    /// Makes the run's directories and notes down this process as its owner.
    ///
    /// # Errors
    /// When the run exists already or the directories cannot be made.
    pub fn create(run: &str) -> Result<RunMark, Fault> {
        check_run(run)?;
        let scratch = home::run_folder(run);
        let pid = std::process::id();
        let started = processes::start_time(pid).ok_or_else(|| Fault::new("this process is not visible in /proc"))?;
        let aside = aside(run);
        fs::create_dir_all(&aside).doing(format!("make {}", aside.display()))?;
        let owner = format!("{pid} {started} {}", boot());
        for (name, text) in [(OWNER_NOTE, owner), (SCRATCH_NOTE, scratch.display().to_string())] {
            let note = aside.join(name);
            fs::write(&note, text + "\n").doing(format!("write {}", note.display()))?;
        }
        register::create(&aside)?;
        // Whole from its first moment on: a directory without an owner is nobody's.
        fs::rename(&aside, run_directory(run)).doing(format!("make the directory of run {run}")).inspect_err(|_| {
            let _ = remove_tree(&aside);
        })?;
        let mark = RunMark { run: run.to_owned() };
        home::create_run_folder(run).inspect_err(|_| {
            let _ = mark.remove_directories();
        })?;
        Ok(mark)
    }

    /// The run's id.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// The run's directory on a disk, in which trials have theirs.
    pub fn scratch(&self) -> PathBuf {
        scratch_directory(&self.run)
    }

    /// Removes the run's directories and puts back what was changed for it.
    ///
    /// # Errors
    /// When something of it is left: then its register stays, for `tare clean` to go by.
    pub fn close(self) -> Result<(), Fault> {
        let left = register::standing(&self.run);
        if left.is_empty() {
            return self.remove_directories();
        }
        let left: Vec<String> = left.iter().map(|(kind, name)| format!("the {} {name}", kind.word())).collect();
        let fault = Fault::new(format!("the run has left {} on this machine", left.join(", ")));
        Err(fault.remedy("tare clean"))
    }

    fn remove_directories(&self) -> Result<(), Fault> {
        settings::restore(&self.run)?;
        remove_whole(&home::run_folder(&self.run), home::remove_marked)?;
        // The owner's name goes with the directory, not before it.
        let aside = aside(&self.run);
        match fs::rename(run_directory(&self.run), &aside) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            renamed => renamed.doing(format!("remove {}", run_directory(&self.run).display())),
        }?;
        remove_whole(&aside, remove_tree)
    }
}

/// Where the directory of a run stands while it is not whole; no run is called so.
fn aside(run: &str) -> PathBuf {
    Path::new(RUN_ROOT).join(format!(".{run}"))
}

/// A run's owner, as its note has it. Versions before wrote no boot.
pub(super) struct Owner {
    pid: u32,
    started: u64,
    boot: Option<String>,
}

impl Owner {
    fn of(directory: &Path) -> Option<Owner> {
        let text = fs::read_to_string(directory.join(OWNER_NOTE)).ok()?;
        let mut words = text.split_whitespace();
        let (pid, started) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Owner { pid, started, boot: words.next().map(str::to_owned) })
    }

    fn lives(&self) -> bool {
        self.boot.as_deref().is_none_or(|of| of == boot()) && processes::start_time(self.pid) == Some(self.started)
    }
}

/// The boot in which a run was begun, if its directory says so.
pub(crate) fn boot_of(run: &str) -> Option<String> {
    Owner::of(&run_directory(run))?.boot
}

/// The runs that have a directory here, each with it and its owner: what has no owner is not ours.
pub(super) fn runs() -> Vec<(String, PathBuf, Owner)> {
    let entries = fs::read_dir(RUN_ROOT).into_iter().flatten().filter_map(Result::ok);
    let run = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        // With a dot in front while it is being made or removed.
        let run = name.strip_prefix('.').unwrap_or(&name);
        let owner = Owner::of(&entry.path()).filter(|_| is_run(run))?;
        Some((run.to_owned(), entry.path(), owner))
    };
    entries.filter_map(run).collect()
}

/// The runs whose owner still lives.
pub fn live_runs() -> Vec<String> {
    let alive = runs().into_iter().filter(|(_, _, owner)| owner.lives()).map(|(run, ..)| run);
    alive.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The runs whose owner lives no more.
pub(crate) fn dead_runs() -> Vec<String> {
    let dead = runs().into_iter().filter(|(_, _, owner)| !owner.lives()).map(|(run, ..)| run);
    dead.collect::<BTreeSet<_>>().into_iter().collect()
}
