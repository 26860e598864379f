//! Studies made of what was chosen in a form. All that is typed is a number or a name of few letters; the rest is
//! chosen of what is there.

use crate::query::Query;
use crate::weighing::OfferedForm;
use serde::Serialize;
use std::fmt::Write;
use std::ops::RangeInclusive;

/// The shares of extra operations that a ruler may have.
pub(crate) const RULERS: [&str; 4] = ["0.5%", "1%", "2%", "5%"];
/// The longest name of a study, bytes: the program's own limit.
const NAME_MOST: usize = 60;
/// The numbers of blocks that a study may have.
const BLOCKS: RangeInclusive<u32> = 1..=10_000;
/// The time limits, minutes.
const MINUTES: RangeInclusive<u32> = 1..=1440;
/// The numbers of connections.
const CONNECTIONS: RangeInclusive<u32> = 1..=10_000;

/// What was chosen and typed, right or wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Choices {
    pub(crate) name: String,
    pub(crate) workload: String,
    /// The names of forms.
    pub(crate) forms: Vec<String>,
    pub(crate) connections: String,
    pub(crate) repeat: String,
    /// The time limit, minutes; empty for none.
    pub(crate) minutes: String,
    /// The share of the ruler; empty for none.
    pub(crate) ruler: String,
}

impl Choices {
    /// What stands in the form at first.
    pub(crate) fn usual(workloads: &[String], forms: Vec<String>) -> Choices {
        Choices {
            name: "new".to_owned(),
            workload: workloads.first().cloned().unwrap_or_default(),
            forms,
            connections: "50".to_owned(),
            repeat: "6".to_owned(),
            minutes: "10".to_owned(),
            ruler: "1%".to_owned(),
        }
    }

    /// What was sent.
    pub(crate) fn of(form: &Query) -> Choices {
        let one = |name: &str| form.one(name).unwrap_or_default().to_owned();
        Choices {
            name: one("name"),
            workload: one("workload"),
            forms: form.all("form").map(str::to_owned).collect(),
            connections: one("connections"),
            repeat: one("repeat"),
            minutes: one("minutes"),
            ruler: one("ruler"),
        }
    }

    /// The study that this makes, as YAML.
    ///
    /// # Errors
    /// All that is wrong, a sentence each.
    pub(crate) fn study(&self, workloads: &[String], offered: &[OfferedForm]) -> Result<String, Vec<String>> {
        let mut wrong = Vec::new();
        if !is_name(&self.name) {
            wrong.push(name_rule());
        }
        if !workloads.contains(&self.workload) {
            wrong.push("Choose one of the workloads.".to_owned());
        }
        let forms: Vec<&OfferedForm> =
            offered.iter().filter(|form| self.forms.iter().any(|name| name == form.name)).collect();
        if forms.is_empty() || self.forms.iter().any(|name| !offered.iter().any(|form| form.name == name)) {
            wrong.push("Choose one form or more of those offered.".to_owned());
        }
        let connections = number("Connections", &self.connections, CONNECTIONS, &mut wrong);
        let repeat = number("Blocks", &self.repeat, BLOCKS, &mut wrong);
        let minutes = match self.minutes.as_str() {
            "" => None,
            minutes => Some(number("Time limit", minutes, MINUTES, &mut wrong)),
        };
        if !self.ruler.is_empty() && !RULERS.contains(&self.ruler.as_str()) {
            wrong.push("Choose one of the rulers, or none.".to_owned());
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let mut text = format!("study: {}\nworkload: {}\n", quoted(&self.name), quoted(&self.workload));
        // The first of them all is what the others are compared with, if it was chosen.
        let baseline = forms.first().map_or("", |form| form.name);
        let _ = writeln!(text, "baseline: {baseline}\nrepeat: {repeat}");
        if let Some(minutes) = minutes {
            let _ = writeln!(text, "at_most: {minutes}m");
        }
        if !self.ruler.is_empty() {
            let _ = writeln!(text, "ruler: {}", self.ruler);
        }
        let _ = writeln!(text, "load:\n  closed: {{connections: {connections}}}\ntime: {{settle: 1s, measure: 5s}}");
        text.push_str("forms:\n");
        for form in forms {
            let _ = writeln!(text, "  {}: {}", form.name, form.stack);
        }
        Ok(text)
    }
}

/// Whether a text may be the name of a study, and of its record: it leads nowhere and is no option.
pub(crate) fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"+-_.".contains(&byte);
    text.len() <= NAME_MOST && text.bytes().all(fits) && text.starts_with(|first: char| first.is_ascii_alphanumeric())
}

/// What [`is_name`] asks for, as a sentence.
pub(crate) fn name_rule() -> String {
    format!(
        "A name has letters, digits, “+”, “-”, “_” and “.”, begins with a letter or a digit, and has at most {NAME_MOST} \
         of them."
    )
}

/// A number within a range; 0, and a sentence, if it is none.
fn number(what: &str, text: &str, range: RangeInclusive<u32>, wrong: &mut Vec<String>) -> u32 {
    match text.parse() {
        Ok(number) if range.contains(&number) => number,
        _ => {
            wrong.push(format!("{what}: a whole number from {} to {}.", range.start(), range.end()));
            0
        }
    }
}

/// A text in YAML, of which JSON is part.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFERED: [OfferedForm; 3] = [
        OfferedForm { name: "native", stack: "[]", layers: &[] },
        OfferedForm { name: "box", stack: "[box: {network: host}]", layers: &["box"] },
        OfferedForm { name: "guest", stack: "[guest: {}]", layers: &["guest"] },
    ];

    fn made(form: &str) -> Result<String, Vec<String>> {
        Choices::of(&Query::of(Some(form))).study(&["redis".to_owned()], &OFFERED)
    }

    #[test]
    fn a_study_is_what_was_chosen() {
        let text =
            made("name=a.b&workload=redis&form=guest&form=native&connections=8&repeat=6&minutes=10&ruler=1%25&do=make");
        let wanted = "study: \"a.b\"\nworkload: \"redis\"\nbaseline: native\nrepeat: 6\nat_most: 10m\nruler: 1%\n\
                      load:\n  closed: {connections: 8}\ntime: {settle: 1s, measure: 5s}\n\
                      forms:\n  native: []\n  guest: [guest: {}]\n";
        assert_eq!(text.unwrap(), wanted);
        let text = made("name=a&workload=redis&form=box&connections=8&repeat=6&minutes=&ruler=").unwrap();
        assert!(!text.contains("at_most") && !text.contains("ruler") && text.contains("baseline: box\n"), "{text}");
    }

    #[test]
    fn all_that_is_wrong_is_said_at_once_and_nothing_else_becomes_part_of_it() {
        let form = "name=..%2Fa&workload=redis%0Afrom:+host&form=native&form=x:+[]&connections=1e9&repeat=0&minutes=-1&ruler=9%25";
        assert_eq!(made(form).unwrap_err().len(), 7);
        assert_eq!(made("").unwrap_err().len(), 5);
        let usual = Choices::usual(&["redis".to_owned()], vec!["native".to_owned()]);
        assert!(usual.study(&["redis".to_owned()], &OFFERED).is_ok());
    }

    #[test]
    fn a_name_leads_nowhere_and_is_no_option() {
        let long = "a".repeat(NAME_MOST);
        assert!(["a", "2026-11-27.b_c+d", long.as_str()].into_iter().all(is_name));
        let longer = long + "a";
        let wrong = ["", ".", "..", ".a", "-a", "--out", "a/b", "/a", "a b", "a\n", "a\0", "\u{e4}", longer.as_str()];
        assert!(!wrong.into_iter().any(is_name));
    }
}
