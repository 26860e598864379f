//! Whether the forms ran the same files and had the same resources.

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use tare_core::form::Form;
use tare_core::host::{FilesSeen, Property, SeenFile};
use tare_core::record::Record;
use tare_core::trial::Outcome;

/// Whether something was the same in all forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sameness {
    /// Yes.
    Matches,
    /// No.
    Differs,
    /// No, and the study asks for that: the forms are given different amounts of it.
    Asked,
    /// It could not be read in this form, or not in the baseline.
    NotReadable,
}

/// Whether the forms ran the same files for one service.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServiceBits {
    /// The service.
    pub service: String,
    /// Whether every trial that was read had the same files with the same content mapped.
    pub same: bool,
    /// `sha256:<hex>` over the sorted list of files, when they are the same.
    pub digest: Option<String>,
    /// Files in the list of the first form.
    pub files: usize,
    /// How many files and links of the bundle were compared with what the service saw in each form, the fewest of any;
    /// none where they were not compared in every form that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle_files: Option<u64>,
    /// Forms whose trials were read.
    pub read: Vec<String>,
    /// Forms with measured trials in which nothing was read.
    pub unread: Vec<String>,
    /// What differs.
    pub differences: Vec<BitsDifference>,
    /// How many files beyond these are not as in the bundle, in the trial that has most of them: only the first
    /// [`FilesSeen::NAMED`] of a trial are named.
    #[serde(skip_serializing_if = "is_zero")]
    pub unnamed: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A file that is not the same everywhere.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BitsDifference {
    /// Its path in the bundle.
    pub path: String,
    /// By form.
    pub by_form: BTreeMap<String, BitsSeen>,
}

/// How a form's trials had a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum BitsSeen {
    /// Not as its bundle has it.
    NotAsBundled,
    /// None of them mapped it.
    NotMapped,
    /// Mapped, with these digests.
    Mapped {
        /// Each once.
        digests: BTreeSet<String>,
        /// Whether all of them mapped it.
        always: bool,
    },
}

/// As one text for programs: `differs`, `not mapped`, or the digests with commas between.
impl Serialize for BitsSeen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const NOT_MAPPED: &str = "not mapped";
        match self {
            BitsSeen::NotAsBundled => serializer.serialize_str("differs"),
            BitsSeen::NotMapped => serializer.serialize_str(NOT_MAPPED),
            BitsSeen::Mapped { digests, always } => {
                let missing = (!always).then_some(NOT_MAPPED);
                let all: Vec<&str> = missing.into_iter().chain(digests.iter().map(String::as_str)).collect();
                serializer.serialize_str(&all.join(", "))
            }
        }
    }
}

impl BitsSeen {
    /// From what each list of a form has of a file.
    fn of(seen: impl Iterator<Item = Option<String>>) -> BitsSeen {
        let all: BTreeSet<Option<String>> = seen.collect();
        let always = !all.contains(&None);
        let digests: BTreeSet<String> = all.into_iter().flatten().collect();
        if digests.is_empty() { BitsSeen::NotMapped } else { BitsSeen::Mapped { digests, always } }
    }

    /// Whether trials of this one form had it in several ways.
    fn is_mixed(&self) -> bool {
        matches!(self, BitsSeen::Mapped { digests, always } if digests.len() > 1 || !always)
    }
}

/// What a service really got in each form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServiceResources {
    /// The service.
    pub service: String,
    /// The forms, in the order of `cells`.
    pub forms: Vec<String>,
    /// By property; those that bias a comparison first.
    pub rows: Vec<ResourceRow>,
}

/// One property over the forms.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResourceRow {
    /// The property.
    pub property: String,
    /// Whether a difference biases the comparison; otherwise it is part of what a form is.
    pub matters: bool,
    /// By form.
    pub cells: Vec<Cell>,
}

/// One property in one form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// Its value as text, if it could be read.
    pub value: Option<String>,
    /// Whether it is the baseline's.
    pub sameness: Sameness,
}

/// By service: whether every trial in which the mapped files were read had the same ones with the same content. What
/// does its work and ends has none while others are measured.
pub(crate) fn bits(record: &Record) -> Vec<ServiceBits> {
    let lasting = record.header.workload.services.iter().filter(|service| !service.ready.ends());
    lasting.map(|service| bits_of(record, &service.name)).collect()
}

fn bits_of(record: &Record, service: &str) -> ServiceBits {
    // By form: the lists that were seen; one when all is well.
    let mut seen: BTreeMap<&str, BTreeSet<Vec<&SeenFile>>> = BTreeMap::new();
    let mut unread = Vec::new();
    for form in &record.header.study.forms {
        let trials = record.trials.iter().map(|trial| &trial.record).filter(|trial| trial.trial.form == form.name);
        let mut measured = false;
        for trial in trials {
            measured |= trial.outcome == Outcome::Measured;
            let instances =
                trial.mapped.iter().filter(|(name, files)| is_of(name, service, record, form) && !files.is_empty());
            for (_, files) in instances {
                let mut files: Vec<&SeenFile> = files.iter().collect();
                files.sort();
                seen.entry(&form.name).or_default().insert(files);
            }
        }
        if measured && !seen.contains_key(form.name.as_str()) {
            unread.push(form.name.clone());
        }
    }
    let compared = |form: &&str| {
        let study = record.header.study.forms.iter().find(|known| known.name == **form)?;
        let trials = record.trials.iter().map(|trial| &trial.record).filter(|trial| trial.trial.form == **form);
        let whole = trials.filter(|trial| trial.outcome == Outcome::Measured).flat_map(|trial| &trial.files);
        whole.filter(|(name, _)| is_of(name, service, record, study)).map(|(_, files)| files.compared).min()
    };
    let bundle_files = seen.keys().map(compared).min().flatten().filter(|files| *files > 0);
    let lists: BTreeSet<&Vec<&SeenFile>> = seen.values().flatten().collect();
    let mut differences = differences(&seen);
    differences.extend(not_as_in_the_bundle(record, service));
    let unnamed = against_the_bundle(record, service).map(|(_, seen)| seen.more).max().unwrap_or(0);
    let same = lists.len() == 1 && differences.is_empty();
    ServiceBits {
        service: service.to_owned(),
        same,
        digest: lists.first().filter(|_| same).map(|files| digest(files)),
        files: lists.first().map_or(0, |files| files.len()),
        bundle_files,
        read: seen.keys().map(|form| (*form).to_owned()).collect(),
        unread,
        differences,
        unnamed,
    }
}

impl BitsDifference {
    /// Whether it is not as in the bundle, wherever it was looked at; else forms differ from each other.
    pub fn is_from_the_bundle(&self) -> bool {
        self.by_form.values().all(|seen| *seen == BitsSeen::NotAsBundled)
    }
}

/// Files that a form shows otherwise than the bundle has them.
fn not_as_in_the_bundle(record: &Record, service: &str) -> Vec<BitsDifference> {
    let mut by_path: BTreeMap<&str, BTreeMap<String, BitsSeen>> = BTreeMap::new();
    for (form, seen) in against_the_bundle(record, service) {
        for path in &seen.differing {
            by_path.entry(path).or_default().insert(form.to_owned(), BitsSeen::NotAsBundled);
        }
    }
    by_path.into_iter().map(|(path, by_form)| BitsDifference { path: path.to_owned(), by_form }).collect()
}

/// What the instances of a service saw of its bundle in each measured trial, with the form's name.
fn against_the_bundle<'r>(record: &'r Record, service: &'r str) -> impl Iterator<Item = (&'r str, &'r FilesSeen)> {
    record.header.study.forms.iter().flat_map(move |form| {
        let trials = record.trials.iter().map(|trial| &trial.record).filter(|trial| trial.trial.form == form.name);
        let measured = trials.filter(|trial| trial.outcome == Outcome::Measured);
        let files = measured.flat_map(|trial| &trial.files).filter(|(name, _)| is_of(name, service, record, form));
        files.map(|(_, seen)| (form.name.as_str(), seen))
    })
}

/// Whether an instance of this name is one of the service in this form.
fn is_of(instance: &str, service: &str, record: &Record, form: &Form) -> bool {
    let deployed = record.header.study.deployed(&record.header.workload, form);
    deployed.services.iter().any(|known| known.name == instance && known.role() == service)
}

fn digest(files: &[&SeenFile]) -> String {
    let mut hash = Sha256::new();
    for file in files {
        hash.update(format!("{}\t{}\n", file.path, file.digest));
    }
    let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn differences(seen: &BTreeMap<&str, BTreeSet<Vec<&SeenFile>>>) -> Vec<BitsDifference> {
    let paths: BTreeSet<&str> = seen.values().flatten().flatten().map(|file| file.path.as_str()).collect();
    let mut found = Vec::new();
    for path in paths {
        let digest_in = |files: &Vec<&SeenFile>| {
            let file = files.iter().find(|file| file.path == path);
            file.map(|file| file.digest.clone())
        };
        let of_form = |lists: &BTreeSet<Vec<&SeenFile>>| BitsSeen::of(lists.iter().map(digest_in));
        let by_form: BTreeMap<String, BitsSeen> =
            seen.iter().map(|(form, lists)| ((*form).to_owned(), of_form(lists))).collect();
        if by_form.values().collect::<BTreeSet<_>>().len() > 1 || by_form.values().any(BitsSeen::is_mixed) {
            found.push(BitsDifference { path: path.to_owned(), by_form });
        }
    }
    found
}

/// By service: each property of the resource probe over the forms in which it ran, compared to the baseline's.
pub(crate) fn resources(record: &Record) -> Vec<ServiceResources> {
    record.header.workload.services.iter().filter_map(|service| resources_of(record, &service.name)).collect()
}

fn resources_of(record: &Record, service: &str) -> Option<ServiceResources> {
    let mut read: Vec<(&str, &BTreeMap<String, Property>)> = Vec::new();
    for form in &record.header.study.forms {
        let mut of_form = record.trials.iter().map(|trial| &trial.record).filter(|t| t.trial.form == form.name);
        // Instances get the same; the first of them speaks for all.
        let report = of_form.find_map(|trial| {
            let of_service = trial.resources.iter().filter(|(name, _)| is_of(name, service, record, form));
            of_service.map(|(_, report)| report).find(|report| !report.properties.is_empty())
        });
        read.extend(report.map(|report| (form.name.as_str(), &report.properties)));
    }
    if read.is_empty() {
        return None;
    }
    let study = &record.header.study;
    let baseline = read.iter().find(|(form, _)| *form == study.baseline).map(|(_, values)| *values);
    let own = |form: &str| study.forms.iter().find(|known| known.name == form).map(|form| form.resources);
    let asked = |form: &str, property: &str| {
        let (here, there) = (own(form).unwrap_or_default(), own(&study.baseline).unwrap_or_default());
        here != there && (here.decides(property) || there.decides(property))
    };
    let compared = |form: &str, values: &BTreeMap<String, Property>, name: &str| {
        let cell = cell(values.get(name), baseline.and_then(|b| b.get(name)));
        let wanted = cell.sameness == Sameness::Differs && asked(form, name);
        Cell { sameness: if wanted { Sameness::Asked } else { cell.sameness }, ..cell }
    };
    let names: BTreeSet<&str> = read.iter().flat_map(|(_, values)| values.keys().map(String::as_str)).collect();
    let row = |name: &str| ResourceRow {
        property: name.to_owned(),
        matters: read.iter().any(|(_, values)| values.get(name).is_some_and(|property| property.matters)),
        cells: read.iter().map(|(form, values)| compared(form, values, name)).collect(),
    };
    let mut rows: Vec<ResourceRow> = names.into_iter().map(row).collect();
    rows.sort_by_key(|row| !row.matters);
    let forms = read.iter().map(|(form, _)| (*form).to_owned()).collect();
    Some(ServiceResources { service: service.to_owned(), forms, rows })
}

fn cell(here: Option<&Property>, baseline: Option<&Property>) -> Cell {
    let sameness = match (here, baseline) {
        (Some(here), Some(baseline)) if matches(here, baseline) => Sameness::Matches,
        (Some(_), Some(_)) => Sameness::Differs,
        _ => Sameness::NotReadable,
    };
    Cell { value: here.map(|property| property.value.clone()), sameness }
}

/// Numbers match within the wider of the two tolerances, as a share of the larger; everything else as text.
fn matches(a: &Property, b: &Property) -> bool {
    match (a.number, b.number) {
        (Some(x), Some(y)) => (x - y).abs() <= a.tolerance.max(b.tolerance) * x.abs().max(y.abs()),
        _ => a.value == b.value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, digest: &str) -> SeenFile {
        SeenFile { path: path.into(), digest: digest.into() }
    }

    #[test]
    fn a_file_that_differs_is_named_with_its_forms() {
        let (a, libc, other) = (file("/bin/a", "1"), file("/lib/c", "2"), file("/lib/c", "3"));
        let seen: BTreeMap<&str, BTreeSet<Vec<&SeenFile>>> = BTreeMap::from([
            ("plain", BTreeSet::from([vec![&a, &libc]])),
            ("boxed", BTreeSet::from([vec![&a, &other]])),
            ("caged", BTreeSet::from([vec![&a]])),
        ]);
        let found = differences(&seen);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "/lib/c");
        let as_text = serde_json::to_value(&found[0].by_form).unwrap();
        assert_eq!(as_text, serde_json::json!({"boxed": "3", "caged": "not mapped", "plain": "2"}));
        assert!(!found[0].is_from_the_bundle());
    }

    #[test]
    fn what_a_digest_looks_like_says_nothing() {
        // A text that is also a word for how a form shows a file, and one that looks like two.
        let (word, two) = (file("/bin/a", "differs"), file("/bin/b", "1, 2"));
        let seen = BTreeMap::from([("plain", BTreeSet::from([vec![&word, &two]]))]);
        assert_eq!(differences(&seen), [], "one form had one of each");
        let other = file("/bin/a", "differs");
        let forms = BTreeMap::from([
            ("plain", BTreeSet::from([vec![&word]])),
            ("boxed", BTreeSet::from([vec![&other], vec![]])),
        ]);
        let found = differences(&forms);
        assert!(found.len() == 1 && !found[0].is_from_the_bundle(), "{found:?}");
        let as_text = serde_json::to_value(&found[0].by_form).unwrap();
        assert_eq!(as_text, serde_json::json!({"boxed": "not mapped, differs", "plain": "differs"}));
    }

    #[test]
    fn numbers_match_within_their_tolerance_and_text_exactly() {
        let number =
            |value: f64| Property { value: format!("{value}"), number: Some(value), tolerance: 0.05, matters: true };
        let text = |value: &str| Property { value: value.into(), number: None, tolerance: 0.5, matters: true };
        assert!(matches(&number(100.0), &number(96.0)));
        assert!(!matches(&number(100.0), &number(94.0)));
        assert!(matches(&number(0.0), &number(0.0)));
        assert!(!matches(&text("6.1"), &text("6.2")));
        assert_eq!(cell(None, Some(&text("x"))).sameness, Sameness::NotReadable);
    }
}
