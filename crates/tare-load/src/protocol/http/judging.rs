//! Judges a complete reply, and captures from it.

use super::Http;
use super::pointer::write_value;
use super::program::{Ask, Catch, Origin};
use super::reading::keep;
use super::state::{Memory, Seen, User};
use crate::draw::Draw;
use crate::operation::Failure;
use crate::script::Escape;
use regex::bytes::Regex;
use serde_json::Value;

impl Http {
    /// What is wrong with the reply to `ask`, if anything; captures what is wanted from it.
    #[inline]
    pub(super) fn judge(&self, ask: &Ask, seen: &mut Seen, user: &mut User, draw: &mut Draw) -> Option<Failure> {
        if let Some(inflate) = seen.inflate.take() {
            if !inflate.is_whole() {
                seen.wrong.get_or_insert(Failure::Coding);
            }
            self.decoders.give_back(inflate);
        }
        if seen.wrong.is_some() {
            return seen.wrong;
        }
        for (number, (needle, state)) in ask.judge.needles.iter().zip(&seen.states).enumerate() {
            if needle.is_found(*state) != (number < ask.judge.wanted) {
                return Some(Failure::WrongReply);
            }
        }
        if !ask.keeps && ask.captures.is_empty() {
            return None;
        }
        self.judge_body(ask, &seen.kept, user, draw)
    }

    #[inline(never)]
    fn judge_body(&self, ask: &Ask, body: &[u8], user: &mut User, draw: &mut Draw) -> Option<Failure> {
        let memory = self.memory(user);
        let json = |from: &Origin| matches!(from, Origin::Json(_));
        let wants_json = !ask.judge.json.is_empty() || ask.captures.iter().any(|catch| json(&catch.from));
        let document = if wants_json { serde_json::from_slice(body).ok() } else { None };
        if wants_json && document.is_none() {
            return Some(Failure::WrongReply);
        }
        let document = document.unwrap_or(Value::Null);
        if !self.is_right(ask, body, &document, memory, draw) {
            return Some(Failure::WrongReply);
        }
        let all = ask.captures.iter().all(|catch| self.capture(catch, body, &document, memory, draw));
        (!all).then_some(Failure::Capture)
    }

    fn is_right(&self, ask: &Ask, body: &[u8], document: &Value, memory: &Memory, draw: &mut Draw) -> bool {
        let mut text = Vec::new();
        for (template, wanted) in &ask.judge.texts {
            text.clear();
            let complete = template.write(&memory.values, &self.program.feeds, Escape::None, &mut text);
            if !complete || memchr::memmem::find(body, &text).is_some() != *wanted {
                return false;
            }
        }
        if ask.judge.matches.as_ref().is_some_and(|pattern| !pattern.is_match(body)) {
            return false;
        }
        let mut found = Vec::new();
        for (pointer, template) in &ask.judge.json {
            let Some(value) = pointer.find(document, draw) else { return false };
            let Some(template) = template else { continue };
            text.clear();
            found.clear();
            write_value(value, &mut found);
            if !template.write(&memory.values, &self.program.feeds, Escape::None, &mut text) || text != found {
                return false;
            }
        }
        true
    }

    fn capture(&self, catch: &Catch, body: &[u8], document: &Value, memory: &mut Memory, draw: &mut Draw) -> bool {
        match &catch.from {
            // It was captured when the head arrived.
            Origin::Header(_) => true,
            Origin::Cookie(name) => {
                let value = memory.jar.value(name.as_bytes()).map(<[u8]>::to_vec);
                keep(catch, value.as_deref(), memory)
            }
            Origin::Regex(pattern) => keep(catch, found(pattern, body, catch.random, draw), memory),
            Origin::Json(pointer) => match pointer.find(document, draw) {
                Some(value) => {
                    write_value(value, memory.values.text_mut(catch.slot));
                    true
                }
                None => keep(catch, None, memory),
            },
        }
    }
}

/// What an expression finds: the first match, or one at random.
fn found<'b>(pattern: &Regex, body: &'b [u8], random: bool, draw: &mut Draw) -> Option<&'b [u8]> {
    if !random {
        return group(&pattern.captures(body)?);
    }
    let count = pattern.find_iter(body).count() as u64;
    if count == 0 {
        return None;
    }
    group(&pattern.captures_iter(body).nth(draw.below(count) as usize)?)
}

/// The first group of a match, or all of the match if the expression has no groups.
pub(super) fn group<'b>(captures: &regex::bytes::Captures<'b>) -> Option<&'b [u8]> {
    captures.get(usize::from(captures.len() > 1)).map(|found| found.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_is_the_first_or_any() {
        let pattern = Regex::new(r#"id="(\d)""#).unwrap();
        let body = br#"<a id="1"><a id="2"><a id="3">"#;
        let mut draw = Draw::new(1, 1);
        assert_eq!(found(&pattern, body, false, &mut draw), Some(b"1".as_slice()));
        let mut counts = [0u32; 4];
        for _ in 0..3000 {
            let digit = found(&pattern, body, true, &mut draw).unwrap()[0];
            counts[usize::from(digit - b'0')] += 1;
        }
        // Five standard deviations of the binomial: 5 * sqrt(3000 * 1/3 * 2/3) = 129.
        assert!(counts[1..].iter().all(|count| (871..1129).contains(count)), "{counts:?}");
        assert_eq!(found(&Regex::new("x").unwrap(), body, true, &mut draw), None);
        assert_eq!(found(&Regex::new(r"\d").unwrap(), body, false, &mut draw), Some(b"1".as_slice()));
    }
}
