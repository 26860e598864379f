//! Reads the tar archives of images and package tools: ustar, GNU long names, pax records.
//!
//! Pax records are read by their stated length, so that binary values (file capabilities) survive, and every size in an
//! archive is checked against a limit before it is used.

use crate::tree::{Kind, Meta, keeps_xattr, shown};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use tar::{EntryType, Header};
use tare_core::fault::{Doing, Fault};

const BLOCK: u64 = 512;
/// The largest header extensions of one entry that are read into memory, bytes, with their own headers. The attributes
/// of a file take at most a few times 64 KiB.
const MAX_EXTENSION: u64 = 1 << 20;
/// The pax records that are used, by name and by prefix.
const RECORDS: [&[u8]; 6] = [b"path", b"linkpath", b"size", b"uid", b"gid", b"mtime"];
const RECORD_PREFIXES: [&[u8]; 2] = [b"SCHILY.xattr.", b"GNU.sparse."];

/// An entry of an archive.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    /// Its path as written in the archive.
    pub(crate) path: Vec<u8>,
    /// Its type.
    pub(crate) what: What,
    /// Its metadata.
    pub(crate) meta: Meta,
}

/// The type of an entry of an archive.
#[derive(Debug, Clone)]
pub(crate) enum What {
    /// Something new.
    New(Kind),
    /// Another name of an earlier entry.
    HardLink(Vec<u8>),
}

/// Reads an archive entry by entry. As a [`Read`] it yields the content of the current entry.
pub(crate) struct Tarball<R> {
    inner: R,
    /// Unread bytes of the current entry.
    left: u64,
    /// Bytes that pad its last block.
    padding: u64,
    /// Offset of the next byte in the archive.
    offset: u64,
}

/// The header extensions of the entry that follows.
#[derive(Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    records: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Their total size in the archive, bytes.
    bytes: u64,
}

impl Extensions {
    /// Counts one more, of `size` bytes. All extensions of an entry share one limit, because they are kept in memory
    /// until the entry comes.
    fn grow(&mut self, size: u64) -> Result<u64, Fault> {
        self.bytes = self.bytes.saturating_add(size).saturating_add(BLOCK);
        if self.bytes > MAX_EXTENSION {
            let bytes = self.bytes;
            return Err(Fault::new(format!(
                "the header extensions of an entry take {bytes} bytes; the limit is 1 MiB"
            )));
        }
        Ok(size)
    }
}

impl<R: Read> Tarball<R> {
    pub(crate) fn new(inner: R) -> Self {
        Tarball { inner, left: 0, padding: 0, offset: 0 }
    }

    /// Where in the archive the content of the current entry begins, bytes.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The rest of the stream after the archive.
    pub(crate) fn into_inner(self) -> R {
        self.inner
    }

    /// The next entry; none at the end of the archive.
    pub(crate) fn next(&mut self) -> Result<Option<Item>, Fault> {
        let mut extensions = Extensions::default();
        loop {
            self.pass()?;
            let Some(header) = self.header()? else { return Ok(None) };
            let size = header.entry_size().map_err(|_| malformed("has a size that is no number", &header))?;
            let kind = header.entry_type();
            match kind {
                EntryType::GNULongName | EntryType::GNULongLink | EntryType::XHeader | EntryType::XGlobalHeader => {
                    let bytes = self.extension(extensions.grow(size)?)?;
                    match kind {
                        EntryType::GNULongName => extensions.path = Some(until_nul(bytes)),
                        EntryType::GNULongLink => extensions.link = Some(until_nul(bytes)),
                        EntryType::XHeader => read_pax(&bytes, &mut extensions.records)?,
                        _ => {}
                    }
                }
                _ => return self.item(&header, size, extensions).map(Some),
            }
        }
    }

    fn item(&mut self, header: &Header, size: u64, mut extensions: Extensions) -> Result<Item, Fault> {
        let records = &mut extensions.records;
        let path = records.remove(&b"path"[..]).or(extensions.path).unwrap_or_else(|| header.path_bytes().into_owned());
        let refuse = |why: &str| Fault::new(format!("entry '{}' {why}", shown(&path[..path.len().min(300)])));
        if records.keys().any(|key| key.starts_with(b"GNU.sparse.")) || header.entry_type().is_gnu_sparse() {
            return Err(refuse("is stored as a sparse file").remedy("write the archive without sparse files"));
        }
        let link = records.remove(&b"linkpath"[..]).or(extensions.link);
        let link = link.or_else(|| header.link_name_bytes().map(|name| name.into_owned())).unwrap_or_default();
        let number = |value: Result<u64, std::io::Error>, records: &mut BTreeMap<Vec<u8>, Vec<u8>>, key: &str| {
            let value = match records.remove(key.as_bytes()) {
                Some(text) => decimal(&text),
                None => value.ok(),
            };
            value.ok_or_else(|| refuse(&format!("has a {key} that is no number")))
        };
        let size = number(Ok(size), records, "size")?;
        let uid = number(header.uid(), records, "uid")?;
        let gid = number(header.gid(), records, "gid")?;
        let time = records.remove(&b"mtime"[..]).and_then(|text| decimal(text.split(|byte| *byte == b'.').next()?));
        let xattrs = std::mem::take(records).into_iter().filter_map(|(key, value)| {
            let name = key.strip_prefix(b"SCHILY.xattr.")?;
            keeps_xattr(name).then(|| (name.to_vec(), value))
        });
        let id = |value: u64| u32::try_from(value).map_err(|_| refuse("has an owner beyond 32 bits"));
        let meta = Meta {
            mode: header.mode().map_err(|_| refuse("has a mode that is no number"))? & 0o7777,
            uid: id(uid)?,
            gid: id(gid)?,
            mtime: time.or(header.mtime().ok()).and_then(|time| i64::try_from(time).ok()).unwrap_or(0).min(1 << 33),
            xattrs: xattrs.collect(),
        };
        let what = what(header, &path, size, link).ok_or_else(|| refuse("is of an unknown type"))?;
        if matches!(what, What::New(Kind::File(_))) {
            self.left = size;
            self.padding = size.wrapping_neg() % BLOCK;
            if size > 1 << 60 {
                return Err(refuse("has a size larger than any disk"));
            }
        }
        Ok(Item { path, what, meta })
    }

    fn header(&mut self) -> Result<Option<Header>, Fault> {
        let mut block = [0_u8; BLOCK as usize];
        let mut filled = 0;
        while filled < block.len() {
            match self.inner.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) if self.offset == 0 => {
                    return Err(Fault::new("this is not an archive: it is shorter than a header"));
                }
                Ok(0) => return Err(Fault::new("the archive is cut off in the middle of a header")),
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).doing("read the archive"),
            }
        }
        self.offset += BLOCK;
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        let field: u32 = block[148..156].iter().map(|byte| u32::from(*byte)).sum();
        let mut header = Header::from_byte_slice(&block).clone();
        // The checksum counts its own field as eight blanks.
        if header.cksum().ok() != Some(sum - field + 8 * 32) {
            return Err(Fault::new("this is not a tar archive, or it is damaged: a header has a wrong checksum"));
        }
        // Some writers leave out numbers that are zero: mode, owner, group, size, time, device.
        for field in [100..108, 108..116, 116..124, 124..136, 136..148, 329..337, 337..345] {
            let field = &mut header.as_mut_bytes()[field];
            if field.iter().all(|byte| matches!(byte, 0 | b' ')) {
                field[0] = b'0';
            }
        }
        Ok(Some(header))
    }

    /// Reads a header extension, whose size was checked against the limit.
    fn extension(&mut self, size: u64) -> Result<Vec<u8>, Fault> {
        self.left = size;
        self.padding = size.wrapping_neg() % BLOCK;
        let mut bytes = Vec::with_capacity(size as usize);
        self.by_ref().read_to_end(&mut bytes).doing("read the archive")?;
        if bytes.len() as u64 != size {
            return Err(Fault::new("the archive is cut off in the middle of a header extension"));
        }
        Ok(bytes)
    }

    /// Skips the rest of the current entry. An archive may end before the last block of its last entry is padded, as
    /// those of umoci do.
    fn pass(&mut self) -> Result<(), Fault> {
        let (left, count) = (self.left, self.left + self.padding);
        (self.left, self.padding) = (0, 0);
        let skipped = std::io::copy(&mut (&mut self.inner).take(count), &mut std::io::sink());
        let skipped = skipped.doing("read the archive")?;
        self.offset += skipped;
        if skipped >= left { Ok(()) } else { Err(Fault::new("the archive is cut off in the middle of an entry")) }
    }
}

impl<R: Read + Seek> Tarball<R> {
    /// As [`Tarball::next`], but seeks over the content; the caller must check that it is there.
    pub(crate) fn next_seeking(&mut self) -> Result<Option<Item>, Fault> {
        let count = i64::try_from(self.left + self.padding).unwrap_or(i64::MAX);
        self.inner.seek(SeekFrom::Current(count)).doing("read the archive")?;
        self.offset += self.left + self.padding;
        (self.left, self.padding) = (0, 0);
        self.next()
    }
}

impl<R: Read> Read for Tarball<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.inner.read(&mut buffer[..wanted])?;
        self.left -= count as u64;
        self.offset += count as u64;
        Ok(count)
    }
}

fn what(header: &Header, path: &[u8], size: u64, link: Vec<u8>) -> Option<What> {
    let device = || Some((header.device_major().ok()??, header.device_minor().ok()??));
    Some(match header.entry_type() {
        // Before ustar, a directory was a file whose name ended with a slash.
        EntryType::Regular if path.ends_with(b"/") && header.as_ustar().is_none() && header.as_gnu().is_none() => {
            What::New(Kind::Folder)
        }
        EntryType::Regular | EntryType::Continuous => What::New(Kind::File(size)),
        EntryType::Directory => What::New(Kind::Folder),
        EntryType::Link => What::HardLink(link),
        EntryType::Symlink if link.is_empty() || link.contains(&0) => return None,
        EntryType::Symlink => What::New(Kind::Link(link)),
        EntryType::Char => device().map(|(major, minor)| What::New(Kind::Char(major, minor)))?,
        EntryType::Block => device().map(|(major, minor)| What::New(Kind::Block(major, minor)))?,
        EntryType::Fifo => What::New(Kind::Pipe),
        _ => return None,
    })
}

/// Pax records are `<length> <key>=<value>\n`; the length covers all of it. Records that are not used are dropped.
fn read_pax(mut bytes: &[u8], records: &mut BTreeMap<Vec<u8>, Vec<u8>>) -> Result<(), Fault> {
    let bad = || Fault::new("the archive has a malformed pax record");
    while !bytes.is_empty() {
        let blank = bytes.iter().position(|byte| *byte == b' ').ok_or_else(bad)?;
        let length = decimal(&bytes[..blank]).and_then(|length| usize::try_from(length).ok()).ok_or_else(bad)?;
        if length > bytes.len() || length < blank + 3 || bytes[length - 1] != b'\n' {
            return Err(bad());
        }
        let record = &bytes[blank + 1..length - 1];
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(bad)?;
        let key = &record[..equals];
        if RECORDS.contains(&key) || RECORD_PREFIXES.iter().any(|prefix| key.starts_with(prefix)) {
            records.insert(key.to_vec(), record[equals + 1..].to_vec());
        }
        bytes = &bytes[length..];
    }
    Ok(())
}

fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn until_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
        bytes.truncate(end);
    }
    bytes
}

fn malformed(why: &str, header: &Header) -> Fault {
    Fault::new(format!("entry '{}' {why}", shown(&header.path_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pax_value_may_hold_a_line_feed() {
        let mut records = BTreeMap::new();
        read_pax(b"13 path=a\nb/c\n", &mut records).unwrap_err();
        read_pax(b"14 path=a\nb/c\n22 SCHILY.xattr.k=\n\xff\xfe\n7 k=ab\n", &mut records).unwrap();
        assert_eq!(records[&b"path"[..]], b"a\nb/c");
        assert_eq!(records[&b"SCHILY.xattr.k"[..]], b"\n\xff\xfe");
        assert_eq!(records.len(), 2, "what says nothing here is not kept");
    }

    #[test]
    fn malformed_pax_records_are_faults() {
        for bytes in [&b"x"[..], b"9 a=b\n", b"3 a\n", b"0 a=b\n", b"99999999999999999999 a=b\n", b"5 a=b", b" a=b\n"] {
            assert!(read_pax(bytes, &mut BTreeMap::new()).is_err(), "{}", shown(bytes));
        }
    }

    #[test]
    fn an_archive_may_end_behind_what_its_last_entry_holds() {
        let mut builder = tar::Builder::new(Vec::new());
        for name in ["first", "last"] {
            let mut header = Header::new_gnu();
            header.set_size(5);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, &b"12345"[..]).unwrap();
        }
        let whole = builder.into_inner().unwrap();
        let names = |bytes: &[u8]| -> Result<Vec<String>, Fault> {
            let (mut archive, mut names) = (Tarball::new(bytes), Vec::new());
            while let Some(item) = archive.next()? {
                names.push(shown(&item.path));
            }
            Ok(names)
        };
        let (last, block) = (3 * BLOCK as usize, BLOCK as usize);
        for length in [whole.len(), last + block, last + 5, last + 100] {
            assert_eq!(names(&whole[..length]).unwrap(), ["first", "last"], "{length} bytes");
        }
        for length in [last + 4, last, last - 1] {
            assert!(names(&whole[..length]).is_err(), "{length} bytes");
        }
    }
}
