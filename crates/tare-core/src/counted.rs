//! Counts read from data written elsewhere: each is small enough to be added up.

use serde::de::{Deserialize, Deserializer, Error};
use std::collections::BTreeMap;

/// No count is larger: a run would take centuries to reach it. So two thousand of them add up within 64 bits, and every
/// JSON reader understands each as the same number.
pub(crate) const COUNT_MAX: u64 = 1 << 53;

/// Reads a count.
pub(crate) fn count<'de, D: Deserializer<'de>>(reader: D) -> Result<u64, D::Error> {
    u64::deserialize(reader).and_then(checked)
}

/// Reads counts by name.
pub(crate) fn counts<'de, D: Deserializer<'de>>(reader: D) -> Result<BTreeMap<String, u64>, D::Error> {
    let counts: BTreeMap<String, u64> = Deserialize::deserialize(reader)?;
    counts.values().try_for_each(|count| checked(*count).map(drop))?;
    Ok(counts)
}

fn checked<E: Error>(count: u64) -> Result<u64, E> {
    match count {
        0..=COUNT_MAX => Ok(count),
        _ => Err(E::custom(format_args!("{count} is no count of anything: at most {COUNT_MAX} are believed"))),
    }
}

#[cfg(test)]
mod tests {
    use crate::load::{LoadSummary, OperationSummary};

    fn read(operation: &str, failures: &str) -> Result<LoadSummary, serde_json::Error> {
        let mut written = serde_json::to_value(LoadSummary::default()).expect("it is plain data");
        written["operations"] = serde_json::from_str(&format!("{{\"get\": {operation}}}"))?;
        written["failures"] = serde_json::from_str(failures)?;
        serde_json::from_value(written)
    }

    #[test]
    fn what_cannot_be_a_count_is_refused_and_named() {
        let operation = |count: &str| {
            let written = serde_json::to_string(&OperationSummary::default()).expect("it is plain data");
            written.replacen("\"count\":0", &format!("\"count\":{count}"), 1)
        };
        assert_eq!(read(&operation("9007199254740992"), "{}").unwrap().operations["get"].count, 1 << 53);
        // Two of these once overflowed the sum of a trial's operations.
        let error = read(&operation("18446744073709551615"), "{}").unwrap_err().to_string();
        assert!(error.contains("18446744073709551615 is no count"), "{error}");
        assert!(read(&operation("9007199254740993"), "{}").is_err());
        assert!(read(&operation("0"), "{\"timed out\": 9007199254740993}").is_err());
        assert!(read(&operation("0"), "{\"timed out\": 7}").is_ok());
    }
}
