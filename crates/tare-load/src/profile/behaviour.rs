//! Which operation a user asks for next, compiled to flat tables.

use crate::protocol::{Draw, Mix, OperationRow};
use crate::script::{Slot, ValueRef};
use std::collections::BTreeMap;
use tare_core::fault::Fault;
use tare_core::load::{self, Behaviour, Followers};

/// A weight of 1 out of all; weights are shares of it.
const WHOLE: f64 = (1u64 << 40) as f64;

/// A user's way through the operations. Where a user is on it is a number of 16 bits, 0 in the beginning.
#[derive(Debug, Clone)]
pub(crate) enum Path {
    /// Drawn anew each time.
    Mix(Mix),
    /// In a circle.
    Sequence(Vec<u16>),
    /// By the last operation: the first branch that fits the user. The first row leads to the start.
    Markov(Vec<Vec<Branch>>),
}

/// Whom it is for, a choice, and what it chooses from.
#[derive(Debug, Clone)]
pub(crate) struct Branch {
    when: Option<Condition>,
    unless: Option<Condition>,
    mix: Mix,
    followers: Vec<u16>,
}

/// Something of a user that holds or does not.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    /// Of which value.
    pub variable: Slot,
    // What it is one of; that there is one, if empty.
    is: Vec<String>,
}

impl Condition {
    /// Whether it holds of a user with this value.
    pub(crate) fn holds(&self, value: ValueRef<'_>) -> bool {
        match value {
            ValueRef::Unset => false,
            _ if self.is.is_empty() => true,
            ValueRef::Number(number) => self.is.iter().any(|is| is.parse() == Ok(number)),
            ValueRef::Text(text) => self.is.iter().any(|is| is.as_bytes() == text),
        }
    }
}

impl Path {
    /// Compiles a behaviour for these operations, whose users have these variables.
    ///
    /// # Errors
    /// When it names one that there is not.
    pub(crate) fn new(
        behaviour: &Behaviour,
        operations: &[OperationRow],
        variable: &dyn Fn(&str) -> Option<Slot>,
    ) -> Result<Self, Fault> {
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
                let branch = |given: &load::Branch, whose: &str| {
                    let sum: f64 = given.to.values().sum();
                    if sum.is_nan() || sum <= 0.0 {
                        return Err(nothing(whose));
                    }
                    let condition = |given: &Option<load::Condition>| {
                        given.as_ref().map(|given| condition(given, variable)).transpose()
                    };
                    Ok(Branch {
                        when: condition(&given.when)?,
                        unless: condition(&given.unless)?,
                        mix: Mix::new(given.to.values().map(|weight| (weight / sum * WHOLE) as u64)),
                        followers: given.to.keys().map(number).collect::<Result<Vec<u16>, _>>()?,
                    })
                };
                let to = |to: &BTreeMap<String, f64>| load::Branch { to: to.clone(), ..load::Branch::default() };
                let first = to(&[(start.clone(), 1.0)].into());
                let mut rows = vec![vec![branch(&first, start)?]];
                for operation in operations {
                    let name = &operation.name;
                    rows.push(match next.get(name) {
                        Some(Followers::Weighted(weights)) => vec![branch(&to(weights), name)?],
                        Some(Followers::Fitting(given)) => {
                            given.iter().map(|given| branch(given, name)).collect::<Result<_, _>>()?
                        }
                        // Nothing leads there, or the reader would have complained.
                        None => rows[0].clone(),
                    });
                }
                Ok(Path::Markov(rows))
            }
        }
    }

    /// The next operation of a user that is at `place`, which moves on. `holds` says what holds of the user.
    #[inline]
    pub(crate) fn next(&self, place: &mut u16, draw: &mut Draw, holds: impl Fn(&Condition) -> bool) -> u16 {
        match self {
            Path::Mix(mix) => mix.draw(draw) as u16,
            Path::Sequence(operations) => {
                let operation = operations[usize::from(*place)];
                *place = if usize::from(*place) + 1 == operations.len() { 0 } else { *place + 1 };
                operation
            }
            Path::Markov(rows) => {
                let fits = |branch: &&Branch| {
                    branch.when.as_ref().is_none_or(&holds) && !branch.unless.as_ref().is_some_and(&holds)
                };
                let branches = &rows[usize::from(*place)];
                // The reader has seen to it that the last one fits all.
                let branch = branches.iter().find(fits).unwrap_or(&branches[branches.len() - 1]);
                let operation = branch.followers[branch.mix.draw(draw)];
                *place = operation + 1;
                operation
            }
        }
    }
}

fn condition(given: &load::Condition, variable: &dyn Fn(&str) -> Option<Slot>) -> Result<Condition, Fault> {
    let Some(slot) = variable(&given.variable) else {
        let message = format!("users are to go by '{}', a value that no operation gives them", given.variable);
        return Err(Fault::new(message).remedy("capture it in an operation").as_mistake());
    };
    Ok(Condition { variable: slot, is: given.is.clone() })
}

fn nothing(whose: &str) -> Fault {
    Fault::new(format!("'{whose}' leads to no operation")).as_mistake()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Names;

    fn rows(names: &[&str]) -> Vec<OperationRow> {
        names.iter().map(|name| OperationRow { name: (*name).to_owned(), weight: 1 }).collect()
    }

    fn walk(path: &Path, steps: usize) -> Vec<u16> {
        let (mut place, mut draw) = (0, Draw::new(5, 0));
        (0..steps).map(|_| path.next(&mut place, &mut draw, |_| false)).collect()
    }

    #[test]
    fn a_sequence_goes_round() {
        let names = ["b", "a", "a"].map(str::to_owned).to_vec();
        let path = Path::new(&Behaviour::Sequence(names), &rows(&["a", "b"]), &|_| None).unwrap();
        assert_eq!(walk(&path, 7), [1, 0, 0, 1, 0, 0, 1]);
    }

    #[test]
    fn a_matrix_is_followed_by_its_weights() {
        let weights = |pairs: &[(&str, f64)]| pairs.iter().map(|(name, w)| ((*name).to_owned(), *w)).collect();
        let next = BTreeMap::from([
            ("a".to_owned(), Followers::Weighted(weights(&[("a", 0.2), ("b", 0.8)]))),
            ("b".to_owned(), Followers::Weighted(weights(&[("a", 1.0)]))),
            ("c".to_owned(), Followers::Weighted(weights(&[("a", 1.0)]))),
        ]);
        let behaviour = Behaviour::Markov { start: "c".into(), next };
        let path = Path::new(&behaviour, &rows(&["a", "b", "c"]), &|_| None).unwrap();
        let walked = walk(&path, 100_000);
        assert_eq!(walked[0], 2);
        assert!(walked[1..].iter().all(|operation| *operation != 2));
        assert!(walked.windows(2).all(|pair| pair[0] != 1 || pair[1] == 0), "after b comes a");
        // The stationary share of b is 0.8 / 1.8; its standard error is below 1 / sqrt(n) / 2.
        let b = walked.iter().filter(|operation| **operation == 1).count() as f64 / 1e5;
        assert!((b - 0.8 / 1.8).abs() < 5.0 * 0.5 / 316.0, "{b}");
    }

    #[test]
    fn a_user_goes_where_the_first_branch_that_fits_leads() {
        let mut names = Names::default();
        let (state, token) = (names.declare("state").unwrap(), names.declare("token").unwrap());
        let condition = |variable: &str, is: &[&str]| {
            let is = is.iter().map(|is| (*is).to_owned()).collect();
            Some(load::Condition { variable: variable.to_owned(), is })
        };
        let branch = |when, unless, to: &str| load::Branch { when, unless, to: [(to.to_owned(), 1.0)].into() };
        let branches = vec![
            branch(condition("state", &["sold", "7"]), None, "b"),
            branch(None, condition("token", &[]), "c"),
            branch(None, None, "a"),
        ];
        let all = ["a", "b", "c"].map(|name| (name.to_owned(), Followers::Fitting(branches.clone())));
        let behaviour = Behaviour::Markov { start: "a".into(), next: all.into() };
        let path = Path::new(&behaviour, &rows(&["a", "b", "c"]), &|name| names.slot(name)).unwrap();
        let next = |sold: ValueRef<'_>, has_token: bool| {
            let (mut place, mut draw) = (1, Draw::new(5, 0));
            let text = if has_token { ValueRef::Text(b"x") } else { ValueRef::Unset };
            let value = |variable| if variable == state { sold } else { text };
            assert_ne!(state, token);
            path.next(&mut place, &mut draw, |condition| condition.holds(value(condition.variable)))
        };
        assert_eq!(next(ValueRef::Text(b"sold"), true), 1);
        assert_eq!(next(ValueRef::Number(7), true), 1, "a number by its value");
        assert_eq!(next(ValueRef::Text(b"solder"), true), 0);
        assert_eq!(next(ValueRef::Unset, true), 0);
        assert_eq!(next(ValueRef::Text(b"open"), false), 2);
        let fault = Path::new(&behaviour, &rows(&["a", "b", "c"]), &|_| None).unwrap_err();
        assert!(fault.mistake && fault.message.contains("'state'"), "{fault}");
    }

    #[test]
    fn what_does_not_exist_is_a_mistake() {
        let fault = Path::new(&Behaviour::Sequence(vec!["x".into()]), &rows(&["a"]), &|_| None).unwrap_err();
        assert!(fault.mistake && fault.message.contains("'x'") && fault.remedy.contains('a'));
        assert!(Path::new(&Behaviour::Sequence(Vec::new()), &rows(&["a"]), &|_| None).is_err());
    }
}
