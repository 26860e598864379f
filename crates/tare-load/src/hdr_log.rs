//! An HdrHistogram log: one line per second and operation, readable by every tool of that family (format 1.3). Values
//! are response times in ns; the maximum is in ms, as is usual.

use crate::clock::{self, SECOND_NS};
use crate::histogram::Histogram;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use tare_core::fault::{Doing, Fault};

/// A log being written.
pub(crate) struct HdrLog {
    file: BufWriter<File>,
    // Subtracted from CLOCK_MONOTONIC to get the time since the start of the log.
    begin_ns: u64,
    path: String,
}

impl HdrLog {
    /// Begins a log that starts now.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn create(path: &Path) -> Result<Self, Fault> {
        let shown = path.display().to_string();
        let file = File::create(path).doing(format_args!("write {shown}"))?;
        let mut log = HdrLog { file: BufWriter::new(file), begin_ns: clock::monotonic_ns(), path: shown };
        let began_s = clock::realtime_ns() as f64 / SECOND_NS as f64;
        let head = format!(
            "#[Response times by planned start, in ns; written by tare]\n#[Histogram log format version 1.3]\n\
             #[StartTime: {began_s:.3} (seconds since epoch)]\n\
             \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
        );
        log.write(&head)?;
        Ok(log)
    }

    /// Adds an interval: a line for each operation answered in it, tagged with its name.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn interval(
        &mut self,
        from_ns: u64,
        to_ns: u64,
        operations: &[String],
        times: &[Histogram],
    ) -> Result<(), Fault> {
        let seconds = |ns: u64| ns as f64 / SECOND_NS as f64;
        let from_s = seconds(from_ns.saturating_sub(self.begin_ns));
        let length_s = seconds(to_ns.saturating_sub(from_ns));
        for (name, times) in operations.iter().zip(times).filter(|(_, times)| times.total() > 0) {
            // These characters end a tag.
            let tag = name.replace([',', ' ', '\r', '\n'], "_");
            let longest_ms = times.longest() as f64 / 1e6;
            let line = format!("Tag={tag},{from_s:.3},{length_s:.3},{longest_ms:.3},{}\n", times.export());
            self.write(&line)?;
        }
        self.file.flush().doing(format_args!("write {}", self.path))
    }

    fn write(&mut self, text: &str) -> Result<(), Fault> {
        self.file.write_all(text.as_bytes()).doing(format_args!("write {}", self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    #[test]
    fn other_readers_of_the_format_understand_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("times.hlog");
        let mut log = HdrLog::create(&path).unwrap();
        let mut times = Histogram::new();
        [1_000_000, 2_000_000, 7_500_000].into_iter().for_each(|ns| times.record(ns));
        let from_ns = log.begin_ns + 2 * SECOND_NS;
        log.interval(from_ns, from_ns + SECOND_NS, &["get one".into(), "set".into()], &[times, Histogram::new()])
            .unwrap();
        let text = std::fs::read(&path).unwrap();
        let entries: Vec<_> = IntervalLogIterator::new(&text).map(|entry| entry.unwrap()).collect();
        assert!(matches!(entries[0], LogEntry::StartTime(start) if start.as_secs() > 1_600_000_000));
        let LogEntry::Interval(interval) = &entries[1] else { panic!("{entries:?}") };
        assert_eq!(interval.tag().map(|tag| tag.as_str()), Some("get_one"));
        assert_eq!((interval.start_timestamp().as_secs(), interval.duration().as_secs()), (2, 1));
        assert!((interval.max() - 7.5).abs() < 1e-9);
        let histogram = tare_testkit::histogram::decode(interval.encoded_histogram());
        assert_eq!((histogram.len(), entries.len()), (3, 2));
    }
}
