//! Whether a service runs the right files: the same as in the other forms, and those of its bundle.

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

/// Compares the files that an instance sees with those of its bundle, for the record. A difference voids nothing: a
/// file that a service could read need not be one that it runs, and an engine may have its reasons to change one. The
/// report mentions it.
///
/// # Errors
/// When the user stops the run before all files are read: they are compared only once, so the trial must be repeated.
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
            record
                .warnings
                .push(format!("could not check the files that service {name} saw against its bundle: {fault}"));
        }
    }
    Ok(())
}
