//! The guest's initial file system: the agent and the modules it loads, packed once for each kernel and program.

use super::cpio::Archive;
use super::modules;
use crate::{environment, home};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tare_core::bundle::Kernel;
use tare_core::fault::{Doing, Fault};
use tare_core::host::CachedItem;

/// The name of this kind of item in the list of what is kept.
const KIND: &str = "initial file system";
/// Part of the key: raise it when the content changes other than through its parts.
const LAYOUT: &str = "1";
/// One that has not been packed or used for this long belongs to an old kernel or program.
const KEEP_FOR: Duration = Duration::from_secs(14 * 24 * 3600);

/// The packed file system with the agent `program`, the modules of `kernel` that every guest needs, and `more`; packed
/// now if it does not exist.
///
/// # Errors
/// When something cannot be read, a module is missing, or the result cannot be written.
pub(super) fn packed(kernel: &Kernel, program: &Path, more: &[String]) -> Result<PathBuf, Fault> {
    let files = modules::to_load(kernel, more)?;
    let key = key(kernel, program, &files)?;
    home::claim()?;
    let folder = folder();
    let path = folder.join(format!("{key}.cpio"));
    if path.exists() {
        // Its modification time says when it was last used.
        if let Ok(file) = File::options().append(true).open(&path) {
            let _ = file.set_modified(SystemTime::now());
        }
        return Ok(path);
    }
    fs::create_dir_all(&folder).doing(format!("make {}", folder.display()))?;
    forget_old(&folder);
    let unfinished = folder.join(format!("{key}.{}.new", std::process::id()));
    let done = write(&unfinished, program, &files).and_then(|()| {
        fs::rename(&unfinished, &path).doing(format!("put the guest's initial file system at {}", path.display()))
    });
    if done.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    done.map(|()| path)
}

fn key(kernel: &Kernel, program: &Path, files: &[PathBuf]) -> Result<String, Fault> {
    let mut hash = Sha256::new();
    hash.update(format!("{LAYOUT}\n{}\n", kernel.release));
    for file in files {
        // A module is identified by path, size and time: otherwise its content would have to be read each time.
        let meta = fs::metadata(file).doing(format!("look at the kernel module {}", file.display()))?;
        let changed = meta.modified().ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        hash.update(format!("{} {} {:?}\n", file.display(), meta.len(), changed));
    }
    let mut program = File::open(program).doing(format!("read the program {}", program.display()))?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = program.read(&mut buffer).doing("read the agent's program")?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
    }
    Ok(hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}

fn write(path: &Path, program: &Path, files: &[PathBuf]) -> Result<(), Fault> {
    let doing = || format!("write the guest's initial file system {}", path.display());
    let agent = fs::read(program).doing(format!("read the program {}", program.display()))?;
    let mut contents = Vec::new();
    for (at, file) in files.iter().enumerate() {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or("module");
        let stem = name.split(".ko").next().unwrap_or(name);
        contents.push((format!("modules/{at:03}-{stem}.ko"), modules::content(file)?));
    }
    let pack = || -> io::Result<()> {
        let mut archive = Archive::new(BufWriter::new(File::create(path)?));
        for folder in ["dev", "proc", "sys", "root.new", "modules"] {
            archive.folder(folder)?;
        }
        archive.file("init", 0o755, &agent)?;
        for (name, content) in &contents {
            archive.file(name, 0o644, content)?;
        }
        let mut out = archive.finish()?;
        out.flush()?;
        out.get_ref().sync_all()
    };
    pack().doing(doing())
}

fn forget_old(folder: &Path) {
    for path in packed_in(folder) {
        let age = fs::metadata(&path).and_then(|meta| meta.modified()).ok().and_then(|time| time.elapsed().ok());
        if age.is_some_and(|age| age > KEEP_FOR) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Where packed file systems are kept between runs.
fn folder() -> PathBuf {
    environment::home().join("guest")
}

/// The packed file systems in a folder, complete or unfinished.
fn packed_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let ours = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "cpio" || kind == "new") && path.is_file();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(ours).collect();
    files.sort();
    files
}

/// The packed file systems that are kept for later runs.
pub(super) fn kept() -> Vec<CachedItem> {
    // Nothing is kept in somebody else's folder.
    if home::look().is_ok() { kept_in(&folder()) } else { Vec::new() }
}

fn kept_in(folder: &Path) -> Vec<CachedItem> {
    let kept = |path: PathBuf| CachedItem { kind: KIND.to_owned(), name: path.display().to_string(), bundle: None };
    packed_in(folder).into_iter().map(kept).collect()
}

/// Removes one of them.
///
/// # Errors
/// When it cannot be removed.
pub(super) fn forget(kept: &CachedItem) -> Result<(), Fault> {
    home::look()?;
    forget_in(&folder(), kept)
}

fn forget_in(folder: &Path, kept: &CachedItem) -> Result<(), Fault> {
    // What was not listed is not ours to remove.
    if !kept_in(folder).contains(kept) {
        return Ok(());
    }
    match fs::remove_file(&kept.name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).doing(format!("remove {}", kept.name)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_listed_and_nothing_else_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (packed, other) = (folder.path().join("guest/k.cpio"), folder.path().join("other"));
        let theirs = folder.path().join("guest/notes.txt");
        fs::create_dir(folder.path().join("guest")).unwrap();
        fs::write(&packed, "x").unwrap();
        fs::write(&other, "x").unwrap();
        fs::create_dir(folder.path().join("guest/folder.cpio")).unwrap();
        fs::write(&theirs, "x").unwrap();
        let ours = folder.path().join("guest");
        let found = kept_in(&ours);
        assert_eq!(found.iter().map(|kept| kept.name.as_str()).collect::<Vec<_>>(), [packed.to_str().unwrap()]);
        forget_in(&ours, &CachedItem { name: other.display().to_string(), ..found[0].clone() }).unwrap();
        assert!(other.exists());
        forget_in(&ours, &found[0]).unwrap();
        forget_in(&ours, &found[0]).unwrap();
        assert!(!packed.exists() && kept_in(&ours).is_empty());
    }
}
