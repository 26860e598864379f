//! What must bear any bytes: programs whose functions are named, processes' own names, and plans and rows of the
//! sampler. The table makes a test of each for the gate; `cargo xtask fuzz` runs them for as long as one likes.

use crate::ProbePlan;
use crate::proc::chew_stat;
use crate::profile::chew_elf;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tare_core::telemetry::TelemetryRow;

hostile::targets! {
    elf { made: programs, words: ELF }
    process_stat {
        words: &["(", ")", " ", "\n", "S", "-1", "0", "7 (x) S 1 ", "18446744073709551615 18446744073709551615 "],
        samples: &[
            b"77 (a) b (c) S 5 1 1 0 -1 0 11 12 13 14 300 200 30 20 20 0 4 0 999 4096 25 0",
            b"1 (x) S 0 1 1 0 -1 0 0 0 0 0 18446744073709551615 1 1 18446744073709551615",
        ],
    }
    probe {
        files: &["samples/probe.txt"],
        words: &["{", "}", ",", "\"scopes\":", "\"period_ms\":", "null", "0-3", "\n", "\"host\"", "-1"],
    }
}

/// Any bytes as a program: whatever lies where, it has names that can be read or none.
pub fn elf(bytes: &[u8]) {
    chew_elf(bytes);
}

/// What the kernel says of a process, whose name is the process's own choice.
pub fn process_stat(bytes: &[u8]) {
    chew_stat(bytes);
}

/// What goes to a sampler and what comes from it, one a line.
pub fn probe(bytes: &[u8]) {
    fn twice<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(line: &str) {
        let Ok(read) = serde_json::from_str::<T>(line) else { return };
        let written = serde_json::to_string(&read).expect("it is plain data");
        let again: T = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{written}: {error}"));
        // Fractions may be read with an error of the last place.
        assert!(line.contains(['.', 'e', 'E']) || again == read, "{read:?}\n{again:?}");
    }
    for line in String::from_utf8_lossy(bytes).lines() {
        twice::<ProbePlan>(line);
        twice::<TelemetryRow>(line);
    }
}

const ELF: &[&str] = &[
    "\u{7f}ELF",
    ".symtab",
    ".dynsym",
    ".strtab",
    "\0\0\0\0",
    "\u{2}\0",
    "main\0",
    // Pieces of mangled names.
    "_Z",
    "_ZN",
    "_R",
    "_RNv",
    "3foo",
    "St4pairI",
    "S_E",
    "B_",
    "17h05af221e174051e9E",
    "99999999999",
];

/// Programs of one loaded part with two functions each, whose names are plain, or mangled as by either compiler.
fn programs() -> Vec<Vec<u8>> {
    let names = [
        ["main", "run"],
        ["_ZN3foo3bar17h05af221e174051e9E", "_RINvNtC3std3mem8align_ofdE"],
        ["_ZNSt6vectorIiSaIiEE9push_backEOi", "_ZZ3foovENKUlvE_clEv"],
        ["_Z1fSt4pairISt4pairIiS_EE", "_RNvMs0_NtCs5l0EXMQXRMU_21rustc_data_structures3foo"],
    ];
    names.into_iter().map(program).collect()
}

fn program([first, second]: [&str; 2]) -> Vec<u8> {
    let texts = format!("\0{first}\0{second}\0");
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let half = |file: &mut Vec<u8>, value: u16| file.extend_from_slice(&value.to_le_bytes());
    let word = |file: &mut Vec<u8>, value: u32| file.extend_from_slice(&value.to_le_bytes());
    let long = |file: &mut Vec<u8>, value: u64| file.extend_from_slice(&value.to_le_bytes());
    // The header: program headers from 64, one; section headers from 120, three, of which none is named.
    half(&mut file, 3);
    half(&mut file, 62);
    word(&mut file, 1);
    [0, 64, 120].into_iter().for_each(|value| long(&mut file, value));
    word(&mut file, 0);
    [64, 56, 1, 64, 3, 0].into_iter().for_each(|value| half(&mut file, value));
    // What is loaded: from 0, 512 bytes, at 0x1000.
    word(&mut file, 1);
    word(&mut file, 5);
    [0, 0x1000, 0x1000, 512, 512, 4096].into_iter().for_each(|value| long(&mut file, value));
    // Sections: none; symbols with their texts in section 2; these texts.
    let mut section = |kind: u32, offset: u64, size: u64, link: u32, entry: u64| {
        word(&mut file, 0);
        word(&mut file, kind);
        [0, 0, offset, size].into_iter().for_each(|value| long(&mut file, value));
        word(&mut file, link);
        word(&mut file, 0);
        [8, entry].into_iter().for_each(|value| long(&mut file, value));
    };
    section(0, 0, 0, 0, 0);
    section(2, 312, 72, 2, 24);
    section(3, 384, texts.len() as u64, 0, 0);
    file.extend_from_slice(&[0; 24]);
    for (name, at) in [(1, 0x1100), (2 + first.len() as u32, 0x1140)] {
        word(&mut file, name);
        file.extend_from_slice(&[0x12, 0, 1, 0]);
        long(&mut file, at);
        long(&mut file, 32);
    }
    file.extend_from_slice(texts.as_bytes());
    file.resize(512, 0);
    file
}
