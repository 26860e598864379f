//! What reads bytes of others, held to what it promises. A crate's `fuzz` module has a table of [`Target`]s, made by
//! [`targets!`]: each is run in the gate for a second or less, by a test of its own, on mutants of real input; and by
//! `cargo xtask fuzz` for as long as one likes.
//!
//! A target is a function of bytes that panics when the parser does, or when it breaks what it promises. What all are
//! held to beside that: no input has more than [`Target::memory`] allocated at once.

#[cfg(not(fuzzing))]
mod allocated;
#[cfg(not(fuzzing))]
mod mutants;
mod samples;

#[cfg(not(fuzzing))]
pub use mutants::hold;
pub use samples::files;

/// Something that must bear any bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, the function's; no two of all crates are the same.
    pub name: &'static str,
    /// Takes bytes for input.
    pub run: fn(&[u8]),
    /// The crate's folder.
    pub folder: &'static str,
    /// Files with real input, from the crate's folder; `*` in a name stands for anything.
    pub files: &'static [&'static str],
    /// Further real input, and what once went wrong: each is run as it is, too.
    pub samples: &'static [&'static [u8]],
    /// Makes more of them, where they are long or binary.
    pub made: fn() -> Vec<Vec<u8>>,
    /// Pieces of which input is made; random bytes alone rarely pass the first check.
    pub words: &'static [&'static str],
    /// How many mutants the gate tries.
    pub cases: u32,
    /// How much may be allocated at once, bytes.
    pub memory: usize,
}

impl Target {
    /// What a row need not say.
    pub const DEFAULT: Target = Target {
        name: "",
        run: |_| (),
        folder: "",
        files: &[],
        samples: &[],
        made: Vec::new,
        words: &[],
        cases: 2000,
        memory: 16 << 20,
    };

    /// All real input that it has.
    ///
    /// # Panics
    /// When a file that the row names cannot be read, or a pattern fits none.
    pub fn samples(&self) -> Vec<Vec<u8>> {
        let files = self.files.iter().flat_map(|pattern| samples::matching(self.folder, pattern));
        files.chain(self.samples.iter().map(|sample| sample.to_vec())).chain((self.made)()).collect()
    }
}

/// Makes a crate's table of targets, `TARGETS`, and a test of each, from rows of a function's name and the fields of
/// [`Target`] in which it differs from [`Target::DEFAULT`].
#[macro_export]
macro_rules! targets {
    ($($run:ident { $($field:ident: $value:expr),* $(,)? })+) => {
        /// What of this crate must bear any bytes.
        pub const TARGETS: &[$crate::Target] = &[$($crate::Target {
            name: stringify!($run),
            run: $run,
            folder: env!("CARGO_MANIFEST_DIR"),
            $($field: $value,)*
            ..$crate::Target::DEFAULT
        }),+];

        #[cfg(test)]
        mod bears_anything {
            $(#[test]
            fn $run() {
                $crate::hold(super::TARGETS, stringify!($run));
            })+
        }
    };
}
