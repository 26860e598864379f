//! Quantities as people write them: `10s`, `512MiB`, `2%`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The longest duration that may be stated: many of them in a row are still far from overflowing any clock.
pub const DURATION_MAX: Duration = Duration::from_secs(720 * 3600);
/// The largest size that may be stated, bytes: many of them still add up within 64 bits.
pub const BYTES_MAX: u64 = 64 << 40;
/// The largest share that may be stated, of one: nothing that is given in percent exceeds it.
const SHARE_MAX: f64 = 100.0;
/// The highest CPU number accepted: one beyond what any kernel supports is a typing mistake, not a machine.
const CPU_MAX: u32 = 65_535;

/// In a second.
const NANOS: u64 = 1_000_000_000;

/// A duration written as a number and a unit: `250ms`, `10s`, `5m`, `1h`, and sums such as `1m30s`.
///
/// # Errors
/// What is wrong with the text, and what is accepted: nothing is longer than [`DURATION_MAX`].
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("'{text}' is not a duration; write a number and a unit, such as 500ms, 10s, 5m or 1h");
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(expected());
    }
    let mut total = 0.0_f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(expected)?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let scale = match unit {
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(expected()),
        };
        total += number.parse::<f64>().map_err(|_| expected())? * scale;
        rest = tail;
    }
    match Duration::try_from_secs_f64(total) {
        Ok(duration) if duration <= DURATION_MAX => Ok(duration),
        _ => Err(format!("'{text}' is too long a time: {} at most", exact_duration(DURATION_MAX))),
    }
}

/// A size written as a number and a unit: `64KiB`, `512MiB`, `1GiB` (powers of 1024), `1MB` (powers of 1000), `17B`
/// or a bare number of bytes.
///
/// # Errors
/// What is wrong with the text, and what is accepted: nothing is larger than [`BYTES_MAX`].
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let expected = || format!("'{text}' is not a size; write a number and a unit, such as 64KiB, 512MiB or 2GiB");
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale: f64 = match unit.trim() {
        "" | "B" => 1.0,
        "KiB" | "K" | "k" => 1024.0,
        "MiB" | "M" => 1024.0 * 1024.0,
        "GiB" | "G" => 1024.0 * 1024.0 * 1024.0,
        "TiB" | "T" => 1024.0_f64.powi(4),
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return Err(expected()),
    };
    let value = number.parse::<f64>().map_err(|_| expected())? * scale;
    if value > BYTES_MAX as f64 {
        return Err(format!("'{text}' is too large a size: {} at most", show_bytes(BYTES_MAX)));
    }
    Ok(value as u64)
}

/// A share written as a percentage, `2%` or `2.5 %`, as a fraction of one.
///
/// # Errors
/// What is wrong with the text, and what is accepted.
pub fn parse_percent(text: &str) -> Result<f64, String> {
    let expected = || format!("'{text}' is not a percentage; write for example 2%");
    let number = text.trim().strip_suffix('%').ok_or_else(expected)?;
    let value: f64 = number.trim().parse().map_err(|_| expected())?;
    let share = value / 100.0;
    if !share.is_finite() || share < 0.0 {
        return Err(expected());
    }
    if share > SHARE_MAX {
        return Err(format!("'{text}' is too large a share: {}% at most", SHARE_MAX * 100.0));
    }
    Ok(share)
}

/// A list of CPU numbers in the kernel's notation: `0-3,8`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct CpuSet(Vec<u32>);

impl CpuSet {
    /// The set of these CPUs, sorted, each once.
    pub fn new(cpus: impl IntoIterator<Item = u32>) -> Self {
        let mut cpus: Vec<u32> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        CpuSet(cpus)
    }

    /// Reads the kernel's notation.
    ///
    /// # Errors
    /// What is wrong with the text, and what is accepted.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = || format!("'{text}' is not a list of CPUs; write for example 0-3,8");
        let mut ranges = Vec::new();
        for part in text.trim().split(',').filter(|part| !part.trim().is_empty()) {
            let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
            let first: u32 = first.trim().parse().map_err(|_| expected())?;
            let last: u32 = last.trim().parse().map_err(|_| expected())?;
            if last < first || last > CPU_MAX {
                return Err(expected());
            }
            ranges.push((first, last));
        }
        // Each CPU is listed once, however often the text repeats it.
        ranges.sort_unstable();
        let (mut cpus, mut next) = (Vec::new(), 0);
        for (first, last) in ranges {
            cpus.extend(first.max(next)..=last);
            next = next.max(last + 1);
        }
        Ok(CpuSet(cpus))
    }

    /// The CPU numbers, ascending.
    pub fn cpus(&self) -> &[u32] {
        &self.0
    }

    /// How many CPUs the set holds.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set holds no CPU.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut at = 0;
        while at < self.0.len() {
            let first = self.0[at];
            let mut last = first;
            while at + 1 < self.0.len() && self.0[at + 1] == last + 1 {
                at += 1;
                last = self.0[at];
            }
            if first != self.0[0] {
                f.write_str(",")?;
            }
            if first == last {
                write!(f, "{first}")?
            } else {
                write!(f, "{first}-{last}")?
            }
            at += 1;
        }
        Ok(())
    }
}

impl From<CpuSet> for String {
    fn from(set: CpuSet) -> String {
        set.to_string()
    }
}

impl TryFrom<String> for CpuSet {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        CpuSet::parse(&text)
    }
}

/// `1m 20s`, `3.5 s`, `240 ms`: a duration that was measured or estimated, rounded for a reader. A duration that
/// somebody stated is shown by [`exact_duration`].
pub fn show_duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 60.0 => format!("{s:.0} s"),
        s if s < 3600.0 => format!("{}m {:02}s", s as u64 / 60, s as u64 % 60),
        s => format!("{}h {:02}m", s as u64 / 3600, s as u64 % 3600 / 60),
    }
}

/// `5 ms`, `0.25 ms`, `1.2 s`, `90 s`, `5m`, `1h 30m`: a duration as somebody stated it, to the nanosecond.
pub fn exact_duration(duration: Duration) -> String {
    let of = |nanos: u64, digits: usize| {
        let unit = 10_u64.pow(digits as u32);
        let text = format!("{}.{:0digits$}", nanos / unit, nanos % unit);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let (seconds, nanos) = (duration.as_secs(), u64::from(duration.subsec_nanos()));
    match seconds {
        0 => return format!("{} ms", of(nanos, 6)),
        1..120 => return format!("{} s", of(seconds * NANOS + nanos, 9)),
        _ => {}
    }
    let rest = of(seconds % 60 * NANOS + nanos, 9);
    let parts = [((seconds / 3600).to_string(), "h"), ((seconds / 60 % 60).to_string(), "m"), (rest, "s")];
    let parts = parts.into_iter().filter(|(number, _)| number != "0").map(|(number, unit)| number + unit);
    parts.collect::<Vec<_>>().join(" ")
}

/// The same as it is typed: `1.2s`, `1h30m`. [`parse_duration`] reads it.
pub fn typed_duration(duration: Duration) -> String {
    exact_duration(duration).replace(' ', "")
}

/// `2`, `0.1`, `99.99991`: a share in percent as somebody stated it, with the fewest digits that identify it, and at
/// most twelve decimals.
pub fn exact_percent(share: f64) -> String {
    const DIGITS_MAX: usize = 12;
    let text = |digits: usize| format!("{:.digits$}", share * 100.0);
    // Nobody stated the digits that binary fractions add: 99.9 / 100.0 is 0.9990000000000001.
    let slack = 4.0 * f64::EPSILON * share.abs();
    let means = |text: &String| text.parse::<f64>().is_ok_and(|percent| (percent / 100.0 - share).abs() <= slack);
    (0..DIGITS_MAX).map(text).find(means).unwrap_or_else(|| text(DIGITS_MAX))
}

/// `512 MiB`, `1.5 GiB`, `40 B`: a size for a reader.
pub fn show_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let text = if value >= 100.0 || value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") };
    format!("{text} {}", UNITS[unit])
}

/// `81,234`: a number for a reader, rounded to an integer, thousands grouped.
pub fn grouped(number: f64) -> String {
    let text = format!("{number:.0}");
    let (sign, digits) = text.split_at(text.find(|c: char| c != '-').unwrap_or(0));
    // Infinity and NaN have no thousands to group.
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return text;
    }
    let mut shown = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_sizes_and_shares_are_read_as_written() {
        assert_eq!(parse_duration("1m30s").unwrap(), Duration::from_secs(90));
        assert_eq!(parse_duration("250ms").unwrap(), Duration::from_millis(250));
        assert_eq!(parse_bytes("512MiB").unwrap(), 512 << 20);
        assert_eq!(parse_bytes("17").unwrap(), 17);
        assert_eq!(parse_percent("2.5 %").unwrap(), 0.025);
        for bad in ["", "10", "s", "10 parsecs", "-3s", "1e9h9", "99999999999999999999999999h"] {
            assert!(parse_duration(bad).is_err(), "{bad} was accepted");
        }
        for bad in ["", "MiB", "-1MiB", "1 furlong", "99999999TiB"] {
            assert!(parse_bytes(bad).is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn quantities_without_measure_are_refused() {
        let longest = ["720h", "43200m", "719h59m60s"];
        assert_eq!(longest.map(|text| parse_duration(text).unwrap()), [DURATION_MAX; 3]);
        let nines = "9".repeat(400);
        let long = ["721h", "10000000000000000000s", "18446744073709551615s", "720h0.1s", &format!("{nines}h")];
        for text in long {
            assert!(parse_duration(text).unwrap_err().contains("720h at most"), "{text}");
        }
        for text in ["1e19s", "1e308s", "nan", "nans", "inf", "infs", "-1s", "1ns", ".s", "1..5s", "0x1s"] {
            assert!(parse_duration(text).is_err(), "{text} was accepted");
        }
        assert_eq!(parse_bytes("64TiB"), Ok(BYTES_MAX));
        for text in ["65TiB", "18446744073709551615", &nines] {
            assert!(parse_bytes(text).unwrap_err().contains("64 TiB at most"), "{text}");
        }
        assert_eq!(parse_percent("10000%"), Ok(100.0));
        assert!(parse_percent("1e308%").unwrap_err().contains("10000% at most"));
        for text in ["nan%", "inf%", "-1%", "1e309%"] {
            assert!(parse_percent(text).is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn a_cpu_that_is_named_a_million_times_is_kept_once() {
        let set = CpuSet::parse(&"0-65535,".repeat(100_000)).unwrap();
        assert_eq!(set.cpus().len(), 65_536);
        assert_eq!(CpuSet::parse("8,0-3,2-5,4").unwrap().cpus(), [0, 1, 2, 3, 4, 5, 8]);
        assert!(CpuSet::parse("0-65536").is_err() && CpuSet::parse("3-1").is_err());
    }

    #[test]
    fn quantities_are_shown_for_a_reader() {
        assert_eq!(show_bytes(512 << 20), "512 MiB");
        assert_eq!(show_bytes(1536), "1.5 KiB");
        assert_eq!(show_duration(Duration::from_secs(80)), "1m 20s");
        assert_eq!(show_duration(Duration::from_millis(3500)), "3.5 s");
        let numbers = [0.0, 999.0, 81234.4, 1_000_000.0, -123_456.0, f64::INFINITY];
        assert_eq!(numbers.map(grouped), ["0", "999", "81,234", "1,000,000", "-123,456", "inf"]);
        let exact = [(250, "0.25 ms"), (5_000, "5 ms"), (2_000_000, "2 s"), (90_500_000, "90.5 s"), (0, "0 ms")];
        for (us, wanted) in exact {
            assert_eq!(exact_duration(Duration::from_micros(us)), wanted);
        }
        assert_eq!(exact_duration(Duration::from_nanos(10_000_000_001)), "10.000000001 s");
        let stated = ["1200ms", "1.5s", "400ms", "90s", "5m", "1h30m", "2h", "2m30.5s", "25h"];
        let shown = ["1.2 s", "1.5 s", "400 ms", "90 s", "5m", "1h 30m", "2h", "2m 30.5s", "25h"];
        assert_eq!(stated.map(|text| exact_duration(parse_duration(text).unwrap())), shown);
    }

    #[test]
    fn shares_are_shown_with_the_digits_that_were_stated() {
        for (share, wanted) in [(0.999, "99.9"), (0.57, "57"), (0.0235, "2.35"), (1.0, "100"), (0.0, "0")] {
            assert_eq!(exact_percent(share), wanted);
        }
        assert_eq!([0.999_999_1, 0.999_999_2].map(exact_percent), ["99.99991", "99.99992"]);
        assert_eq!(exact_percent(1.0 / 3.0), "33.333333333333");
    }

    proptest! {
        #[test]
        fn a_share_is_shown_as_it_was_typed(millionths in 0..=100_000_000u64) {
            let typed = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
            let typed = typed.trim_end_matches('0').trim_end_matches('.');
            let share = parse_percent(&format!("{typed}%")).unwrap();
            prop_assert_eq!(exact_percent(share), typed);
        }

        #[test]
        fn what_is_typed_again_means_the_same(us in prop_oneof![0..10_000_000u64, 0..360_000_000_000u64]) {
            let stated = Duration::from_micros(us);
            prop_assert_eq!(parse_duration(&typed_duration(stated)).unwrap(), stated);
        }

        #[test]
        fn a_cpu_set_survives_its_own_notation(cpus in proptest::collection::vec(0u32..512, 0..40)) {
            let set = CpuSet::new(cpus);
            prop_assert_eq!(CpuSet::parse(&set.to_string()).unwrap(), set);
        }
    }
}
