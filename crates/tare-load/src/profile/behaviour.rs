//! Which operation a user asks for next, compiled to flat tables.

use crate::protocol::{Draw, Mix, OperationRow};
use std::collections::BTreeMap;
use tare_core::fault::Fault;
use tare_core::load::Behaviour;

/// A weight of 1 out of all; weights are shares of it.
const WHOLE: f64 = (1u64 << 40) as f64;

/// A user's way through the operations. Where a user is on it is a number of 16 bits, 0 in the beginning.
#[derive(Debug, Clone)]
pub(crate) enum Path {
    /// Drawn anew each time.
    Mix(Mix),
    /// In a circle.
    Sequence(Vec<u16>),
    /// By the last operation: a choice and what it chooses from. The first row leads to the start.
    Markov(Vec<(Mix, Vec<u16>)>),
}

impl Path {
    /// Compiles a behaviour for these operations.
    ///
    /// # Errors
    /// When it names one that there is not.
    pub(crate) fn new(behaviour: &Behaviour, operations: &[OperationRow]) -> Result<Self, Fault> {
        let number = |name: &String| {
            let found = operations.iter().position(|operation| operation.name == *name);
            found.map(|at| at as u16).ok_or_else(|| {
                let known: Vec<&str> = operations.iter().map(|operation| operation.name.as_str()).collect();
                Fault::new(format!("users are to ask for '{name}', which is no operation of this load"))
                    .remedy(format!("use one of {}", known.join(", ")))
                    .as_mistake()
            })
        };
        match behaviour {
            Behaviour::Mix => Ok(Path::Mix(Mix::of(operations))),
            Behaviour::Sequence(names) if names.is_empty() => Err(nothing("the sequence")),
            Behaviour::Sequence(names) => names.iter().map(number).collect::<Result<_, _>>().map(Path::Sequence),
            Behaviour::Markov { start, next } => {
                let row = |weights: &BTreeMap<String, f64>, whose: &str| {
                    let sum: f64 = weights.values().sum();
                    if sum.is_nan() || sum <= 0.0 {
                        return Err(nothing(whose));
                    }
                    let mix = Mix::new(weights.values().map(|weight| (weight / sum * WHOLE) as u64));
                    Ok((mix, weights.keys().map(number).collect::<Result<Vec<u16>, _>>()?))
                };
                let mut rows = vec![(Mix::new([1]), vec![number(start)?])];
                for operation in operations {
                    // Where no row is given nothing leads to, or the reader would have complained.
                    rows.push(match next.get(&operation.name) {
                        Some(weights) => row(weights, &operation.name)?,
                        None => rows[0].clone(),
                    });
                }
                Ok(Path::Markov(rows))
            }
        }
    }

    /// The next operation of a user that is at `place`, which moves on.
    #[inline]
    pub(crate) fn next(&self, place: &mut u16, draw: &mut Draw) -> u16 {
        match self {
            Path::Mix(mix) => mix.draw(draw) as u16,
            Path::Sequence(operations) => {
                let operation = operations[usize::from(*place)];
                *place = if usize::from(*place) + 1 == operations.len() { 0 } else { *place + 1 };
                operation
            }
            Path::Markov(rows) => {
                let (mix, followers) = &rows[usize::from(*place)];
                let operation = followers[mix.draw(draw)];
                *place = operation + 1;
                operation
            }
        }
    }
}

fn nothing(whose: &str) -> Fault {
    Fault::new(format!("'{whose}' leads to no operation")).as_mistake()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(names: &[&str]) -> Vec<OperationRow> {
        names.iter().map(|name| OperationRow { name: (*name).to_owned(), weight: 1 }).collect()
    }

    fn walk(path: &Path, steps: usize) -> Vec<u16> {
        let (mut place, mut draw) = (0, Draw::new(5, 0));
        (0..steps).map(|_| path.next(&mut place, &mut draw)).collect()
    }

    #[test]
    fn a_sequence_goes_round() {
        let names = ["b", "a", "a"].map(str::to_owned).to_vec();
        let path = Path::new(&Behaviour::Sequence(names), &rows(&["a", "b"])).unwrap();
        assert_eq!(walk(&path, 7), [1, 0, 0, 1, 0, 0, 1]);
    }

    #[test]
    fn a_matrix_is_followed_by_its_weights() {
        let weights = |pairs: &[(&str, f64)]| pairs.iter().map(|(name, w)| ((*name).to_owned(), *w)).collect();
        let next = BTreeMap::from([
            ("a".to_owned(), weights(&[("a", 0.2), ("b", 0.8)])),
            ("b".to_owned(), weights(&[("a", 1.0)])),
            ("c".to_owned(), weights(&[("a", 1.0)])),
        ]);
        let path = Path::new(&Behaviour::Markov { start: "c".into(), next }, &rows(&["a", "b", "c"])).unwrap();
        let walked = walk(&path, 100_000);
        assert_eq!(walked[0], 2);
        assert!(walked[1..].iter().all(|operation| *operation != 2));
        assert!(walked.windows(2).all(|pair| pair[0] != 1 || pair[1] == 0), "after b comes a");
        // The stationary share of b is 0.8 / 1.8; its standard error is below 1 / sqrt(n) / 2.
        let b = walked.iter().filter(|operation| **operation == 1).count() as f64 / 1e5;
        assert!((b - 0.8 / 1.8).abs() < 5.0 * 0.5 / 316.0, "{b}");
    }

    #[test]
    fn what_does_not_exist_is_a_mistake() {
        let fault = Path::new(&Behaviour::Sequence(vec!["x".into()]), &rows(&["a"])).unwrap_err();
        assert!(fault.mistake && fault.message.contains("'x'") && fault.remedy.contains('a'));
        assert!(Path::new(&Behaviour::Sequence(Vec::new()), &rows(&["a"])).is_err());
    }
}
