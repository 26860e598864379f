//! `tare resume`: continues a run that was interrupted or killed.

use crate::cli::ResumeArgs;
use crate::cmd::place;
use crate::ready::same_bundles;
use crate::records::{claim_record, claim_records, record_path};
use crate::session::{self, Session};
use crate::terminal::{note, tell};
use crate::{EXIT_OK, machine, paths, suite};
use anyhow::Result;
use tare_core::plan::plan_profiles;
use tare_core::record::{DECIDED, End, FITTED, ON_REQUEST, PRECISE_ENOUGH, Record};
use tare_runner::RecordDir;

pub(crate) fn resume(args: &ResumeArgs) -> Result<u8> {
    if args.record.is_none() && paths::records().exists() {
        claim_records()?;
    }
    let path = record_path(args.record.as_deref())?;
    if tare_runner::is_suite(&path) {
        return suite::resume(&path, args);
    }
    // Before it is read: nobody may change it between reading it and resuming it.
    claim_record(&path)?;
    let record = tare_runner::read_record(&path)?;
    let lost = record.lost().len();
    let profiles = plan_profiles(&record.header.study).len().saturating_sub(record.profiles.len());
    let Record { header, trials, end, .. } = record;
    let mut say = |text: &str| if args.json { note(text) } else { tell(text) };
    let ended = end.filter(End::is_whole);
    // Who asked a run to end wants no more of it, profiles neither.
    let is_done = |end: &End| lost == 0 && (profiles == 0 || end.how == ON_REQUEST);
    if let Some(end) = ended.filter(is_done) {
        let why = match end.how.as_str() {
            PRECISE_ENOUGH => "the run was precise enough",
            DECIDED => "the run found what is best",
            FITTED => "as many blocks as fit into its time are on disk",
            ON_REQUEST => "the run ended on request, and the rest of its plan is not run",
            _ => "every trial is on disk",
        };
        say(&format!("{}: {why}; `tare report` renders it", path.display()));
        return Ok(EXIT_OK);
    }
    if lost > 0 {
        say(&format!("{lost} trial(s) are missing from the record and will be run again"));
    }
    session::require_root("resume")?;
    let _machine = session::take_machine(&format!("tare resume {}", path.display()), args.wait)?;
    let removed = session::remove_of_run(&header.run)?;
    if removed > 0 {
        say(&format!("removed {removed} leftovers of the run from this machine"));
    }
    session::require_clean_host()?;
    let stop = session::stop_on_signals()?;
    let carrier = machine::carrier()?;
    same_bundles(&header, &carrier, &mut say)?;
    say(&format!("{}: {} of {} trials are on disk\n", path.display(), trials.len(), header.plan.len()));
    let record = RecordDir::open(&path)?;
    let done = trials.into_iter().map(|trial| trial.record).collect();
    let keep_failed = args.keep_failed;
    let session = Session { header: &header, record, done, carrier, json: args.json, keep_failed, stop };
    let ending = session::conduct(session)?;
    if header.study.design.best_in.is_some() {
        return place::finish(&path, ending, None, args.json);
    }
    session::show_end(&path, ending, args.json, args.verbose)
}
