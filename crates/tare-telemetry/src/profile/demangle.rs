//! Names of functions as in their source: compilers of Rust and C++ encode path, types and a hash in one word.

use cpp_demangle::{DemangleOptions, Symbol};
use std::fmt::{self, Write};

/// The longest readable name, bytes. A short symbol may expand to gigabytes; such a symbol stays as it is.
const LENGTH_MAX: usize = 2000;

/// A symbol's name as in the source, without hash, and without parameters except those of enclosing functions. A name
/// that is not mangled stays as it is.
pub(super) fn readable(name: &str) -> String {
    rust(name).or_else(|| cpp(name)).unwrap_or_else(|| name.to_owned())
}

/// Both manglings of Rust, the one that looks like C++ and the newer one.
fn rust(name: &str) -> Option<String> {
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    written(|text| write!(text, "{demangled:#}"))
}

fn cpp(name: &str) -> Option<String> {
    // The library also accepts the encoding of a single type, which many names of C functions look like: `f`, `i`.
    let symbol = name.starts_with("_Z").then(|| Symbol::new(name).ok()).flatten()?;
    let options = DemangleOptions::new().no_params().no_return_type();
    written(|text| symbol.structured_demangle(text, &options))
}

fn written(write: impl FnOnce(&mut Bounded) -> fmt::Result) -> Option<String> {
    let mut text = Bounded(String::new());
    write(&mut text).ok()?;
    Some(text.0).filter(|text| !text.is_empty())
}

/// A text that refuses to grow beyond its bound.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if self.0.len() + more.len() > LENGTH_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(more);
        Ok(())
    }
}

/// Takes any name for a mangled one.
#[cfg(any(test, fuzzing))]
pub(super) fn chew(name: &str) {
    let text = readable(name);
    assert!(text == name || (1..=LENGTH_MAX).contains(&text.len()), "{name} became {text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_as_in_source() {
        let names = [
            // Rust, the older mangling: with its hash, with signs, with what the linker added.
            ("_ZN4core3fmt9Formatter9write_str17h05af221e174051e9E", "core::fmt::Formatter::write_str"),
            (
                "_ZN42_$LT$$RF$T$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE",
                "<&T as core::fmt::Debug>::fmt",
            ),
            ("_ZN3foo3bar17h05af221e174051e9E.llvm.ABCDEF", "foo::bar"),
            // The newer one.
            ("_RNvC6_123foo3bar", "123foo::bar"),
            (
                "_RNvMs0_NtCs5l0EXMQXRMU_21rustc_data_structures3foo",
                "_RNvMs0_NtCs5l0EXMQXRMU_21rustc_data_structures3foo",
            ),
            ("_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>"),
            // C++: overloads are one function, templates tell of what.
            ("_ZN5space3fooEibc", "space::foo"),
            ("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back"),
            ("_ZN5boost4asio6detail9scheduler3runERNS_6system10error_codeE", "boost::asio::detail::scheduler::run"),
            // Neither.
            ("tcp_sendmsg", "tcp_sendmsg"),
            ("f", "f"),
            ("_Zebra", "_Zebra"),
            ("_Rotate", "_Rotate"),
            ("", ""),
        ];
        for (mangled, wanted) in names {
            assert_eq!(readable(mangled), wanted, "{mangled}");
        }
        let lambda = readable("_ZZ3foovENKUlvE_clEv");
        assert!(lambda.starts_with("foo()::{lambda()#1}::operator()"), "{lambda}");
    }

    #[test]
    fn a_name_that_would_grow_without_end_stays_as_it_is() {
        // Each pair is of two of the one before it: 2^40 in all.
        let bomb = format!("_Z1f{}i{}", "St4pairI".repeat(40), "S_E".repeat(40));
        assert_eq!(readable(&bomb), bomb);
    }

    proptest! {
        #[test]
        fn any_name_is_survived(name in "(_Z|_R|_ZN)[A-Za-z0-9_$.]{0,200}", other in any::<String>()) {
            for name in [name, other] {
                chew(&name);
            }
        }
    }
}
