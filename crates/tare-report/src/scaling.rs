//! How throughput scales, form by form.

use crate::figures::plain_quantity;
use std::fmt::Write;
use tare_stats::{FormScaling, Interval, LawFit, LevelRow, Parameter, Scaling, percent_text, ratio_text};

/// Says every form's speed-up, efficiency and law.
pub fn scaling_text(all: &[FormScaling]) -> String {
    let mut text = String::new();
    let mut say = |line: String| writeln!(text, "{}", line.trim_end()).expect("writing to a string cannot fail");
    for FormScaling { form, of, scaling } in all {
        let Scaling { levels, law, cautions, blocks, .. } = scaling;
        let blocks = if *blocks == 1 { "1 block".to_owned() } else { format!("{blocks} blocks") };
        say(format!("{form}: throughput by {of}, {blocks}"));
        say(format!("  {of:>11}  {:14} {:20} {:20} by the law", "throughput", "speed-up", "efficiency"));
        levels.iter().map(row).for_each(&mut say);
        if let Some(law) = law.as_ref().filter(|law| law.fits) {
            law_lines(law, of).into_iter().for_each(&mut say);
        }
        cautions.iter().map(|caution| format!("  CAUTION {caution}")).for_each(&mut say);
        say(String::new());
    }
    say("Speed-up is throughput over that of the lowest level, efficiency is speed-up over what the level".to_owned());
    say("grew by; with 95 % probability the intervals of all levels hold. The law explains and plans; it".to_owned());
    say("states no maximum: that is what a peak search is for.".to_owned());
    text
}

fn row(row: &LevelRow) -> String {
    let speed_up = ratio_text(row.speed_up, row.speed_up_interval);
    let efficiency = ratio_text(row.efficiency, row.efficiency_interval);
    let throughput = plain_quantity(row.throughput, "op/s");
    let fitted = row.fitted.map(|fitted| plain_quantity(fitted, "op/s")).unwrap_or_default();
    format!("  {:>11}  {throughput:14} {speed_up:20} {efficiency:20} {fitted}", row.level)
}

fn law_lines(law: &LawFit, of: &str) -> Vec<String> {
    let share = |parameter: &Parameter| {
        let interval =
            parameter.interval.map(|interval| format!(" [{}, {}]", small(interval.low), small(interval.high)));
        format!("{}{}", small(parameter.value), interval.unwrap_or_default())
    };
    let mut lines = vec![
        format!("  one alone       {}", plain_quantity(law.lambda.value, "op/s")),
        format!(
            "  contention      {} (sigma: the share of the work that is done one after the other)",
            share(&law.sigma)
        ),
        format!("  coherence       {} (kappa: what each pair costs to keep in step)", share(&law.kappa)),
        format!("  largest misfit  {}", percent_text(law.misfit)),
    ];
    if let Some(Parameter { value, interval: Some(interval) }) = law.bend {
        let Interval { low, high } = interval;
        lines.push(format!(
            "  bends over at   {} [{}, {}] {of}: beyond, throughput falls",
            small(value),
            small(low),
            small(high)
        ));
    }
    lines
}

/// Three significant digits, never in powers of ten.
fn small(value: f64) -> String {
    if value <= 0.0 {
        return "0".to_owned();
    }
    let decimals = (2 - value.log10().floor() as i32).clamp(0, 9) as usize;
    format!("{value:.decimals$}")
}
