//! A tree as a tar archive, and compression.

use crate::tree::{Entry, Tree};
use anyhow::{Context, Result};
use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use std::io::Write;
use tar::{EntryType, Header};

/// The tree as an uncompressed archive: root owns everything, and it is all of one time.
pub(crate) fn packed(tree: &Tree, time: u64) -> Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, entry) in tree.entries() {
        let (path, content, kind, mode) = match entry {
            Entry::Folder(mode) => (format!("{path}/"), &[][..], EntryType::Directory, mode),
            Entry::File(content, mode) => (path.to_owned(), &content[..], EntryType::Regular, mode),
        };
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(*mode);
        header.set_mtime(time);
        header.set_size(content.len() as u64);
        header.set_uid(0);
        header.set_gid(0);
        let put = builder.append_data(&mut header, &path, content);
        put.with_context(|| format!("could not put {path} into an archive"))?;
    }
    Ok(builder.into_inner()?)
}

/// Compresses with gzip, whose header has no name and no time.
pub(crate) fn compressed(bytes: &[u8], level: u32) -> Result<Vec<u8>> {
    let mut encoder: GzEncoder<Vec<u8>> = GzBuilder::new().mtime(0).write(Vec::new(), Compression::new(level));
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn an_archive_has_nothing_of_this_machine_in_it() {
        let mut tree = Tree::default();
        let deep = format!("{}/file", "folder/".repeat(30).trim_end_matches('/'));
        tree.file(&deep, *b"content");
        tree.program("a", *b"#!");
        let bytes = packed(&tree, 7).expect("it is packed");
        let mut archive = tar::Archive::new(&bytes[..]);
        let mut found = Vec::new();
        for entry in archive.entries().expect("it is an archive") {
            let mut entry = entry.expect("it is an entry");
            let header = entry.header().clone();
            assert_eq!((header.uid().ok(), header.gid().ok(), header.mtime().ok()), (Some(0), Some(0), Some(7)));
            let mut content = String::new();
            entry.read_to_string(&mut content).expect("it is text");
            let path = entry.path().expect("it has a path").display().to_string();
            found.push((path, header.mode().expect("it has a mode"), content));
        }
        assert_eq!(found.len(), 32);
        assert_eq!(found[0], ("a".to_owned(), 0o755, "#!".to_owned()));
        assert_eq!(found[1].1, 0o755);
        assert_eq!(found[31], (deep, 0o644, "content".to_owned()));
    }
}
