//! The lines that a file has, and those that are added to it.

use std::fs::File;
use std::io::Read;

/// A longer line is no event: that of a trial that failed holds the end of a log, which is some KB.
const LINE_MOST: usize = 1 << 20;
/// How much is read at once, bytes.
const PIECE: u64 = 1 << 20;

/// How much is read of a file in all, bytes. The events of a week are some 100 MB.
const ALL_MOST: u64 = 1 << 30;

/// What comes next of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Whole lines; there may be more, even if these are none. What is not UTF-8 in them is replaced.
    Lines(Vec<String>),
    /// Nothing more by now.
    End,
    /// The file is longer than what is read of it. Told once; after that it has ended.
    Beyond,
}

/// A file that grows.
#[derive(Debug)]
pub(crate) struct Tail {
    file: File,
    /// What was read of a line that is not whole yet.
    begun: Vec<u8>,
    /// Whether that line is already too long.
    is_skipped: bool,
    /// Bytes that may still be read.
    left: u64,
    /// Whether it was told that this is not all.
    is_told: bool,
}

impl Tail {
    /// From its beginning.
    pub(crate) fn of(file: File) -> Tail {
        Tail { file, begun: Vec::new(), is_skipped: false, left: ALL_MOST, is_told: false }
    }

    /// Reads a piece.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn piece(&mut self) -> std::io::Result<Piece> {
        if self.left == 0 {
            return Ok(if std::mem::replace(&mut self.is_told, true) { Piece::End } else { Piece::Beyond });
        }
        let mut piece = Vec::new();
        let read = (&self.file).take(PIECE.min(self.left)).read_to_end(&mut piece)?;
        if read == 0 {
            return Ok(Piece::End);
        }
        self.left -= read as u64;
        let mut lines = Vec::new();
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
        Ok(Piece::Lines(lines))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// All lines that are there.
    fn lines(tail: &mut Tail) -> Vec<String> {
        let mut all = Vec::new();
        while let Piece::Lines(lines) = tail.piece().unwrap() {
            all.extend(lines);
        }
        all
    }

    #[test]
    fn lines_come_whole_whatever_a_file_holds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut file = File::create(&path).unwrap();
        let mut tail = Tail::of(File::open(&path).unwrap());
        assert_eq!(tail.piece().unwrap(), Piece::End);
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(lines(&mut tail), ["one"]);
        assert!(lines(&mut tail).is_empty());
        file.write_all(b"o\n\xff\n").unwrap();
        assert_eq!(lines(&mut tail), ["two", "\u{fffd}"]);
        file.write_all(&vec![b'x'; 3 * LINE_MOST]).unwrap();
        assert!(lines(&mut tail).is_empty() && tail.begun.len() <= LINE_MOST);
        file.write_all(b"\nlast\n").unwrap();
        assert_eq!(lines(&mut tail), ["last"]);
    }

    #[test]
    fn a_long_file_comes_by_pieces_and_its_reading_has_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        std::fs::write(&path, "some line\n".repeat(1 << 18)).unwrap();
        let mut tail = Tail { left: 1 << 21, ..Tail::of(File::open(&path).unwrap()) };
        let mut read = 0;
        for _ in 0..2 {
            let Piece::Lines(lines) = tail.piece().unwrap() else { panic!("there is more") };
            assert!(lines.len() <= (1 << 20) / 10 + 1);
            read += lines.len();
        }
        assert_eq!(read, (1 << 21) / 10);
        assert_eq!([tail.piece().unwrap(), tail.piece().unwrap()], [Piece::Beyond, Piece::End]);
    }
}
