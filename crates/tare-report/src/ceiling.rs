//! The generator's part in a closed load, in words.

use tare_stats::{Analysis, Ceiling, Remedy, percent_text};

/// How busy it was in each form: `not idle for 74 % of the time in native, 71 % in container`; none where the load
/// does not wait for answers.
pub(crate) fn shares(analysis: &Analysis) -> Option<String> {
    let all = analysis.ceilings.as_ref()?;
    let said = |ceiling: &Ceiling| format!("{} in {}", percent_text(ceiling.awake), ceiling.arm);
    let told: Vec<String> = all.arms.iter().filter(|ceiling| ceiling.arm != analysis.control).map(said).collect();
    (!told.is_empty()).then(|| format!("not idle for {} of the time", told.join(", ")))
}

/// What a reader must know and can do where it was the limit of some form.
pub(crate) fn warning(analysis: &Analysis) -> Option<String> {
    let all = analysis.ceilings.as_ref()?;
    let those = || all.arms.iter().filter(|arm| arm.limited);
    let limited: Vec<String> = those().map(|arm| arm.arm.clone() + &some_trials(arm)).collect();
    if limited.is_empty() {
        return None;
    }
    let of_which = limited.join(", ");
    let what = match all.straddle() {
        true => "a service faster than the generator looks only as fast as it, so ratios to the others are bounds",
        false if those().any(|arm| arm.limited_trials < arm.trials) => {
            "part of what was measured is the generator's speed, so forms cannot be told apart"
        }
        false => "what was measured is the generator's speed, so forms cannot be told apart",
    };
    let remedies: Vec<&str> = all.remedies.iter().map(|remedy| words(*remedy)).collect();
    Some(format!("the generator was hardly ever idle in {of_which}: {what}. To do: {}", remedies.join(", or ")))
}

/// ` (2 of 5 trials)`; nothing where it was in all of them.
fn some_trials(ceiling: &Ceiling) -> String {
    let Ceiling { limited_trials, trials, .. } = ceiling;
    if limited_trials == trials { String::new() } else { format!(" ({limited_trials} of {trials} trials)") }
}

fn words(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::AnotherCpu => "give the load another CPU (placement: {aside: {generator: 2}})",
        Remedy::FixedRate => {
            "use a fixed rate that every form sustains (load: {open: {rate: ...}}) and compare times and CPU"
        }
    }
}
