//! Places in a JSON document (RFC 6901), with `*` for a random member.

use super::options::random_member;
use crate::draw::Draw;
use serde_json::Value;

/// A place in a document.
#[derive(Debug, Clone)]
pub(super) struct Pointer(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Name(String),
    Any,
}

impl Pointer {
    /// Compiles a pointer that was checked when it was read.
    pub(super) fn new(text: &str) -> Pointer {
        let part = |part: &str| match part {
            part if random_member(part) => Part::Any,
            part => Part::Name(part.replace("~1", "/").replace("~0", "~")),
        };
        Pointer(text.split('/').skip(1).map(part).collect())
    }

    /// The value at this place, if any.
    pub(super) fn find<'v>(&self, document: &'v Value, draw: &mut Draw) -> Option<&'v Value> {
        self.0.iter().try_fold(document, |value, part| match (part, value) {
            (Part::Any, Value::Array(items)) if !items.is_empty() => items.get(draw.below(items.len() as u64) as usize),
            (Part::Any, Value::Object(members)) if !members.is_empty() => {
                members.values().nth(draw.below(members.len() as u64) as usize)
            }
            (Part::Name(name), Value::Array(items)) => {
                // RFC 6901: no leading zeros.
                let plain = name == "0" || (!name.starts_with('0') && name.bytes().all(|byte| byte.is_ascii_digit()));
                items.get(name.parse::<usize>().ok().filter(|_| plain)?)
            }
            (Part::Name(name), Value::Object(members)) => members.get(name),
            _ => None,
        })
    }
}

/// Appends a value as text: strings without quotes, everything else as JSON.
pub(super) fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::String(text) => out.extend_from_slice(text.as_bytes()),
        other => serde_json::to_writer(out, other).expect("a vector takes everything"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn places_are_found() {
        let document = serde_json::json!({"a": [{"b": 1}, {"b": "x"}], "c/d~e": null, "": true, "*": 3});
        let mut draw = Draw::new(1, 1);
        let mut find = |pointer: &str| Pointer::new(pointer).find(&document, &mut draw).map(ToString::to_string);
        for (pointer, value) in [("/a/0/b", "1"), ("/a/1/b", "\"x\""), ("/c~1d~0e", "null"), ("/", "true")] {
            assert_eq!(find(pointer).as_deref(), Some(value), "{pointer}");
        }
        assert_eq!(find("").as_deref(), Some(document.to_string().as_str()));
        for pointer in ["/a/2", "/a/00", "/a/-", "/a/+1", "/b", "/a/0/b/c", "/a/0/b/*"] {
            assert_eq!(find(pointer), None, "{pointer}");
        }
    }

    #[test]
    fn any_member_is_drawn_evenly() {
        let document = serde_json::json!([{"id": 0}, {"id": 1}, {"id": 2}]);
        let (pointer, mut draw, mut counts) = (Pointer::new("/*/id"), Draw::new(5, 5), [0u32; 3]);
        for _ in 0..3000 {
            counts[pointer.find(&document, &mut draw).unwrap().as_u64().unwrap() as usize] += 1;
        }
        // Five standard deviations of the binomial: 5 * sqrt(3000 * 1/3 * 2/3) = 129.
        assert!(counts.iter().all(|count| (871..1129).contains(count)), "{counts:?}");
    }

    proptest! {
        #[test]
        fn it_agrees_with_serde(pointer in "(/[ab01~]{0,2}){0,3}") {
            let document = serde_json::json!({"a": [{"b": 1}, ["a", "b"]], "b": {"0": 1, "": {"a": 2}}, "~": 1});
            prop_assume!(!pointer.contains("~"));
            let found = Pointer::new(&pointer).find(&document, &mut Draw::new(0, 0));
            prop_assert_eq!(found, document.pointer(&pointer));
        }
    }
}
