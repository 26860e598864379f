//! Recognises by its first bytes how a stream is compressed; its name or media type is not trusted.

use std::io::{self, BufReader, Cursor, Read};
use tare_core::fault::{Doing, Fault};

/// The largest window of a zstd stream, as a power of two: a larger one takes more memory. The layers that image tools
/// write stay below this.
pub(crate) const LAYER_WINDOW_LOG: u32 = 25;
/// The same for a whole archive, which people compress by hand: `zstd --long` and `zstd --ultra -22` need this much,
/// and zstd itself accepts no more by default.
pub(crate) const ARCHIVE_WINDOW_LOG: u32 = 27;

/// The length of the longest magic number, bytes.
const MARK_BYTES: u64 = 6;

/// The decompressed bytes of `reader`, which may be plain, gzip or zstd; a zstd stream may have a window of
/// 2^`window_log` bytes.
pub(crate) fn plain<'a>(reader: impl Read + 'a, window_log: u32) -> Result<Box<dyn Read + 'a>, Fault> {
    let mut reader = reader;
    // A reader may return only a few bytes at a time, so read until there are enough.
    let mut start = Vec::new();
    reader.by_ref().take(MARK_BYTES).read_to_end(&mut start).doing("read an archive")?;
    let reader = BufReader::with_capacity(1 << 17, Cursor::new(start.clone()).chain(reader));
    if start.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(flate2::bufread::MultiGzDecoder::new(reader)));
    }
    if is_zstd(&start) {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(reader).doing("read a zstd stream")?;
        decoder.window_log_max(window_log).doing("read a zstd stream")?;
        return Ok(Box::new(Windowed { decoder, window_log }));
    }
    check_readable(&start)?;
    Ok(Box::new(reader))
}

/// Says what to do about a stream with too large a window, instead of the library's message.
struct Windowed<R> {
    decoder: R,
    window_log: u32,
}

impl<R: Read> Read for Windowed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.decoder.read(buffer).map_err(|error| {
            // The binding passes on the library's error as text only.
            if !error.to_string().contains("too much memory") {
                return error;
            }
            let most = (1_u64 << self.window_log) >> 20;
            io::Error::other(format!(
                "its zstd stream needs a window of more than {most} MiB, which takes too much memory; compress it \
                 again with zstd -19, without --ultra and --long"
            ))
        })
    }
}

/// Refuses formats that are not supported.
pub(crate) fn check_readable(start: &[u8]) -> Result<(), Fault> {
    for (name, magic) in [("xz", &b"\xfd7zXZ\0"[..]), ("bzip2", &b"BZh"[..])] {
        if start.starts_with(magic) {
            return Err(Fault::new(format!("it is compressed with {name}, which is not supported"))
                .remedy("decompress it, or save the image as gzip, zstd or uncompressed"));
        }
    }
    Ok(())
}

/// Some tools begin with a skippable frame, such as one with the length of the next.
fn is_zstd(start: &[u8]) -> bool {
    let skipped = start.len() >= 4 && start[0] & 0xf0 == 0x50 && start[1..4] == [0x2a, 0x4d, 0x18];
    skipped || start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}

/// Whether a stream that starts with `start` is compressed.
pub(crate) fn is_compressed(start: &[u8]) -> bool {
    start.starts_with(&[0x1f, 0x8b]) || is_zstd(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(bytes: &[u8]) -> Result<Vec<u8>, Fault> {
        let mut plain_bytes = Vec::new();
        plain(bytes, LAYER_WINDOW_LOG)?.read_to_end(&mut plain_bytes).doing("read it")?;
        Ok(plain_bytes)
    }

    #[test]
    fn a_zstd_stream_may_begin_with_a_frame_that_is_skipped() {
        let frame = zstd::stream::encode_all(&b"layer"[..], 1).unwrap();
        // As pzstd writes it.
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 9, 9, 9, 9], &frame[..]].concat();
        for bytes in [frame, skipped] {
            assert!(is_compressed(&bytes));
            assert_eq!(read(&bytes).unwrap(), b"layer");
        }
    }

    #[test]
    fn a_whole_archive_may_refer_back_farther_than_a_layer() {
        let stream = |window_log: u32| {
            let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
            encoder.window_log(window_log).unwrap();
            encoder.write_all(b"archive").unwrap();
            encoder.finish().unwrap()
        };
        let read = |window_log: u32, most: u32| {
            let mut text = String::new();
            let read = plain(&stream(window_log)[..], most).unwrap().read_to_string(&mut text);
            read.map(|_| text).map_err(|error| error.to_string())
        };
        assert_eq!(read(25, LAYER_WINDOW_LOG).unwrap(), "archive");
        assert_eq!(read(27, ARCHIVE_WINDOW_LOG).unwrap(), "archive");
        for (window_log, most, told) in [(26, LAYER_WINDOW_LOG, "32 MiB"), (28, ARCHIVE_WINDOW_LOG, "128 MiB")] {
            let error = read(window_log, most).unwrap_err();
            assert!(error.contains(told) && error.contains("with zstd -19"), "{error}");
        }
    }

    #[test]
    fn what_is_not_read_is_called_by_its_name() {
        for (bytes, name) in [(&b"\xfd7zXZ\0\0\x04"[..], "xz"), (b"BZh91AY&SY", "bzip2")] {
            let fault = read(bytes).unwrap_err();
            assert!(fault.message.contains(name) && !fault.remedy.is_empty(), "{fault}");
            assert_eq!(check_readable(bytes), Err(fault));
        }
        assert_eq!(read(b"plain").unwrap(), b"plain");
    }
}
