//! What `tare power` prints.

use anyhow::Result;
use serde::Serialize;
use std::time::Duration;
use tare_core::study::Study;
use tare_core::units::{exact_duration, show_duration, typed_duration};
use tare_report::{paragraph, whole};
use tare_stats::power::{Power, Range, Row};

/// What a forecast is based on.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Basis {
    /// Deployments of each form in the calibration; 0 where there was none.
    pub(crate) deployments: u32,
    /// Earlier runs.
    pub(crate) runs: usize,
    /// How long the calibration took.
    #[serde(skip)]
    pub(crate) took: Option<Duration>,
    /// Whether a run will first find the length of its slices, for which a calibration has no time.
    #[serde(skip)]
    pub(crate) finds_slices: bool,
}

/// Columns of the first column, of each of the times, and of the last.
const NAME: usize = 23;
const CELL: usize = 14;

/// Limits whose ratio is below this are shown as one figure.
const SAME: f64 = 1.1;

/// Times longer than this are not shown exactly.
const LONGEST_S: f64 = 172_800.0;

/// The study and its question.
pub(crate) fn head(study: &Study, width: usize) -> String {
    let about = if study.question.is_empty() { String::new() } else { format!(": {}", study.question) };
    paragraph("", 2, &format!("study {}{about}", study.name), width) + "\n"
}

/// The forecast: the answer first, then the table, then advice.
pub(crate) fn text(power: &Power, basis: &Basis, width: usize) -> String {
    let asked = percent(power.asked);
    let all = power.until_s;
    let mut text = paragraph("", 2, &format!("All intervals reach {asked} either way after {}.", within(all)), width);
    text += &paragraph("", 2, &rests_on(power, basis), width);
    text += "\n";
    let times = power.times_s.iter().map(|time_s| format!("in {}", short(*time_s)));
    text += &line("half-widths, %", times.collect(), &format!("{asked} takes"));
    let mut title = "";
    for row in &power.rows {
        if row.title != title {
            title = &row.title;
            text += &format!("{title}\n");
        }
        let cells = row.half_widths.iter().map(|range| range.map_or_else(|| "-".to_owned(), reach));
        text += &line(&format!("  {}", row.arm), cells.collect(), &between(row.until_s));
    }
    if power.rows.iter().any(|row| row.half_widths.contains(&None)) {
        text += &paragraph("", 2, "-: fewer than three blocks fit, too few for an interval", width);
    }
    text += "\n";
    text + &paragraph("", 2, &advice(power), width)
}

/// The text if nothing is known yet.
pub(crate) fn unknown(width: usize) -> String {
    let text = "How narrow the intervals will be is unknown: no earlier run on this machine has these forms; `tare \
                power` finds out.";
    paragraph("", 2, text, width)
}

/// The forecast for programs.
pub(crate) fn json(study: &Study, power: &Power, basis: &Basis) -> Result<String> {
    #[derive(Serialize)]
    struct Shown<'a> {
        study: &'a str,
        #[serde(flatten)]
        basis: &'a Basis,
        calibrated_s: Option<f64>,
        #[serde(flatten)]
        power: &'a Power,
    }
    let calibrated_s = basis.took.map(|took| took.as_secs_f64());
    Ok(serde_json::to_string_pretty(&Shown { study: &study.name, basis, calibrated_s, power })?)
}

fn rests_on(power: &Power, basis: &Basis) -> String {
    let finds_slices = basis.finds_slices;
    let calibrated = basis.took.map(|took| {
        let deployments = basis.deployments;
        format!("{deployments} deployments of each form (in {})", whole(&show_duration(took)))
    });
    let runs = match basis.runs {
        0 => None,
        1 => Some("1 earlier run".to_owned()),
        runs => Some(format!("{runs} earlier runs")),
    };
    let basis: Vec<String> = calibrated.into_iter().chain(runs).collect();
    let costs = &power.costs;
    let block = show_duration(Duration::from_secs_f64(costs.round_s + costs.deployments * power.measure_s));
    let measured = whole(&exact_duration(Duration::from_secs_f64(power.measure_s)));
    let longer = if finds_slices {
        " Here slices last ten response times; a run gives longer slices to a service that is cold in them, and takes \
         longer."
    } else {
        ""
    };
    format!(
        "Based on {}. A block takes about {}, {measured} of it per form; ranges hold in eight of ten cases.{longer}",
        basis.join(" and "),
        whole(&block)
    )
}

/// What to do.
fn advice(power: &Power) -> String {
    let mostly = power.rows.iter().max_by(|one, other| one.until_s.likely.total_cmp(&other.until_s.likely));
    let varies = mostly.and_then(|row: &Row| Some((row.between?, row)));
    let why = varies.map(|(share, row)| {
        let what = if share > 0.5 { "between deployments" } else { "within one deployment" };
        format!("{} of {} varies most, mostly {what}. ", row.title, row.arm)
    });
    let better = power.better.map(|better| {
        let flag = whole(&format!("--measure {}", typed_seconds(better.measure_s)));
        format!("With {flag} it would take {}.", within(better.until_s))
    });
    let as_it_is = || "No other --measure would make it clearly shorter.".to_owned();
    let known = power.rows.iter().all(|row| row.between.is_some());
    let unknown = || "Whether measuring each form longer would help is unknown.".to_owned();
    let then = better.unwrap_or_else(|| if known { as_it_is() } else { unknown() });
    format!("{}{then}", why.unwrap_or_default())
}

/// A measuring time as it is typed.
fn typed_seconds(seconds: f64) -> String {
    typed_duration(Duration::from_secs_f64(seconds))
}

fn line(name: &str, cells: Vec<String>, last: &str) -> String {
    let mut line = format!("{name:<NAME$}");
    // A longer name gets a line of its own.
    if name.chars().count() >= NAME {
        line = format!("{name}\n{:<NAME$}", "");
    }
    cells.iter().for_each(|cell| line += &format!("{cell:<CELL$}"));
    format!("{}\n", format!("{line}{last}").trim_end())
}

/// Such as `0.91 to 2.3`, in per cent.
fn reach(range: Range) -> String {
    let figure = |share: f64| match share * 100.0 {
        percent if percent < 0.995 => format!("{percent:.2}"),
        percent if percent < 9.95 => format!("{percent:.1}"),
        // As elsewhere, a meaningless figure is shown as such, and fits into its column.
        percent if percent >= 999.5 || percent.is_nan() => ">999".to_owned(),
        percent => format!("{percent:.0}"),
    };
    let (low, high) = (figure(range.low), figure(range.high));
    if low == high || range.high < SAME * range.low { high } else { format!("{low} to {high}") }
}

/// Such as `4 to 15 minutes, most likely 7`.
fn within(range: Range) -> String {
    let unit = Unit::of(range);
    let [low, likely, high] = [range.low, range.likely, range.high].map(|seconds| unit.count(seconds));
    let told = |count: &str| whole(&format!("{count} {}", unit.long));
    match () {
        () if range.low > LONGEST_S => "more than two days".to_owned(),
        () if range.likely > LONGEST_S => format!("more than {}", told(&low)),
        () if range.high > LONGEST_S => format!("more than {}, most likely {likely}", told(&low)),
        () if low == high => format!("about {}", told(&high)),
        () => format!("{low} to {}, most likely {likely}", told(&high)),
    }
}

/// Such as `4 to 15 min`.
fn between(range: Range) -> String {
    let unit = Unit::of(range);
    let (low, high) = (unit.count(range.low), unit.count(range.high));
    match () {
        () if range.low > LONGEST_S => "over 2 days".to_owned(),
        () if range.high > LONGEST_S => format!("over {low} {}", unit.short),
        () if low == high => format!("{high} {}", unit.short),
        () => format!("{low} to {high} {}", unit.short),
    }
}

/// Such as `1 min`.
fn short(seconds: f64) -> String {
    let unit = Unit::of(Range { low: seconds, likely: seconds, high: seconds });
    format!("{} {}", unit.count(seconds), unit.short)
}

/// The unit in which a range of times is shown.
struct Unit {
    seconds: f64,
    short: &'static str,
    long: &'static str,
}

impl Unit {
    fn of(range: Range) -> Unit {
        match range.low {
            low if low < 60.0 && range.high < 600.0 => Unit { seconds: 1.0, short: "s", long: "seconds" },
            low if low < 7200.0 => Unit { seconds: 60.0, short: "min", long: "minutes" },
            _ => Unit { seconds: 3600.0, short: "h", long: "hours" },
        }
    }

    /// Rounds seconds, and counts above a hundred, to tens, so that nobody takes them for exact; below two, to one
    /// decimal.
    fn count(&self, seconds: f64) -> String {
        let count = seconds / self.seconds;
        match self.seconds {
            1.0 => format!("{:.0}", (count / 10.0).ceil() * 10.0),
            _ if count >= 100.0 => format!("{:.0}", (count / 10.0).round() * 10.0),
            _ if count < 1.95 => format!("{count:.1}").trim_end_matches(".0").to_owned(),
            _ => format!("{count:.0}"),
        }
    }
}

fn percent(share: f64) -> String {
    whole(&format!("{} %", (share * 1e4).round() / 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_stats::power::{Better, Costs};

    fn range(low: f64, likely: f64, high: f64) -> Range {
        Range { low, likely, high }
    }

    fn power(better: Option<Better>) -> Power {
        let row = |arm: &str, title: &str, scale: f64| Row {
            arm: arm.into(),
            metric: title.into(),
            title: title.into(),
            half_widths: vec![
                None,
                Some(range(0.004 * scale, 0.006, 0.009 * scale)),
                Some(range(0.002, 0.0021, 0.0021)),
            ],
            until_s: range(240.0, 420.0, 900.0 * scale),
            between: Some(0.8),
        };
        Power {
            asked: 0.01,
            times_s: vec![60.0, 300.0, 1800.0],
            blocks: vec![2, 20, 130],
            measure_s: 3.0,
            costs: Costs { begin_s: 20.0, round_s: 4.0, deployments: 3.0 },
            rows: vec![row("container-hostnet-far-away", "throughput", 1.0), row("vm+container", "p50", 3.0)],
            until_s: range(240.0, 420.0, 2700.0),
            better,
        }
    }

    #[test]
    fn the_answer_comes_first_and_all_of_it_fits_into_80_columns() {
        let better = Better { measure_s: 2.0, until_s: range(180.0, 250.0, 1500.0) };
        let basis = Basis { deployments: 4, runs: 2, took: Some(Duration::from_secs(14)), finds_slices: true };
        let text = text(&power(Some(better)), &basis, 80);
        assert!(text.starts_with("All intervals reach 1 % either way after 4 to 45 minutes, most likely 7."), "{text}");
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for wanted in [
            "Based on 4 deployments of each form (in 14 s) and 2 earlier runs.",
            "A block takes about 13 s, 3 s of it per form",
            "half-widths, % in 1 min in 5 min in 30 min 1 % takes",
            "vm+container - 1.2 to 2.7 0.21 4 to 45 min",
            "With --measure 2s it would take 3 to 25 minutes, most likely 4.",
            "mostly between deployments",
            "a run gives longer slices to a service that is cold in them, and takes longer",
        ] {
            assert!(flat.contains(wanted), "{wanted}: {flat}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn a_meaningless_width_fits_into_its_column() {
        assert_eq!(reach(range(1.3, 2e6, f64::INFINITY)), "130 to >999");
        assert_eq!(reach(range(1e9, 2e9, f64::NAN)), ">999");
        assert!(reach(range(1.3, 2e6, 1e300)).len() < CELL);
    }

    #[test]
    fn times_are_shown_in_a_unit_that_suits_both_ends() {
        let told = |low, likely, high| (within(range(low, likely, high)), between(range(low, likely, high)));
        let told = |low, likely, high| {
            let (long, short) = told(low, likely, high);
            (long.replace('\u{a0}', " "), short)
        };
        assert_eq!(told(41.0, 42.0, 44.0), ("about 50 seconds".into(), "50 s".into()));
        assert_eq!(told(42.0, 66.0, 180.0), ("50 to 180 seconds, most likely 70".into(), "50 to 180 s".into()));
        assert_eq!(told(42.0, 66.0, 1800.0), ("0.7 to 30 minutes, most likely 1.1".into(), "0.7 to 30 min".into()));
        assert_eq!(told(9e3, 2e4, 9e5), ("more than 2 hours, most likely 6".into(), "over 2 h".into()));
        assert_eq!(told(1e6, 2e6, 3e6), ("more than two days".into(), "over 2 days".into()));
    }

    #[test]
    fn without_data_on_variation_nothing_is_advised() {
        let mut power = power(None);
        assert!(advice(&power).contains("No other --measure"));
        power.rows.iter_mut().for_each(|row| row.between = None);
        assert!(advice(&power).contains("is unknown"));
    }
}
