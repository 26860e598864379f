//! The variables of a script: their names at compile time, and a user's values of them at run time.

use super::spec::{FeedId, FeedSpecs};
use std::collections::BTreeMap;

/// A variable, by its position among a user's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(pub u16);

/// More variables than any script has.
const SLOTS_MAX: usize = 4096;

/// The names of all variables of a protocol's options: feeds, their columns, and what scripts capture or set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    // Each with the feed that fills the slot, if any.
    slots: BTreeMap<String, (Slot, Option<FeedId>)>,
}

impl Names {
    /// The names that these feeds define. The same feeds give the same slots.
    pub(crate) fn new(feeds: &FeedSpecs) -> Self {
        let mut names = Names::default();
        for (number, (name, spec)) in feeds.iter().enumerate() {
            let feed = Some(FeedId(number as u16));
            match spec.columns() {
                None => names.insert(name.clone(), feed),
                Some(columns) => columns.iter().for_each(|column| names.insert(format!("{name}.{column}"), feed)),
            }
        }
        names
    }

    fn insert(&mut self, name: String, feed: Option<FeedId>) {
        let slot = Slot(self.slots.len() as u16);
        self.slots.insert(name, (slot, feed));
    }

    /// The slot of a variable that a script sets, created on first mention. The order of declarations must depend only
    /// on the options, so that reading and running agree.
    ///
    /// # Errors
    /// What is wrong with the name: it is a feed's, not a valid name, or one too many.
    pub(crate) fn declare(&mut self, name: &str) -> Result<Slot, String> {
        match self.slots.get(name) {
            Some((slot, None)) => return Ok(*slot),
            Some((_, Some(_))) => return Err(format!("'{name}' is already the name of a feed")),
            None => {}
        }
        if !is_name(name) {
            return Err(format!("'{name}' cannot name a variable"));
        }
        if self.slots.len() >= SLOTS_MAX {
            return Err(format!("there are more than {SLOTS_MAX} variables"));
        }
        self.insert(name.to_owned(), None);
        Ok(self.slots[name].0)
    }

    /// The slot of a name.
    pub(crate) fn slot(&self, name: &str) -> Option<Slot> {
        self.slots.get(name).map(|(slot, _)| *slot)
    }

    /// The feed that fills the slot of a name.
    pub(crate) fn feed(&self, name: &str) -> Option<FeedId> {
        self.slots.get(name).and_then(|(_, feed)| *feed)
    }

    /// The number of slots: the size of [`Values`].
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Every name, in alphabetic order.
    pub(crate) fn known(&self) -> Vec<&str> {
        self.slots.keys().map(String::as_str).collect()
    }
}

/// Whether a text can name a feed, a column or a variable: letters, digits, `_` and `-`, beginning with a letter or
/// `_`.
pub(super) fn is_name(text: &str) -> bool {
    let first = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// A user's value of a variable.
#[derive(Debug, Clone, Default)]
enum Value {
    #[default]
    Unset,
    Number(i64),
    /// A text of the feeds: its place in [`Texts`].
    Fixed(u32, u32),
    Own(Vec<u8>),
}

/// A borrowed value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueRef<'a> {
    /// It was never set.
    Unset,
    /// A number.
    Number(i64),
    /// A text.
    Text(&'a [u8]),
}

impl ValueRef<'_> {
    /// Its number, if it is one or is a text that reads as one.
    pub(crate) fn decimal(self) -> Option<f64> {
        match self {
            ValueRef::Unset => None,
            ValueRef::Number(number) => Some(number as f64),
            ValueRef::Text(text) => std::str::from_utf8(text).ok()?.trim().parse().ok().filter(|n: &f64| n.is_finite()),
        }
    }

    /// Whether both are set and read the same.
    pub(crate) fn reads_as(self, other: ValueRef<'_>) -> bool {
        match (self, other) {
            (ValueRef::Unset, _) | (_, ValueRef::Unset) => false,
            (ValueRef::Text(one), ValueRef::Text(other)) => one == other,
            (ValueRef::Number(one), ValueRef::Number(other)) => one == other,
            (ValueRef::Number(number), ValueRef::Text(text)) | (ValueRef::Text(text), ValueRef::Number(number)) => {
                std::str::from_utf8(text).is_ok_and(|text| text.parse() == Ok(number))
            }
        }
    }
}

/// A text shared by all users, by its place in [`Texts`].
pub(super) type Fixed = (u32, u32);

/// The texts shared by all users, which are those of feeds, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Texts(Vec<u8>);

impl Texts {
    /// Adds a text.
    pub(super) fn keep(&mut self, text: &str) -> Fixed {
        let at = self.0.len() as u32;
        self.0.extend_from_slice(text.as_bytes());
        (at, text.len() as u32)
    }

    #[inline]
    fn text(&self, at: u32, length: u32) -> &[u8] {
        &self.0[at as usize..][..length as usize]
    }
}

/// One user's values. Nothing is allocated while none is set; then there is an entry for each variable, plus the texts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values(Option<Box<[Value]>>, u16);

impl Values {
    /// All unset.
    pub(crate) fn new(names: &Names) -> Self {
        Values(None, names.len() as u16)
    }

    fn slot(&mut self, slot: Slot) -> &mut Value {
        let count = usize::from(self.1);
        &mut self.0.get_or_insert_with(|| vec![Value::Unset; count].into_boxed_slice())[usize::from(slot.0)]
    }

    /// The value of a variable; `texts` are those of the feeds that filled it.
    #[inline]
    pub(crate) fn get<'a>(&'a self, slot: Slot, texts: &'a Texts) -> ValueRef<'a> {
        match self.0.as_ref().map(|values| &values[usize::from(slot.0)]) {
            None | Some(Value::Unset) => ValueRef::Unset,
            Some(Value::Number(number)) => ValueRef::Number(*number),
            Some(Value::Fixed(at, length)) => ValueRef::Text(texts.text(*at, *length)),
            Some(Value::Own(text)) => ValueRef::Text(text),
        }
    }

    /// Whether a variable has a value.
    pub(crate) fn is_set(&self, slot: Slot) -> bool {
        self.0.as_ref().is_some_and(|values| !matches!(values[usize::from(slot.0)], Value::Unset))
    }

    /// Sets a variable to a number.
    #[inline]
    pub(crate) fn set_number(&mut self, slot: Slot, number: i64) {
        *self.slot(slot) = Value::Number(number);
    }

    pub(super) fn set_fixed(&mut self, slot: Slot, at: u32, length: u32) {
        *self.slot(slot) = Value::Fixed(at, length);
    }

    /// Empties the text of a variable, to be written to; keeps the capacity of the previous text.
    pub(crate) fn text_mut(&mut self, slot: Slot) -> &mut Vec<u8> {
        let value = self.slot(slot);
        if !matches!(value, Value::Own(_)) {
            *value = Value::Own(Vec::new());
        }
        match value {
            Value::Own(text) => {
                text.clear();
                text
            }
            _ => unreachable!("it was just made one"),
        }
    }

    /// Takes out the text of a variable, emptied, to be returned by [`Values::put_text`], so that it can be written
    /// while other variables are read.
    pub(crate) fn take_text(&mut self, slot: Slot) -> Vec<u8> {
        match std::mem::take(self.slot(slot)) {
            Value::Own(mut text) => {
                text.clear();
                text
            }
            _ => Vec::new(),
        }
    }

    /// Sets a variable to the value that `from` has in another user's values.
    pub(crate) fn copy(&mut self, to: Slot, other: &Values, from: Slot) {
        let value = other.0.as_ref().map_or(Value::Unset, |values| values[usize::from(from.0)].clone());
        *self.slot(to) = value;
    }

    /// Sets a variable to a text.
    pub(crate) fn put_text(&mut self, slot: Slot, text: Vec<u8>) {
        *self.slot(slot) = Value::Own(text);
    }

    /// Unsets a variable.
    pub(crate) fn unset(&mut self, slot: Slot) {
        *self.slot(slot) = Value::Unset;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_hold_what_was_set_last() {
        let mut names = Names::default();
        let (a, b) = (names.declare("a").unwrap(), names.declare("b").unwrap());
        assert_eq!(names.declare("a"), Ok(a));
        let texts = Texts::default();
        let mut values = Values::new(&names);
        assert_eq!(values.get(b, &texts), ValueRef::Unset);
        values.set_number(b, -3);
        values.text_mut(a).extend_from_slice(b"long text");
        values.text_mut(a).extend_from_slice(b"short");
        assert_eq!(values.get(a, &texts), ValueRef::Text(b"short"));
        assert_eq!(values.get(b, &texts), ValueRef::Number(-3));
        values.unset(b);
        assert!(values.is_set(a) && !values.is_set(b));
    }

    #[test]
    fn names_are_names() {
        let mut names = Names::default();
        for bad in ["", "1a", "a.b", "a b", "-a", "é"] {
            assert!(names.declare(bad).is_err(), "{bad}");
        }
        assert!(names.declare("_a-1").is_ok());
    }
}
