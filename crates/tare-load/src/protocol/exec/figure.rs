//! The figures of a tool's result in Tare's terms: names with units, and the sums that follow from them.

use std::collections::BTreeMap;
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::load::{Check, OperationSummary};

/// The kind of quantity that a figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dimension {
    /// Operations a second.
    Rate,
    /// A time, stored in us.
    Time,
    /// A number of operations.
    Count,
}

/// Every figure that a parser may find. `answered` is an alternative to `operations` that includes the operations
/// answered wrongly, whose number is `wrong`; with both, that is their difference. `errors` were never answered.
/// `seconds` is how long the tool says it measured.
const FIGURES: &[(&str, Dimension)] = &[
    ("throughput", Dimension::Rate),
    ("p50", Dimension::Time),
    ("p90", Dimension::Time),
    ("p99", Dimension::Time),
    ("p999", Dimension::Time),
    ("mean", Dimension::Time),
    ("max", Dimension::Time),
    ("operations", Dimension::Count),
    ("answered", Dimension::Count),
    ("wrong", Dimension::Count),
    ("errors", Dimension::Count),
    ("seconds", Dimension::Time),
];

/// Units that may follow a figure's name, as in `p99_ms`, and their size in the stored unit.
const UNITS: &[(&str, Dimension, f64)] = &[
    ("ns", Dimension::Time, 1e-3),
    ("us", Dimension::Time, 1.0),
    ("ms", Dimension::Time, 1e3),
    ("s", Dimension::Time, 1e6),
    ("min", Dimension::Time, 6e7),
    // For tools that count data, an operation is a megabyte.
    ("bits", Dimension::Rate, 1.0 / 8e6),
    ("bytes", Dimension::Rate, 1e-6),
    ("bytes", Dimension::Count, 1e-6),
];

/// A figure's name as written in a parser, taken apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    figure: &'static str,
    dimension: Dimension,
    // None if the value includes its unit: "1.98ms".
    scale: Option<f64>,
}

impl Wanted {
    /// Reads `throughput`, `p99_ms`, `operations` ...
    ///
    /// # Errors
    /// What is wrong, with the known names.
    pub(super) fn read(name: &str) -> Result<Wanted, String> {
        let (figure, unit) = name.split_once('_').map_or((name, None), |(figure, unit)| (figure, Some(unit)));
        let Some((figure, dimension)) = FIGURES.iter().find(|(known, _)| *known == figure).copied() else {
            let known: Vec<&str> = FIGURES.iter().map(|(name, _)| *name).collect();
            return Err(format!("there is no figure '{figure}'; there are {}", known.join(", ")));
        };
        let scale = match unit {
            None if figure == "seconds" => Some(1e6),
            None if dimension == Dimension::Time => None,
            None => Some(1.0),
            Some(unit) => {
                let found = UNITS.iter().find(|(known, of, _)| *known == unit && *of == dimension);
                let of_it = UNITS.iter().filter(|(_, of, _)| *of == dimension).map(|(known, ..)| *known);
                let known =
                    || format!("'{figure}' has no unit '{unit}'; there are {}", of_it.collect::<Vec<_>>().join(", "));
                Some(found.ok_or_else(known)?.2)
            }
        };
        Ok(Wanted { figure, dimension, scale })
    }

    /// Whether all values found are added up; otherwise there must be one.
    pub(super) fn adds_up(self) -> bool {
        matches!(self.figure, "wrong" | "errors")
    }

    /// The value of a text, in the stored unit; `None` if it is not a number.
    pub(super) fn value(self, text: &str) -> Option<f64> {
        let text = text.trim();
        let digits =
            text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '-' | '+'))).unwrap_or(text.len());
        // An exponent belongs to the number: 1.5e+06.
        let number = text.parse::<f64>().ok().map(|number| (number, ""));
        let (number, unit) = match number {
            Some(found) => found,
            None => (text[..digits].replace(',', "").parse().ok()?, text[digits..].trim()),
        };
        let of_unit = |unit: &str| UNITS.iter().find(|(name, of, _)| *name == unit && *of == self.dimension);
        let scale = match (unit, self.scale) {
            ("", Some(scale)) => scale,
            ("", None) => return (number == 0.0).then_some(0.0),
            ("µs", _) if self.dimension == Dimension::Time => 1.0,
            ("m", None) => 6e7,
            ("k" | "K", Some(scale)) if self.dimension != Dimension::Time => scale * 1e3,
            ("M", Some(scale)) if self.dimension != Dimension::Time => scale * 1e6,
            (unit, None) => of_unit(unit)?.2,
            _ => return None,
        };
        let value = number * scale;
        (value.is_finite() && value >= 0.0).then_some(value)
    }
}

/// The figures found in a tool's result.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Figures(BTreeMap<&'static str, f64>);

impl Figures {
    /// Adds a value.
    pub(super) fn add(&mut self, wanted: Wanted, value: f64) {
        let slot = self.0.entry(wanted.figure).or_insert(0.0);
        *slot = if wanted.adds_up() { *slot + value } else { value };
    }

    /// Whether a figure has been found already.
    pub(super) fn has(&self, wanted: Wanted) -> bool {
        self.0.contains_key(wanted.figure)
    }

    /// Adds all values that another one found.
    pub(super) fn merge(&mut self, other: &Figures) {
        for (figure, value) in &other.0 {
            *self.0.entry(figure).or_insert(0.0) += value;
        }
    }

    fn get(&self, figure: &str) -> Option<f64> {
        self.0.get(figure).copied()
    }

    /// The result that follows from the figures. `wall_s` is how long the tool ran, for tools that do not report how
    /// long they measured.
    ///
    /// # Errors
    /// When neither a throughput nor a number of operations was found.
    pub(super) fn concluded(&self, wall_s: f64) -> Result<Concluded, Fault> {
        let seconds = self.get("seconds").map_or(wall_s, |us| us / 1e6);
        let of_both = || Some((self.get("answered")? - self.get("operations")?).max(0.0));
        let wrong = self.get("wrong").or_else(of_both).unwrap_or(0.0);
        // A tool that tells a rate and how many were wrong, but not of how many, has counted these in the rate.
        let in_rate = || self.get("throughput").filter(|_| wrong > 0.0 && self.get("operations").is_none());
        let all = self.get("answered").or_else(|| in_rate().map(|rate| rate * seconds));
        let right = self.get("operations").or(all.map(|all| (all - wrong).max(0.0)));
        let right_share = all.filter(|all| *all > 0.0).map_or(1.0, |all| ((all - wrong) / all).clamp(0.0, 1.0));
        let throughput = self.get("throughput").map(|rate| rate * right_share);
        let throughput = throughput.or_else(|| right.filter(|_| seconds > 0.0).map(|right| right / seconds));
        let Some(throughput) = throughput else {
            return Err(Fault::new("the tool's result has neither a throughput nor a number of operations"));
        };
        let times = ["p50", "p90", "p99", "p999", "mean", "max"];
        // A time of 0 is too short for the tool to tell.
        let time = |name: &&str| Some((format!("{name}_us"), self.get(name).filter(|us| *us > 0.0)?));
        let times = times.iter().filter_map(time);
        let reported = times.chain([("throughput".to_owned(), throughput)]).collect();
        Ok(Concluded {
            operations: right.unwrap_or(throughput * seconds).round() as u64,
            errors: (self.get("errors").unwrap_or(0.0) + wrong).round() as u64,
            reported,
            ..Concluded::default()
        })
    }
}

/// A tool's result, ready for a summary.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Concluded {
    /// Answered correctly.
    pub(super) operations: u64,
    /// Answered wrongly, with an error, or not at all.
    pub(super) errors: u64,
    /// By the name of a trial's metric: `throughput`, `p50_us` ...
    pub(super) reported: BTreeMap<String, f64>,
    /// By operation, if the tool distinguishes them; otherwise all operations are the one that the workload names.
    pub(super) by_operation: BTreeMap<String, OperationSummary>,
    /// Checks made by the tool itself, and of its result.
    pub(super) checks: Vec<Check>,
    /// Facts that it reports about itself.
    pub(super) facts: BTreeMap<String, String>,
    /// How long it ran before it counted.
    pub(super) unmeasured: Duration,
}

impl Concluded {
    /// Whether the result itself shows that it may not be used.
    pub(super) fn is_void(&self) -> bool {
        self.checks.iter().any(|check| !check.passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str, text: &str) -> Option<f64> {
        Wanted::read(name).unwrap().value(text)
    }

    #[test]
    fn values_are_brought_to_one_unit() {
        let cases = [
            ("p99", "1.98ms", 1980.0),
            ("p99", "809.01us", 809.01),
            ("p99", "3.2µs", 3.2),
            ("max", "1.50m", 9e7),
            ("p99_ms", "0.303", 303.0),
            ("p50_ns", "52992", 52.992),
            ("mean_s", "0.5", 5e5),
            ("max", "0", 0.0),
            ("throughput", "10.2k", 10_200.0),
            ("throughput", "1,234.5", 1234.5),
            ("throughput_bits", "8e6", 1.0),
            ("operations_bytes", "3000000", 3.0),
        ];
        for (name, text, wanted) in cases {
            let found = value(name, text).unwrap_or_else(|| panic!("{name} {text}"));
            assert!((found - wanted).abs() < 1e-9 * wanted.max(1.0), "{name} {text}: {found}");
        }
        for (name, text) in
            [("p99", "5"), ("p99_ms", "x"), ("p99_ms", "5s"), ("throughput", "-1"), ("operations", "NaN")]
        {
            assert_eq!(value(name, text), None, "{name} {text}");
        }
    }

    #[test]
    fn wrong_names_and_units_are_told() {
        assert!(Wanted::read("p98").unwrap_err().contains("there are throughput, p50"));
        assert!(Wanted::read("p99_h").unwrap_err().contains("no unit 'h'; there are ns, us"));
        assert!(Wanted::read("operations_ms").is_err());
    }

    fn figures(found: &[(&str, f64)]) -> Figures {
        let mut figures = Figures::default();
        for (name, value) in found {
            figures.add(Wanted::read(name).unwrap(), *value);
        }
        figures
    }

    #[test]
    fn what_is_missing_follows_from_the_rest() {
        let found = figures(&[("operations", 1000.0), ("seconds", 2e6)]).concluded(99.0).unwrap();
        assert_eq!((found.operations, found.reported["throughput"]), (1000, 500.0));
        let found = figures(&[("throughput", 50.0)]).concluded(4.0).unwrap();
        assert_eq!((found.operations, found.errors), (200, 0));
        let found =
            figures(&[("answered", 100.0), ("wrong", 20.0), ("wrong", 5.0), ("errors", 3.0), ("throughput", 8.0)]);
        let found = found.concluded(1.0).unwrap();
        assert_eq!((found.operations, found.errors, found.reported["throughput"]), (75, 28, 6.0));
        let found = figures(&[("throughput", 100.0), ("wrong", 50.0), ("p50", 0.0), ("p99", 5.0)]);
        let found = found.concluded(2.0).unwrap();
        assert_eq!((found.operations, found.errors, found.reported["throughput"]), (150, 50, 75.0));
        assert_eq!(found.reported.keys().collect::<Vec<_>>(), ["p99_us", "throughput"], "no time is 0");
        let found = figures(&[("answered", 100.0), ("operations", 90.0), ("errors", 3.0), ("throughput", 50.0)]);
        let found = found.concluded(2.0).unwrap();
        assert_eq!((found.operations, found.errors, found.reported["throughput"]), (90, 13, 45.0));
        assert!(figures(&[("p50", 1.0)]).concluded(1.0).is_err());
    }
}
