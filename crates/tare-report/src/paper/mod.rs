//! A paper: records written up in the order that readers of papers expect, as Markdown with drawings beside it, and as
//! a page for printing. Chapters are made of plain pieces, once; each way of writing lays these out. Every figure
//! stands with its interval, or says that it has none, and each is one that the report has too.

mod beside;
mod configuration;
mod document;
mod forms;
mod learned;
mod limits;
mod markdown;
mod page;
mod question;
mod repeat;
mod results;
mod study;

use crate::several::Weighed;
use crate::suite::AnalysedPart;
use crate::svg::standalone;
use crate::{Style, headlines};
use document::{Chapter, Document, Piece};
use study::Study;
use tare_core::fault::Fault;
use tare_core::host::Facts;
use tare_core::record::{Record, SuiteHeader};
use tare_stats::Analysis;

/// The folder of the drawings, beside the paper.
const FIGURES: &str = "figures";

/// Names of studies in a title; of more, only how many there are is said.
const NAMES: usize = 3;

/// A file of a paper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaperFile {
    /// Its path in the paper's folder: at most one folder deep, of ASCII letters, digits, `-` and `.`, and never from a
    /// record.
    pub name: String,
    /// What it holds.
    pub content: String,
}

/// A paper under way: records are added one by one, and need not stay in memory.
#[derive(Debug, Default)]
pub struct Paper {
    parts: Vec<Part>,
    /// What was to be in it and is not.
    missing: Vec<String>,
}

/// A record of a paper.
#[derive(Debug)]
struct Part {
    study: String,
    /// What it is called among others.
    label: String,
    question: String,
    summary: Vec<String>,
    /// What it adds to each of [`CHAPTERS`].
    chapters: Vec<Vec<Piece>>,
    machine: Facts,
    weighed: Weighed,
}

/// A chapter of every paper.
struct ChapterRow {
    title: &'static str,
    /// What stands first in it, of all records together.
    of_all: fn(&Paper) -> Vec<Piece>,
    /// What each record adds.
    of_one: fn(&Study<'_>) -> Vec<Piece>,
}

/// The chapters, in their order.
const CHAPTERS: &[ChapterRow] = &[
    ChapterRow { title: "Question", of_all: |_| Vec::new(), of_one: question::pieces },
    ChapterRow { title: "Forms and load", of_all: |_| Vec::new(), of_one: forms::pieces },
    ChapterRow { title: "Configuration", of_all: Paper::machine, of_one: configuration::pieces },
    ChapterRow { title: "Results", of_all: Paper::beside, of_one: results::pieces },
    ChapterRow { title: "What was learned", of_all: |_| Vec::new(), of_one: learned::pieces },
    ChapterRow { title: "Limits", of_all: |paper| limits::of_all(&paper.missing), of_one: limits::pieces },
    ChapterRow { title: "To repeat it", of_all: |_| repeat::of_all(), of_one: repeat::pieces },
];

impl Paper {
    /// Adds a record.
    pub fn add(&mut self, record: &Record, analysis: &Analysis) {
        let header = &record.header;
        let study = Study::of(record, analysis);
        let mut machine = header.environment.clone();
        let placed = header.placement.iter().map(|(who, cpus)| (format!("CPUs of the {who}"), cpus.clone()));
        machine.extend(placed);
        self.parts.push(Part {
            study: header.study.name.clone(),
            label: format!("{}, run {}", header.study.name, header.run),
            question: header.study.question.clone(),
            summary: summary(analysis),
            chapters: CHAPTERS.iter().map(|row| (row.of_one)(&study)).collect(),
            machine,
            weighed: Weighed::with(record, analysis.clone()),
        });
    }

    /// Adds the parts of a study that has several; those that were not begun are named among the limits.
    pub fn add_suite(&mut self, header: &SuiteHeader, parts: &[AnalysedPart<'_>]) {
        let begun = |name: &&String| {
            parts.iter().any(|(record, _)| record.header.study.part.as_ref().is_some_and(|part| part.name == **name))
        };
        let missing = header.parts.iter().filter(|name| !begun(name));
        self.missing.extend(missing.map(|name| format!("part {name} of {} was not begun", header.study)));
        for (record, analysis) in parts {
            self.add(record, analysis);
        }
    }

    /// The paper, its page for printing, and its drawings.
    ///
    /// # Errors
    /// When the page's template cannot be filled.
    pub fn files(&self) -> Result<Vec<PaperFile>, Fault> {
        let document = self.document();
        let file = |name: String, content: String| PaperFile { name, content };
        let texts = [
            file("paper.md".to_owned(), markdown::written(&document)),
            file("paper.html".to_owned(), page::written(&document)?),
        ];
        let drawings = document.figures().map(|figure| file(figure.file(), standalone(&figure.drawing)));
        Ok(texts.into_iter().chain(drawings).collect())
    }

    /// Only the page for printing.
    fn page(&self) -> Result<String, Fault> {
        page::written(&self.document())
    }

    fn document(&self) -> Document {
        let several = self.parts.len() > 1;
        let said = |part: &Part| -> Vec<String> {
            let named = |line: &String| if several { format!("{}: {line}", part.label) } else { line.clone() };
            part.summary.iter().map(named).collect()
        };
        let chapters = CHAPTERS.iter().enumerate();
        let chapters = chapters
            .map(|(at, row)| Chapter { title: row.title, pieces: [(row.of_all)(self), self.of_each(at)].concat() });
        let mut document = Document {
            title: self.title(),
            summary: self.parts.iter().flat_map(said).collect(),
            chapters: chapters.collect(),
        };
        document.number();
        document
    }

    /// What the records add to a chapter: once what is the same in all of them, else under a heading for each.
    fn of_each(&self, at: usize) -> Vec<Piece> {
        let Some((first, others)) = self.parts.split_first() else { return Vec::new() };
        if others.iter().all(|part| part.chapters[at] == first.chapters[at]) {
            return first.chapters[at].clone();
        }
        let mut pieces = Vec::new();
        for (number, part) in self.parts.iter().enumerate().filter(|(_, part)| !part.chapters[at].is_empty()) {
            pieces.push(Piece::Heading(part.label.clone()));
            match self.parts[..number].iter().find(|earlier| earlier.chapters[at] == part.chapters[at]) {
                Some(earlier) => pieces.push(Piece::Text(format!("The same as for {}.", earlier.label))),
                None => pieces.extend(part.chapters[at].iter().cloned()),
            }
        }
        pieces
    }

    /// The question that all records have in common, else the names of the studies.
    fn title(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for part in &self.parts {
            if !names.contains(&part.study.as_str()) {
                names.push(&part.study);
            }
        }
        let question = self.parts.first().map(|part| part.question.as_str()).filter(|question| !question.is_empty());
        match question {
            Some(question) if self.parts.iter().all(|part| part.question == question) => question.to_owned(),
            _ if names.is_empty() => "No study".to_owned(),
            _ if names.len() > NAMES => format!("{} studies", names.len()),
            _ => names.join(", "),
        }
    }

    fn machine(&self) -> Vec<Piece> {
        let facts: Vec<(String, Facts)> =
            self.parts.iter().map(|part| (part.label.clone(), part.machine.clone())).collect();
        configuration::machine(&facts)
    }

    /// The runs of each study beside each other.
    fn beside(&self) -> Vec<Piece> {
        let mut studies: Vec<(&str, Vec<(String, Weighed)>)> = Vec::new();
        for part in &self.parts {
            let run = (part.label.clone(), part.weighed.clone());
            match studies.iter_mut().find(|(name, _)| *name == part.study) {
                Some((_, runs)) => runs.push(run),
                None => studies.push((part.study.as_str(), vec![run])),
            }
        }
        studies.iter().flat_map(|(study, runs)| beside::pieces(study, runs)).collect()
    }
}

/// What is told first. Shares of a ladder's rungs, and of the way back that a variant goes, have no interval: they are
/// left out.
fn summary(analysis: &Analysis) -> Vec<String> {
    let whole = analysis.ladder.is_none() && analysis.advice.is_none();
    let lines = headlines::headlines(analysis).into_iter();
    lines.map(|line| if whole { line.line() } else { line.sentence }).collect()
}

/// Renders the page for printing of one record.
pub(crate) fn render(record: &Record, analysis: &Analysis, _: &Style) -> Result<String, Fault> {
    let mut paper = Paper::default();
    paper.add(record, analysis);
    paper.page()
}

/// The same of a study of several parts.
pub(crate) fn render_suite(header: &SuiteHeader, parts: &[AnalysedPart<'_>], _: &Style) -> Result<String, Fault> {
    let mut paper = Paper::default();
    paper.add_suite(header, parts);
    paper.page()
}
