//! The server as a browser sees it, over TCP: every page, and what must not be answered.

mod browser;
mod events;
mod hostile;
mod pages;
#[allow(dead_code, reason = "these tests need one of the samples")]
#[path = "../../tare-report/tests/sample/mod.rs"]
mod sample;
mod starting;
mod timeline;
