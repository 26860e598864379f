//! How long each deployment is best measured in a given time, before anything is known of the service.

use super::{Costs, LENGTHS_S, expected_half_width};

/// How much deployments of one form usually differ in throughput, as a standard deviation, log scale.
const BETWEEN: f64 = 0.007;

/// How much the throughput of one second of turns usually differs from that of another, likewise.
const WITHIN: f64 = 0.017;

/// Another length is taken where intervals are no wider than this share of what they would be.
const WORTH_IT: f64 = 0.9;

/// No shorter than this share of what was asked for: quantiles and parts of CPU time need operations and ticks.
const SHARE_MIN: f64 = 0.25;

/// The level at which widths are held against each other. How many forms share the 5 % moves all of them alike.
const LEVEL: f64 = 0.975;

/// How long each deployment is to be measured, s, so that a run of `time_s` and at most `blocks` blocks gives the
/// narrowest intervals; none where `asked_s` gives nearly as narrow ones. No longer than `asked_s`: a longer
/// measurement may be more than a service stays the same for. No shorter than a quarter of it, and than `least_s`.
///
/// A short run that measures each deployment for long has few of them, and Student's t makes its intervals wide.
pub fn best_length_s(costs: &Costs, asked_s: f64, least_s: f64, time_s: f64, blocks: u32) -> Option<f64> {
    let width = |measure_s: f64| {
        let variance = BETWEEN.powi(2) + WITHIN.powi(2) / measure_s;
        let blocks = costs.blocks_within(time_s, measure_s).min(blocks);
        expected_half_width(variance, blocks, LEVEL).unwrap_or(f64::INFINITY)
    };
    let least_s = least_s.max(SHARE_MIN * asked_s);
    let shorter = LENGTHS_S.into_iter().filter(|length_s| (least_s..asked_s).contains(length_s));
    let best_s = shorter.min_by(|one, other| width(*one).total_cmp(&width(*other)))?;
    (width(best_s) <= WORTH_IT * width(asked_s) && width(best_s).is_finite()).then_some(best_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: u32 = 1000;

    /// Three arms and the control, deployed at once.
    const LIGHT: Costs = Costs { begin_s: 30.0, round_s: 3.0, deployments: 4.0 };

    #[test]
    fn a_short_run_has_more_deployments_instead_of_long_ones() {
        // 3 blocks of 4 s, or 7 to 12 of 1 to 2 s.
        let best_s = best_length_s(&LIGHT, 4.0, 0.0, 120.0, MANY).unwrap();
        assert!((1.0..=2.0).contains(&best_s), "{best_s}");
        assert_eq!(best_length_s(&LIGHT, best_s, 0.0, 120.0, MANY), None);
        let longer_s = best_length_s(&LIGHT, 8.0, 3.0, 120.0, MANY).unwrap();
        assert!(
            (3.0..8.0).contains(&longer_s),
            "{longer_s}: what may not be as short as is best is shortened all the same"
        );
        // Of an hour, any length leaves many blocks.
        assert_eq!(best_length_s(&LIGHT, 4.0, 0.0, 3600.0, MANY), None);
        assert!(best_length_s(&LIGHT, 60.0, 0.0, 120.0, MANY).is_none_or(|best_s| best_s >= 15.0));
    }

    #[test]
    fn what_there_are_few_blocks_of_is_measured_as_long_as_there_is_time() {
        // Four blocks of 2 s fit as well as four of 1 s, and leave less of what varies within a deployment.
        let best_s = best_length_s(&LIGHT, 8.0, 0.0, 120.0, 4).unwrap();
        let (longer, all) = (LENGTHS_S.into_iter().filter(|length_s| *length_s > best_s), best_s);
        assert!(longer.into_iter().all(|length_s| LIGHT.blocks_within(120.0, length_s) < 4), "{all}");
    }

    #[test]
    fn where_deploying_is_dear_deployments_are_measured_longer() {
        let dear = Costs { round_s: 80.0, ..LIGHT };
        let light_s = best_length_s(&LIGHT, 20.0, 0.0, 1800.0, MANY).unwrap();
        assert!(best_length_s(&dear, 20.0, 0.0, 1800.0, MANY).is_none_or(|best_s| best_s > light_s), "{light_s}");
    }

    #[test]
    fn where_no_length_leaves_enough_blocks_nothing_is_changed() {
        assert_eq!(best_length_s(&LIGHT, 4.0, 0.0, 35.0, MANY), None);
        assert_eq!(best_length_s(&LIGHT, 1.0, 0.0, 120.0, MANY), None, "nothing is shorter");
    }
}
