//! `tare gate`: checks a record against bounds, for pipelines. Exit code 1 means a broken bound and nothing else:
//! anything that prevents a judgement ends with 2, like a mistake.

use crate::cli::{GateArgs, Inconclusive};
use crate::cmd::compared_metric;
use crate::mistake::Mistake;
use crate::records::record_path;
use crate::terminal::{columns, print};
use crate::written::write_file;
use crate::{EXIT_FAILED, EXIT_INCONCLUSIVE, EXIT_OK, history};
use anyhow::Result;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::peak::PeakRules;
use tare_core::qos::Qos;
use tare_core::record::{Record, TRIAL_METRICS};
use tare_core::study::Study;
use tare_core::units::exact_duration;
use tare_report::Gate;
use tare_stats::{Analysis, Bounds, GateOutcome, Occasions, analyse};

/// What to do about a bound of 100 % or more.
const HIGH_BOUND: &str = "lower the bound, or name the --metric that it is for";
/// The default of `--max-regression`.
const USUAL_REGRESSION: f64 = 0.03;

pub(crate) fn gate(args: &GateArgs) -> Result<u8> {
    let bounds = Bounds {
        max_overhead: args.max_overhead,
        max_regression: args.baseline.as_ref().map(|_| args.max_regression.unwrap_or(USUAL_REGRESSION)),
    };
    if bounds == Bounds::default() {
        let text = "no bound was given\n  to do: add --max-overhead 5%, or --baseline RECORD, or both";
        return Err(Mistake::new(text).into());
    }
    let named = args.metrics.iter().map(|metric| compared_metric(metric)).collect::<Result<Vec<_>>>()?;
    let record = read(&record_path(args.record.as_deref())?)?;
    let baseline = args.baseline.as_deref().map(read).transpose()?;
    let forms = forms(args, &record)?;
    if let Some(baseline) = &baseline {
        same_question(&record, baseline)?;
    }
    let analysis = analyse(&record);
    let before = baseline.as_ref().map(analyse);
    let metrics = metrics(&named, &analysis)?;
    bounds_make_sense(&bounds, &metrics)?;
    let occasions = match &baseline {
        Some(baseline) => history::occasions(&baseline.header, &record.header)?,
        None => Occasions::new(),
    };
    let other = before.as_ref().map(|before| (before, &occasions));
    let checks = tare_stats::gate(&analysis, other, &forms, &metrics, &bounds);
    let gate = Gate {
        record: &record,
        baseline: baseline.as_ref(),
        bounds: &bounds,
        checks: &checks,
        inconclusive_as: args.on_inconclusive.map(|counts_as| match counts_as {
            Inconclusive::Fail => GateOutcome::Fail,
            Inconclusive::Pass => GateOutcome::Pass,
        }),
    };
    if let Some(path) = &args.junit {
        write_file(path, &gate.junit()).map_err(Fault::as_mistake)?;
    }
    print(&if args.json { gate.json()? } else { gate.text(columns(std::io::stdout())) });
    Ok(match gate.outcome() {
        GateOutcome::Pass => EXIT_OK,
        GateOutcome::Fail => EXIT_FAILED,
        GateOutcome::Inconclusive => EXIT_INCONCLUSIVE,
    })
}

/// A time can triple, but a throughput cannot lose more than all of itself.
fn bounds_make_sense(bounds: &Bounds, metrics: &[String]) -> Result<()> {
    let widest = [bounds.max_overhead, bounds.max_regression].into_iter().flatten().fold(0.0, f64::max);
    let grows = |name: &&String| TRIAL_METRICS.iter().any(|metric| metric.name == **name && metric.more_is_better);
    match metrics.iter().find(grows) {
        Some(name) if widest >= 1.0 => {
            let percent = widest * 100.0;
            let text = format!(
                "{percent:.0}% is no bound for {name}, which cannot lose more than 100%\n  to do: {HIGH_BOUND}"
            );
            Err(Mistake::new(text).into())
        }
        _ => Ok(()),
    }
}

fn read(path: &Path) -> Result<Record> {
    Ok(tare_runner::read_record(path).map_err(Fault::as_mistake)?)
}

/// The forms named, else all but the baseline and those that are emulated or left out.
fn forms(args: &GateArgs, record: &Record) -> Result<Vec<String>> {
    let header = &record.header;
    let asked = header.study.forms.iter().filter(|form| form.weight.is_none());
    let others = asked.map(|form| &form.name).filter(|name| **name != header.study.baseline);
    if args.forms.is_empty() {
        let usable = |name: &&String| {
            header.forms.get(*name).is_none_or(|state| state.emulated.is_none() && state.unavailable.is_none())
        };
        return Ok(others.filter(usable).cloned().collect());
    }
    let known: Vec<&str> = others.map(String::as_str).collect();
    for form in &args.forms {
        if *form == header.study.baseline {
            let text = format!("'{form}' is the baseline of the record, with which the others are compared");
            return Err(Mistake::new(text).into());
        }
        if !known.contains(&form.as_str()) {
            return Err(Mistake::new(format!("the record has no form '{form}'; it has: {}", known.join(", "))).into());
        }
    }
    Ok(args.forms.clone())
}

/// The metrics named, else that of the record's headline, which comes first.
fn metrics(named: &[&str], analysis: &Analysis) -> Result<Vec<String>> {
    let here: Vec<&str> = analysis.metrics.iter().filter(|m| m.compared).map(|metric| metric.name.as_str()).collect();
    if let Some(absent) = named.iter().find(|metric| !here.contains(metric)) {
        let here = here.join(", ");
        return Err(Mistake::new(format!("the record does not compare metric '{absent}'; it compares: {here}")).into());
    }
    let chosen = if named.is_empty() { here.get(..1).unwrap_or_default() } else { named };
    Ok(chosen.iter().map(|name| (*name).to_owned()).collect())
}

/// A condition that both records must share, as each has it.
struct Asked {
    what: &'static str,
    alike: bool,
    new: String,
    old: String,
}

impl Asked {
    /// The data decide; the words are for the message. If the words are equal though the data differ, the message shows
    /// the data.
    fn of<T: PartialEq + Serialize>(what: &'static str, both: [T; 2], words: impl Fn(&T) -> String) -> Asked {
        let alike = both[0] == both[1];
        let [new, old] = both.each_ref().map(words);
        if alike || new != old {
            return Asked { what, alike, new, old };
        }
        let [new, old] = both.each_ref().map(|data| serde_json::to_string(data).unwrap_or_default());
        Asked { what, alike, new, old }
    }
}

/// A ratio means something else with another baseline, workload or design; a peak also with another QoS, other rules of
/// the search or other windows.
fn same_question(record: &Record, baseline: &Record) -> Result<()> {
    let headers = [&record.header, &baseline.header];
    let text = |text: &&str| (*text).to_owned();
    let mut asked = vec![
        Asked::of("workload is", headers.map(|header| header.workload.name.as_str()), text),
        Asked::of("baseline form is", headers.map(|header| header.study.baseline.as_str()), text),
        Asked::of("design is", headers.map(|header| header.study.design.arrangement.name()), text),
    ];
    let studies = headers.map(|header| &header.study);
    if studies.iter().any(|study| study.peak.is_some()) {
        asked.extend(searched(studies));
    }
    match asked.iter().find(|asked| !asked.alike) {
        None => Ok(()),
        Some(Asked { what, new, old, .. }) => {
            let text =
                format!("the records answer different questions: the {what} '{new}' in one and '{old}' in the other");
            Err(Mistake::new(text + "\n  to do: name records of the same study").into())
        }
    }
}

/// The question that a peak answers. Figures of other trials do not depend on a QoS.
fn searched(studies: [&Study; 2]) -> [Asked; 3] {
    let none = || "none".to_owned();
    let plans = studies.map(|study| study.peak.as_ref());
    let rules = |rules: &Option<PeakRules>| match rules {
        Some(PeakRules::Staircase) => "staircase".to_owned(),
        Some(PeakRules::Published) => "published".to_owned(),
        None => none(),
    };
    let window = |window: &Option<Duration>| window.map_or_else(none, exact_duration);
    let qos = |qos: &Option<&Qos>| qos.map_or_else(none, Qos::describe);
    [
        Asked::of("search's rules are", plans.map(|plan| plan.map(|plan| plan.rules)), rules),
        Asked::of("search's window is", plans.map(|plan| plan.map(|plan| plan.window)), window),
        Asked::of("QoS is", studies.map(|study| study.qos.as_ref()), qos),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::qos::QuantileLimit;

    fn qos_is(both: [(f64, Duration); 2]) -> Asked {
        let both = both.map(|(quantile, within)| Qos {
            operations: [("get".to_owned(), vec![QuantileLimit { quantile, within }])].into(),
            ..Qos::default()
        });
        Asked::of("QoS is", both.each_ref(), |qos| qos.describe())
    }

    #[test]
    fn questions_that_differ_slightly_are_told_apart() {
        let (ms, more) = (Duration::from_millis(5), Duration::from_nanos(5_000_001));
        let Asked { alike, new, old, .. } = qos_is([(0.99, ms), (0.99, more)]);
        let wanted = ["get p99 within 5 ms", "get p99 within 5.000001 ms"];
        assert!(!alike && [&new, &old] == wanted, "{new} {old}");
        let Asked { alike, new, old, .. } = qos_is([(0.999_999_1, ms), (0.999_999_2, ms)]);
        let wanted = ["get p99.99991 within 5 ms", "get p99.99992 within 5 ms"];
        assert!(!alike && [&new, &old] == wanted, "{new} {old}");
        // In words these are equal.
        let Asked { alike, new, old, .. } = qos_is([(0.5, ms), (0.5 + f64::EPSILON, ms)]);
        assert!(!alike && new != old, "{new} {old}");
        assert!(new.contains("\"quantile\":0.5,") && old.contains("\"quantile\":0.5000000000000002"), "{new} {old}");
        let Asked { alike, new, .. } = qos_is([(0.99, ms), (0.99, ms)]);
        assert!(alike && new == "get p99 within 5 ms", "{new}");
    }
}
