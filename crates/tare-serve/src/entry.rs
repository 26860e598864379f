//! A line of the list of records, made from a record.

use crate::points::Followed;
use crate::shelf::Shelved;
use serde::{Deserialize, Serialize};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tare_core::fault::Fault;
use tare_core::record::{Header, Record, SCHEMA};
use tare_report::{FormGlance, Glance, glance};

/// The state of a record that cannot be read.
pub(crate) const UNREADABLE: &str = "unreadable";

/// What the list has of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Its name in the folder.
    pub(crate) name: String,
    pub(crate) run: String,
    /// RFC 3339; empty if it cannot be read.
    pub(crate) started: String,
    pub(crate) study: String,
    /// Its part in a study of several, or nothing.
    pub(crate) part: String,
    pub(crate) question: String,
    pub(crate) workload: String,
    pub(crate) baseline: String,
    pub(crate) machine: String,
    /// How its run ended; empty while it has not; [`UNREADABLE`] if that is not known.
    pub(crate) ended: String,
    /// Trials on disk, and in the plan.
    pub(crate) trials: usize,
    pub(crate) planned: usize,
    /// The title of the metric that the forms' figures are of.
    pub(crate) metric: String,
    pub(crate) forms: Vec<FormGlance>,
    /// Why it cannot be read, if it cannot.
    pub(crate) fault: String,
    /// What histories have of it, where it has just been read.
    #[serde(skip)]
    pub(crate) followed: Option<Followed>,
}

impl Entry {
    /// Reads a record. One that cannot be read, or that nothing can be made of, has an entry too, which says so.
    pub(crate) fn of(name: &str, shelved: &Shelved) -> Entry {
        let made = catch_unwind(AssertUnwindSafe(|| {
            let record = shelved.read()?;
            let analysis = tare_stats::analyse(&record);
            let entry = Entry::of_record(name, &record, glance(&record, &analysis));
            Ok(Entry { followed: Followed::of(&record, &analysis), ..entry })
        }));
        let odd = || Err(Fault::new("its figures contradict each other, so that nothing can be made of them"));
        made.unwrap_or_else(|_| odd()).unwrap_or_else(|fault: Fault| Entry::unreadable(name, &fault))
    }

    /// By its header alone, until all of it is read: without figures. None if its header cannot be read.
    pub(crate) fn begun(name: &str, shelved: &Shelved) -> Option<Entry> {
        let header: Header = shelved.json("record.json").filter(|header: &Header| header.schema == SCHEMA)?;
        let record = Record { header, trials: Vec::new(), profiles: Vec::new(), end: shelved.json("end.json") };
        let made = catch_unwind(AssertUnwindSafe(|| {
            Entry::of_record(name, &record, glance(&record, &tare_stats::analyse(&record)))
        }));
        Some(Entry { trials: shelved.trials().len(), ..made.ok()? })
    }

    fn of_record(name: &str, record: &Record, glance: Glance) -> Entry {
        let header = &record.header;
        let study = &header.study;
        Entry {
            name: name.to_owned(),
            run: header.run.clone(),
            started: header.started.clone(),
            study: study.name.clone(),
            part: study.part.as_ref().map(|part| part.name.clone()).unwrap_or_default(),
            question: study.question.clone(),
            workload: header.workload.name.clone(),
            baseline: study.baseline.clone(),
            machine: glance.machine,
            ended: record.end.as_ref().map(|end| end.how.clone()).unwrap_or_default(),
            trials: record.trials.len(),
            planned: header.plan.len(),
            metric: glance.metric,
            forms: glance.forms,
            fault: String::new(),
            followed: None,
        }
    }

    fn unreadable(name: &str, fault: &Fault) -> Entry {
        let none = String::new;
        Entry {
            name: name.to_owned(),
            run: none(),
            started: none(),
            study: none(),
            part: none(),
            question: none(),
            workload: none(),
            baseline: none(),
            machine: none(),
            ended: UNREADABLE.to_owned(),
            trials: 0,
            planned: 0,
            metric: none(),
            forms: Vec::new(),
            fault: fault.to_string(),
            followed: None,
        }
    }

    /// All that is searched, in lower case.
    pub(crate) fn words(&self) -> String {
        let Entry { name, run, started, study, part, question, workload, baseline, machine, ended, fault, .. } = self;
        let own = [name, run, started, study, part, question, workload, baseline, machine, ended, fault];
        let forms = self.forms.iter().map(|form| &form.form);
        own.into_iter().chain(forms).map(|text| text.to_lowercase()).collect::<Vec<_>>().join("\n")
    }
}
