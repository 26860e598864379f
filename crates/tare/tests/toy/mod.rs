//! A workload without mistakes, for tests of messages about files.

pub(crate) const WORKLOAD: &str = "\
workload: toy
services:
  toy:
    bundle: {packages: [redis-server]}
    command: [/usr/bin/toy]
    ports: {main: 7000}
load:
  protocol: {redis: {}}
";
