//! Which form is the best, in words.

use tare_stats::NoContest;

/// Why a contest decides nothing, to stand behind a colon.
pub fn why_undecided(why: &NoContest) -> String {
    match why {
        NoContest::Emulated => "forms were measured under emulation, which says nothing of the real thing".to_owned(),
        NoContest::ControlDiffers => {
            "the A/A control differs: this machine was not the same from trial to trial".to_owned()
        }
        NoContest::VoidTooOften { arm } => format!("the trials of {arm} are void more often than the others'"),
    }
}
