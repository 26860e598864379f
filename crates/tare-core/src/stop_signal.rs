//! The signal that asks a service to end.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The names of Linux's signals on x86-64 and arm64; the first one has the number 1.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
    "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO",
    "PWR", "SYS",
];
/// The first and the last real-time signal that programs may use, as C libraries number them.
const REAL_TIME: (i32, i32) = (34, 64);

/// A signal of Linux, sent to a service that is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StopSignal(i32);

impl StopSignal {
    /// SIGTERM, which services are sent unless something else is stated.
    pub const TERM: StopSignal = StopSignal(15);

    /// The signal that `SIGQUIT`, `QUIT`, `3`, `SIGRTMIN+3` or `RTMAX-1` stands for, in any case of letters; `None`
    /// when there is no such signal.
    pub fn parse(text: &str) -> Option<StopSignal> {
        let (first, last) = REAL_TIME;
        if let Ok(number) = text.parse::<i32>() {
            let named = (1..=NAMES.len() as i32).contains(&number);
            return (named || (first..=last).contains(&number)).then_some(StopSignal(number));
        }
        let upper = text.to_ascii_uppercase();
        let name = match upper.strip_prefix("SIG").unwrap_or(&upper) {
            "IOT" => "ABRT",
            "CLD" => "CHLD",
            "POLL" => "IO",
            name => name,
        };
        if let Some(at) = NAMES.iter().position(|known| *known == name) {
            return Some(StopSignal(at as i32 + 1));
        }
        // A sign has to stand between the two: "RTMIN3" is no signal.
        let offset = |rest: &str, sign: char| match rest.strip_prefix(sign) {
            _ if rest.is_empty() => Some(0),
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse::<i32>().ok(),
            _ => None,
        };
        let number = match (name.strip_prefix("RTMIN"), name.strip_prefix("RTMAX")) {
            (Some(rest), _) => first.checked_add(offset(rest, '+')?)?,
            (_, Some(rest)) => last.checked_sub(offset(rest, '-')?)?,
            _ => return None,
        };
        (first..=last).contains(&number).then_some(StopSignal(number))
    }

    /// Its number.
    pub fn number(self) -> i32 {
        self.0
    }
}

impl Default for StopSignal {
    fn default() -> StopSignal {
        StopSignal::TERM
    }
}

impl fmt::Display for StopSignal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match usize::try_from(self.0 - 1).ok().and_then(|at| NAMES.get(at)) {
            Some(name) => write!(out, "SIG{name}"),
            None if self.0 == REAL_TIME.0 => write!(out, "SIGRTMIN"),
            // Engines know no other names: up to RTMIN+15, and from RTMAX-14 on.
            None if self.0 <= REAL_TIME.0 + 15 => write!(out, "SIGRTMIN+{}", self.0 - REAL_TIME.0),
            None if self.0 == REAL_TIME.1 => write!(out, "SIGRTMAX"),
            None => write!(out, "SIGRTMAX-{}", REAL_TIME.1 - self.0),
        }
    }
}

impl TryFrom<String> for StopSignal {
    type Error = String;

    fn try_from(text: String) -> Result<StopSignal, String> {
        StopSignal::parse(&text).ok_or_else(|| format!("'{text}' is not a signal"))
    }
}

impl From<StopSignal> for String {
    fn from(signal: StopSignal) -> String {
        signal.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_read_as_engines_read_them_and_written_by_name() {
        for (text, number, name) in [
            ("SIGTERM", 15, "SIGTERM"),
            ("quit", 3, "SIGQUIT"),
            ("28", 28, "SIGWINCH"),
            ("SIGRTMIN", 34, "SIGRTMIN"),
            ("RTMIN+3", 37, "SIGRTMIN+3"),
            ("SIGRTMIN+15", 49, "SIGRTMIN+15"),
            ("50", 50, "SIGRTMAX-14"),
            ("SIGRTMAX-1", 63, "SIGRTMAX-1"),
            ("64", 64, "SIGRTMAX"),
            ("SIGPOLL", 29, "SIGIO"),
        ] {
            let signal = StopSignal::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((signal.number(), signal.to_string().as_str()), (number, name), "{text}");
            assert_eq!(StopSignal::parse(name), Some(signal), "{name} is read again");
        }
        for text in ["", "SIG", "0", "32", "65", "-1", "ENDING", "RTMIN3", "RTMIN+", "RTMIN+31", "RTMIN-1", "RTMAX+1"] {
            assert_eq!(StopSignal::parse(text), None, "{text:?}");
        }
    }
}
