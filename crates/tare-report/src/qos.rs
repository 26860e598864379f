//! What of a QoS was broken, in words.

use std::time::Duration;
use tare_core::qos::{QuantileLimit, Share};
use tare_core::units::show_duration;
use tare_stats::{Breach, Broken, SeenInstead};

/// `get p99 within 5 ms in 2, such as 9 ms`; of a window `get p99 within 5 ms: not kept by 3 %`.
pub(crate) fn broken(broken: &Broken) -> String {
    match broken {
        Broken::InTrials { what, trials, seen } => format!("{} in {trials}, such as {}", breach(what), instead(*seen)),
        Broken::InWindow { criterion, share } => format!("{criterion}: not kept by {}", percent(*share)),
    }
}

fn breach(breach: &Breach) -> String {
    match breach {
        Breach::Late { operation, quantile, within } => {
            let limit = QuantileLimit { quantile: *quantile, within: *within };
            format!("{operation} {}", limit.describe())
        }
        Breach::Failures => "failures".to_owned(),
        Breach::Achieved => "answered of what was offered".to_owned(),
        Breach::Mix { operation } => format!("{operation}'s part of the mix"),
        Breach::Share { operation, of, within } => share(operation, Share { of: *of, within: *within }),
    }
}

/// `get 10 % give or take 20 % of all`.
pub(crate) fn share(operation: &str, asked: Share) -> String {
    format!("{operation} {} of all", asked.describe())
}

fn instead(seen: SeenInstead) -> String {
    match seen {
        SeenInstead::Time { us } => show_duration(Duration::from_micros(us.round() as u64)),
        SeenInstead::Share { share } => percent(share),
    }
}

/// A share with at most two decimals.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", (share * 1e4).round() / 1e2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_broken_is_said_with_what_was_there_instead() {
        let in_two = |what, seen| broken(&Broken::InTrials { what, trials: 2, seen });
        let late = Breach::Late { operation: "get".into(), quantile: 0.99, within: Duration::from_millis(5) };
        assert_eq!(in_two(late, SeenInstead::Time { us: 9_000.2 }), "get p99 within 5 ms in 2, such as 9 ms");
        let share = Breach::Share { operation: "get".into(), of: 0.10, within: 0.20 };
        let said = "get 10 % give or take 20 % of all in 2, such as 14.9 %";
        assert_eq!(in_two(share, SeenInstead::Share { share: 0.149 }), said);
        let window = Broken::InWindow { criterion: "failures".into(), share: 0.0123 };
        assert_eq!(broken(&window), "failures: not kept by 1.23 %");
    }
}
