//! Dates as HTTP writes them (RFC 9110, 5.6.7), in all three formats that servers still send.

const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Seconds since 1970, or none if it is not a date.
pub(super) fn parse(text: &[u8]) -> Option<i64> {
    // "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"
    let words: Vec<&[u8]> = text.split(|byte| b" ,-".contains(byte)).filter(|word| !word.is_empty()).take(7).collect();
    let (day, month, year, time) = match words[..] {
        [_, month, day, time, year] => (day, month, year, time),
        [_, day, month, year, time, _] => (day, month, year, time),
        _ => return None,
    };
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))? as i64 + 1;
    let year = match (number(year)?, year.len()) {
        (year, 2) if year < 70 => year + 2000,
        (year, 2) => year + 1900,
        (year, 4) => year,
        _ => return None,
    };
    let mut clock = time.splitn(3, |byte| *byte == b':').map(number);
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let day = number(day)?;
    if !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

fn number(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > 4 {
        return None;
    }
    text.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
}

/// Days from 1970-01-01 in the Gregorian calendar. Years start in March, so that the leap day is the last of a year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let since_march = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + since_march - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_forms_name_the_same_second() {
        let forms = [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "x, 06-Nov-1994 08:49:37 GMT",
        ];
        for form in forms {
            assert_eq!(parse(form.as_bytes()), Some(784_111_777), "{form}");
        }
        assert_eq!(parse(b"Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(parse(b"Thu, 29 Feb 2024 00:00:00 GMT"), Some(1_709_164_800));
        for wrong in ["", "0", "Sun, 06 Nov 1994", "Sun, 06 Nox 1994 08:49:37 GMT", "Sun, 06 Nov 1994 25:49:37 GMT"] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_day_later_is_a_day_more(day in 0..200_000i64) {
            // From the number back to a date, by counting.
            let (mut year, mut left) = (1970, day);
            let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            while left >= 365 + i64::from(leap(year)) {
                left -= 365 + i64::from(leap(year));
                year += 1;
            }
            let lengths = [31, 28 + i64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            let mut month = 0;
            while left >= lengths[month] {
                left -= lengths[month];
                month += 1;
            }
            prop_assert_eq!(days(year, month as i64 + 1, left + 1), day);
        }

        #[test]
        fn anything_else_is_no_panic(text in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse(&text);
        }
    }
}
