//! Names of functions in a program or library: from its symbol table or, if that was stripped, from its exported
//! symbols.

use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, SymbolKind, elf};

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

impl Symbols {
    /// Of a 64-bit ELF file; empty for anything else.
    pub(super) fn of(file: &[u8]) -> Symbols {
        let Ok(file) = ElfFile64::<Endianness>::parse(file) else { return Symbols::default() };
        let (order, headers) = (file.endian(), file.elf_header().program_headers(file.endian(), file.data()));
        let loaded = headers.unwrap_or_default().iter().filter(|header| header.p_type(order) == elf::PT_LOAD);
        let part = |header: &elf::ProgramHeader64<Endianness>| {
            (header.p_offset(order), header.p_filesz(order), header.p_vaddr(order))
        };
        let function = |symbol: object::read::elf::ElfSymbol64<'_, '_>| {
            // Those that are chosen at run time have a kind of their own.
            let chosen = symbol.elf_symbol().st_type() == elf::STT_GNU_IFUNC;
            let is_function = (symbol.kind() == SymbolKind::Text || chosen) && symbol.address() != 0;
            let name = String::from_utf8_lossy(symbol.name_bytes().ok()?).into_owned();
            let function = Function { at: symbol.address(), size: symbol.size(), name };
            (is_function && !function.name.is_empty()).then_some(function)
        };
        let mut functions: Vec<Function> = file.symbols().chain(file.dynamic_symbols()).filter_map(function).collect();
        // Of several names for one address take the first, which is from the fuller table.
        functions.sort_by_key(|function| function.at);
        functions.dedup_by_key(|function| function.at);
        Symbols { functions, parts: loaded.map(part).collect() }
    }

    /// The function at a place of the file; none where no symbol says which.
    pub(super) fn at(&self, in_file: u64) -> Option<&str> {
        let part = self.parts.iter().find(|(begin, length, _)| in_file >= *begin && in_file - begin < *length)?;
        let address = (in_file - part.0).checked_add(part.2)?;
        let behind = self.functions.partition_point(|function| function.at <= address);
        let function = &self.functions[behind.checked_sub(1)?];
        // Some symbols, as of assembly, have no size: they reach to the next one.
        let within = function.size == 0 || address - function.at < function.size;
        within.then_some(function.name.as_str())
    }
}

/// Takes any bytes for a program, looks for functions everywhere, and has all of their names written as in source.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(bytes: &[u8]) {
    let symbols = Symbols::of(bytes);
    assert!(symbols.functions.is_sorted_by(|a, b| a.at < b.at));
    symbols.functions.iter().for_each(|function| super::demangle::chew(&function.name));
    for at in (0..1024).step_by(16).chain([u64::MAX / 2, u64::MAX]) {
        assert!(symbols.at(at).is_none_or(|name| !name.is_empty()));
    }
    for (begin, length, _) in &symbols.parts {
        for at in [0, length / 2, length.wrapping_sub(1)] {
            symbols.at(begin.wrapping_add(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Inlined, it would have no symbol to be found by.
    #[test]
    #[inline(never)]
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
