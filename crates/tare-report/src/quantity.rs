//! Figures as readers want them: three significant digits, a unit that fits.

use tare_core::units::grouped;
use tare_stats::{AbsoluteDifference, Interval};

/// Rounded once, in decimal: 9.996 is 10.0, not 10.00.
fn rounded(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// Three significant digits, thousands grouped: `98,200`, `4.10`, `0.0123`.
pub(crate) fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return "?".to_owned();
    }
    let rounded = rounded(value);
    if rounded.abs() >= 1e3 {
        return grouped(rounded);
    }
    let decimals = (2 - rounded.abs().log10().floor() as i32).clamp(0, 6) as usize;
    format!("{rounded:.decimals$}")
}

/// A value with its unit, in the scale that reads best: microseconds become milliseconds from 1000 on.
pub(crate) fn quantity(value: f64, unit: &str) -> String {
    // 999.6 us are 1.00 ms.
    let us = rounded(value);
    match unit {
        "us" if us >= 1e6 => format!("{} s", digits(value / 1e6)),
        "us" if us >= 1e3 => format!("{} ms", digits(value / 1e3)),
        "us" => format!("{} \u{b5}s", digits(value)),
        "share" => format!("{} %", digits(value * 100.0)),
        _ => format!("{} {unit}", digits(value)),
    }
}

/// `[11.9, 12.8]` behind a value in the same unit, else `[980 \u{b5}s, 1.02 ms]`.
pub(crate) fn interval_text(value: f64, interval: Interval, unit: &str) -> String {
    let parts = |value: f64| {
        let text = quantity(value, unit);
        text.split_once(' ').map(|(number, unit)| (number.to_owned(), unit.to_owned())).unwrap_or((text, String::new()))
    };
    let ((low, of_low), (high, of_high)) = (parts(interval.low), parts(interval.high));
    let same = of_low == of_high && of_low == parts(value).1;
    if same { format!("[{low}, {high}]") } else { format!("[{low} {of_low}, {high} {of_high}]") }
}

/// A difference with its interval in one scale: `+9.3 us [8.1, 10.4]`. As many decimals as leave the interval two
/// digits of width; three digits where there is none.
pub(crate) fn difference_text(difference: &AbsoluteDifference, unit: &str) -> String {
    let AbsoluteDifference { value, interval } = *difference;
    let far = interval.map_or(value.abs(), |Interval { low, high }| low.abs().max(high.abs()).max(value.abs()));
    let (scale, unit) = match unit {
        "us" if far >= 1e6 => (1e-6, "s"),
        "us" if far >= 1e3 => (1e-3, "ms"),
        "us" => (1.0, "\u{b5}s"),
        _ => (1.0, unit),
    };
    let sized =
        if let Some(Interval { low, high }) = interval { 0.5 * (high - low) } else { 0.1 * value.abs() } * scale;
    let decimals = if sized > 0.0 { (1 - sized.log10().floor() as i32).clamp(0, 6) as usize } else { 0 };
    let value = value * scale;
    match interval {
        Some(Interval { low, high }) => {
            let (low, high) = (low * scale, high * scale);
            format!("{value:+.decimals$} {unit} [{low:.decimals$}, {high:.decimals$}]")
        }
        None => format!("{value:+.decimals$} {unit}"),
    }
}

/// A measured value of this unit (`us`, `op/s`, `share`, ...) in ASCII, as every terminal and text file shows it:
/// `98,200 op/s`, `1.23 ms`.
pub fn plain_quantity(value: f64, unit: &str) -> String {
    quantity(value, unit).replace('\u{b5}', "u")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_one_scale_and_as_many_digits_as_it_deserves() {
        let said = |value, interval: Option<(f64, f64)>| {
            let interval = interval.map(|(low, high)| Interval { low, high });
            difference_text(&AbsoluteDifference { value, interval }, "us").replace('\u{b5}', "u")
        };
        assert_eq!(said(9.31, Some((8.14, 10.42))), "+9.3 us [8.1, 10.4]");
        assert_eq!(said(-0.312, Some((-0.5, -0.12))), "-0.31 us [-0.50, -0.12]");
        assert_eq!(said(31.4, Some((2.0, 60.0))), "+31 us [2, 60]");
        assert_eq!(said(940.0, Some((800.0, 1_080.0))), "+0.94 ms [0.80, 1.08]");
        assert_eq!(said(431.7, None), "+432 us");
        assert_eq!(said(0.0, None), "+0 us");
    }

    #[test]
    fn an_interval_names_its_unit_where_that_is_not_the_value_s() {
        let interval = |low, high| Interval { low, high };
        assert_eq!(interval_text(12.3, interval(11.9, 12.8), "us"), "[11.9, 12.8]");
        assert_eq!(interval_text(1_000.0, interval(980.0, 1_020.0), "us"), "[980 \u{b5}s, 1.02 ms]");
        assert_eq!(interval_text(0.5, interval(0.25, 0.75), "share"), "[25.0, 75.0]");
    }

    #[test]
    fn three_digits_and_a_unit_that_fits() {
        let cases = [
            (98_234.0, "op/s", "98,200 op/s"),
            (1_234_567.0, "op/s", "1,230,000 op/s"),
            (4_999.6, "op/s", "5,000 op/s"),
            (482.37, "us", "482 us"),
            (9.804, "us", "9.80 us"),
            (9.996, "us", "10.0 us"),
            (999.6, "us", "1.00 ms"),
            (1_999.0, "us", "2.00 ms"),
            (4.2e6, "us", "4.20 s"),
            (0.000_5, "share", "0.0500 %"),
            (0.0, "share", "0 %"),
        ];
        for (value, unit, wanted) in cases {
            assert_eq!(plain_quantity(value, unit), wanted);
        }
    }
}
