//! The page "New run": makes a study of what was chosen, has this program check it and say what a run of it would do,
//! and starts that. Nothing of a request reaches a command line: programs get options that are fixed, and the paths of
//! files that are written here.

use crate::drafts::{Choices, RULERS, is_name, name_rule};
use crate::findings::{Finding, OfLayer, Weighable, look, of_form};
use crate::pages::{Pages, bar, plain};
use crate::programs::{Errors, Said, said_by};
use crate::query::Query;
use crate::shelf::Shelf;
use crate::starter::Starter;
use crate::stopping::in_sentences;
use crate::weighing::Weighing;
use hyper::StatusCode;
use minijinja::context;
use serde::Serialize;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tokio::sync::Semaphore;

/// The address of the page.
pub(crate) const NEW_RUN: &str = "/new";
/// The longest study, bytes.
const TEXT_MOST: usize = 64 << 10;
/// How long a look at a study may take.
const CHECK_WITHIN: Duration = Duration::from_secs(30);
/// For how long a run that was started is watched: one that is refused ends at once.
const WATCH: Duration = Duration::from_secs(2);
/// How often it is looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The file in the folder of records that has the study that was looked at last.
const DRAFT: &str = ".tare-new.yaml";
/// How many runs may have the same name, with numbers behind it.
const SAME_NAME_MOST: u32 = 1000;
/// How much of the end of what a run has said is shown.
const TAIL_BYTES: u64 = 8 << 10;
const TAIL_LINES: usize = 20;

/// What starts runs, for a server that may.
pub(crate) struct NewRuns {
    weighing: Arc<dyn Weighing>,
    starter: Starter,
    /// What the doctor has found, or why it was not asked well.
    found: Mutex<Option<Result<Vec<OfLayer>, Fault>>>,
    /// One at a time looks, checks and starts. Who waits for it holds no thread.
    turn: Arc<Semaphore>,
}

/// What becomes of a form that was sent.
pub(crate) enum Posted {
    /// A page says it.
    Page(StatusCode, String),
    /// It is to be seen on another page.
    Elsewhere(&'static str),
}

/// What the page has of a study.
#[derive(Debug, Default, Serialize)]
struct Shown {
    /// What was chosen; none for the usual.
    choices: Option<Choices>,
    /// What is wrong with that.
    wrong: Vec<String>,
    name: String,
    text: String,
    /// What `tare check` and `tare run --dry-run` have printed.
    checked: String,
    plan: String,
    /// Whether that were mistakes.
    has_mistakes: bool,
    /// Why it cannot be looked at, or was not started, and what the run that ended at once has said.
    refused: String,
    log: String,
}

/// A run that was started here.
#[derive(Debug, Serialize)]
struct Last {
    name: String,
    process: u32,
    ended: Option<String>,
    has_failed: bool,
    /// The file with what it says, and the end of that.
    file: String,
    said: String,
}

impl NewRuns {
    /// Whose runs have the priority of the calling thread.
    ///
    /// # Errors
    /// When there can be no thread that starts them.
    pub(crate) fn of(weighing: Arc<dyn Weighing>) -> Result<NewRuns, Fault> {
        let starter = Starter::new()?;
        Ok(NewRuns { weighing, starter, found: Mutex::default(), turn: Arc::new(Semaphore::new(1)) })
    }

    /// What is to be held while a page is made or a form is answered.
    pub(crate) fn turn(&self) -> Arc<Semaphore> {
        self.turn.clone()
    }

    /// The page; none if the address names a study that is not there. `live` are the runs that go on.
    ///
    /// # Errors
    /// When the study cannot be read or the page cannot be filled in.
    pub(crate) fn page(
        &self,
        pages: &Pages,
        shelf: &Shelf,
        live: &[String],
        query: &Query,
    ) -> Result<Option<String>, Fault> {
        let mut shown = Shown::default();
        if let Some(name) = query.one("study") {
            let Some(text) = self.weighing.study(name)? else { return Ok(None) };
            (shown.name, shown.text) = (name.to_owned(), text);
        }
        // The doctor starts guests, so it is not asked while anything is measured.
        if live.is_empty() && !self.starter.goes_on() {
            self.look_once();
        }
        self.fill(pages, shelf, live, &shown).map(Some)
    }

    /// Answers a form.
    ///
    /// # Errors
    /// When no page can be made.
    pub(crate) fn post(&self, pages: &Pages, shelf: &Shelf, live: &[String], form: &Query) -> Result<Posted, Fault> {
        let shown = match form.one("do") {
            Some("look") => {
                *self.found() = None;
                return Ok(Posted::Elsewhere(NEW_RUN));
            }
            Some("make") => self.made(shelf, form),
            Some("start") => match self.started(shelf, form) {
                None => return Ok(Posted::Elsewhere("/now")),
                Some(shown) => shown,
            },
            _ => self.looked_at(shelf, form),
        };
        let status = if shown.has_mistakes || !shown.wrong.is_empty() {
            StatusCode::UNPROCESSABLE_ENTITY
        } else if shown.refused.is_empty() {
            StatusCode::OK
        } else {
            StatusCode::CONFLICT
        };
        Ok(Posted::Page(status, self.fill(pages, shelf, live, &shown)?))
    }

    /// Makes a study of what was chosen, and looks at it.
    fn made(&self, shelf: &Shelf, form: &Query) -> Shown {
        let choices = Choices::of(form);
        let study = choices.study(&self.weighing.workloads(), self.weighing.forms());
        let mut shown = Shown { name: choices.name.clone(), choices: Some(choices), ..Shown::default() };
        match study {
            Ok(text) => {
                shown.text = text;
                self.look_at(shelf, &mut shown);
            }
            Err(wrong) => shown.wrong = wrong,
        }
        shown
    }

    /// The study that was sent, with what is said of it.
    fn looked_at(&self, shelf: &Shelf, form: &Query) -> Shown {
        // Browsers send the line feeds of another system.
        let text = form.one("text").unwrap_or_default().replace("\r\n", "\n");
        let name = form.one("name").unwrap_or_default().to_owned();
        let mut shown = Shown { name, text, ..Shown::default() };
        self.look_at(shelf, &mut shown);
        shown
    }

    /// Has the program check the text, and say what a run of it would do.
    fn look_at(&self, shelf: &Shelf, shown: &mut Shown) {
        let looked = self.printed(shelf, &shown.text);
        match looked {
            Ok((checked, plan)) => {
                shown.has_mistakes = !checked.is_well || plan.as_ref().is_some_and(|plan| !plan.is_well);
                shown.checked = checked.text;
                shown.plan = plan.map(|plan| plan.text).unwrap_or_default();
            }
            Err(fault) => shown.refused = in_sentences(&fault),
        }
    }

    /// What `tare check` prints of a study and, if that finds no mistake, `tare run --dry-run`.
    fn printed(&self, shelf: &Shelf, text: &str) -> Result<(Said, Option<Said>), Fault> {
        if text.len() > TEXT_MOST {
            let most = TEXT_MOST >> 10;
            return Err(Fault::new(format!("this is longer than {most} KiB, so it is no study")).remedy("shorten it"));
        }
        shelf.replace(DRAFT, file_of(text).as_bytes()).doing(format!("write {DRAFT} in the folder of records"))?;
        let draft = shelf.path().join(DRAFT);
        let mut check = Command::new(self.weighing.program());
        check.arg("check").arg(&draft);
        let checked = said_by(check, Errors::Told, CHECK_WITHIN)?;
        if !checked.is_well {
            return Ok((checked, None));
        }
        let mut dry = Command::new(self.weighing.program());
        dry.arg("run").arg(&draft).arg("--dry-run");
        Ok((checked, Some(said_by(dry, Errors::Told, CHECK_WITHIN)?)))
    }

    /// Starts a run of the study that was sent; what is to be shown if it was not started, or has ended at once.
    fn started(&self, shelf: &Shelf, form: &Query) -> Option<Shown> {
        let mut shown = self.looked_at(shelf, form);
        if shown.has_mistakes || !shown.refused.is_empty() {
            return Some(shown);
        }
        if !is_name(&shown.name) {
            shown.wrong.push(name_rule());
            return Some(shown);
        }
        let fault = self.start(shelf, &shown.name, &shown.text).err()?;
        (shown.refused, shown.log) = (in_sentences(&fault), fault.log);
        Some(shown)
    }

    fn start(&self, shelf: &Shelf, name: &str, text: &str) -> Result<(), Fault> {
        self.weighing.may_run()?;
        // Of one that was started here, the starter says more.
        if !self.starter.goes_on() {
            self.weighing.is_free()?;
        }
        let name = free_name(shelf.path(), name)?;
        let begun = self.begin(shelf, &name, text);
        if begun.is_err() {
            // A record's folder in which nothing is goes. Where there is more, its study stays with it.
            let record = shelf.path().join(&name);
            let _ = std::fs::remove_dir(&record);
            if record.symlink_metadata().is_err() {
                let files = [study_file(&name), log_file(&name)];
                files.iter().for_each(|file| _ = std::fs::remove_file(shelf.path().join(file)));
            }
        }
        begun
    }

    /// Writes the study, starts its run, and waits for a moment whether that is refused.
    fn begin(&self, shelf: &Shelf, name: &str, text: &str) -> Result<(), Fault> {
        let (study, log) = (study_file(name), log_file(name));
        let writing = "write in the folder of records";
        shelf.replace(&study, file_of(text).as_bytes()).doing(writing)?;
        let output = shelf.new_file(&log).doing(writing)?;
        let also = output.try_clone().doing(writing)?;
        let mut command = Command::new(self.weighing.program());
        command.arg("run").arg(shelf.path().join(&study)).arg("--out").arg(shelf.path().join(name));
        command.stdin(Stdio::null()).stdout(output).stderr(also);
        self.starter.start(name, command)?;
        let end = Instant::now() + WATCH;
        while Instant::now() < end {
            match self.starter.last() {
                Some(last) if last.has_failed => {
                    let ended = last.ended.unwrap_or_default();
                    let fault = Fault::new(format!("the run has ended at once ({ended}), and says why"));
                    return Err(fault.with_log(tail(shelf, &log)));
                }
                Some(last) if last.ended.is_some() => break,
                // From here on there is something to be seen of it.
                _ if shelf.record(name).is_some() => break,
                _ => std::thread::sleep(LOOK_EVERY),
            }
        }
        Ok(())
    }

    fn fill(&self, pages: &Pages, shelf: &Shelf, live: &[String], shown: &Shown) -> Result<String, Fault> {
        let last = self.starter.last().map(|last| {
            let file = log_file(&last.name);
            let said = tail(shelf, &file);
            Last { name: last.name, process: last.process, ended: last.ended, has_failed: last.has_failed, file, said }
        });
        let (findings, not_known) = self.findings();
        let workloads = self.weighing.workloads();
        let usual = || {
            let weighable = findings.iter().filter(|form| matches!(form.weighable, Weighable::Yes));
            Choices::usual(&workloads, weighable.map(|form| form.name.to_owned()).collect())
        };
        let choices = shown.choices.clone().unwrap_or_else(usual);
        let barred = self.weighing.may_run().err().map(|fault| in_sentences(&fault));
        let content = context! {
            title => "New run", bar => bar(NEW_RUN), is_new => true, changes => true, shown => plain(shown),
            choices => plain(choices), findings => plain(&findings), not_known => plain(not_known),
            workloads => plain(&workloads), studies => plain(self.weighing.studies()), rulers => plain(RULERS),
            barred => plain(barred), live => !live.is_empty(), last => plain(last), text_most => plain(TEXT_MOST),
        };
        pages.fill("new", content)
    }

    /// Asks the doctor, unless it was asked already.
    fn look_once(&self) {
        let mut found = self.found();
        if found.is_none() {
            *found = Some(look(self.weighing.program()));
        }
    }

    /// What is known of each form, and if nothing is, why.
    fn findings(&self) -> (Vec<Finding>, String) {
        let found = self.found();
        let (layers, why) = match found.as_ref() {
            None => (None, "This page looks when it is opened while no run is in progress.".to_owned()),
            Some(Err(fault)) => (None, in_sentences(fault)),
            Some(Ok(layers)) => (Some(layers.as_slice()), String::new()),
        };
        (self.weighing.forms().iter().map(|form| of_form(form, layers)).collect(), why)
    }

    fn found(&self) -> MutexGuard<'_, Option<Result<Vec<OfLayer>, Fault>>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A study as a file has it.
fn file_of(text: &str) -> String {
    format!("{}\n", text.trim_end())
}

/// The file of a run's study, and the one of what the run says.
fn study_file(name: &str) -> String {
    format!(".tare-run-{name}.yaml")
}

fn log_file(name: &str) -> String {
    format!(".tare-run-{name}.log")
}

/// The name, or the name with the first number behind it, of which there is nothing yet.
fn free_name(records: &Path, name: &str) -> Result<String, Fault> {
    let is_there = |file: &str| records.join(file).symlink_metadata().is_ok();
    let numbered = (2..SAME_NAME_MOST).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    let free = names.find(|name| !is_there(name) && !is_there(&study_file(name)));
    free.ok_or_else(|| Fault::new(format!("there are {SAME_NAME_MOST} runs '{name}' already")).remedy("choose another"))
}

/// The last lines of a file in the folder of records; nothing if it cannot be read.
fn tail(shelf: &Shelf, name: &str) -> String {
    let Ok(Some(mut file)) = shelf.own_file(name) else { return String::new() };
    let length = file.metadata().map_or(0, |about| about.len());
    let mut bytes = Vec::new();
    let read = file
        .seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))
        .and_then(|_| file.take(TAIL_BYTES).read_to_end(&mut bytes));
    if read.is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let records = tempfile::tempdir().unwrap();
        let free = || free_name(records.path(), "a").unwrap();
        assert_eq!(free(), "a");
        std::fs::create_dir(records.path().join("a")).unwrap();
        assert_eq!(free(), "a-2");
        std::os::unix::fs::symlink("/nowhere", records.path().join(".tare-run-a-2.yaml")).unwrap();
        assert_eq!(free(), "a-3");
    }

    #[test]
    fn the_end_of_what_was_said_is_shown() {
        let records = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(records.path()).unwrap();
        let text: String = (0..10_000).map(|number| format!("line {number}\n")).collect();
        std::fs::write(records.path().join(".tare-run-a.log"), text).unwrap();
        let said = tail(&shelf, &log_file("a"));
        assert_eq!((said.lines().count(), said.lines().last()), (TAIL_LINES, Some("line 9999")));
        std::os::unix::fs::symlink("/etc/hosts", records.path().join(".tare-run-b.log")).unwrap();
        assert_eq!(tail(&shelf, &log_file("b")), "");
        assert_eq!(tail(&shelf, &log_file("nobody")), "");
    }
}
