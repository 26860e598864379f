//! A round of a study: which arms are in each of its blocks, and in which order.

use super::Study;
use crate::design::{Arrangement, Chop};
use crate::draws::draws;

/// A form's part in a study. The baseline has a second one, the A/A control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arm<'a> {
    /// The form's name.
    pub(crate) form: &'a str,
    /// Whether this is the baseline's second copy, the A/A control.
    pub(crate) control: bool,
}

impl Arm<'_> {
    /// The form's name, or for the control a name of its own.
    pub(crate) fn name(&self) -> String {
        if self.control { format!("{} (A/A)", self.form) } else { self.form.to_owned() }
    }
}

impl Study {
    /// The blocks of a round, each with its arms, in an order drawn from `seed`. Forms named in `emulated` take part
    /// only in the first [`Study::emulated_blocks`] rounds.
    pub(crate) fn round(&self, round: u32, emulated: &[String], seed: u64) -> Vec<Vec<Arm<'_>>> {
        let mut arms: Vec<Arm<'_>> = self
            .forms
            .iter()
            .filter(|form| round < self.emulated_blocks || !emulated.contains(&form.name))
            .map(|form| Arm { form: &form.name, control: false })
            .collect();
        let baseline = Arm { form: &self.baseline, control: false };
        let with_baseline = arms.contains(&baseline);
        if with_baseline {
            arms.push(Arm { control: true, ..baseline });
        }
        let mut blocks = match &self.design.arrangement {
            Arrangement::Blocks | Arrangement::Alternate(_) => vec![arms],
            Arrangement::Duet | Arrangement::Chop(_) if !with_baseline => Vec::new(),
            Arrangement::Duet => {
                let others = arms.into_iter().filter(|arm| *arm != baseline);
                others.map(|arm| vec![baseline, arm]).collect()
            }
            Arrangement::Chop(chop) => groups(&arms, chop, emulated, baseline),
        };
        let mut draws = draws(seed, round);
        draws.shuffle(&mut blocks);
        blocks.iter_mut().for_each(|arms| draws.shuffle(arms));
        blocks
    }
}

/// The groups of a round that stand side by side, each with the baseline: most forms together with the control, each
/// form that cannot stand beside all others by itself, and the emulated ones together.
fn groups<'a>(arms: &[Arm<'a>], chop: &Chop, emulated: &[String], baseline: Arm<'a>) -> Vec<Vec<Arm<'a>>> {
    let of_baseline = |form: &str| form == baseline.form;
    let apart = |form: &str| !of_baseline(form) && chop.apart.iter().any(|apart| apart == form);
    let slow = |form: &str| !of_baseline(form) && emulated.iter().any(|emulated| emulated == form);
    let with_baseline = |group: Vec<Arm<'a>>| [vec![baseline], group].concat();
    let together = arms.iter().filter(|arm| !apart(arm.form) && !slow(arm.form)).copied().collect();
    let alone = arms.iter().filter(|arm| apart(arm.form)).map(|arm| with_baseline(vec![*arm]));
    let slow: Vec<_> = arms.iter().filter(|arm| slow(arm.form) && !apart(arm.form)).copied().collect();
    let slow = (!slow.is_empty()).then(|| with_baseline(slow));
    std::iter::once(together).chain(alone).chain(slow).collect()
}
