//! The lines that a file has, and those that are added to it.

use std::fs::File;
use std::io::Read;

/// A longer line is no event: that of a trial that failed holds the end of a log, which is some KB.
const LINE_MOST: usize = 1 << 20;
/// How much is read at once, bytes.
const PIECE: u64 = 1 << 20;

/// A file that grows.
#[derive(Debug)]
pub(crate) struct Tail {
    file: File,
    /// What was read of a line that is not whole yet.
    begun: Vec<u8>,
    /// Whether that line is already too long.
    is_skipped: bool,
}

impl Tail {
    /// From its beginning.
    pub(crate) fn of(file: File) -> Tail {
        Tail { file, begun: Vec::new(), is_skipped: false }
    }

    /// The next whole lines, as far as they are there; what is not UTF-8 in them is replaced. Empty once there are
    /// none.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn lines(&mut self) -> std::io::Result<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            let mut piece = Vec::new();
            if (&self.file).take(PIECE).read_to_end(&mut piece)? == 0 {
                return Ok(lines);
            }
            let mut parts = piece.split(|byte| *byte == b'\n').peekable();
            while let Some(part) = parts.next() {
                self.begun.extend_from_slice(part);
                if self.begun.len() > LINE_MOST {
                    self.begun.clear();
                    self.is_skipped = true;
                }
                // What is behind the last line feed is only a beginning.
                if parts.peek().is_some() {
                    if !std::mem::take(&mut self.is_skipped) {
                        lines.push(String::from_utf8_lossy(&self.begun).into_owned());
                    }
                    self.begun.clear();
                }
            }
            if !lines.is_empty() {
                return Ok(lines);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lines_come_whole_whatever_a_file_holds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut file = File::create(&path).unwrap();
        let mut tail = Tail::of(File::open(&path).unwrap());
        assert!(tail.lines().unwrap().is_empty());
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(tail.lines().unwrap(), ["one"]);
        assert!(tail.lines().unwrap().is_empty());
        file.write_all(b"o\n\xff\n").unwrap();
        assert_eq!(tail.lines().unwrap(), ["two", "\u{fffd}"]);
        file.write_all(&vec![b'x'; 3 * LINE_MOST]).unwrap();
        assert!(tail.lines().unwrap().is_empty() && tail.begun.len() <= LINE_MOST);
        file.write_all(b"\nlast\n").unwrap();
        assert_eq!(tail.lines().unwrap(), ["last"]);
    }
}
