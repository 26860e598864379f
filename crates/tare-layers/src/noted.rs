//! What a command prints, kept in memory up to a limit, without a thread that reads it.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::process::Stdio;

/// A file in memory that cannot grow beyond its limit: a write beyond it fails.
pub(crate) struct Noted {
    file: File,
    most: u64,
}

impl Noted {
    /// Room for `most` bytes, of which what is not written takes no memory.
    pub(crate) fn of(most: u64) -> io::Result<Noted> {
        let file = File::from(memfd_create("tare-noted", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        file.set_len(most)?;
        fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK)?;
        Ok(Noted { file, most })
    }

    /// The file as the output of a command. The two share one position, by which it is known how much was written.
    pub(crate) fn stdio(&self) -> io::Result<Stdio> {
        Ok(Stdio::from(OwnedFd::from(self.file.try_clone()?)))
    }

    /// What was written so far. What is no UTF-8 is replaced.
    pub(crate) fn text(&self) -> String {
        let written = (&self.file).stream_position().unwrap_or(0).min(self.most);
        let mut bytes = vec![0; usize::try_from(written).unwrap_or(0)];
        match self.file.read_exact_at(&mut bytes, 0) {
            Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(_) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn what_a_command_prints_is_kept_up_to_the_limit() {
        let print = |most: u64, script: &str| {
            let noted = Noted::of(most).unwrap();
            let mut command = Command::new("/bin/sh");
            let command = command.args(["-c", script]).stdin(Stdio::null()).stderr(Stdio::null());
            let status = command.stdout(noted.stdio().unwrap()).status().unwrap();
            (status.success(), noted.text())
        };
        assert_eq!(print(100, "printf 'one\\ntwo\\n'"), (true, "one\ntwo\n".to_owned()));
        assert_eq!(print(100, "true"), (true, String::new()));
        let (_, text) = print(4096, "while printf 0123456789abcdef; do :; done");
        assert!(text.len() <= 4096 && text.starts_with("0123456789abcdef"), "{}", text.len());
    }
}
