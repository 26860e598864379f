//! Writes the archive format of Linux's initial file system ("newc"): the same input gives the same bytes.

use std::io::{self, Write};

/// An archive being written.
pub(super) struct Archive<W: Write> {
    out: W,
    next_inode: u32,
    written: u64,
}

impl<W: Write> Archive<W> {
    /// An empty archive onto `out`.
    pub(super) fn new(out: W) -> Self {
        Archive { out, next_inode: 1, written: 0 }
    }

    /// Adds a folder; its parent comes first.
    pub(super) fn folder(&mut self, path: &str) -> io::Result<()> {
        self.entry(path, 0o040_755, 2, &[])
    }

    /// Adds a file.
    pub(super) fn file(&mut self, path: &str, permissions: u32, content: &[u8]) -> io::Result<()> {
        self.entry(path, 0o100_000 | permissions, 1, content)
    }

    /// Ends the archive.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.next_inode = 0;
        self.entry("TRAILER!!!", 0, 1, &[])?;
        // The kernel needs nothing more; QEMU and boot loaders prefer whole blocks.
        self.pad(512)?;
        Ok(self.out)
    }

    fn entry(&mut self, path: &str, mode: u32, links: u32, content: &[u8]) -> io::Result<()> {
        let size = u32::try_from(content.len()).map_err(io::Error::other)?;
        let name = u32::try_from(path.len() + 1).map_err(io::Error::other)?;
        // inode, mode, uid, gid, links, mtime, size, device (2), special device (2), length of the name, checksum.
        let fields = [self.next_inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name, 0];
        self.next_inode += 1;
        let mut header = String::from("070701");
        for field in fields {
            header.push_str(&format!("{field:08X}"));
        }
        self.put(header.as_bytes())?;
        self.put(path.as_bytes())?;
        self.put(&[0])?;
        self.pad(4)?;
        self.put(content)?;
        self.pad(4)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn pad(&mut self, to: u64) -> io::Result<()> {
        let missing = self.written.next_multiple_of(to) - self.written;
        self.put(&vec![0; missing as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn archive() -> Vec<u8> {
        let mut archive = Archive::new(Vec::new());
        archive.folder("modules").unwrap();
        archive.file("modules/00-a.ko", 0o644, b"abcde").unwrap();
        archive.file("init", 0o755, &[7; 1000]).unwrap();
        archive.finish().unwrap()
    }

    #[test]
    fn the_same_input_gives_the_same_bytes() {
        let bytes = archive();
        assert_eq!(bytes, archive());
        assert_eq!(bytes.len() % 512, 0);
        assert_eq!(&bytes[..6], b"070701");
    }

    #[test]
    fn cpio_reads_it() {
        let list = Command::new("cpio").arg("-t").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut list) = list else {
            println!("skipped: cpio is not installed");
            return;
        };
        list.stdin.take().unwrap().write_all(&archive()).unwrap();
        let out = list.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&out.stdout), "modules\nmodules/00-a.ko\ninit\n");
    }
}
