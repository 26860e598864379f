//! Figures as readers want them: three significant digits, a unit that fits.

/// Three significant digits, thousands grouped by a thin space: `98 200`, `4.10`, `0.0123`.
pub(crate) fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return "?".to_owned();
    }
    // Rounded once, in decimal: 9.996 is 10.0, not 10.00.
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let decimals = (2 - rounded.abs().log10().floor() as i32).clamp(0, 6) as usize;
    group(&format!("{rounded:.decimals$}"))
}

/// Groups the digits before the point by threes, from 10 000 on.
fn group(text: &str) -> String {
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    if whole.len() < 5 {
        return text.to_owned();
    }
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) && digit.is_ascii_digit() {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped + rest
}

/// A value with its unit, in the scale that reads best: microseconds become milliseconds from 1000 on.
pub(crate) fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "us" if value >= 1e6 => format!("{} s", digits(value / 1e6)),
        "us" if value >= 1e3 => format!("{} ms", digits(value / 1e3)),
        "us" => format!("{} \u{b5}s", digits(value)),
        "share" => format!("{} %", digits(value * 100.0)),
        _ => format!("{} {unit}", digits(value)),
    }
}

/// The same in ASCII, for terminals and files.
pub(crate) fn plain_quantity(value: f64, unit: &str) -> String {
    quantity(value, unit).replace('\u{202f}', " ").replace('\u{b5}', "u")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit_that_fits() {
        let cases = [
            (98_234.0, "op/s", "98 200 op/s"),
            (1_234_567.0, "op/s", "1 230 000 op/s"),
            (482.37, "us", "482 us"),
            (9.804, "us", "9.80 us"),
            (9.996, "us", "10.0 us"),
            (1_999.0, "us", "2.00 ms"),
            (0.000_5, "share", "0.0500 %"),
            (0.0, "share", "0 %"),
        ];
        for (value, unit, wanted) in cases {
            assert_eq!(plain_quantity(value, unit), wanted);
        }
    }
}
