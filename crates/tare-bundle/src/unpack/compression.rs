//! Recognises how a stream is compressed by its first bytes; what its name or media type says is not believed.

use std::io::{BufReader, Cursor, Read};
use tare_core::fault::{Doing, Fault};

/// The most that a zstd stream may refer back, as a power of two: what every tool for images writes stays below it, and
/// a stream that asks for more asks for the memory.
const ZSTD_WINDOW_LOG: u32 = 25;

/// The longest beginning by which a kind is told.
const MARK_BYTES: u64 = 6;

/// The plain bytes of `reader`, whichever of none, gzip and zstd it is compressed with.
pub(crate) fn plain<'a>(reader: impl Read + 'a) -> Result<Box<dyn Read + 'a>, Fault> {
    let mut reader = reader;
    // Whoever hands over little at a time would have a few bytes looked at.
    let mut start = Vec::new();
    reader.by_ref().take(MARK_BYTES).read_to_end(&mut start).doing("read an archive")?;
    let reader = BufReader::with_capacity(1 << 17, Cursor::new(start.clone()).chain(reader));
    if start.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(flate2::bufread::MultiGzDecoder::new(reader)));
    }
    if is_zstd(&start) {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(reader).doing("read a zstd stream")?;
        decoder.window_log_max(ZSTD_WINDOW_LOG).doing("read a zstd stream")?;
        return Ok(Box::new(decoder));
    }
    check_readable(&start)?;
    Ok(Box::new(reader))
}

/// Refuses what is compressed in a way that is not read here.
pub(crate) fn check_readable(start: &[u8]) -> Result<(), Fault> {
    for (name, magic) in [("xz", &b"\xfd7zXZ\0"[..]), ("bzip2", &b"BZh"[..])] {
        if start.starts_with(magic) {
            return Err(Fault::new(format!("it is compressed with {name}, which is not read here"))
                .remedy("decompress it, or save the image as gzip, zstd or uncompressed"));
        }
    }
    Ok(())
}

/// Some tools begin with a frame that is to be skipped, such as one that says how long the next is.
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

    fn read(bytes: &[u8]) -> Result<Vec<u8>, Fault> {
        let mut plain_bytes = Vec::new();
        plain(bytes)?.read_to_end(&mut plain_bytes).doing("read it")?;
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
    fn what_is_not_read_is_called_by_its_name() {
        for (bytes, name) in [(&b"\xfd7zXZ\0\0\x04"[..], "xz"), (b"BZh91AY&SY", "bzip2")] {
            let fault = read(bytes).unwrap_err();
            assert!(fault.message.contains(name) && !fault.remedy.is_empty(), "{fault}");
            assert_eq!(check_readable(bytes), Err(fault));
        }
        assert_eq!(read(b"plain").unwrap(), b"plain");
    }
}
