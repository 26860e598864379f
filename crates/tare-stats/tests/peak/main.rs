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

#[test]
#[ignore = "long: minutes; prints the table of METHODOLOGY.md"]
fn table() {
    let n: u64 = std::env::var("SEARCHES").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    for (name, make, start) in [
        ("reference", Make::reference(), 200.0),
        ("loose limits", Make::loose(), 200.0),
        ("open", Make::open(), 40.0),
        ("one server, open", Make::single(), 100.0),
    ] {
        let truth = truth(&make, start * 6.0);
        for (noise_name, noise) in [("none", NONE), ("quiet", QUIET), ("shared", SHARED), ("bad", BAD)] {
            let found = many(n, |seed| search(&make, &noise, 100_000 + seed, staircase(&make, start), None));
            println!("{name}, {noise_name}: {}", found.describe(truth));
        }
    }
    for (noise_name, noise) in [("quiet", QUIET), ("shared", SHARED)] {
        let make = Make::reference();
        let found = many(n, |seed| search(&make, &noise, 100_000 + seed, published(), None));
        println!("published, {noise_name}: {}", found.describe(REFERENCE_PEAK));
    }
}
