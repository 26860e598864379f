//! What a file needs to be started as a program: an interpreter, a loader, this machine's processor.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

/// How much of a script's first line the kernel reads, bytes.
const FIRST_LINE_MAX: usize = 256;

/// How many program headers are searched for the loader.
const PARTS_MAX: u16 = 64;

/// The type of the program header that names the loader.
const NAMES_LOADER: u32 = 3;

/// This machine's processor, as ELF headers number it.
const PROCESSOR: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

/// The other file without which a program does not start.
#[derive(Debug, PartialEq, Eq)]
pub enum Needs {
    /// None.
    Nothing,
    /// The interpreter named in a script's first line.
    Interpreter(String),
    /// The loader that a program is linked against.
    Loader(String),
}

/// What the program in `file` needs.
///
/// # Errors
/// Why this machine's kernel cannot start it, as a phrase to follow its name: "is ...".
pub fn needs(file: &mut File) -> Result<Needs, String> {
    let mut start = Vec::new();
    if file.take(FIRST_LINE_MAX as u64).read_to_end(&mut start).is_err() {
        return Ok(Needs::Nothing);
    }
    if let Some(line) = start.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if line.ends_with(b"\r") {
            return Err("is a script with Windows line endings (CR LF)".to_owned());
        }
        let named = line.split(|byte| byte.is_ascii_whitespace()).find(|word| !word.is_empty()).unwrap_or_default();
        return Ok(match named {
            b"" => Needs::Nothing,
            named => Needs::Interpreter(String::from_utf8_lossy(named).into_owned()),
        });
    }
    if !start.starts_with(b"\x7fELF\x02\x01") {
        return Ok(Needs::Nothing);
    }
    let half = |at: usize| Some(u16::from_le_bytes(start.get(at..at + 2)?.try_into().ok()?));
    match half(18) {
        Some(PROCESSOR) => {}
        _ => return Err("is a program for another processor".to_owned()),
    }
    Ok(loader(file, &start).map_or(Needs::Nothing, Needs::Loader))
}

/// The loader that a program's headers name; none for a statically linked one.
fn loader(file: &File, header: &[u8]) -> Option<String> {
    let whole = |bytes: &[u8], at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_le_bytes(header.get(at..at + 2)?.try_into().ok()?));
    let (table, length, count) = (whole(header, 32)?, half(54)?, half(56)?);
    (0..count.min(PARTS_MAX)).find_map(|number| {
        let mut part = [0_u8; 56];
        let at = table.checked_add(u64::from(number) * u64::from(length))?;
        file.read_exact_at(&mut part, at).ok()?;
        if u32::from_le_bytes(part[..4].try_into().ok()?) != NAMES_LOADER {
            return None;
        }
        let mut name = vec![0_u8; usize::try_from(whole(&part, 32)?).ok().filter(|length| *length < 4096)?];
        file.read_exact_at(&mut name, whole(&part, 8)?).ok()?;
        Some(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Result<Needs, String> {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, bytes).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        needs(&mut file)
    }

    /// A header and one part, which names a loader.
    fn linked(processor: u16, loader: &str) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(64, 0);
        bytes[18..20].copy_from_slice(&processor.to_le_bytes());
        bytes[32] = 64;
        (bytes[54], bytes[56]) = (56, 1);
        let mut part = [0_u8; 56];
        part[0] = 3;
        (part[8], part[32]) = (120, loader.len() as u8 + 1);
        bytes.extend(part);
        bytes.extend(loader.as_bytes());
        bytes.push(0);
        bytes
    }

    #[test]
    fn scripts_name_their_interpreter_and_programs_their_loader() {
        assert_eq!(of(b"#! /bin/bash -e\nexec x\n"), Ok(Needs::Interpreter("/bin/bash".to_owned())));
        assert_eq!(of(&linked(PROCESSOR, "/lib64/ld.so")), Ok(Needs::Loader("/lib64/ld.so".to_owned())));
        for plain in [&b""[..], b"words", &linked(PROCESSOR, "/l")[..64], b"\x7fELF\x01\x01"] {
            assert_eq!(of(plain), Ok(Needs::Nothing));
        }
    }

    #[test]
    fn what_no_kernel_here_starts_is_said() {
        assert!(of(b"#!/bin/sh\r\nexec x\r\n").unwrap_err().contains("CR LF"));
        assert!(of(&linked(40, "/l")).unwrap_err().contains("another processor"));
    }

    #[test]
    fn the_tests_own_program_names_a_loader_that_there_is_or_none() {
        let needs = needs(&mut File::open("/proc/self/exe").unwrap()).unwrap();
        assert!(match &needs {
            Needs::Loader(loader) => std::path::Path::new(loader).exists(),
            Needs::Nothing => true,
            Needs::Interpreter(_) => false,
        });
    }
}
