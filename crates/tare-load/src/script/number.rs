//! Integers, parsed and written.

/// The largest size of a feed's numbers: beyond it, a double cannot distinguish neighbours.
pub(crate) const NUMBER_MAX: i64 = 1 << 53;

/// Parses an integer, which may be negative and have `_` between its digits, of at most [`NUMBER_MAX`] in size.
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn parse_number(text: &str) -> Result<i64, String> {
    let number = text.replace('_', "").parse::<i64>();
    let number = number.map_err(|_| format!("expected a whole number, found '{text}'"))?;
    if number.unsigned_abs() > NUMBER_MAX as u64 {
        return Err(format!("{number} is out of range"));
    }
    Ok(number)
}

/// Appends `number` in decimal, padded with zeros to at least `width` digits (at most 20).
pub(crate) fn write_number(number: i64, width: u8, out: &mut Vec<u8>) {
    if number < 0 {
        out.push(b'-');
    }
    let mut digits = [b'0'; 20];
    let mut left = number.unsigned_abs();
    let mut at = digits.len();
    while left > 0 || at == digits.len() {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    let from = at.min(digits.len() - usize::from(width).min(digits.len()));
    out.extend_from_slice(&digits[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_written_as_the_standard_library_does(number: i64, width in 0..=20u8) {
            let mut out = Vec::new();
            write_number(number, width, &mut out);
            let digits = format!("{:0width$}", number.unsigned_abs(), width = usize::from(width));
            let wanted = if number < 0 { format!("-{digits}") } else { digits };
            prop_assert_eq!(String::from_utf8(out).unwrap(), wanted);
        }

        #[test]
        fn what_is_in_range_is_read_back(number in -NUMBER_MAX..=NUMBER_MAX) {
            prop_assert_eq!(parse_number(&number.to_string()), Ok(number));
        }
    }

    #[test]
    fn what_is_no_number_or_too_large_is_refused() {
        assert_eq!(parse_number("1_000"), Ok(1000));
        for bad in ["", "x", "1.5", "9007199254740993", "-9007199254740993", "99999999999999999999"] {
            assert!(parse_number(bad).is_err(), "{bad}");
        }
    }
}
