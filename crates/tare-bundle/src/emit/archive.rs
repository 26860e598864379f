//! A tree as one uncompressed tar archive.

use crate::tree::{self, At, Entry, Kind};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use tar::{EntryType, Header};
use tare_core::fault::{Doing, Fault};

/// The longest name and the largest number that fit a plain header; beyond that a pax record is written.
const PLAIN_NAME: usize = 100;
const PLAIN_ID: u32 = 0o7_777_777;

/// Writes the tree under `root` to `out`, entries sorted by path.
pub(crate) fn write(root: &Path, out: &File) -> Result<(), Fault> {
    let mut builder = tar::Builder::new(BufWriter::with_capacity(1 << 18, out));
    let mut first_names: HashMap<(u64, u64), Vec<u8>> = HashMap::new();
    tree::walk(root, |entry, at| {
        if entry.kind == Kind::Socket {
            return Ok(());
        }
        let has_others = entry.links > 1 && entry.kind != Kind::Folder;
        let earlier = first_names.get(&entry.inode).filter(|_| has_others);
        append(&mut builder, &entry, at, earlier.map(Vec::as_slice))
            .map_err(|fault| fault.context(format_args!("put '{}' into the archive", tree::shown(&entry.path))))?;
        if has_others && earlier.is_none() {
            first_names.insert(entry.inode, entry.path);
        }
        Ok(())
    })?;
    let mut out = builder.into_inner().doing("write the archive")?;
    out.flush().doing("write the archive")
}

fn append(
    builder: &mut tar::Builder<impl Write>,
    entry: &Entry,
    at: At<'_>,
    earlier: Option<&[u8]>,
) -> Result<(), Fault> {
    let mut header = Header::new_ustar();
    let mut size = 0;
    let mut device = None;
    let mut link: Option<&[u8]> = earlier;
    let kind = match &entry.kind {
        _ if earlier.is_some() => EntryType::Link,
        Kind::Folder => EntryType::Directory,
        Kind::File(bytes) => {
            size = *bytes;
            EntryType::Regular
        }
        Kind::Link(target) => {
            link = Some(target);
            EntryType::Symlink
        }
        Kind::Char(major, minor) => {
            device = Some((*major, *minor));
            EntryType::Char
        }
        Kind::Block(major, minor) => {
            device = Some((*major, *minor));
            EntryType::Block
        }
        Kind::Pipe => EntryType::Fifo,
        Kind::Socket => unreachable!("sockets are left out"),
    };
    let mut path = if entry.path.is_empty() { b"./".to_vec() } else { entry.path.clone() };
    if kind == EntryType::Directory && !path.ends_with(b"/") {
        path.push(b'/');
    }
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(entry.meta.mode);
    header.set_mtime(u64::try_from(entry.meta.mtime).unwrap_or(0));
    header.set_uid(u64::from(entry.meta.uid.min(PLAIN_ID)));
    header.set_gid(u64::from(entry.meta.gid.min(PLAIN_ID)));
    let (major, minor) = device.unwrap_or((0, 0));
    header.set_device_major(major).and_then(|()| header.set_device_minor(minor)).doing("write a device number")?;
    let records = pax_records(entry, &path, link, kind);
    let records = records.iter().map(|(key, value)| (key.as_str(), value.as_slice()));
    builder.append_pax_extensions(records).doing("write the archive")?;
    fill(&mut header.as_mut_bytes()[..PLAIN_NAME], &path);
    fill(&mut header.as_mut_bytes()[157..157 + PLAIN_NAME], link.unwrap_or_default());
    header.set_cksum();
    if kind == EntryType::Regular {
        let mut file = at.open(entry)?;
        let mut counted = Counted { inner: (&mut file).take(size), count: 0 };
        builder.append(&header, &mut counted).doing("write the archive")?;
        if counted.count != size {
            return Err(Fault::new("the file became shorter while it was read"));
        }
        return Ok(());
    }
    builder.append(&header, std::io::empty()).doing("write the archive")
}

/// Records for what does not fit the plain header of an entry.
fn pax_records(entry: &Entry, path: &[u8], link: Option<&[u8]>, kind: EntryType) -> Vec<(String, Vec<u8>)> {
    let mut records = Vec::new();
    if path.len() > PLAIN_NAME || !path.is_ascii() {
        records.push(("path".to_owned(), path.to_vec()));
    }
    if let Some(link) = link.filter(|link| link.len() > PLAIN_NAME || !link.is_ascii()) {
        records.push(("linkpath".to_owned(), link.to_vec()));
    }
    for (key, id) in [("uid", entry.meta.uid), ("gid", entry.meta.gid)] {
        if id > PLAIN_ID {
            records.push((key.to_owned(), id.to_string().into_bytes()));
        }
    }
    if kind != EntryType::Link {
        for (name, value) in &entry.meta.xattrs {
            records.push((format!("SCHILY.xattr.{}", String::from_utf8_lossy(name)), value.clone()));
        }
    }
    records
}

fn fill(field: &mut [u8], text: &[u8]) {
    let length = text.len().min(field.len());
    field[..length].copy_from_slice(&text[..length]);
}

struct Counted<R> {
    inner: R,
    count: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count += count as u64;
        Ok(count)
    }
}
