//! Which operation a user runs next, compiled to flat tables.

use crate::draw::{Draw, Mix};
use crate::operation::OperationRow;
use crate::script::{Slot, ValueRef};
use std::collections::BTreeMap;
use tare_core::fault::Fault;
use tare_core::load::{self, Behaviour, Followers};

/// The whole, of which weights are shares.
const WHOLE: f64 = (1u64 << 40) as f64;

/// A user's path through the operations. A user's place on it is a 16-bit number, 0 at the beginning.
#[derive(Debug, Clone)]
pub(crate) enum Path {
    /// Drawn anew each time.
    Mix(Mix),
    /// In a circle.
    Sequence(Vec<u16>),
    /// By the last operation: the first branch that fits the user. The first row leads to the start.
    Markov(Vec<Vec<Branch>>),
}

/// The conditions under which a branch applies, a choice, and the operations it chooses from; without any, a companion
/// ends.
#[derive(Debug, Clone)]
pub(crate) struct Branch {
    when: Option<Condition>,
    unless: Option<Condition>,
    mix: Option<Mix>,
    followers: Vec<u16>,
}

/// A condition on a user.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    /// What it tests.
    pub of: Subject,
    test: Test,
}

/// What a condition tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A value of the user.
    Value(Slot),
    /// How many companions of this kind are active beside the user.
    Companions(usize),
}

#[derive(Debug, Clone)]
enum Test {
    IsSet,
    OneOf(Vec<String>),
    AtMost(f64),
    Same(Slot),
}

impl Condition {
    /// Whether it holds for a user for whom the tested value is `found`; `value` gives the user's other values.
    pub(crate) fn holds<'v>(&self, found: ValueRef<'v>, value: impl Fn(Slot) -> ValueRef<'v>) -> bool {
        match (&self.test, found) {
            (_, ValueRef::Unset) => false,
            (Test::IsSet, _) => true,
            (Test::OneOf(is), ValueRef::Number(number)) => is.iter().any(|is| is.parse() == Ok(number)),
            (Test::OneOf(is), ValueRef::Text(text)) => is.iter().any(|is| is.as_bytes() == text),
            (Test::AtMost(most), found) => found.decimal().is_some_and(|number| number <= *most),
            (Test::Same(other), found) => found.reads_as(value(*other)),
        }
    }
}

/// What behaviours are compiled against: the operations, and the slots of users' values.
#[derive(Clone, Copy)]
pub(crate) struct Spoken<'a> {
    /// The operations, in the order of their numbers.
    pub operations: &'a [OperationRow],
    /// The slot of the value with this name.
    pub variable: &'a dyn Fn(&str) -> Option<Slot>,
}

impl Spoken<'_> {
    /// The number of an operation.
    ///
    /// # Errors
    /// When there is no operation of this name.
    pub(crate) fn operation(&self, name: &str) -> Result<u16, Fault> {
        let found = self.operations.iter().position(|operation| operation.name == name);
        found.map(|at| at as u16).ok_or_else(|| {
            let known: Vec<&str> = self.operations.iter().map(|operation| operation.name.as_str()).collect();
            Fault::new(format!("users are to ask for '{name}', which is no operation of this load"))
                .remedy(format!("use one of {}", known.join(", ")))
                .as_mistake()
        })
    }

    /// Where users have a value.
    ///
    /// The slot of a user's value.
    /// When no operation gives it to them.
    pub(crate) fn slot(&self, name: &str) -> Result<Slot, Fault> {
        (self.variable)(name).ok_or_else(|| {
            let message = format!("users are to go by '{name}', a value that no operation gives them");
            Fault::new(message).remedy("capture it in an operation").as_mistake()
        })
    }
}

impl Path {
    /// Compiles a behaviour.
    ///
    /// When no operation sets it.
    /// When it names something unknown.
    pub(crate) fn new(behaviour: &Behaviour, spoken: Spoken<'_>) -> Result<Self, Fault> {
        match behaviour {
            Behaviour::Mix => Ok(Path::Mix(OperationRow::mix(spoken.operations))),
            Behaviour::Sequence(names) if names.is_empty() => Err(nothing("the sequence")),
            Behaviour::Sequence(names) => {
                names.iter().map(|name| spoken.operation(name)).collect::<Result<_, _>>().map(Path::Sequence)
            }
            Behaviour::Markov { start, next, companions, .. } => {
                Path::markov(start, next, &companions.keys().map(String::as_str).collect::<Vec<_>>(), spoken)
            }
        }
    }

    /// Compiles a matrix. `companions` are the names of the companions that users may have.
    ///
    /// # Errors
    /// As for [`Path::new`].
    pub(crate) fn markov(
        start: &str,
        next: &BTreeMap<String, Followers>,
        companions: &[&str],
        spoken: Spoken<'_>,
    ) -> Result<Self, Fault> {
        let branch = |given: &load::Branch| Branch::new(given, companions, spoken);
        let to = |to: &BTreeMap<String, f64>| load::Branch { to: to.clone(), ..load::Branch::default() };
        let mut rows = vec![vec![branch(&to(&[(start.to_owned(), 1.0)].into()))?]];
        for operation in spoken.operations {
            rows.push(match next.get(&operation.name) {
                Some(Followers::Weighted(weights)) => vec![branch(&to(weights))?],
                Some(Followers::Fitting(given)) => given.iter().map(branch).collect::<Result<_, _>>()?,
                // Nothing leads there, or the reader would have reported it.
                None => rows[0].clone(),
            });
        }
        Ok(Path::Markov(rows))
    }

    /// The next operation of a user at `place`, which is advanced; none at an end. `holds` evaluates conditions on the
    /// user.
    #[inline]
    pub(crate) fn next(&self, place: &mut u16, draw: &mut Draw, holds: impl Fn(&Condition) -> bool) -> Option<u16> {
        match self {
            Path::Mix(mix) => Some(mix.draw(draw) as u16),
            Path::Sequence(operations) => {
                let operation = operations[usize::from(*place)];
                *place = if usize::from(*place) + 1 == operations.len() { 0 } else { *place + 1 };
                Some(operation)
            }
            Path::Markov(rows) => {
                let fits = |branch: &&Branch| {
                    branch.when.as_ref().is_none_or(&holds) && !branch.unless.as_ref().is_some_and(&holds)
                };
                let branches = &rows[usize::from(*place)];
                // The reader has ensured that the last one fits all.
                let branch = branches.iter().find(fits).unwrap_or(&branches[branches.len() - 1]);
                let operation = branch.followers[branch.mix.as_ref()?.draw(draw)];
                *place = operation + 1;
                Some(operation)
            }
        }
    }
}

impl Branch {
    fn new(given: &load::Branch, companions: &[&str], spoken: Spoken<'_>) -> Result<Self, Fault> {
        let sum: f64 = given.to.values().sum();
        if sum.is_nan() || sum <= 0.0 && !given.to.is_empty() {
            return Err(nothing("a row of the matrix"));
        }
        let condition = |given: &Option<load::Condition>| {
            given.as_ref().map(|given| condition(given, companions, spoken)).transpose()
        };
        let mix = || Mix::new(given.to.values().map(|weight| (weight / sum * WHOLE) as u64));
        Ok(Branch {
            when: condition(&given.when)?,
            unless: condition(&given.unless)?,
            mix: (!given.to.is_empty()).then(mix),
            followers: given.to.keys().map(|name| spoken.operation(name)).collect::<Result<_, _>>()?,
        })
    }
}

fn condition(given: &load::Condition, companions: &[&str], spoken: Spoken<'_>) -> Result<Condition, Fault> {
    let of = match companions.iter().position(|name| *name == given.variable) {
        Some(kind) => Subject::Companions(kind),
        None => Subject::Value(spoken.slot(&given.variable)?),
    };
    let test = match (&given.same, given.at_most) {
        (Some(other), _) => Test::Same(spoken.slot(other)?),
        (None, Some(most)) => Test::AtMost(most),
        (None, None) if given.is.is_empty() => Test::IsSet,
        (None, None) => Test::OneOf(given.is.clone()),
    };
    Ok(Condition { of, test })
}

fn nothing(whose: &str) -> Fault {
    Fault::new(format!("'{whose}' leads to no operation")).as_mistake()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Names;

    fn rows(names: &[&str]) -> Vec<OperationRow> {
        names.iter().map(|name| OperationRow { name: (*name).to_owned(), weight: 1, lingers: false }).collect()
    }

    fn compiled(behaviour: &Behaviour, operations: &[&str]) -> Result<Path, Fault> {
        Path::new(behaviour, Spoken { operations: &rows(operations), variable: &|_| None })
    }

    fn walk(path: &Path, steps: usize) -> Vec<u16> {
        let (mut place, mut draw) = (0, Draw::new(5, 0));
        (0..steps).map_while(|_| path.next(&mut place, &mut draw, |_| false)).collect()
    }

    #[test]
    fn a_sequence_goes_round() {
        let names = ["b", "a", "a"].map(str::to_owned).to_vec();
        let path = compiled(&Behaviour::Sequence(names), &["a", "b"]).unwrap();
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
        let behaviour = Behaviour::Markov { start: "c".into(), next, restarts: false, companions: BTreeMap::new() };
        let path = compiled(&behaviour, &["a", "b", "c"]).unwrap();
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
            Some(load::Condition { variable: variable.to_owned(), is, ..load::Condition::default() })
        };
        let branch = |when, unless, to: &str| load::Branch { when, unless, to: [(to.to_owned(), 1.0)].into() };
        let branches = vec![
            branch(condition("state", &["sold", "7"]), None, "b"),
            branch(None, condition("token", &[]), "c"),
            branch(None, None, "a"),
        ];
        let all = ["a", "b", "c"].map(|name| (name.to_owned(), Followers::Fitting(branches.clone())));
        let behaviour =
            Behaviour::Markov { start: "a".into(), next: all.into(), restarts: false, companions: BTreeMap::new() };
        let (operations, variable) = (rows(&["a", "b", "c"]), |name: &str| names.slot(name));
        let path = Path::new(&behaviour, Spoken { operations: &operations, variable: &variable }).unwrap();
        let next = |sold: ValueRef<'_>, has_token: bool| {
            let (mut place, mut draw) = (1, Draw::new(5, 0));
            let text = if has_token { ValueRef::Text(b"x") } else { ValueRef::Unset };
            let value = |variable| if variable == state { sold } else { text };
            assert_ne!(state, token);
            let holds = |condition: &Condition| match condition.of {
                Subject::Value(slot) => condition.holds(value(slot), value),
                Subject::Companions(_) => panic!("there are none"),
            };
            path.next(&mut place, &mut draw, holds).unwrap()
        };
        assert_eq!(next(ValueRef::Text(b"sold"), true), 1);
        assert_eq!(next(ValueRef::Number(7), true), 1, "a number by its value");
        assert_eq!(next(ValueRef::Text(b"solder"), true), 0);
        assert_eq!(next(ValueRef::Unset, true), 0);
        assert_eq!(next(ValueRef::Text(b"open"), false), 2);
        let fault = compiled(&behaviour, &["a", "b", "c"]).unwrap_err();
        assert!(fault.mistake && fault.message.contains("'state'"), "{fault}");
    }

    #[test]
    fn values_are_compared_as_numbers_and_with_each_other() {
        let mut names = Names::default();
        let (price, limit) = (names.declare("price").unwrap(), names.declare("limit").unwrap());
        let holds = |test: Test, found, other| {
            let condition = Condition { of: Subject::Value(price), test };
            condition.holds(found, |slot| if slot == limit { other } else { ValueRef::Unset })
        };
        let at_most = |text: &'static [u8]| holds(Test::AtMost(10.5), ValueRef::Text(text), ValueRef::Unset);
        assert!(at_most(b"10.5") && at_most(b"-3") && !at_most(b"10.51") && !at_most(b"ten"));
        assert!(holds(Test::AtMost(3.0), ValueRef::Number(3), ValueRef::Unset));
        let same = |found, other| holds(Test::Same(limit), found, other);
        assert!(same(ValueRef::Text(b"7"), ValueRef::Text(b"7")) && same(ValueRef::Text(b"7"), ValueRef::Number(7)));
        assert!(!same(ValueRef::Number(8), ValueRef::Number(7)) && !same(ValueRef::Text(b"7"), ValueRef::Unset));
    }

    #[test]
    fn what_does_not_exist_is_a_mistake() {
        let fault = compiled(&Behaviour::Sequence(vec!["x".into()]), &["a"]).unwrap_err();
        assert!(fault.mistake && fault.message.contains("'x'") && fault.remedy.contains('a'));
        assert!(compiled(&Behaviour::Sequence(Vec::new()), &["a"]).is_err());
    }
}
