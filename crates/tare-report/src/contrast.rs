//! What else differs between two forms, in words and as a table.

use crate::quantity::{difference_text, digits, plain_quantity, quantity};
use serde::Serialize;
use tare_stats::{AbsoluteDifference, Analysis, Contrast, Figure};

/// Figures that are said where there is little room.
const SAID: usize = 3;

/// The clearest differences of a form: `CPU of port proxy per op 16.2 us instead of 0 us; packets per op 4 instead of
/// 2`.
fn sentence(contrast: &Contrast) -> String {
    let said: Vec<String> = contrast.figures.iter().take(SAID).map(figure).collect();
    let more = contrast.figures.len().saturating_sub(SAID);
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{}{rest}", said.join("; "))
}

/// A figure in words: `packets per op 4 instead of 2`.
pub(crate) fn figure(figure: &Figure) -> String {
    let unit = figure.unit.as_str();
    let value = |value: f64| if unit.is_empty() { digits(value) } else { plain_quantity(value, unit) };
    format!("{} {} instead of {}", figure.title, value(figure.here), value(figure.there))
}

/// What goes with a rung, or with a form; nothing where nothing does beyond chance.
pub(crate) fn of(analysis: &Analysis, form: &str) -> Option<String> {
    analysis.contrasts.iter().find(|contrast| contrast.form == form).map(sentence)
}

/// A line for each form of which something is known.
pub(crate) fn lines(analysis: &Analysis) -> Vec<String> {
    analysis.contrasts.iter().map(|contrast| format!("{}: {}", contrast.form, sentence(contrast))).collect()
}

/// A form's table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Table {
    pub(crate) form: String,
    pub(crate) against: String,
    pub(crate) rows: Vec<Row>,
}

/// A row of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) title: String,
    pub(crate) here: String,
    pub(crate) there: String,
    pub(crate) difference: String,
}

/// By how much a figure differs, with its interval: `+4.00 [3.99, 4.01]`.
pub(crate) fn difference(figure: &Figure) -> String {
    // A difference of shares is one of percentage points.
    let (factor, unit) = if figure.unit == "share" { (100.0, "points") } else { (1.0, figure.unit.as_str()) };
    let scaled = |end: f64| end * factor;
    let interval = tare_stats::Interval { low: scaled(figure.interval.low), high: scaled(figure.interval.high) };
    let difference = AbsoluteDifference { value: scaled(figure.difference), interval: Some(interval) };
    difference_text(&difference, unit).replace("  ", " ").trim().to_owned()
}

/// All of them, whole.
pub(crate) fn tables(analysis: &Analysis) -> Vec<Table> {
    let value = |value: f64, unit: &str| if unit.is_empty() { digits(value) } else { quantity(value, unit) };
    let row = |figure: &Figure| Row {
        title: figure.title.clone(),
        here: value(figure.here, &figure.unit),
        there: value(figure.there, &figure.unit),
        difference: difference(figure),
    };
    let table = |contrast: &Contrast| Table {
        form: contrast.form.clone(),
        against: contrast.against.clone(),
        rows: contrast.figures.iter().map(row).collect(),
    };
    analysis.contrasts.iter().map(table).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_stats::Interval;

    fn figure(title: &str, unit: &str, here: f64, there: f64) -> Figure {
        Figure {
            name: title.into(),
            title: title.into(),
            unit: unit.into(),
            here,
            there,
            difference: here - there,
            interval: Interval { low: here - there - 0.1, high: here - there + 0.1 },
            apart: false,
            standardised: Some(3.0),
        }
    }

    #[test]
    fn the_clearest_are_said_and_the_rest_is_counted() {
        let mut contrast = Contrast {
            form: "a".into(),
            against: "b".into(),
            figures: vec![figure("CPU of proxy per op", "us", 16.2, 0.0)],
        };
        assert_eq!(sentence(&contrast), "CPU of proxy per op 16.2 us instead of 0 us");
        contrast.figures.extend([figure("packets per op", "", 4.0, 2.0), figure("time held back", "share", 0.5, 0.0)]);
        contrast.figures.push(figure("x", "", 1.0, 0.0));
        let said = "CPU of proxy per op 16.2 us instead of 0 us; packets per op 4.00 instead of 2.00; time held back \
                    50.0 % instead of 0 %; and 1 more";
        assert_eq!(sentence(&contrast), said);
    }
}
