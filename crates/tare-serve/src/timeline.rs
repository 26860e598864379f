//! The pages that show a run closer than its report: the timeline of its forms, of which a stretch can be chosen, and
//! each of its trials. Both are made from the record, and their addresses say what is shown.

use crate::follow::Followed;
use crate::pages::{Pages, bar, plain, safe};
use crate::query::{Query, encoded};
use crate::seconds::{Seconds, header, trial};
use crate::shelf::Shelf;
use minijinja::{Value, context};
use serde::Serialize;
use tare_core::fault::Fault;
use tare_core::record::{Header, TrialData};
use tare_report::{CloseTrial, Stretch, plain_quantity, trial_heat};

/// The shortest stretch that is drawn, s.
const SHORTEST_S: f64 = 1.0;

/// A form, to be chosen.
#[derive(Serialize)]
struct Choice {
    arm: String,
    class: String,
    emulated: bool,
    shown: bool,
}

/// The timeline of the record that the address names; none if there is none. `form` is in its address for each form
/// that is shown, all if there is none; `from` and `to` are the stretch, s. Links begin with `base`.
///
/// # Errors
/// When the record's header cannot be read.
pub(crate) fn page(pages: &Pages, shelf: &Shelf, base: &str, query: &Query) -> Result<Option<String>, Fault> {
    let name = query.one("run").unwrap_or_default();
    let Some(shelved) = shelf.record(name) else { return Ok(None) };
    let read = Seconds::of(&shelved)?;
    let looks = Followed::of(&read.header).looks;
    let wanted: Vec<&str> = query.all("form").collect();
    let link = |index: u32| format!("{base}/trial?run={}&trial={index}", encoded(name));
    let links: Vec<String> = read.trials.iter().map(|(planned, _)| link(planned.index)).collect();
    let trials = || read.trials.iter().zip(&links);
    let of_arm = |arm: &str| {
        let own = trials().filter(|((planned, _), _)| planned.arm() == arm);
        own.map(|((planned, seconds), link)| CloseTrial { index: planned.index, link, seconds }).collect::<Vec<_>>()
    };
    let arms: Vec<(&str, Vec<CloseTrial<'_>>)> =
        looks.names().map(|arm| (arm, of_arm(arm))).filter(|(_, trials)| !trials.is_empty()).collect();
    let is_wanted = |arm: &str| wanted.is_empty() || wanted.contains(&arm);
    let choices = arms.iter().map(|(arm, _)| Choice {
        arm: (*arm).to_owned(),
        class: looks.key_class(arm),
        emulated: looks.is_emulated(arm),
        shown: is_wanted(arm),
    });
    let choices: Vec<Choice> = choices.collect();
    let shown: Vec<&(&str, Vec<CloseTrial<'_>>)> = arms.iter().filter(|(arm, _)| is_wanted(arm)).collect();
    let all: Vec<CloseTrial<'_>> = shown.iter().flat_map(|(_, trials)| trials.iter().copied()).collect();
    let content = context! {
        title => "Timeline", bar => bar(""), hatches => safe(tare_report::hatches()), name => plain(name),
        run => plain(&read.header.run), study => plain(&read.header.study.name), choices => plain(choices),
        is_cut => read.is_cut, unread => plain(read.unread),
    };
    let Some(whole) = Stretch::of(&all) else { return pages.fill("timeline", content).map(Some) };
    let (stretch, is_odd) = chosen(query, whole);
    let panels = shown.iter().map(|(arm, trials)| {
        let real = shown.iter().map(|(arm, trials)| (*arm, trials.as_slice()));
        let note = if trials.len() == 1 { "1 trial".to_owned() } else { format!("{} trials", trials.len()) };
        let note = if looks.is_emulated(arm) { format!("{note}; EMULATED, own scale") } else { note };
        let drawing = safe(looks.closer(arm, trials, stretch, real));
        let numbers: Vec<u32> = trials.iter().map(|trial| trial.index).collect();
        context! {
            arm => plain(arm), class => plain(looks.key_class(arm)), note => plain(note), svg => drawing,
            trials => plain(numbers),
        }
    });
    let panels: Vec<Value> = panels.collect();
    let content = context! {
        panels => panels, from => plain(second(stretch.from)), to => plain(second(stretch.to)), is_odd => is_odd,
        ways => plain(ways(query, stretch, whole)), whole => plain(stretched(query, None)),
        is_whole => stretch == whole, ..content
    };
    pages.fill("timeline", content).map(Some)
}

/// The stretch that the address names, as far as there is something, and whether it names one that there is not.
fn chosen(query: &Query, whole: Stretch) -> (Stretch, bool) {
    let of = |name: &str| query.one(name).map(|text| text.parse::<f64>().ok().filter(|value| value.is_finite()));
    let (from, to) = (of("from"), of("to"));
    let is_odd = from == Some(None) || to == Some(None);
    let from = from.flatten().unwrap_or(whole.from).max(whole.from);
    let to = to.flatten().unwrap_or(whole.to).min(whole.to);
    if is_odd || to <= from { (whole, true) } else { (Stretch { from, to }, false) }
}

/// Where one can look from here: words and address of each way.
fn ways(query: &Query, now: Stretch, whole: Stretch) -> Vec<(&'static str, String)> {
    let Stretch { from, to } = now;
    let long = to - from;
    let moved = |by: f64| Stretch { from: from + by, to: to + by };
    let within = |stretch: Stretch| {
        let stretch = Stretch { from: stretch.from.max(whole.from), to: stretch.to.min(whole.to) };
        (stretch.to - stretch.from >= SHORTEST_S && stretch != now).then_some(stretch)
    };
    let all = [
        ("closer", Stretch { from: from + long / 4.0, to: to - long / 4.0 }),
        ("wider", Stretch { from: from - long / 2.0, to: to + long / 2.0 }),
        ("earlier", moved(-long / 2.0)),
        ("later", moved(long / 2.0)),
    ];
    let open = all.into_iter().filter_map(|(way, stretch)| Some((way, stretched(query, Some(within(stretch)?)))));
    open.collect()
}

/// The address of the same page with this stretch, or with all.
fn stretched(query: &Query, stretch: Option<Stretch>) -> String {
    let ends = stretch.map_or([String::new(), String::new()], |stretch| [second(stretch.from), second(stretch.to)]);
    Query::of(Some(&query.with("from", &ends[0]))).with("to", &ends[1])
}

/// A moment as an address has it, s.
fn second(at: f64) -> String {
    let text = format!("{at:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A trial's page; none if there is no such trial.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn trial_page(pages: &Pages, shelf: &Shelf, query: &Query) -> Result<Option<String>, Fault> {
    let name = query.one("run").unwrap_or_default();
    let Some(shelved) = shelf.record(name) else { return Ok(None) };
    let Some(index) = query.one("trial").and_then(|index| index.parse::<u32>().ok()) else { return Ok(None) };
    let header = header(&shelved)?;
    let Some(data) = trial(&shelved, index)? else { return Ok(None) };
    let arm = data.record.trial.arm();
    let looks = Followed::of(&header).looks;
    let itself = [CloseTrial { index, link: "#", seconds: &data.seconds }];
    let svg = Stretch::of(&itself)
        .map(|whole| safe(looks.closer(&arm, &itself, whole, std::iter::once((arm.as_str(), &itself[..])))));
    let is_there = |index: &u32| shelved.file(&format!("trials/{index:04}/trial.json")).is_some();
    let record = &data.record;
    let why = record.outcome.why();
    let stages = record.stages.iter().map(|(stage, seconds)| (stage.to_string(), format!("{seconds:.1} s")));
    let ran_on = record.ran_on.iter().map(|(service, cpus)| (service, cpus.to_string()));
    let content = context! {
        title => format!("Trial {index}"), bar => bar(""), hatches => safe(tare_report::hatches()), name => plain(name),
        run => plain(&header.run), study => plain(&header.study.name), index => plain(index), arm => plain(&arm),
        class => plain(looks.key_class(&arm)), emulated => record.emulated, block => plain(record.trial.block + 1),
        outcome => plain(record.outcome.word()), why => plain(why.map(ToString::to_string)),
        log => plain(why.map(|why| &why.log)), started => plain(&record.started), path => plain(&record.path),
        stages => plain(stages.collect::<Vec<_>>()), ran_on => plain(ran_on.collect::<Vec<_>>()),
        figures => plain(figures(&header, &data)), warnings => plain(&record.warnings), logs => plain(&record.logs),
        svg => svg, heat => trial_heat(&data).map(safe), before => plain(index.checked_sub(1).filter(is_there)),
        after => plain(index.checked_add(1).filter(is_there)),
    };
    pages.fill("trial", content).map(Some)
}

/// What was measured: title and value of each metric.
fn figures(header: &Header, data: &TrialData) -> Vec<(String, String)> {
    let value = |name: &str| data.record.metrics.get(name).copied();
    let all = header.metrics();
    let known = all.iter().filter_map(|metric| Some((metric, value(metric.name)?)));
    known.map(|(metric, value)| (metric.title.to_owned(), plain_quantity(value, metric.unit))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Stretch = Stretch { from: -2.0, to: 10.0 };

    #[test]
    fn a_stretch_is_what_the_address_says_as_far_as_there_is_something() {
        let of = |query: &str| chosen(&Query::of(Some(query)), WHOLE);
        assert_eq!(of(""), (WHOLE, false));
        assert_eq!(of("from=2.5&to=5"), (Stretch { from: 2.5, to: 5.0 }, false));
        assert_eq!(of("from=-9&to=99"), (WHOLE, false));
        for odd in ["from=5&to=2", "from=soon", "to=NaN", "from=1e999", "from=11"] {
            assert_eq!(of(odd), (WHOLE, true), "{odd}");
        }
    }

    #[test]
    fn one_looks_closer_and_further_within_what_there_is() {
        let query = Query::of(Some("run=a/b&form=vm&form=box&from=4&to=8"));
        let of = |from, to| ways(&query, Stretch { from, to }, WHOLE);
        let all = of(4.0, 8.0);
        assert_eq!(all.iter().map(|(way, _)| *way).collect::<Vec<_>>(), ["closer", "wider", "earlier", "later"]);
        assert_eq!(all[0].1, "run=a%2Fb&form=vm&form=box&from=5&to=7");
        assert_eq!(all[3].1, "run=a%2Fb&form=vm&form=box&from=6&to=10");
        let names = |all: &[(&'static str, String)]| all.iter().map(|(way, _)| *way).collect::<Vec<_>>();
        assert_eq!(names(&of(-2.0, 10.0)), ["closer", "earlier", "later"]);
        assert_eq!(names(&of(3.0, 4.5)), ["wider", "earlier", "later"]);
        assert_eq!(stretched(&query, None), "run=a%2Fb&form=vm&form=box&to=");
    }
}
