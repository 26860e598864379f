//! The peak search against systems whose peak is known, because they are simulated.

mod accept;
mod noise;
mod odd;
mod random;
mod searches;
mod system;

use noise::*;
use searches::*;
use system::*;

/// The table of docs/src/methodology/peak-load.md; with every build only so much of it that each row is seen to be near
/// its truth.
#[test]
fn every_system_s_peak_is_found_in_every_noise() {
    let n = if thorough() { 200 } else { 4 };
    for (name, make, start, peak) in [
        ("reference", Make::reference(), 200.0, REFERENCE_PEAK),
        ("loose limits", Make::loose(), 200.0, LOOSE_PEAK),
        ("open", Make::open(), 40.0, OPEN_PEAK),
        ("one server, open", Make::single(), 100.0, SINGLE_PEAK),
    ] {
        let peak = if thorough() { truth(&make, peak) } else { peak };
        for (noise_name, noise) in [("none", NONE), ("quiet", QUIET), ("shared", SHARED), ("bad", BAD)] {
            let found = many(n, |seed| search(&make, &noise, 100_000 + seed, staircase(&make, start), None));
            println!("{name}, {noise_name}: {}", found.describe(peak));
            // Four errors of the mean on top of the bias that the table states.
            let bound = 0.04 + 4.0 * found.spread() / (n as f64).sqrt();
            assert!((found.mean() / peak).ln().abs() < bound, "{name}, {noise_name}: {}", found.mean());
        }
    }
}
