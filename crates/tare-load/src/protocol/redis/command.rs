//! The commands, and their requests as templates into which keys are written.

/// The answer that a command gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// This status.
    Status(&'static [u8]),
    /// An integer.
    Integer,
    /// The value of the requested key, or null.
    ValueOfKey,
    /// A map: the answer to a greeting only.
    Map,
}

/// A part of a command.
#[derive(Debug, Clone, Copy)]
enum Part {
    Word(&'static str),
    /// A key with this prefix. Each kind of data has its own keys, so that no command meets another's type.
    Key(&'static str),
    /// The value that belongs to the last key.
    Value,
}

/// A row of the table of commands.
#[derive(Debug)]
pub(super) struct CommandRow {
    /// Its name in a mix, which is also its name in the server's `commandstats`.
    pub name: &'static str,
    /// What it is answered with.
    pub answer: Answer,
    /// Whether it can create keys other than those of strings.
    pub makes_other_keys: bool,
    parts: &'static [Part],
}

/// The digits in a key.
pub(super) const DIGITS: usize = 12;
/// The prefix of keys of strings.
pub(super) const STRING_KEY: &str = "key:";

const fn row(name: &'static str, answer: Answer, makes_other_keys: bool, parts: &'static [Part]) -> CommandRow {
    CommandRow { name, answer, makes_other_keys, parts }
}

use Part::{Key, Value as Val, Word};

/// Every command that a mix may contain.
pub(super) const COMMANDS: &[CommandRow] = &[
    row("get", Answer::ValueOfKey, false, &[Word("GET"), Key(STRING_KEY)]),
    row("set", Answer::Status(b"OK"), false, &[Word("SET"), Key(STRING_KEY), Val]),
    row(
        "mset",
        Answer::Status(b"OK"),
        false,
        &[Word("MSET"), Key(STRING_KEY), Val, Key(STRING_KEY), Val, Key(STRING_KEY), Val, Key(STRING_KEY), Val],
    ),
    row("incr", Answer::Integer, true, &[Word("INCR"), Key("counter:")]),
    row("lpush", Answer::Integer, true, &[Word("LPUSH"), Key("list:"), Val]),
    row("rpush", Answer::Integer, true, &[Word("RPUSH"), Key("list:"), Val]),
    row("lpop", Answer::ValueOfKey, false, &[Word("LPOP"), Key("list:")]),
    row("rpop", Answer::ValueOfKey, false, &[Word("RPOP"), Key("list:")]),
    row("sadd", Answer::Integer, true, &[Word("SADD"), Key("set:"), Val]),
    row("hset", Answer::Integer, true, &[Word("HSET"), Key("hash:"), Word("field"), Val]),
    row("ping", Answer::Status(b"PONG"), false, &[Word("PING")]),
];

/// The values: the key's number, then filler, so that a reply shows which key it belongs to.
#[derive(Debug, Clone)]
pub(super) struct Value {
    // The beginning of a reply with a value: its length.
    head: Vec<u8>,
    filler: Vec<u8>,
}

impl Value {
    /// Values of this length.
    pub(super) fn new(bytes: u64) -> Self {
        // Letters in an order that does not compress.
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut letter = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            b'a' + (state >> 32) as u8 % 26
        };
        Value { head: format!("${bytes}\r\n").into_bytes(), filler: (0..bytes).map(|_| letter()).collect() }
    }

    /// The beginning of a reply with a value.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Their length.
    pub(super) fn len(&self) -> usize {
        self.filler.len()
    }

    /// Whether a value has room for its key's number.
    fn marked(&self) -> bool {
        self.filler.len() >= DIGITS
    }

    /// Whether `bytes`, at offset `from` in a value, are those of key number `key`.
    #[inline]
    pub(super) fn matches(&self, key: u64, from: usize, bytes: &[u8]) -> bool {
        let Some(expected) = self.filler.get(from..from + bytes.len()) else { return false };
        if !self.marked() || from >= DIGITS {
            return bytes == expected;
        }
        let (mark, rest) = bytes.split_at(bytes.len().min(DIGITS - from));
        mark == &digits(key)[from..from + mark.len()] && rest == &expected[mark.len()..]
    }
}

/// A number with twelve digits. Computed for each operation, so it works on two halves at once, without a loop that
/// depends on its previous step.
#[inline]
pub(super) fn digits(number: u64) -> [u8; DIGITS] {
    const MILLION: u64 = 1_000_000;
    let halves = [(number / MILLION % MILLION) as u32, (number % MILLION) as u32];
    let mut text = [0; DIGITS];
    for (half, text) in halves.into_iter().zip(text.chunks_exact_mut(6)) {
        let (high, low) = (half / 1000, half % 1000);
        let of = |triple: u32| [triple / 100, triple / 10 % 10, triple % 10].map(|digit| b'0' + digit as u8);
        text[..3].copy_from_slice(&of(high));
        text[3..].copy_from_slice(&of(low));
    }
    text
}

/// A request with room for its keys.
pub(super) struct Template {
    /// Its command.
    pub row: &'static CommandRow,
    bytes: Vec<u8>,
    // Where digits are written, and for which of the command's keys.
    places: Vec<(usize, u64)>,
}

impl Template {
    /// The request of a command, with values of this kind.
    pub(super) fn new(row: &'static CommandRow, value: &Value) -> Self {
        let mut bytes = format!("*{}\r\n", row.parts.len()).into_bytes();
        let mut places = Vec::new();
        let mut keys = 0;
        for part in row.parts {
            let (prefix, digits, filler): (&str, usize, &[u8]) = match part {
                Part::Word(word) => (word, 0, &[]),
                Part::Key(prefix) => {
                    keys += 1;
                    (prefix, DIGITS, &[])
                }
                Part::Value if value.marked() => ("", DIGITS, &value.filler[DIGITS..]),
                Part::Value => ("", 0, &value.filler),
            };
            let length = prefix.len() + digits + filler.len();
            bytes.extend_from_slice(format!("${length}\r\n{prefix}").as_bytes());
            if digits > 0 {
                places.push((bytes.len(), keys - 1));
                bytes.extend_from_slice(&[b'0'; DIGITS]);
            }
            bytes.extend_from_slice(filler);
            bytes.extend_from_slice(b"\r\n");
        }
        Template { row, bytes, places }
    }

    /// The request for `name`, which is in the table.
    pub(super) fn named(name: &str, value: &Value) -> Self {
        Template::new(COMMANDS.iter().find(|row| row.name == name).expect("a command of the table"), value)
    }

    /// Appends the request for key number `key`; a command with several keys uses the following ones too, wrapping
    /// around at the end of the key space.
    #[inline]
    pub(super) fn write(&self, key: u64, keys: u64, out: &mut Vec<u8>) {
        let from = out.len();
        out.extend_from_slice(&self.bytes);
        for (place, nth) in &self.places {
            let key = if *nth == 0 { key } else { (key + nth) % keys };
            out[from + place..from + place + DIGITS].copy_from_slice(&digits(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str, value: &Value, key: u64) -> String {
        let mut out = Vec::new();
        Template::named(name, value).write(key, 10, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn requests_are_written_as_the_server_reads_them() {
        let short = Value::new(3);
        let filler = String::from_utf8(short.filler.clone()).unwrap();
        assert_eq!(text("get", &short, 7), "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000007\r\n");
        assert_eq!(text("set", &short, 7), format!("*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000007\r\n$3\r\n{filler}\r\n"));
        assert_eq!(text("ping", &short, 7), "*1\r\n$4\r\nPING\r\n");
        let marked = text("mset", &Value::new(12), 9);
        assert!(marked.contains("key:000000000009\r\n$12\r\n000000000009\r\n$16\r\nkey:000000000000\r\n"), "{marked}");
    }

    #[test]
    fn numbers_have_twelve_digits() {
        for number in [0, 7, 999, 1000, 123_456, 999_999, 1_000_000, 123_456_789_012, 999_999_999_999] {
            assert_eq!(digits(number).as_slice(), format!("{number:012}").as_bytes());
        }
    }

    #[test]
    fn a_value_is_known_by_any_part_of_it() {
        let value = Value::new(20);
        let whole = [digits(5).as_slice(), &value.filler[DIGITS..]].concat();
        for from in 0..20 {
            for to in from..=20 {
                assert!(value.matches(5, from, &whole[from..to]));
                let shows = to > DIGITS - 1 && from < DIGITS;
                assert_eq!(!value.matches(6, from, &whole[from..to]), shows, "{from} {to}");
            }
        }
        assert!(!value.matches(5, 18, b"abc"), "too long");
    }
}
