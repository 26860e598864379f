//! Input that is nearly right: real samples with a few changes, and words in a row.

use crate::Target;
use crate::allocated::most_during;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestCaseError, TestRng, TestRunner};
use std::any::Any;
use std::fmt;
use std::panic::catch_unwind;

/// Longer input than this tells no more, and takes its time.
const LONGEST: usize = 64 << 10;

/// Numbers at which arithmetic ends, as text.
const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1",
    "00",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "9007199254740993",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e999",
    "-0.0",
    "0.1",
    "NaN",
    "inf",
    "0x7f",
    "",
];

/// And as bytes, as lengths are written.
const LENGTHS: &[&[u8]] = &[
    b"\0",
    b"\xff",
    b"\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\xff\xff\xff\xff",
    b"\x80\0\0\0",
    &[0xff; 8],
];

/// One thing that is done to a sample. Places are shares of its length then.
#[derive(Debug, Clone)]
enum Change {
    Flip(Index, u8),
    Put(Index, u8),
    Cut(Index, Index),
    End(Index),
    Double(Index, Index),
    Word(Index, Index),
    Length(Index, Index),
    Number(Index, Index),
    /// A piece of another sample.
    Borrow(Index, Index, Index),
}

/// Input, shown as a byte string that can be put into a row.
#[derive(Clone)]
struct Input(Vec<u8>);

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        2 => (at(), 0..8_u8).prop_map(|(place, bit)| Change::Flip(place, bit)),
        2 => (at(), any::<u8>()).prop_map(|(place, byte)| Change::Put(place, byte)),
        2 => (at(), at()).prop_map(|(from, length)| Change::Cut(from, length)),
        1 => at().prop_map(Change::End),
        1 => (at(), at()).prop_map(|(from, length)| Change::Double(from, length)),
        3 => (at(), at()).prop_map(|(place, word)| Change::Word(place, word)),
        2 => (at(), at()).prop_map(|(place, length)| Change::Length(place, length)),
        3 => (at(), at()).prop_map(|(place, number)| Change::Number(place, number)),
        1 => (at(), at(), at()).prop_map(|(place, sample, from)| Change::Borrow(place, sample, from)),
    ]
}

/// A place in `bytes`, its end included.
fn place(index: &Index, bytes: &[u8]) -> usize {
    index.index(bytes.len() + 1)
}

/// A stretch from a place on, mostly a short one.
fn stretch(from: &Index, length: &Index, bytes: &[u8]) -> std::ops::Range<usize> {
    let from = place(from, bytes);
    let longest = if length.index(4) == 0 { bytes.len() } else { 16 };
    from..(from + 1 + length.index(longest.max(1))).min(bytes.len()).max(from)
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>, samples: &[Vec<u8>], words: &[&str]) {
        match self {
            Change::Flip(at, bit) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            Change::Put(at, byte) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Change::Flip(..) | Change::Put(..) => {}
            Change::Cut(from, length) => {
                let cut = stretch(from, length, bytes);
                drop(bytes.drain(cut));
            }
            Change::End(at) => {
                let end = place(at, bytes);
                bytes.truncate(end);
            }
            Change::Double(from, length) => {
                let piece = bytes[stretch(from, length, bytes)].to_vec();
                let at = place(from, bytes);
                drop(bytes.splice(at..at, piece));
            }
            Change::Word(at, word) => {
                let word =
                    if words.is_empty() { NUMBERS[word.index(NUMBERS.len())] } else { words[word.index(words.len())] };
                let at = place(at, bytes);
                drop(bytes.splice(at..at, word.bytes()));
            }
            Change::Length(at, length) => {
                let length = LENGTHS[length.index(LENGTHS.len())];
                let at = place(at, bytes);
                drop(bytes.splice(at..(at + length.len()).min(bytes.len()), length.iter().copied()));
            }
            Change::Number(at, number) => {
                // In place of the next number there is.
                let from = place(at, bytes);
                let Some(begin) = bytes[from..].iter().position(u8::is_ascii_digit).map(|ahead| from + ahead) else {
                    return;
                };
                let digits = bytes[begin..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                drop(bytes.splice(begin..begin + digits, NUMBERS[number.index(NUMBERS.len())].bytes()));
            }
            Change::Borrow(at, sample, from) if !samples.is_empty() => {
                let other = &samples[sample.index(samples.len())];
                let from = place(from, other);
                let piece = other[from..(from + 64).min(other.len())].to_vec();
                let at = place(at, bytes);
                drop(bytes.splice(at..at, piece));
            }
            Change::Borrow(..) => {}
        }
    }
}

fn inputs(samples: Vec<Vec<u8>>, words: &'static [&'static str]) -> BoxedStrategy<Input> {
    let piece = move |(word, bytes): (Option<Index>, Vec<u8>)| match word {
        Some(word) if !words.is_empty() => words[word.index(words.len())].as_bytes().to_vec(),
        _ => bytes,
    };
    let pieces =
        (prop::option::weighted(0.85, any::<Index>()), prop::collection::vec(any::<u8>(), 0..6)).prop_map(piece);
    let made = prop::collection::vec(pieces, 0..24).prop_map(|pieces| Input(pieces.concat()));
    if samples.is_empty() {
        return made.boxed();
    }
    let mutant = move |(sample, changes): (Index, Vec<Change>)| {
        let mut bytes = samples[sample.index(samples.len())].clone();
        changes.iter().for_each(|change| change.apply(&mut bytes, &samples, words));
        bytes.truncate(LONGEST);
        Input(bytes)
    };
    prop_oneof![3 => (any::<Index>(), prop::collection::vec(change(), 1..6)).prop_map(mutant), 1 => made].boxed()
}

/// Holds one of the targets of a crate to what it promises: on its samples as they are, and on mutants of them.
///
/// # Panics
/// With the input that shows it, when the target does not keep it.
pub fn hold(targets: &[Target], name: &str) {
    let target = targets.iter().find(|target| target.name == name).expect("the table made the test");
    let samples = target.samples();
    for sample in &samples {
        if let Err(why) = held(target, sample) {
            panic!("{name} and {:?}: {why}", Input(sample.clone()));
        }
    }
    let config = Config {
        cases: target.cases,
        failure_persistence: None,
        // Smaller is easier to read, but not worth minutes.
        max_shrink_time: 10_000,
        ..Config::default()
    };
    // The same ones each time: what a change is judged by must be the change. Looking for new ones is for cargo fuzz.
    let same = TestRng::deterministic_rng(config.rng_algorithm);
    let outcome = TestRunner::new_with_rng(config, same)
        .run(&inputs(samples, target.words), |input| held(target, &input.0).map_err(TestCaseError::fail));
    if let Err(why) = outcome {
        panic!("{why}\nmend it, and put the input among the samples of '{name}'");
    }
}

/// # Errors
/// What the target did not keep.
fn held(target: &Target, bytes: &[u8]) -> Result<(), String> {
    let most = catch_unwind(|| most_during(|| (target.run)(bytes))).map_err(|panic| said(&*panic))?;
    if most > target.memory {
        return Err(format!("{most} bytes were allocated for an input of {}", bytes.len()));
    }
    Ok(())
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref().map(|text: &&str| (*text).to_owned()))
        .unwrap_or_else(|| "it panics".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(bytes: &[u8]) {
        assert!(!bytes.windows(3).any(|three| three == b"bad"));
    }

    fn believes(bytes: &[u8]) {
        if let Some((b"L", length)) = bytes.split_first_chunk::<1>().filter(|(_, rest)| rest.len() == 4) {
            let length = u32::from_be_bytes(length.try_into().expect("four bytes"));
            drop(std::hint::black_box(Vec::<u8>::with_capacity(length as usize)));
        }
    }

    fn found(target: Target) -> String {
        said(&*catch_unwind(|| hold(&[target], target.name)).expect_err("it is not held"))
    }

    #[test]
    fn what_breaks_is_shown_as_an_input_that_is_small() {
        let target = Target { name: "broken", run: broken, words: &["good", "bad"], ..Target::DEFAULT };
        assert!(found(target).contains("b\"bad\""), "{}", found(target));
        hold(&[Target { words: &["good"], ..target }], "broken");
        assert!(found(Target { samples: &[b"a bad one"], ..target }).contains("b\"a bad one\""));
    }

    #[test]
    fn a_length_that_is_believed_is_noticed() {
        let target = Target { name: "believes", run: believes, samples: &[b"L\0\0\0\x09"], ..Target::DEFAULT };
        assert!(found(target).contains("bytes were allocated for an input of 5"), "{}", found(target));
    }
}
