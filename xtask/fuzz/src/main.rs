//! The fuzz targets of all crates in one program, as to link each by itself takes longer than most runs.
//! `TARE_FUZZ` in its environment names the target. With `TARE_FUZZ_CORPUS` it writes the samples and words of every
//! target below that folder, says their names, and ends.
#![no_main]

use hostile::Target;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::exit;
use std::sync::OnceLock;

const CRATES: &[&[Target]] = &[
    tare_core::fuzz::TARGETS,
    tare_bundle::fuzz::TARGETS,
    tare_layers::fuzz::TARGETS,
    tare_load::fuzz::TARGETS,
    tare_runner::fuzz::TARGETS,
    tare_stats::fuzz::TARGETS,
    tare_report::fuzz::TARGETS,
    tare_telemetry::fuzz::TARGETS,
];

static CHOSEN: OnceLock<Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(init: choose(), |bytes: &[u8]| {
    (CHOSEN.get().expect("it was chosen").run)(bytes)
});

fn choose() {
    let targets: Vec<&Target> = CRATES.iter().copied().flatten().collect();
    let names: BTreeSet<&str> = targets.iter().map(|target| target.name).collect();
    assert_eq!(names.len(), targets.len(), "two targets have one name");
    if let Some(folder) = std::env::var_os("TARE_FUZZ_CORPUS") {
        for target in targets {
            write(target, Path::new(&folder)).expect("the corpus can be written");
            println!("{}", target.name);
        }
        exit(0);
    }
    let wanted = std::env::var("TARE_FUZZ").unwrap_or_default();
    let Some(target) = targets.into_iter().find(|target| target.name == wanted) else {
        eprintln!("TARE_FUZZ must name one of {}", names.into_iter().collect::<Vec<_>>().join(", "));
        exit(2);
    };
    let _ = CHOSEN.set(*target);
}

/// Writes the samples of a target into its own folder, and its words into a dictionary beside that.
fn write(target: &Target, folder: &Path) -> std::io::Result<()> {
    let samples = folder.join(target.name);
    std::fs::create_dir_all(&samples)?;
    for (number, sample) in target.samples().iter().enumerate() {
        std::fs::write(samples.join(format!("sample-{number}")), sample)?;
    }
    let word = |word: &&str| word.bytes().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
    let words = target.words.iter().map(|text| format!("\"{}\"\n", word(text))).collect::<String>();
    std::fs::write(folder.join(format!("{}.words", target.name)), words)
}
