//! The whole of Tare on this machine: a real Redis, real containers, real guests. Needs root, a container engine and
//! QEMU; tests say what they lack. One test at a time, because a run refuses to share the machine with another.

mod accounts;
mod auction;
mod browsing;
mod building;
mod canaries;
mod chopped;
mod composing;
mod daemon;
mod foreseeing;
mod images;
mod kill;
mod lab;
mod machines;
mod makes;
mod naming;
mod own;
mod peaking;
mod placing;
mod planted;
mod profiling;
mod readying;
mod scaleout;
mod searching;
mod secrets;
mod serving;
mod standing;
mod strangers;
mod suites;
mod tools;
mod traces;
mod trouble;
mod webdriver;
mod weighing;
mod whole;
