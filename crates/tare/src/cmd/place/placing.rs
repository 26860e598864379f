//! A named placement, from the ranking or from a record.

use tare_core::form::Form;
use tare_core::placement::{Candidate, Manner, Placement};
use tare_core::record::Record;
use tare_report::whole;

/// A named placement.
pub(super) struct Placing<'a> {
    pub(super) name: &'a str,
    pub(super) manner: Manner,
    pub(super) placement: &'a Placement,
}

impl<'a> Placing<'a> {
    /// One of the ranking.
    pub(super) fn ranked(candidate: &'a Candidate) -> Self {
        let Candidate { name, manner, placement, .. } = candidate;
        Placing { name, manner: *manner, placement }
    }

    /// The placements of a record.
    pub(super) fn measured(record: &'a Record) -> Vec<Self> {
        let of = |form: &'a Form| {
            let placement = record.header.forms.get(&form.name)?.placement.as_ref()?;
            Some(Placing { name: &form.name, manner: Manner::of_name(&form.name)?, placement })
        };
        record.header.study.forms.iter().filter_map(of).collect()
    }

    /// Such as `web 0-3; db 4-7`.
    pub(super) fn describe(&self) -> String {
        let services = self.placement.services.iter();
        let sets: Vec<String> = services.map(|(name, placed)| whole(&format!("{name} {}", placed.cpus))).collect();
        sets.join("; ")
    }
}
