//! Starts and operations from a file.

use super::{NOBODY, Share, Start, stream};
use crate::clock::SECOND_NS;
use crate::draw::Draw;
use crate::operation::OperationRow;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use tare_core::fault::{Doing, Fault};

/// The most lines that fit: each takes 16 bytes.
const LINES_MAX: usize = 200_000_000;
/// The longest line that a recording may have.
const LINE_MAX: usize = 4096;

/// A line: its moment after the start of the run, ns, and its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    after_ns: u64,
    operation: u16,
}

/// Reads lines of `SECONDS OPERATION`, separated by a space, tab or comma, in order of time; `#` begins a comment. The
/// first moment in the file is the first moment of the run, whatever its origin.
///
/// # Errors
/// The first line that cannot be understood, with its number.
pub(crate) fn read(file: &Path, speed: f64, operations: &[OperationRow]) -> Result<Arc<[Line]>, Fault> {
    let shown = file.display();
    // So that opening a pipe without a writer does not block.
    let unwaiting = libc::O_NONBLOCK | libc::O_NOCTTY;
    let opened = std::fs::File::options().read(true).custom_flags(unwaiting).open(file);
    let opened = opened.doing(format_args!("open {shown}"))?;
    if !opened.metadata().doing(format_args!("open {shown}"))?.is_file() {
        return Err(Fault::new(format!("could not replay {shown}: it is no regular file")).as_mistake());
    }
    let lines = parse(BufReader::new(opened), speed, operations);
    lines.map_err(|fault| fault.context(format_args!("replay {shown}")).as_mistake())
}

/// Takes any bytes as a recording: the lines understood are in order of time.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(bytes: &[u8]) {
    let operations = ["get", "set"].map(|name| OperationRow { name: name.to_owned(), weight: 1, lingers: false });
    for speed in [1.0, 1e-9, 1e9] {
        match parse(bytes, speed, &operations) {
            Ok(lines) => assert!(lines.is_sorted_by_key(|line| line.after_ns)),
            Err(fault) => assert!(!fault.message.is_empty()),
        }
    }
}

fn parse(mut reader: impl BufRead, speed: f64, operations: &[OperationRow]) -> Result<Arc<[Line]>, Fault> {
    let mut lines: Vec<Line> = Vec::new();
    let (mut text, mut number, mut first) = (Vec::new(), 0u64, None);
    loop {
        text.clear();
        let read = std::io::Read::take(&mut reader, LINE_MAX as u64).read_until(b'\n', &mut text).doing("read")?;
        if read == 0 {
            break;
        }
        number += 1;
        let wrong = |what: &str| Err(Fault::new(format!("line {number}: {what}")).remedy("write '12.345 name'"));
        let Ok(line) = std::str::from_utf8(&text) else { return wrong("it is no text") };
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let Some((moment, name)) = line.split_once([' ', '\t', ',']) else { return wrong("two columns are wanted") };
        let moment: Option<f64> = moment.trim().parse().ok().filter(|moment: &f64| moment.is_finite());
        let Some(moment) = moment else { return wrong("it does not begin with a number of seconds") };
        let name = name.trim();
        let Some(operation) = operations.iter().position(|operation| operation.name == name) else {
            return wrong(&format!("there is no operation '{name}'"));
        };
        let after_ns = ((moment - *first.get_or_insert(moment)) / speed * SECOND_NS as f64).round() as u64;
        if moment < first.unwrap_or(moment) || lines.last().is_some_and(|last| last.after_ns > after_ns) {
            return wrong("it is earlier than the line before it");
        }
        if lines.len() == LINES_MAX {
            return wrong("there are too many lines");
        }
        lines.push(Line { after_ns, operation: operation as u16 });
    }
    if lines.is_empty() {
        return Err(Fault::new("there is no line in it"));
    }
    Ok(lines.into())
}

/// One worker's lines.
pub(crate) struct Replay {
    lines: Arc<[Line]>,
    begin_ns: u64,
    at: usize,
    share: Share,
    seed: u64,
}

impl Replay {
    /// This worker's share of `lines`, from `begin_ns` on.
    pub(crate) fn new(lines: Arc<[Line]>, begin_ns: u64, seed: u64, share: Share) -> Self {
        Replay { lines, begin_ns, at: share.worker as usize, share, seed }
    }

    /// When the next line is due; `u64::MAX` if there is none.
    pub(crate) fn next_ns(&self) -> u64 {
        self.lines.get(self.at).map_or(u64::MAX, |line| self.begin_ns.saturating_add(line.after_ns))
    }

    /// The next line, if it is due at `now_ns`.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<Start> {
        let planned_ns = self.next_ns();
        if planned_ns > now_ns {
            return None;
        }
        let draw = Draw::at(self.seed, stream::ARRIVALS, self.at as u64);
        let start = Start { planned_ns, draw, user: NOBODY, operation: self.lines[self.at].operation };
        self.at += self.share.workers as usize;
        Some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, speed: f64) -> Result<Arc<[Line]>, Fault> {
        let rows = ["get", "set"].map(|name| OperationRow { name: name.to_owned(), weight: 1, lingers: false });
        parse(text.as_bytes(), speed, &rows)
    }

    #[test]
    fn only_a_regular_file_is_replayed() {
        for path in ["/dev/zero", "/proc/self"] {
            let fault = read(Path::new(path), 1.0, &[]).unwrap_err();
            assert!(fault.message.contains("no regular file"), "{fault}");
        }
    }

    #[test]
    fn a_file_is_replayed_at_its_speed_by_all_workers() {
        let read = lines("# log\n100.5 get\n100.75,set # twice\n\n100.75\tget\n102.5 get\n", 2.0).unwrap();
        let of = |worker, workers| {
            let mut replay = Replay::new(read.clone(), 1000, 1, Share { worker, workers });
            std::iter::from_fn(|| replay.take(u64::MAX - 1)).map(|s| (s.planned_ns, s.operation)).collect::<Vec<_>>()
        };
        let whole = of(0, 1);
        assert_eq!(whole, [(1000, 0), (125_001_000, 1), (125_001_000, 0), (1_000_001_000, 0)]);
        assert_eq!([of(0, 2), of(1, 2)], [vec![whole[0], whole[2]], vec![whole[1], whole[3]]]);
    }

    #[test]
    fn a_line_that_cannot_be_understood_is_named() {
        let cases = [
            ("1 get\nx get\n", "line 2: it does not begin"),
            ("1 got\n", "line 1: there is no operation 'got'"),
            ("2 get\n1 get\n", "line 2: it is earlier"),
            ("1\n", "line 1: two columns"),
            ("nan get\n", "line 1: it does not"),
            ("# nothing\n", "no line in it"),
        ];
        for (text, message) in cases {
            let found = lines(text, 1.0).unwrap_err().message;
            assert!(found.contains(message), "{found}");
        }
    }
}
