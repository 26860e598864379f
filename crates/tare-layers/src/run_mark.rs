//! A run's claim on this machine, from beginning to end.

use crate::marks::{RUN_ROOT, boot, check_run, run_directory};
use crate::mounts::{remove_tree, remove_whole};
use crate::owner::OWNER_NOTE;
use crate::{home, processes, register, settings};
use std::fs;
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};

/// The file in a run's directory that says where its directory on a disk is.
pub(crate) const SCRATCH_NOTE: &str = "scratch";

/// A run's claim on this machine: while it exists, the run counts as alive as long as this process lives.
#[derive(Debug)]
pub struct RunMark {
    run: String,
}

impl RunMark {
    /// Makes the run's directories and records this process as their owner.
    ///
    /// # Errors
    /// When the run already exists or the directories cannot be made.
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
        // Complete from its first moment: a directory without an owner is nobody's.
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

    /// The run's directory on a disk, which holds those of its trials.
    pub fn scratch(&self) -> PathBuf {
        home::work_folder(&self.run)
    }

    /// Removes the run's directories and puts back what was changed for it.
    ///
    /// # Errors
    /// When something is left over: then its register stays, for `tare clean` to work from.
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
        // The owner's name goes together with the directory, not before it.
        let aside = aside(&self.run);
        match fs::rename(run_directory(&self.run), &aside) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            renamed => renamed.doing(format!("remove {}", run_directory(&self.run).display())),
        }?;
        remove_whole(&aside, remove_tree)
    }
}

/// Where a run's directory is while it is incomplete; no run has this name.
fn aside(run: &str) -> PathBuf {
    Path::new(RUN_ROOT).join(format!(".{run}"))
}
