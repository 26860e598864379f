//! What must bear any bytes: histograms as records hold them. The table makes a test of each for the gate;
//! `cargo xtask fuzz` runs them for as long as one likes.

use crate::histogram::{add_recorded, decode};
use crate::percentiles;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};

hostile::targets! {
    histogram { made: histograms, cases: 800, memory: 64 << 20, samples: &[
        // Counts that claim to be 1 GiB.
        b"\x1c\x84\x93\x13\x3f\xff\xff\xff\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\x10\0\x3f\xf0\0\0\0\0\0\0",
        // As many empty buckets as a number can tell.
        b"\x1c\x84\x93\x13\0\0\0\x09\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\x10\0\x3f\xf0\0\0\0\0\0\0\
          \xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ] }
}

/// Any text as a histogram; and any bytes compressed into one, as only those pass the first checks.
pub fn histogram(bytes: &[u8]) {
    read(&String::from_utf8_lossy(bytes));
    read(&recorded(bytes));
}

fn read(text: &str) {
    let Ok(found) = decode(text) else { return };
    let figures = percentiles([text], 0).expect("it was read");
    for figure in [figures.p50_us, figures.p99_us, figures.mean_us, figures.max_us].into_iter().flatten() {
        assert!(figure.is_finite() && figure >= 0.0, "{figures:?}");
    }
    let mut sum = text.to_owned();
    if add_recorded(&mut sum, &recorded_of(&small())).is_ok() {
        assert_eq!(decode(&sum).map(|sum| sum.len()), Ok(found.len() + small().len()));
    }
}

fn small() -> Histogram<u64> {
    let mut times = Histogram::new(3).expect("three digits can be had");
    (1..100_u64).for_each(|time| times.record(time * time * 1000).expect("it grows"));
    times
}

fn recorded_of(times: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(times, &mut bytes).expect("memory takes everything");
    STANDARD.encode(bytes)
}

/// Bytes of a plain histogram as they are recorded: compressed, with a head, as text.
fn recorded(bytes: &[u8]) -> String {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, bytes).expect("memory takes everything");
    let compressed = encoder.finish().expect("memory takes everything");
    let head = [0x1c84_9314_u32.to_be_bytes(), (compressed.len() as u32).to_be_bytes()].concat();
    STANDARD.encode([head, compressed].concat())
}

/// Histograms as text, and as bytes before they are compressed.
fn histograms() -> Vec<Vec<u8>> {
    let mut plain = Vec::new();
    V2Serializer::new().serialize(&small(), &mut plain).expect("memory takes everything");
    let mut empty = Vec::new();
    V2Serializer::new()
        .serialize(&Histogram::<u64>::new(3).expect("it can be had"), &mut empty)
        .expect("it can be written");
    vec![recorded_of(&small()).into_bytes(), plain, empty]
}
