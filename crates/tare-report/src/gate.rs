//! The verdict of a gate: for a person, for a program, and for what shows test results.

use crate::condition::{DifferenceWords, differences_json};
use crate::json::finite;
use crate::lines::{paragraph, whole};
use crate::verdict::{ratio_figure, withheld};
use crate::warnings::missing;
use serde_json::json;
use std::fmt::Write;
use tare_core::fault::Fault;
use tare_core::record::Record;
use tare_stats::{
    Bounds, Difference, GateCheck, GateOutcome, GateReason, Learned, WhichRecord, conditions, differences,
    gate_outcome, percent_at_most, percent_text,
};

/// The version of the gate's JSON. Fields may be added within a version.
const GATE_SCHEMA: u32 = 1;

/// Said of a gate without checks.
const NOTHING_TO_JUDGE: &str = "no form to judge: the record compares none with its baseline";

/// What a gate looked at and found.
#[derive(Debug, Clone, Copy)]
pub struct Gate<'a> {
    /// The record that is judged.
    pub record: &'a Record,
    /// The record that it is compared with, if any.
    pub baseline: Option<&'a Record>,
    /// The bounds that were set.
    pub bounds: &'a Bounds,
    /// What became of them.
    pub checks: &'a [GateCheck],
    /// What an inconclusive check counts as; by itself, when nothing was said.
    pub inconclusive_as: Option<GateOutcome>,
}

impl Gate<'_> {
    /// What the gate says in the end.
    pub fn outcome(&self) -> GateOutcome {
        let counted = |outcome| match outcome {
            GateOutcome::Inconclusive => self.inconclusive_as.unwrap_or(outcome),
            _ => outcome,
        };
        self.checks.iter().map(|check| counted(check.outcome)).max().unwrap_or_else(|| counted(gate_outcome(&[])))
    }

    fn differences(&self) -> Vec<Difference> {
        let of = |baseline: &Record| differences(&conditions(&baseline.header), &conditions(&self.record.header));
        self.baseline.map(of).unwrap_or_default()
    }

    /// What is not in the records and was to be, for whoever takes trials out chooses what is judged; and what is not
    /// in intervals.
    fn warnings(&self) -> Vec<String> {
        let of_baseline = self.baseline.map(missing).unwrap_or_default();
        let of_baseline = of_baseline.into_iter().map(|what| format!("the other record: {what}"));
        missing(self.record).into_iter().chain(of_baseline).chain(self.nothing_learned()).collect()
    }

    /// Where variation from run to run is not known: two runs of the same thing may then look like a regression.
    fn nothing_learned(&self) -> Option<String> {
        let mut metrics: Vec<&str> = Vec::new();
        let mut needed = 0;
        for check in self.checks {
            let Some(Learned::Nothing { runs_needed }) = check.learned else { continue };
            needed = runs_needed;
            if !metrics.contains(&check.title.as_str()) {
                metrics.push(&check.title);
            }
        }
        let metrics = metrics.join(", ");
        let what = format!(
            "variation from run to run is not known for {metrics}, so intervals of a regression do not cover it and are too \
             narrow. Keep a history of at least {needed} runs with this load, design and baseline, and with an A/A \
             control, on this machine (`tare history --add RECORD`)"
        );
        (!metrics.is_empty()).then_some(what)
    }

    /// For a person, in lines of at most `width` columns.
    pub fn text(&self, width: usize) -> String {
        const WHY: usize = 13;
        let mut text = String::new();
        let mut say = |label: &str, hanging: usize, line: &str| text.push_str(&paragraph(label, hanging, line, width));
        say("record   ", 9, &naming(self.record));
        if let Some(baseline) = self.baseline {
            say("baseline ", 9, &naming(baseline));
        }
        for difference in self.differences() {
            say("WARNING ", 8, &DifferenceWords::of(&difference).line());
        }
        for warning in self.warnings() {
            say("WARNING ", 8, &warning);
        }
        say("", 0, "");
        for check in self.checks {
            let outcome = format!("{:WHY$}", check.outcome.word().to_uppercase());
            let figures = whole(&figures(check));
            say(&outcome, WHY, &format!("{}, {} {}: {figures}", check.form, check.title, check.bounded.word()));
            say(&" ".repeat(WHY), WHY, &why(check));
            if let Some(Learned::Occasions { runs, deviation, deviation_at_most }) = check.learned {
                let (deviation, most) = (percent_text(deviation.exp_m1()), percent_at_most(deviation_at_most.exp_m1()));
                let text = format!(
                    "includes variation from run to run by this machine's history: {deviation} (standard deviation), at most \
                     {most} ({runs} runs)"
                );
                say(&" ".repeat(WHY), WHY, &text);
            }
        }
        if self.checks.is_empty() {
            say("", 0, NOTHING_TO_JUDGE);
        }
        say("", 0, "");
        let count = |outcome| self.checks.iter().filter(|check| check.outcome == outcome).count();
        let counts = format!(
            "{}: {} passed, {} failed, {} inconclusive",
            self.outcome().word().to_uppercase(),
            count(GateOutcome::Pass),
            count(GateOutcome::Fail),
            count(GateOutcome::Inconclusive)
        );
        say("", 0, &counts);
        text
    }

    /// For a program: indented JSON with a line feed at its end.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn json(&self) -> Result<String, Fault> {
        let writing = |error: serde_json::Error| Fault::from_error("write JSON", &error);
        let mut checks = serde_json::to_value(self.checks).map_err(writing)?;
        for (at, check) in self.checks.iter().enumerate() {
            checks[at]["why"] = why(check).into();
        }
        let value = json!({
            "gate_schema": GATE_SCHEMA,
            "outcome": self.outcome(),
            "record": identity(self.record),
            "baseline": self.baseline.map(identity),
            "bounds": self.bounds,
            "checks": finite(checks),
            "differences": differences_json(&self.differences()),
            "warnings": self.warnings(),
        });
        Ok(serde_json::to_string_pretty(&value).map_err(writing)? + "\n")
    }

    /// For what shows test results: JUnit's XML. What is inconclusive is an error, unless it was said to count as
    /// failed or, then skipped, as passed.
    pub fn junit(&self) -> String {
        let header = &self.record.header;
        let verdict = |outcome: GateOutcome| match outcome {
            GateOutcome::Pass => "",
            GateOutcome::Fail => "failure",
            GateOutcome::Inconclusive => match self.inconclusive_as {
                None | Some(GateOutcome::Inconclusive) => "error",
                Some(GateOutcome::Fail) => "failure",
                Some(GateOutcome::Pass) => "skipped",
            },
        };
        // A gate with nothing to judge is inconclusive; without a case of its own it would look like one that passed.
        let nothing = self.checks.is_empty().then(|| verdict(gate_outcome(&[])));
        let verdicts: Vec<&str> = self.checks.iter().map(|check| verdict(check.outcome)).chain(nothing).collect();
        let count = |wanted: &str| verdicts.iter().filter(|verdict| **verdict == wanted).count();
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let mut say = |line: String| writeln!(text, "{line}").expect("writing to a string cannot fail");
        let counts = format!(
            "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"",
            verdicts.len(),
            count("failure"),
            count("error"),
            count("skipped")
        );
        say(format!("<testsuites name=\"tare gate\" {counts}>"));
        let (study, started) = (escaped(&header.study.name), escaped(&header.started));
        say(format!("  <testsuite name=\"{study}\" timestamp=\"{started}\" {counts}>"));
        say("    <properties>".to_owned());
        say(format!("      <property name=\"run\" value=\"{}\"/>", escaped(&header.run)));
        if let Some(baseline) = self.baseline {
            say(format!("      <property name=\"baseline run\" value=\"{}\"/>", escaped(&baseline.header.run)));
        }
        for difference in self.differences() {
            let difference = DifferenceWords::of(&difference);
            let (what, change) = (escaped(&difference.what), escaped(&difference.values()));
            say(format!("      <property name=\"differs: {what}\" value=\"{change}\"/>"));
        }
        for warning in self.warnings() {
            say(format!("      <property name=\"warning\" value=\"{}\"/>", escaped(&warning)));
        }
        say("    </properties>".to_owned());
        for check in self.checks {
            let class = escaped(&format!("{}.{}", header.study.name, check.form));
            let name = escaped(&format!("{} {}", check.title, check.bounded.word()));
            let figures = escaped(&figures(check));
            let open = format!("    <testcase classname=\"{class}\" name=\"{name}\"");
            let why = escaped(&why(check));
            match verdict(check.outcome) {
                "" => say(format!("{open}>\n      <system-out>{figures}; {why}</system-out>\n    </testcase>")),
                "skipped" => say(format!("{open}>\n      <skipped message=\"{why}\"/>\n    </testcase>")),
                kind => {
                    let bounded = check.bounded.word();
                    let inner = format!("<{kind} type=\"{bounded}\" message=\"{why}\">{figures}</{kind}>");
                    say(format!("{open}>\n      {inner}\n    </testcase>"));
                }
            }
        }
        if let Some(kind) = nothing {
            let open = format!("    <testcase classname=\"{study}\" name=\"gate\"");
            say(format!("{open}>\n      <{kind} message=\"{NOTHING_TO_JUDGE}\"/>\n    </testcase>"));
        }
        say("  </testsuite>".to_owned());
        say("</testsuites>".to_owned());
        text
    }
}

/// Why a check came out as it did, in a sentence.
fn why(check: &GateCheck) -> String {
    let bound = percent_text(check.bound);
    let named = |which: WhichRecord| match which {
        WhichRecord::This => "this record",
        WhichRecord::Other => "the other record",
    };
    match &check.why {
        GateReason::Within => format!("certainly within the bound of {bound}"),
        GateReason::Beyond => format!("certainly beyond the bound of {bound}"),
        GateReason::WithinFloor { floor } => {
            let floor = percent_text(*floor);
            format!("beyond the bound of {bound}, but within this machine's noise floor of {floor}")
        }
        GateReason::WithinByFewWindows => format!(
            "within the bound of {bound} over the whole time, but not without its best and worst fifth: a few stalls or \
             bursts decide"
        ),
        GateReason::HoldsBound { of_both } => {
            let advice = match check.blocks_needed {
                Some(blocks) => format!("about {blocks} blocks would decide, there are {}", check.blocks),
                None if *of_both => "more blocks in both records would decide, or another bound".to_owned(),
                None => "it lies too near the bound for any reasonable number of blocks to decide".to_owned(),
            };
            format!("the interval contains the bound of {bound}; {advice}")
        }
        GateReason::NotMeasured { which, why } => {
            let at = if *which == WhichRecord::Other { "in the other record " } else { "" };
            let why = why.as_deref().unwrap_or("no trial was measured together with the baseline");
            format!("{at}not measured: {why}")
        }
        GateReason::Emulated { which } => {
            format!("EMULATED in {}: not a claim about the real thing", named(*which))
        }
        GateReason::ControlDiffers { which } => {
            let record = named(*which);
            format!(
                "the A/A control of {record} differs from the baseline: the machine treats identical forms differently"
            )
        }
        GateReason::Withheld { which, why } => {
            let why = why.map_or("the run is not sound", withheld);
            format!("verdict withheld: {why} (in {})", named(*which))
        }
        GateReason::OnlyBound { which, bound, ratio, interval } => {
            let figure = ratio_figure(Some(*bound), *ratio, *interval);
            format!("only a bound is known: {figure} (in {})", named(*which))
        }
        GateReason::NoNoiseFloor { which } => format!(
            "the A/A control of {} was not measured in 3 blocks, so there is no noise floor to judge by",
            named(*which)
        ),
        GateReason::TooFewBlocks { blocks } => format!("no interval: {blocks} block(s) measured, 3 needed"),
        GateReason::NoInterval => "no interval".to_owned(),
    }
}

/// `3.1 % worse [2.2 %, 4.0 %]`.
fn figures(check: &GateCheck) -> String {
    let Some(worse) = check.worse_by else { return "no figure".to_owned() };
    let signed = |share: f64| format!("{}{}", if share < 0.0 { "-" } else { "" }, percent_text(share.abs()));
    let direction = if worse < 0.0 { "better" } else { "worse" };
    let interval = check.interval.map(|interval| {
        let ends = [signed(interval.low), signed(interval.high)];
        if worse < 0.0 {
            format!(" [{}, {}]", signed(-interval.high), signed(-interval.low))
        } else {
            format!(" [{}, {}]", ends[0], ends[1])
        }
    });
    format!("{} {direction}{}", percent_text(worse.abs()), interval.unwrap_or_default())
}

fn naming(record: &Record) -> String {
    let header = &record.header;
    format!("run {}, {}, tare {}, study {}", header.run, header.started, header.tare, header.study.name)
}

/// What says which record it is.
pub(crate) fn identity(record: &Record) -> serde_json::Value {
    let header = &record.header;
    json!({
        "run": header.run,
        "started": header.started,
        "tare": header.tare,
        "study": header.study.name,
        "workload": header.workload.name,
    })
}

/// Text for XML, in content and in attributes: XML 1.0 knows no control characters, not even written as numbers.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\r' | '\t' => escaped.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn xml_holds_whatever_a_record_says() {
        assert_eq!(escaped("<a href=\"x\">&\n\u{1b}[31m"), "&lt;a href=&quot;x&quot;&gt;&amp; \u{fffd}[31m");
    }
}
