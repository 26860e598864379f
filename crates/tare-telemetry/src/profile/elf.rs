//! Names of functions in a program or library: those of its symbol table, or where that was taken out, those that it
//! shows to others.

/// The functions of a file, and how it is laid out in memory.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    /// Sorted by where they begin, as the file counts addresses.
    functions: Vec<Function>,
    /// Of each part that is loaded: where it lies in the file, how long it is, and at which address.
    parts: Vec<(u64, u64, u64)>,
}

#[derive(Debug)]
struct Function {
    at: u64,
    size: u64,
    name: String,
}

/// Functions by the kinds of sections that hold their symbols, and loaded parts of a program.
const SYMBOL_TABLE: u32 = 2;
const SHOWN_SYMBOLS: u32 = 11;
const LOADED: u32 = 1;

impl Symbols {
    /// Of an ELF file of 64 bits and this machine's order of bytes; of anything else there are none.
    pub(super) fn of(file: &[u8]) -> Symbols {
        let mut symbols = Symbols::default();
        if !file.starts_with(b"\x7fELF\x02") {
            return symbols;
        }
        for header in table(file, 0x20, 0x36, 0x38) {
            if let (Some(LOADED), Some(in_file), Some(address), Some(length)) =
                (u32_at(header, 0), u64_at(header, 8), u64_at(header, 16), u64_at(header, 32))
            {
                symbols.parts.push((in_file, length, address));
            }
        }
        let sections = table(file, 0x28, 0x3a, 0x3c);
        for kind in [SYMBOL_TABLE, SHOWN_SYMBOLS] {
            for section in sections.iter().filter(|section| u32_at(section, 4) == Some(kind)) {
                symbols.add(file, section, &sections);
            }
        }
        // Of several names for one place the first, which is that of the fuller table.
        symbols.functions.sort_by_key(|function| function.at);
        symbols.functions.dedup_by_key(|function| function.at);
        symbols
    }

    fn add(&mut self, file: &[u8], section: &[u8], sections: &[&[u8]]) {
        let names = u32_at(section, 40).and_then(|link| sections.get(link as usize));
        let (Some(names), Some(entries)) = (names.and_then(|names| content(file, names)), content(file, section))
        else {
            return;
        };
        for entry in entries.chunks_exact(24) {
            const FUNCTION: u8 = 2;
            const CHOSEN_AT_RUN_TIME: u8 = 10;
            let (Some(name), Some(at), Some(size)) = (u32_at(entry, 0), u64_at(entry, 8), u64_at(entry, 16)) else {
                continue;
            };
            if at == 0 || ![FUNCTION, CHOSEN_AT_RUN_TIME].contains(&(entry[4] & 15)) {
                continue;
            }
            let name = names.get(name as usize..).and_then(|name| name.split(|byte| *byte == 0).next());
            let name = String::from_utf8_lossy(name.unwrap_or_default()).into_owned();
            if !name.is_empty() {
                self.functions.push(Function { at, size, name });
            }
        }
    }

    /// The function at a place of the file; none where no symbol says which.
    pub(super) fn at(&self, in_file: u64) -> Option<&str> {
        let part = self.parts.iter().find(|(begin, length, _)| in_file >= *begin && in_file - begin < *length)?;
        let address = in_file - part.0 + part.2;
        let behind = self.functions.partition_point(|function| function.at <= address);
        let function = &self.functions[behind.checked_sub(1)?];
        // Some symbols, as of assembly, have no size: they reach to the next one.
        let within = function.size == 0 || address - function.at < function.size;
        within.then_some(function.name.as_str())
    }
}

/// The entries of a table of a file: where it begins, how long an entry is and how many there are stand at these bytes.
fn table(file: &[u8], begin: usize, size: usize, count: usize) -> Vec<&[u8]> {
    let (Some(begin), Some(size), Some(count)) = (u64_at(file, begin), u16_at(file, size), u16_at(file, count)) else {
        return Vec::new();
    };
    let entry = |number: u16| file.get(begin as usize + usize::from(number) * usize::from(size)..)?.get(..size.into());
    // A header of 64 bits is no shorter.
    (0..count).filter_map(entry).filter(|entry| entry.len() >= 56).collect()
}

/// What a section holds.
fn content<'a>(file: &'a [u8], section: &[u8]) -> Option<&'a [u8]> {
    let (begin, length) = (u64_at(section, 24)?, u64_at(section, 32)?);
    file.get(usize::try_from(begin).ok()?..)?.get(..usize::try_from(length).ok()?)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_library_tells_its_functions() {
        // Every test program is an ELF file with symbols; one of the C library is enough.
        let own = std::fs::read("/proc/self/exe").unwrap();
        let symbols = Symbols::of(&own);
        let this = symbols.functions.iter().find(|function| function.name.contains("a_library_tells_its_functions"));
        let this = this.expect("the program was not stripped");
        let part = symbols.parts.iter().find(|(_, length, at)| this.at >= *at && this.at - at < *length).unwrap();
        let in_file = this.at - part.2 + part.0;
        assert_eq!(symbols.at(in_file), Some(this.name.as_str()));
        assert_eq!(symbols.at(u64::MAX / 2), None);
    }

    proptest! {
        #[test]
        fn nonsense_has_no_functions_and_does_no_harm(mut bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(Symbols::of(&bytes).functions.is_empty());
            let head = b"\x7fELF\x02".iter().zip(bytes.iter_mut());
            head.for_each(|(from, to)| *to = *from);
            let _ = Symbols::of(&bytes).at(5);
        }
    }
}
