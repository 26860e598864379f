//! Finds `/proc` and `/sys`, and reads their files cheaply: files stay open and are read again by `pread`.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The directory under which `proc` and `sys` lie: `/` on a machine, a captured tree in a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// The machine this process runs on.
    pub fn machine() -> Root {
        Root(PathBuf::from("/"))
    }

    /// A captured tree.
    pub fn at(path: impl Into<PathBuf>) -> Root {
        Root(path.into())
    }

    /// The path of a file of the machine, absolute or not, under this root.
    pub fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        let file = file.as_ref();
        self.0.join(file.strip_prefix("/").unwrap_or(file))
    }

    /// A file's text without surrounding white space; none if it cannot be read.
    pub fn text(&self, file: impl AsRef<Path>) -> Option<String> {
        let bytes = std::fs::read(self.path(file)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// A file's number; none if it cannot be read or is not a number.
    pub fn number(&self, file: impl AsRef<Path>) -> Option<u64> {
        self.text(file)?.parse().ok()
    }

    /// The names in a directory, sorted; empty if it cannot be read.
    pub fn names(&self, directory: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(directory)) else { return Vec::new() };
        let name = |name: &OsStr| name.to_str().map(str::to_owned);
        let mut names: Vec<String> = entries.filter_map(|entry| name(&entry.ok()?.file_name())).collect();
        names.sort_unstable();
        names
    }

    /// Whether there is such a file or directory.
    pub fn has(&self, file: impl AsRef<Path>) -> bool {
        self.path(file).exists()
    }
}

/// Files held open by all [`KeptFile`]s together.
static HELD: AtomicU64 = AtomicU64::new(0);

/// How many files may be held open: the limit of the process, less a reserve for everything else.
fn budget() -> u64 {
    static BUDGET: OnceLock<u64> = OnceLock::new();
    *BUDGET.get_or_init(|| {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        limit.current.unwrap_or(1 << 20).saturating_sub(128)
    })
}

/// A file that is read repeatedly. It is held open if the limit on open files allows, else opened each time.
#[derive(Debug)]
pub(crate) struct KeptFile {
    path: PathBuf,
    file: Option<File>,
}

impl KeptFile {
    /// Opens a file; none when it cannot be opened.
    pub(crate) fn open(path: PathBuf) -> Option<KeptFile> {
        let file = File::open(&path).ok()?;
        if HELD.load(Ordering::Relaxed) >= budget() {
            return Some(KeptFile { path, file: None });
        }
        HELD.fetch_add(1, Ordering::Relaxed);
        // A file that is held open needs no path any more; one of a process even stays bound to that very process.
        Some(KeptFile { path: PathBuf::new(), file: Some(file) })
    }

    /// The whole content, in `buffer`; none when it cannot be read any more.
    pub(crate) fn read<'a>(&self, buffer: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        match &self.file {
            Some(file) => read_whole(file, buffer),
            None => read_whole(&File::open(&self.path).ok()?, buffer),
        }
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            HELD.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Reads a file that is read only once.
pub(crate) fn read_once<'a>(path: &Path, buffer: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    read_whole(&File::open(path).ok()?, buffer)
}

/// The kernel returns generated files in pages that end at a record's end. No record is longer than half a page, so a
/// shorter answer is the whole file, and the call that would only return "end of file" is saved.
const SURELY_WHOLE: usize = 2048;

fn read_whole<'a>(file: &File, buffer: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    if buffer.len() < 8192 {
        buffer.resize(8192, 0);
    }
    let mut filled = 0;
    loop {
        match file.read_at(&mut buffer[filled..], filled as u64) {
            Ok(0) => break,
            Ok(count) => {
                filled += count;
                if filled < SURELY_WHOLE {
                    break;
                }
                if filled == buffer.len() {
                    buffer.resize(filled * 2, 0);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(&buffer[..filled])
}
