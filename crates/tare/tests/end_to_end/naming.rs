//! Services that find each other by their names, at their usual ports.

use crate::end_to_end::lab::Lab;
use tare_core::trial::Outcome;

/// A store, and a service that is told its host's name alone, as most applications are. Without an answer from there it
/// is never ready; the load looks for the store's other name.
const WORKLOAD: &str = "\
workload: named
services:
  store:
    bundle: {packages: [redis-server]}
    command: [/usr/bin/redis-server, --bind, 0.0.0.0, --protected-mode, 'no', --save, '', --maxmemory, 64mb]
    ports: {main: 6379}
    names: [store.internal]
  front:
    bundle: {packages: [redis-tools, dash, coreutils]}
    command:
      - /bin/sh
      - -c
      - 'until [ \"$(redis-cli -h \"$STORE_HOST\" PING)\" = PONG ]; do sleep 0.1; done; echo found; exec sleep 1000'
    environment: {STORE_HOST: store}
    ready: {log: found}
    stop_within: 1s
load:
  service: front
  protocol:
    exec:
      where: inside
      parser: tare
      settle: false
      command:
        - /bin/sh
        - -c
        - '[ \"$(redis-cli -h store.internal PING)\" = PONG ] &&
          echo ''{\"seconds\": 1, \"operations\": {\"ping\": {\"count\": 1}}}'''
";

const STUDY: &str = "\
study: names
workload: ./named
load: {closed: {connections: 1}}
time: {settle: 0s, measure: 1s}
repeat: 1
design: blocks
forms:
  native: []
  container: [container: {network: published}]
  container-hostnet: [container: {network: host}]
";

#[test]
fn a_service_finds_another_by_its_name_in_every_form() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap"]) else { return };
    lab.write("named/workload.yaml", WORKLOAD);
    let (_, record) = lab.run(STUDY);
    assert_eq!(record.trials.len(), 4, "one of each form, and native once more");
    for trial in &record.trials {
        assert_eq!(trial.record.outcome, Outcome::Measured, "{}", trial.record.trial.arm());
    }
}
