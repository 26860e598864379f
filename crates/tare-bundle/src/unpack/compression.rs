//! Recognises how a stream is compressed by its first bytes; what its name or media type says is not believed.

use std::io::{BufRead, BufReader, Read};
use tare_core::fault::{Doing, Fault};

/// The plain bytes of `reader`, whichever of none, gzip and zstd it is compressed with.
pub(crate) fn plain<'a>(reader: impl Read + 'a) -> Result<Box<dyn Read + 'a>, Fault> {
    let mut reader = BufReader::with_capacity(1 << 17, reader);
    let start = reader.fill_buf().doing("read an archive")?;
    if start.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(flate2::bufread::MultiGzDecoder::new(reader)));
    }
    if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let decoder = zstd::stream::read::Decoder::with_buffer(reader).doing("read a zstd stream")?;
        return Ok(Box::new(decoder));
    }
    Ok(Box::new(reader))
}

/// Whether a stream that starts with `start` is compressed.
pub(crate) fn is_compressed(start: &[u8]) -> bool {
    start.starts_with(&[0x1f, 0x8b]) || start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}
