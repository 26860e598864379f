//! The page "History": a form's ratio from run to run, and where it changed, by the code of `tare history`. Everything
//! comes from the index; its address says what was chosen.

use crate::index::{Index, PAGE};
use crate::pages::{Pages, bar, plain, safe};
use crate::points::{self, Line, Point, Shown, Subject};
use crate::query::{Query, encoded};
use minijinja::{Value, context};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tare_core::fault::Fault;
use tare_report::{
    SeriesChangeWords, SeriesChart, SeriesDot, SeriesMark, SeriesStretch, occasion_note, series_chart, series_figure,
    series_note,
};
use tare_stats::{
    CHANGE_VALUES_MIN, ChangePoint, OCCASION_RUNS, Occasion, Segment, Series, SeriesPoint, are_alike, change_points,
};

/// Runs that a chart has room for.
const DRAWN_MOST: usize = 400;
/// Series whose change points are kept.
const KEPT: usize = 8;

/// The change points of the series that were asked for last: to find those of ten thousand runs takes longer than all
/// the rest.
#[derive(Debug, Default)]
pub(crate) struct FoundChanges(Mutex<VecDeque<Kept>>);

/// The logs of a series' ratios, and where they change.
#[derive(Debug)]
struct Kept {
    logs: Vec<f64>,
    found: Vec<ChangePoint>,
}

impl FoundChanges {
    fn of(&self, logs: Vec<f64>) -> Vec<ChangePoint> {
        let known = self.kept().iter().find(|kept| kept.logs == logs).map(|kept| kept.found.clone());
        // Others do not wait meanwhile.
        known.unwrap_or_else(|| {
            let found = change_points(&logs);
            let mut all = self.kept();
            all.push_back(Kept { logs, found: found.clone() });
            if all.len() > KEPT {
                all.pop_front();
            }
            found
        })
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an address chose of what there is.
struct Chosen {
    subjects: Vec<Subject>,
    subject: Option<Subject>,
    lines: Vec<Line>,
    line: Option<Line>,
    /// What the address names and this history does not have: what it is, and its name.
    unknown: Vec<(&'static str, String)>,
}

impl Chosen {
    /// The study by its key or its name, or by its workload, else that of the latest run; its form and its metric by
    /// their names, else the first that there is.
    fn of(index: &Index, query: &Query) -> Result<Chosen, Fault> {
        let subjects = index.read(points::subjects)?;
        let (study, workload) = (query.one("study"), query.one("workload"));
        let wanted = |subject: &&Subject| {
            study.is_none_or(|study| subject.study == study || subject.key() == study)
                && workload.is_none_or(|workload| subject.workload == workload)
        };
        let subject = subjects.iter().find(wanted).cloned();
        let lines = match &subject {
            Some(subject) => index.read(|db| points::lines(db, subject))?,
            None => Vec::new(),
        };
        let form = query.one("form").and_then(|form| lines.iter().find(|line| line.form == form)).or(lines.first());
        let of_form = || lines.iter().filter(move |line| form.is_some_and(|form| form.form == line.form));
        let metric = query.one("metric").and_then(|metric| of_form().find(|line| line.metric == metric));
        let line = metric.or_else(|| of_form().next()).cloned();
        let shown = line.iter().flat_map(|line| [("form", &line.form), ("metric", &line.metric)]);
        let unknown = shown.filter_map(|(what, shown)| {
            let asked = query.one(what).filter(|asked| asked != shown)?;
            Some((what, asked.to_owned()))
        });
        let unknown = unknown.collect();
        Ok(Chosen { subjects, subject, lines, line, unknown })
    }
}

/// A run in the table.
#[derive(Serialize)]
struct RunRow<'a> {
    name: &'a str,
    started: &'a str,
    moment: String,
    run: &'a str,
    figure: String,
    bundles: &'a str,
    /// Whether other bundles were weighed than in the run before.
    is_new: bool,
    machine: &'a str,
    /// By how much the ratio changed from this run on, and whether for the better.
    change: Option<(String, bool)>,
}

/// A change in the list.
#[derive(Serialize)]
struct ChangeRow<'a> {
    words: SeriesChangeWords,
    name: &'a str,
    run: &'a str,
    moment: String,
    /// The ratio before and after it.
    before: String,
    after: String,
    /// The run before and this one, as an address of the page "Compare" has them.
    compare: String,
}

/// A series, the runs that are looked at, and what else is known of those.
struct View<'a> {
    line: &'a Line,
    series: &'a Series,
    segments: Vec<Segment>,
    /// The places of the runs from the first to the last day that are wanted.
    range: Range<usize>,
    shown: BTreeMap<String, Shown>,
    nothing: Shown,
}

/// The page. Links begin with `base`.
///
/// # Errors
/// When the index cannot be read.
pub(crate) fn page(
    pages: &Pages,
    index: &Index,
    found: &FoundChanges,
    base: &str,
    query: &Query,
) -> Result<String, Fault> {
    let chosen = Chosen::of(index, query)?;
    let history = match (&chosen.subject, &chosen.line) {
        (Some(subject), Some(line)) => history(index, found, base, query, (subject, line))?,
        _ => Value::UNDEFINED,
    };
    let studies: Vec<(String, String)> = chosen.subjects.iter().map(choice).collect();
    let mut forms: Vec<&str> = chosen.lines.iter().map(|line| line.form.as_str()).collect();
    forms.dedup();
    let form = chosen.line.as_ref().map(|line| line.form.as_str());
    let metrics = chosen.lines.iter().filter(|line| form == Some(line.form.as_str()));
    let metrics: Vec<(&str, &str)> = metrics.map(|line| (line.metric.as_str(), line.title.as_str())).collect();
    let progress = index.progress();
    let content = context! {
        title => "History", bar => bar("/history"), studies => plain(studies),
        study => plain(chosen.subject.as_ref().map(Subject::key)),
        asked => plain(query.one("study").or(query.one("workload"))),
        forms => plain(forms), form => plain(form), metrics => plain(metrics),
        metric => plain(chosen.line.as_ref().map(|line| line.metric.as_str())), from => plain(query.one("from")),
        to => plain(query.one("to")), unknown => plain(&chosen.unknown),
        busy => progress.is_busy() && progress.of > 0, done => plain(progress.done),
        of => plain(progress.of), history => history, note => plain(series_note()),
    };
    pages.fill("history", content)
}

fn choice(subject: &Subject) -> (String, String) {
    let Subject { study, part, workload, baseline, runs, .. } = subject;
    let part = if part.is_empty() { String::new() } else { format!(" \u{b7} {part}") };
    let runs = if *runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
    (subject.key(), format!("{study}{part}: {workload}, relative to {baseline} ({runs})"))
}

/// What the page shows of a series.
fn history(
    index: &Index,
    found: &FoundChanges,
    base: &str,
    query: &Query,
    (subject, line): (&Subject, &Line),
) -> Result<Value, Fault> {
    let all = index.read(|db| points::points(db, line))?;
    let series = series(index, found, all, subject, line)?;
    let range = range(&series.points, query);
    let drawn = range.end.saturating_sub(DRAWN_MOST).max(range.start)..range.end;
    let pages = range.len().div_ceil(PAGE).max(1);
    let page = query.one("page").and_then(|page| page.parse::<usize>().ok()).unwrap_or(1).clamp(1, pages);
    let last = range.end - (page - 1) * PAGE;
    let listed = last.saturating_sub(PAGE).max(range.start)..last;
    let changes = series.changes.iter().map(|change| change.point.at).filter(|at| range.contains(at));
    // Of the run before those that are listed too: it may have weighed other bundles.
    let places: BTreeSet<usize> = drawn
        .clone()
        .chain(listed.start.saturating_sub(1)..listed.end)
        .chain(changes.flat_map(|at| [at - 1, at]))
        .collect();
    let names = places.iter().map(|at| series.points[*at].run.as_str());
    let shown = index.read(|db| points::shown(db, names))?;
    let view = View { line, series: &series, segments: series.segments(), range, shown, nothing: Shown::default() };
    let link = address(query, subject, line);
    let other = |page: usize| link.with("page", &page.to_string());
    let (better, worse): (Vec<_>, Vec<_>) = view.changes().partition(|(_, is_better)| *is_better);
    let (regressions, improvements) = (worse.len(), better.len());
    let rows = |of: Vec<(ChangeRow<'_>, bool)>| plain(of.into_iter().map(|(row, _)| row).collect::<Vec<_>>());
    let changes = [("Regressions", worse), ("Improvements", better)].into_iter().filter(|(_, of)| !of.is_empty());
    let changes: Vec<Value> = changes.map(|(title, of)| context! { title => title, rows => rows(of) }).collect();
    let occasion = occasion(index, subject, line)?;
    Ok(context! {
        metric => plain(&line.title), form => plain(&line.form), baseline => plain(&subject.baseline),
        count => plain(view.range.len()), drawn => plain(drawn.len()),
        svg => (!drawn.is_empty()).then(|| safe(series_chart(&view.chart(drawn.clone(), base)))),
        now => plain((!view.range.is_empty()).then(|| view.segment(view.range.end - 1))),
        is_latest => view.range.end == view.series.points.len(),
        needed => plain((view.series.points.len() < CHANGE_VALUES_MIN).then_some(CHANGE_VALUES_MIN)),
        regressions => plain(regressions), improvements => plain(improvements), changes => changes,
        rows => plain(view.rows(listed)), occasion => plain(occasion.as_ref().map(occasion_note)),
        link => plain(link.with("page", "1")), page => plain(page), pages => plain(pages),
        before => plain((page > 1).then(|| other(page - 1))), after => plain((page < pages).then(|| other(page + 1))),
    })
}

/// The series of these points, whose runs are called by the names of their records here.
fn series(
    index: &Index,
    found: &FoundChanges,
    all: Vec<Point>,
    subject: &Subject,
    line: &Line,
) -> Result<Series, Fault> {
    let found = found.of(all.iter().map(|point| point.ratio.ln()).collect());
    let near: BTreeSet<usize> = found.iter().flat_map(|change| change.neighbours(all.len())).collect();
    let names = near.iter().map(|at| all[*at].name.as_str());
    let mut known = index.read(|db| points::conditions(db, names))?;
    let points = all.into_iter().map(|Point { name, started, ratio, interval }| {
        let conditions = known.remove(&name).unwrap_or_default();
        SeriesPoint { run: name, started, ratio, interval: Some(interval), conditions }
    });
    let names = [&subject.study, &subject.workload, &subject.baseline, &line.form, &line.metric];
    Ok(Series::of_changes(names.map(String::as_str), points.collect(), &found))
}

/// What occasions add, from the A/A controls of the latest runs that were measured as the last one was.
fn occasion(index: &Index, subject: &Subject, line: &Line) -> Result<Option<Occasion>, Fault> {
    let all = index.read(|db| points::equals(db, subject, &line.metric))?;
    let Some((now, _)) = all.first() else { return Ok(None) };
    let alike = all.iter().filter(|(conditions, _)| are_alike(conditions, now)).take(OCCASION_RUNS);
    Ok(Occasion::learn(&alike.map(|(_, equals)| *equals).collect::<Vec<_>>()))
}

/// The runs between two days, both included.
fn range(points: &[SeriesPoint], query: &Query) -> Range<usize> {
    let from = query.one("from").unwrap_or_default();
    let first = points.partition_point(|point| point.started.as_str() < from);
    // Until the end of that day: what follows a date sorts before a tilde.
    let last = query.one("to").map_or(points.len(), |to| {
        let to = format!("{to}~");
        points.partition_point(|point| point.started <= to)
    });
    first..last.max(first)
}

/// The query that holds all that is shown, whatever was left to be chosen.
fn address(query: &Query, subject: &Subject, line: &Line) -> Query {
    let all = [("study", subject.key()), ("form", line.form.clone()), ("metric", line.metric.clone())];
    all.iter().fold(query.clone(), |query, (name, value)| Query::of(Some(&query.with(name, value))))
}

/// `2026-03-05 10:14`.
fn moment(started: &str) -> String {
    started.get(..16).unwrap_or(started).replace('T', " ")
}

impl<'a> View<'a> {
    fn point(&self, at: usize) -> &'a SeriesPoint {
        &self.series.points[at]
    }

    fn shown(&self, at: usize) -> &Shown {
        self.shown.get(&self.point(at).run).unwrap_or(&self.nothing)
    }

    fn figure(&self, at: usize) -> String {
        series_figure(self.point(at).ratio, self.point(at).interval)
    }

    fn is_better(&self, ratio: f64) -> bool {
        (ratio > 1.0) == self.line.more_is_better
    }

    /// The ratio of the segment that this run belongs to.
    fn segment(&self, at: usize) -> String {
        let segment = self.segments.iter().find(|segment| (segment.first..=segment.last).contains(&at));
        segment.map(|segment| series_figure(segment.ratio, segment.interval)).unwrap_or_default()
    }

    /// The changes that are looked at, the latest first, and whether they are for the better.
    fn changes(&self) -> impl Iterator<Item = (ChangeRow<'_>, bool)> {
        let looked_at = self.series.changes.iter().rev().filter(move |change| self.range.contains(&change.point.at));
        looked_at.map(move |change| {
            let at = change.point.at;
            let row = ChangeRow {
                words: SeriesChangeWords::of(change),
                name: &change.run,
                run: &self.shown(at).run,
                moment: moment(&self.point(at).started),
                before: self.segment(at - 1),
                after: self.segment(at),
                compare: format!("run={}&run={}", encoded(&self.point(at - 1).run), encoded(&change.run)),
            };
            (row, self.is_better(change.ratio))
        })
    }

    /// The table, the latest run first.
    fn rows(&self, listed: Range<usize>) -> Vec<RunRow<'_>> {
        let row = |at: usize| {
            let (point, shown) = (self.point(at), self.shown(at));
            let change = self.series.changes.iter().find(|change| change.point.at == at);
            RunRow {
                name: &point.run,
                started: &point.started,
                moment: moment(&point.started),
                run: &shown.run,
                figure: self.figure(at),
                bundles: &shown.bundles,
                is_new: at > 0 && self.shown(at - 1).bundles != shown.bundles,
                machine: &shown.machine,
                change: change.map(|change| (SeriesChangeWords::of(change).change, self.is_better(change.ratio))),
            }
        };
        listed.rev().map(row).collect()
    }

    fn chart(&self, drawn: Range<usize>, base: &str) -> SeriesChart<'a> {
        // What started at no moment stands where the run before it does.
        let mut latest = drawn.clone().find_map(|at| self.shown(at).at).unwrap_or_default();
        let mut dots = Vec::new();
        for at in drawn.clone() {
            let (point, shown) = (self.point(at), self.shown(at));
            let Some(interval) = point.interval else { continue };
            latest = shown.at.unwrap_or(latest);
            dots.push(SeriesDot {
                at: latest,
                day: point.started.get(..10).unwrap_or_default().to_owned(),
                time: point.started.get(11..16).unwrap_or_default().to_owned(),
                label: [&moment(&point.started), &self.figure(at), &shown.run, &shown.bundles, &shown.machine]
                    .map(String::as_str)
                    .join("\n"),
                link: format!("{base}/run/{}", encoded(&point.run)),
                ratio: point.ratio,
                interval,
            });
        }
        let marks = self.series.changes.iter().filter(|change| drawn.contains(&change.point.at)).map(|change| {
            let SeriesChangeWords { change: by, noticed, .. } = SeriesChangeWords::of(change);
            let label = format!("{by} from {} on, {noticed}", moment(&self.point(change.point.at).started));
            SeriesMark { at: change.point.at - drawn.start, change: by, label, is_better: self.is_better(change.ratio) }
        });
        let seen = self.segments.iter().filter(|segment| segment.first < drawn.end && segment.last >= drawn.start);
        let stretches = seen.map(|segment| SeriesStretch {
            first: segment.first.max(drawn.start) - drawn.start,
            last: segment.last.min(drawn.end - 1) - drawn.start,
            ratio: segment.ratio,
            interval: segment.interval,
            label: format!(
                "{} in {} runs",
                series_figure(segment.ratio, segment.interval),
                segment.last - segment.first + 1
            ),
        });
        SeriesChart {
            form: &self.line.form,
            place: usize::try_from(self.line.place).unwrap_or_default(),
            metric: &self.line.title,
            more_is_better: self.line.more_is_better,
            marks: marks.collect(),
            stretches: stretches.collect(),
            dots,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(days: &[&str]) -> Vec<SeriesPoint> {
        let point = |day: &&str| SeriesPoint {
            run: (*day).to_owned(),
            started: format!("2026-03-{day}T09:00:00Z"),
            ratio: 0.9,
            interval: None,
            conditions: tare_stats::Conditions::new(),
        };
        days.iter().map(point).collect()
    }

    #[test]
    fn days_are_looked_at_from_their_beginning_to_their_end() {
        let all = points(&["01", "02", "02", "05"]);
        let of = |query: &str| range(&all, &Query::of(Some(query)));
        assert_eq!(of(""), 0..4);
        assert_eq!(of("from=2026-03-02&to=2026-03-02"), 1..3);
        assert_eq!(of("from=2026-03-06"), 4..4);
        assert_eq!(of("from=2026-03-05&to=2026-03-01"), 3..3);
    }

    #[test]
    fn change_points_are_found_once() {
        let found = FoundChanges::default();
        let logs: Vec<f64> = (0..40).map(|n| if n < 20 { 0.0 } else { 0.05 }).collect();
        let [first, again] = [logs.clone(), logs].map(|logs| found.of(logs));
        assert!(first.len() == 1 && first == again, "{first:?}");
        assert_eq!(found.kept().len(), 1);
        (0..20).for_each(|n| drop(found.of(vec![f64::from(n)])));
        assert_eq!(found.kept().len(), KEPT);
    }
}
