use super::super::found;
use super::*;

/// The circles of a crate of these files, which stand below its `src`.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<(String, &str)> =
        files.iter().map(|(path, text)| (format!("crates/tare-x/src/{path}"), *text)).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    found(between_modules, &files)
}

/// Only which modules are in each circle, and where.
fn ways_of(files: &[(&str, &str)]) -> Vec<String> {
    let way = |finding: &String| {
        let told = finding.split(" has a circle in crates/tare-x/").nth(1).unwrap_or(finding);
        told.split(", by ").next().unwrap_or_default().to_owned()
    };
    circles_of(files).iter().map(way).collect()
}

const NONE: [&str; 0] = [];

#[test]
fn two_modules_that_use_each_other_are_told_with_the_line_of_each_arrow() {
    let files = [
        ("lib.rs", "//! A crate.\n\nmod a;\nmod b;\n"),
        ("a.rs", "use crate::b::{Other, Thing};\n\npub(crate) struct A(Thing, Other);\n"),
        ("b.rs", "pub(crate) struct Thing;\npub(crate) struct Other;\n\nimpl From<super::a::A> for Thing {}\n"),
    ];
    let told = "crates/tare-x/src/a.rs:1: circle: tare-x has a circle in crates/tare-x/src: a -> b -> a, \
                by crate::b::Other at crates/tare-x/src/a.rs:1 and super::a::A at crates/tare-x/src/b.rs:4; \
                move what both need below both";
    assert_eq!(circles_of(&files), [told]);
    let cleaned = [files[0], files[1], ("b.rs", "pub(crate) struct Thing;\npub(crate) struct Other;\n")];
    assert_eq!(circles_of(&cleaned), NONE);
}

#[test]
fn a_reexport_is_followed_to_where_the_thing_is_defined() {
    let files = [
        ("main.rs", "mod vm;\nfn main() {}\n"),
        ("vm/mod.rs", "mod a;\nmod b;\nmod c;\nmod d;\npub use c::deep::C;\npub use d::D;\n"),
        ("vm/a.rs", "use super::b::B;\n"),
        ("vm/b.rs", "use crate::vm::C as Renamed;\npub struct B;\n"),
        ("vm/c/mod.rs", "pub mod deep;\nuse super::super::vm::{self};\nuse vm::a;\n"),
        ("vm/c/deep.rs", "pub struct C;\n"),
        ("vm/d.rs", "use super::C;\npub struct D;\n"),
    ];
    assert_eq!(ways_of(&files), ["src/vm: a -> b -> c -> a"]);
}

#[test]
fn all_that_is_reexported_at_once_is_followed_too() {
    let root = "mod a;\nmod b;\npub use b::*;\n";
    let files =
        [("lib.rs", root), ("a.rs", "pub fn f() { crate::g(); }\n"), ("b.rs", "pub fn g() { crate::a::f() }\n")];
    assert_eq!(ways_of(&files), ["src: a -> b -> a"]);
    let bare = [("lib.rs", root), ("a.rs", "use super::*;\npub fn f() { g(); }\n"), files[2]];
    assert_eq!(ways_of(&bare), ["src: a -> b -> a"]);
    // Neither a variable nor what a function brings in for itself is what has its name elsewhere.
    let variable = [("lib.rs", root), ("a.rs", "use super::*;\npub fn f() { let g = 1; h(g); }\n"), files[2]];
    assert_eq!(ways_of(&variable), NONE);
    let local = [
        ("lib.rs", "mod a;\nmod b;\nfn f() { use b::Result; }\n"),
        ("a.rs", "use super::*;\npub struct A(Result);\n"),
        ("b.rs", "use super::a::A;\npub struct Result;\n"),
    ];
    assert_eq!(ways_of(&local), NONE);
}

#[test]
fn paths_count_in_expressions_patterns_types_macros_and_attributes() {
    let uses = [
        "fn f() -> u8 { crate::b::g::<u8>().h() }\n",
        "fn f(x: u8) { match x { crate::b::G => {} _ => {} } }\n",
        "fn f(x: u8) { if let Some(super::b::G { .. }) = x {} }\n",
        "struct A { x: Vec<Option<crate::b::G>> }\n",
        "impl<T: super::b::G> A<T> {}\n",
        "fn f(x: &dyn super::b::G) {}\n",
        "fn f() { println!(\"{}\", [1].map(|x| crate::b::g(x))); }\n",
        "fn f() { assert!(super::b::g(1)); }\n",
        "macro_rules! call { ($x:expr) => { $crate::b::g($x) }; }\n",
        "fn f() { crate::b::call!(1); }\n",
        "#[arg(value_parser = crate::b::g)]\nstruct A;\n",
        "struct A { #[serde(with = \"crate::b::g\")] x: u8 }\n",
        "const X: u8 = { use crate::b::g; g() };\n",
        "fn f() { fn inner() { struct B(crate::b::G); } }\n",
    ];
    let b = "pub fn g() { crate::a::f() }\n";
    for a in uses {
        assert_eq!(ways_of(&[("lib.rs", "mod a;\nmod b;\n"), ("a.rs", a), ("b.rs", b)]), ["src: a -> b -> a"], "{a}");
    }
    let others = [
        "fn f() { ::std::mem::take(x); vec![::crate_b::b::g()]; let y = b::g(); }\n",
        "fn f() { let text = \"crate::b::g\"; log!(\"super::b\", x.b.g, <T>::b::g); }\n",
        "/// As [`crate::b::g`] does.\nfn f() { x.g(); T::g() } // super::b::g\n",
    ];
    for a in others {
        assert_eq!(ways_of(&[("lib.rs", "mod a;\nmod b;\n"), ("a.rs", a), ("b.rs", b)]), NONE, "{a}");
    }
}

#[test]
fn child_modules_are_found_by_their_names_and_upwards() {
    let named = [
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a.rs", "pub struct A;\nmod below { pub(super) fn f() { super::super::b::g(); } }\n"),
        ("b/mod.rs", "mod c;\npub fn g() { c::h(); vec![c::h()]; }\n"),
        ("b/c.rs", "pub fn h() { let x = super::super::a::A; self::i() }\nfn i() {}\n"),
    ];
    assert_eq!(ways_of(&named), ["src: a -> b -> a"]);
    let inline = [("lib.rs", "mod a { use super::b::B; pub struct A; }\nmod b { use super::a::A; pub struct B; }\n")];
    assert_eq!(ways_of(&inline), ["src: a -> b -> a"]);
    // By a module that was brought in, by one with the name of a function, and in a function alone.
    let brought = [
        ("lib.rs", "mod a;\nmod b;\npub use b::b;\n"),
        ("a.rs", "use crate::b as other;\npub fn f() { other::g() }\n"),
        ("b.rs", "use super::{a as up, a::{self, f}};\npub fn b() { up::f() }\npub fn g() {}\n"),
    ];
    assert_eq!(ways_of(&brought), ["src: a -> b -> a"]);
    let local = [
        ("lib.rs", "mod a;\nmod b;\npub use b::B;\n"),
        ("a.rs", "pub struct A;\nfn f() { use crate as root; root::B::new() }\n"),
        ("b.rs", "use super::a::A;\npub struct B;\n"),
    ];
    assert_eq!(ways_of(&local), ["src: a -> b -> a"]);
}

#[test]
fn what_a_macro_makes_belongs_to_the_module_that_was_named() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a.rs", "use super::b::ONE;\npub struct A;\n"),
        ("b.rs", "macro_rules! made { ($x:ident) => { pub const $x: Option<super::a::A> = None; } }\nmade!(ONE);\n"),
    ];
    assert_eq!(ways_of(&files), ["src: a -> b -> a"]);
}

#[test]
fn what_is_there_in_tests_only_does_not_count() {
    let root = ("lib.rs", "mod a;\nmod b;\n");
    let b = ("b.rs", "use super::a::A;\npub fn g() {}\n");
    let tests = [
        "pub struct A;\n#[cfg(test)]\nmod tests { use crate::b::g; }\n",
        "pub struct A;\n#[cfg(test)]\nmod tests;\n",
        "pub struct A;\n#[cfg(test)]\nuse crate::b::g;\n",
        "pub struct A;\n#[cfg(all(test, unix))]\nfn f() { crate::b::g() }\n",
        "pub struct A;\n#[test]\nfn f() { crate::b::g() }\n",
        "pub struct A;\nimpl A { #[cfg(test)]\nfn f() { crate::b::g() } }\n",
        "pub struct A;\nfn f() { #[cfg(test)]\nlet x = crate::b::g(); }\n",
        "#![cfg(test)]\nuse crate::b::g;\npub struct A;\n",
    ];
    for a in tests {
        let files = [root, ("a.rs", a), ("a/tests.rs", "use crate::b::g;\n"), b];
        assert_eq!(ways_of(&files), NONE, "{a}");
    }
    let product = [
        "pub struct A;\n#[cfg(any(test, fuzzing))]\nmod fuzz { use crate::b::g; }\n",
        "pub struct A;\n#[cfg(not(test))]\nuse crate::b::g;\n",
        "pub struct A;\n#[cfg(target_arch = \"x86_64\")]\nfn f() { crate::b::g() }\n",
    ];
    for a in product {
        assert_eq!(ways_of(&[root, ("a.rs", a), b]), ["src: a -> b -> a"], "{a}");
    }
}

#[test]
fn what_a_parents_own_file_defines_is_no_arrow() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\nconst LIMIT: u8 = 1;\nstruct Parent(a::A, b::B);\nmacro_rules! m { () => {} }\n"),
        ("a.rs", "use super::{LIMIT, Parent};\npub struct A(crate::Parent);\nfn f() { Parent::new(LIMIT); m!(); }\n"),
        ("b.rs", "use super::a::A;\nuse crate::Parent;\npub struct B;\n"),
    ];
    assert_eq!(ways_of(&files), NONE);
    // And neither is what a parent takes from below, or a cousin's way to something that stands above both.
    let below = [
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a/mod.rs", "mod c;\npub struct A(c::C);\n"),
        ("a/c.rs", "pub struct C;\nuse crate::a::A;\nuse super::*;\n"),
        ("b.rs", "use crate::a::A;\n"),
    ];
    assert_eq!(ways_of(&below), NONE);
}

#[test]
fn files_are_found_where_the_compiler_looks_for_them() {
    let files = [
        ("lib.rs", "#[path = \"x/one.rs\"]\nmod a;\nmod outer { mod b; mod c { use super::b::B; pub struct C; } }\n"),
        ("x/one.rs", "mod d;\n#[path = \"./../two.rs\"]\nmod e;\n"),
        ("x/d.rs", "pub struct D(super::e::E);\n"),
        ("two.rs", "pub struct E(super::d::D);\n"),
        ("outer/b.rs", "pub struct B(super::c::C);\n"),
        ("lost.rs", "use crate::nothing;\nthis is no Rust\n"),
    ];
    assert_eq!(ways_of(&files), ["src/a: d -> e -> d", "src/outer: b -> c -> b"]);
}

#[test]
fn a_shortest_circle_is_shown_and_all_modules_are_named_that_reach_each_other() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\nmod e;\nmod f;\n"),
        ("a.rs", "use crate::b;\n"),
        ("b.rs", "use crate::c;\n"),
        ("c.rs", "use crate::a;\nuse crate::d;\n"),
        ("d.rs", "use crate::c;\n"),
        ("e.rs", "use crate::f;\n"),
        ("f.rs", "use crate::a;\n"),
    ];
    let findings = circles_of(&files);
    assert_eq!(ways_of(&files), ["src: c -> d -> c"]);
    assert!(findings[0].ends_with("; 4 modules there need each other so: a, b, c, d"), "{findings:?}");
}

#[test]
fn each_crate_is_looked_at_alone_and_what_cannot_be_read_is_told() {
    let files = [
        ("crates/a/src/lib.rs", "mod x;\nmod y;\n"),
        ("crates/a/src/x.rs", "use crate::y;\n"),
        ("crates/a/src/y.rs", "use b::x;\n"),
        ("crates/a/src/main.rs", "mod x;\n"),
        ("crates/b/src/lib.rs", "mod x;\nmod y;\n"),
        ("crates/b/src/x.rs", "use a::y;\n"),
        ("crates/b/src/y.rs", "use crate::x;\n"),
        ("crates/b/tests/it/src/lib.rs", "mod x { use super::y; }\nmod y { use super::x; }\n"),
    ];
    assert_eq!(found(between_modules, &files), NONE);
    let broken = [("crates/a/src/lib.rs", "mod x;\n"), ("crates/a/src/x.rs", "fn f() {}\nfn {}\n")];
    let findings = found(between_modules, &broken);
    assert!(findings[0].starts_with("crates/a/src/x.rs:2: circle: this cannot be read"), "{findings:?}");
}
