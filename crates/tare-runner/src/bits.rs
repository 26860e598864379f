//! Whether a service runs the bits that it should: those of the other forms, and those of its bundle.

use crate::Stop;
use std::collections::BTreeMap;
use tare_core::fault::Fault;
use tare_core::host::{Host, SeenFile, ServiceStart, Wait};
use tare_core::record::TrialRecord;
use tare_core::workload::Service;

/// The first file in which two lists differ, in words.
pub(crate) fn differ(reference: &[SeenFile], seen: &[SeenFile]) -> String {
    let by_path = |files: &[SeenFile]| -> BTreeMap<String, String> {
        files.iter().map(|file| (file.path.clone(), file.digest.clone())).collect()
    };
    let (reference, seen) = (by_path(reference), by_path(seen));
    for (path, digest) in &reference {
        match seen.get(path) {
            None => return format!("{path} is not mapped here"),
            Some(other) if other != digest => return format!("{path} is {other}, was {digest}"),
            Some(_) => {}
        }
    }
    let extra = seen.keys().find(|path| !reference.contains_key(*path));
    extra.map_or_else(|| "the order differs".to_owned(), |path| format!("{path} is mapped here only"))
}

/// Holds what an instance sees of its bundle against the bundle, for the record. It voids nothing: what a service might
/// read is not what it runs, and an engine may have reasons of its own to change a file. The report says it.
///
/// # Errors
/// When the user wants an end before all of them are read: they are compared once, so the trial has to be repeated.
pub(crate) fn against_bundle(
    host: &mut dyn Host,
    service: &Service,
    stop: &Stop,
    record: &mut TrialRecord,
) -> Result<(), Fault> {
    let name = &service.name;
    let raised = || stop.raised();
    match host.files_seen(&ServiceStart::on(service.clone(), None), None, Wait::until(&raised)) {
        Ok(seen) => drop(record.files.insert(name.clone(), seen)),
        Err(fault) if stop.raised() => return Err(fault),
        Err(fault) => {
            record.warnings.push(format!("whether service {name} saw the files of its bundle is not known: {fault}"));
        }
    }
    Ok(())
}
