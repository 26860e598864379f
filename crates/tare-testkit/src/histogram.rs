//! Histograms as summaries and records hold them: HdrHistogram V2 with deflate, base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};

/// What such a text holds.
pub fn decode(text: &str) -> Histogram<u64> {
    let bytes = STANDARD.decode(text).expect("it is base64");
    Deserializer::new().deserialize(&mut bytes.as_slice()).expect("it is a histogram")
}

/// The text of a histogram.
pub fn encode(times: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(times, &mut bytes).expect("memory takes every byte");
    STANDARD.encode(bytes)
}
