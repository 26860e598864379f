//! Recognises how a stream is compressed by its first bytes; what its name or media type says is not believed.

use std::io::{BufRead, BufReader, Read};
use tare_core::fault::{Doing, Fault};

/// The most that a zstd stream may refer back, as a power of two: what every tool for images writes stays below it, and
/// a stream that asks for more asks for the memory.
const ZSTD_WINDOW_LOG: u32 = 25;

/// The plain bytes of `reader`, whichever of none, gzip and zstd it is compressed with.
pub(crate) fn plain<'a>(reader: impl Read + 'a) -> Result<Box<dyn Read + 'a>, Fault> {
    let mut reader = BufReader::with_capacity(1 << 17, reader);
    let start = reader.fill_buf().doing("read an archive")?;
    if start.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(flate2::bufread::MultiGzDecoder::new(reader)));
    }
    if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(reader).doing("read a zstd stream")?;
        decoder.window_log_max(ZSTD_WINDOW_LOG).doing("read a zstd stream")?;
        return Ok(Box::new(decoder));
    }
    for (name, magic) in [("xz", &b"\xfd7zXZ\0"[..]), ("bzip2", &b"BZh"[..])] {
        if start.starts_with(magic) {
            return Err(Fault::new(format!("it is compressed with {name}, which is not read here"))
                .remedy("decompress it, or save the image as gzip, zstd or uncompressed"));
        }
    }
    Ok(Box::new(reader))
}

/// Whether a stream that starts with `start` is compressed.
pub(crate) fn is_compressed(start: &[u8]) -> bool {
    start.starts_with(&[0x1f, 0x8b]) || start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}
