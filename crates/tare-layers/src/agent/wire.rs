//! What goes over the line: one JSON document per line, with requests numbered and each answered once.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, BufRead, Write};
use std::time::Duration;
use tare_core::command::{COMMAND_ERRORS_MAX, COMMAND_OUTPUT_MAX, CommandStart};
use tare_core::fault::Fault;
use tare_core::host::{OpenError, SeenFile, ServiceStart, TrialContext};
use tare_core::layer::LayerUse;
use tare_core::telemetry::{Rest, Scope};

/// The longest message, in bytes. An hour of telemetry from a large guest stays below it; anything longer is garbage.
pub(super) const MESSAGE_MAX: usize = 64 << 20;

/// A call, numbered by the caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Request<C = Call> {
    /// The number that the reply repeats.
    pub(super) id: u64,
    /// What is asked.
    pub(super) call: C,
}

/// The calls of a host, and one for the clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Call {
    /// What the far end's CLOCK_MONOTONIC says, ns.
    Clock,
    Facts,
    Resources(ServiceStart),
    Start(ServiceStart),
    State(String),
    MappedFiles(String),
    FilesSeen(ServiceStart, Option<Vec<SeenFile>>),
    Log(String),
    Stop(String),
    BeginCommand(String, CommandStart),
    /// For at most this long.
    AwaitCommand(String, Duration),
    EndCommand(String),
    Freeze,
    Thaw,
    BeginProbe(Vec<Scope>, Duration),
    RestProbe(Vec<Rest>),
    EndProbe,
    Open(LayerUse, Box<TrialContext>),
    Close,
}

impl Call {
    /// The longest answer that it can have, in bytes: anything longer is refused before it is read in.
    pub(super) fn answer_max(&self) -> usize {
        match self {
            Call::EndProbe => MESSAGE_MAX,
            // Where JSON has no other way to write a byte, six stand for it.
            Call::AwaitCommand(..) => 6 * (COMMAND_OUTPUT_MAX + COMMAND_ERRORS_MAX) + ANSWER_MAX,
            _ => ANSWER_MAX,
        }
    }
}

/// The longest answer to a call that brings neither telemetry nor output of commands.
pub(super) const ANSWER_MAX: usize = 4 << 20;

/// The answer to the request with the same number. The reader states the type it must have: a tree of arbitrary values
/// would take many times the memory of its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Reply<T = Value> {
    pub(super) id: u64,
    pub(super) outcome: Outcome<T>,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome<T = Value> {
    /// What the call returns.
    Ok(T),
    /// It failed. A failed `open` ends as this or as `Unavailable`.
    Failed(Fault),
    /// A layer cannot be had.
    Unavailable(Fault),
}

impl Outcome {
    /// The outcome of a call.
    pub(super) fn of<T: Serialize>(result: Result<T, Fault>) -> Outcome {
        match result.map(|value| serde_json::to_value(value)) {
            Ok(Ok(value)) => Outcome::Ok(value),
            Ok(Err(error)) => Outcome::Failed(Fault::from_error("write the reply down", &error)),
            Err(fault) => Outcome::Failed(fault),
        }
    }

    /// The outcome of opening a layer.
    pub(super) fn of_open(error: Option<OpenError>) -> Outcome {
        match error {
            None => Outcome::Ok(Value::Null),
            Some(OpenError::Failed(fault)) => Outcome::Failed(fault),
            Some(OpenError::Unavailable(fault)) => Outcome::Unavailable(fault),
        }
    }
}

/// Writes one message.
pub(super) fn send<T: Serialize>(stream: &mut impl Write, message: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    assert!(!line.contains(&b'\n'), "JSON is written on one line");
    if line.len() >= MESSAGE_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long for the line"));
    }
    line.push(b'\n');
    stream.write_all(&line)?;
    stream.flush()
}

/// Reads from `reader` to the end of the line, appending to `line`. `Ok(true)` when the line is complete, `Ok(false)`
/// at the end of the stream. On an error such as a timeout, what has been read stays in `line` and the call can be
/// repeated.
pub(super) fn receive_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        match receive_piece(reader, line, MESSAGE_MAX)? {
            Piece::Of(_) => {}
            Piece::Last(_) => return Ok(true),
            Piece::None => return Ok(false),
        }
    }
}

/// How much of a line was received at once, in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// There is more to come.
    Of(usize),
    /// The line is complete.
    Last(usize),
    /// The stream has ended.
    None,
}

/// Appends to `line` what has arrived of a line of at most `most` bytes: the caller can check the time between any two
/// pieces, however small.
pub(super) fn receive_piece(reader: &mut impl BufRead, line: &mut Vec<u8>, most: usize) -> io::Result<Piece> {
    let available = loop {
        match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Asked again for the borrow checker; what was filled stays filled.
            Ok(_) => break reader.fill_buf()?,
            Err(error) => return Err(error),
        }
    };
    if available.is_empty() {
        return Ok(Piece::None);
    }
    let end = available.iter().position(|byte| *byte == b'\n');
    let taken = end.unwrap_or(available.len());
    if line.len() + taken > most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("the line is longer than {most} bytes")));
    }
    line.extend_from_slice(&available[..taken]);
    reader.consume(end.map_or(taken, |end| end + 1));
    Ok(if end.is_some() { Piece::Last(taken) } else { Piece::Of(taken) })
}

/// Reads arbitrary bytes as a line of messages: reading it in pieces gives the same result, and what is understood can
/// be written and understood again.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(bytes: &[u8]) {
    let whole = lines(io::BufReader::new(bytes));
    assert_eq!(lines(io::BufReader::with_capacity(1 + bytes.len() % 7, bytes)), whole);
    for line in whole {
        // Numbers with a fraction may be read with an error in the last place.
        let exact = !line.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
        if let Ok(request) = serde_json::from_slice::<Request>(&line) {
            assert!(!exact || again(&request) == request, "{request:?}");
        }
        if let Ok(reply) = serde_json::from_slice::<Reply>(&line) {
            assert!(!exact || again(&reply) == reply, "{reply:?}");
        }
    }
}

#[cfg(any(test, fuzzing))]
fn again<T: Serialize + serde::de::DeserializeOwned>(message: &T) -> T {
    let mut bytes = Vec::new();
    send(&mut bytes, message).expect("memory takes everything");
    serde_json::from_slice(&bytes).expect("we understand ourselves")
}

#[cfg(any(test, fuzzing))]
fn lines(mut reader: impl BufRead) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    loop {
        let mut line = Vec::new();
        if !receive_line(&mut reader, &mut line).expect("memory can be read") {
            return lines;
        }
        lines.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn a_message_survives_the_line() {
        let request = Request { id: 7, call: Call::BeginProbe(Vec::new(), Duration::from_millis(1500)) };
        let mut bytes = Vec::new();
        send(&mut bytes, &request).unwrap();
        let mut line = Vec::new();
        assert!(receive_line(&mut Cursor::new(&bytes), &mut line).unwrap());
        assert_eq!(serde_json::from_slice::<Request>(&line).unwrap(), request);
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut reader = io::BufReader::new(io::repeat(b'x'));
        let error = receive_line(&mut reader, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_line_is_refused_before_it_is_longer_than_it_may_be() {
        let mut line = Vec::new();
        let mut reader = io::BufReader::with_capacity(8, Cursor::new(b"12345678\n1234567890\n"));
        assert_eq!(receive_piece(&mut reader, &mut line, 8).unwrap(), Piece::Of(8));
        assert_eq!(receive_piece(&mut reader, &mut line, 8).unwrap(), Piece::Last(0));
        line.clear();
        assert_eq!(receive_piece(&mut reader, &mut line, 8).unwrap(), Piece::Of(7));
        assert!(receive_piece(&mut reader, &mut line, 8).is_err());
        assert!(line.len() <= 8);
    }

    #[test]
    fn the_end_of_the_stream_is_no_line() {
        assert!(!receive_line(&mut Cursor::new(b"half a line"), &mut Vec::new()).unwrap());
    }
}
