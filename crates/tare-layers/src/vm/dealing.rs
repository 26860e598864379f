//! Which guest each service runs in, if a form has several guests.

use std::collections::{BTreeMap, BTreeSet};
use tare_core::fault::Fault;
use tare_core::workload::Service;

/// The number of each service's guest, from 0: whole tiles if there are several, otherwise single instances, in their
/// order and as evenly as possible, so that services that start one after another are together.
///
/// # Errors
/// When there are more guests than things to distribute, so that one would be empty, or services that share a volume
/// would be in different guests.
pub(super) fn dealt_out<'s>(services: impl IntoIterator<Item = &'s Service>, guests: u32) -> Result<Vec<usize>, Fault> {
    let services: Vec<&Service> = services.into_iter().collect();
    let tiles: Vec<u32> = services.iter().map(|service| service.tile()).collect();
    let distinct: BTreeSet<u32> = tiles.iter().copied().collect();
    let place = |tile: &u32| distinct.iter().position(|other| other == tile).expect("it is one of them");
    let (units, there, what): (Vec<usize>, usize, &str) = match (distinct.len(), tiles.len()) {
        (0 | 1, 1) => (vec![0], 1, "instance of a service"),
        (0 | 1, there) => ((0..there).collect(), there, "instances of services"),
        (there, _) => (tiles.iter().map(place).collect(), there, "tiles"),
    };
    let guests = guests as usize;
    if guests > there.max(1) {
        let message = format!("{guests} guests are asked for, to deal out {there} {what} among them");
        return Err(Fault::new(message).remedy(format!("ask for {there} at most, or raise 'instances:'")));
    }
    let dealt: Vec<usize> = units.into_iter().map(|unit| unit * guests / there).collect();
    refuse_parted(&services, &dealt)?;
    Ok(dealt)
}

/// Refuses to part services that share a volume.
fn refuse_parted(services: &[&Service], dealt: &[usize]) -> Result<(), Fault> {
    let mut seen: BTreeMap<(u32, &str), (usize, &str)> = BTreeMap::new();
    for (service, guest) in services.iter().zip(dealt) {
        for shared in service.volumes.values().filter_map(|volume| volume.shared.as_ref()) {
            let here = (*guest, service.name.as_str());
            let (first, other) = *seen.entry((service.tile(), shared.name.as_str())).or_insert(here);
            if first != *guest {
                let (own, name) = (&service.name, &shared.name);
                let message = format!(
                    "'{other}' and '{own}' share the volume '{name}', and would be in guests {} and {}",
                    first + 1,
                    guest + 1
                );
                return Err(Fault::new(message).remedy("ask for one guest, or for no more guests than 'tiles'"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::workload::{Replica, Volume};

    fn services(tiles: u32, names: &[&str]) -> Vec<Service> {
        let one = |tile: u32, name: &&str| {
            let replica = (tiles > 1).then(|| Replica { of: (*name).to_owned(), number: 1, tile });
            Service { replica, ..crate::sample::service(name) }
        };
        (1..=tiles).flat_map(|tile| names.iter().map(move |name| one(tile, name))).collect()
    }

    #[test]
    fn tiles_stay_whole_and_guests_are_filled_evenly() {
        let guests = |tiles, names: &[&str], guests| dealt_out(&services(tiles, names), guests).unwrap();
        assert_eq!(guests(1, &["a", "b", "c"], 1), [0, 0, 0]);
        assert_eq!(guests(1, &["a", "b", "c", "d"], 2), [0, 0, 1, 1]);
        assert_eq!(guests(1, &["a", "b", "c"], 2), [0, 0, 1]);
        assert_eq!(guests(1, &["a", "b", "c"], 3), [0, 1, 2]);
        assert_eq!(guests(4, &["a", "b"], 2), [0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(guests(16, &["a"], 8), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]);
        for n in 1..=7 {
            let dealt = guests(7, &["a"], n);
            let of = |guest| dealt.iter().filter(|at| **at == guest).count();
            let sizes: Vec<usize> = (0..n as usize).map(of).collect();
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{n}: {sizes:?}");
        }
    }

    #[test]
    fn who_shares_a_volume_is_in_one_guest() {
        let sharing = |tiles, names: &[&str], guests| {
            let mut services = services(tiles, names);
            for service in services.iter_mut().filter(|service| service.name != "b") {
                service.volumes.insert("/srv".to_owned(), Volume::shared("site", 1, false));
            }
            dealt_out(&services, guests)
        };
        assert_eq!(sharing(1, &["a", "c", "b"], 2), Ok(vec![0, 0, 1]));
        assert_eq!(sharing(2, &["a", "b", "c"], 2), Ok(vec![0, 0, 0, 1, 1, 1]), "each tile has a volume of its own");
        let fault = sharing(1, &["a", "b", "c"], 2).unwrap_err();
        assert!(fault.message.contains("'a' and 'c' share the volume 'site'"), "{fault}");
        assert!(fault.message.contains("guests 1 and 2") && fault.remedy.contains("one guest"), "{fault}");
    }

    #[test]
    fn no_guest_stays_empty() {
        let fault = dealt_out(&services(1, &["a", "b"]), 3).unwrap_err();
        assert!(fault.message.contains("3 guests") && fault.message.contains("2 instances"), "{fault}");
        let fault = dealt_out(&services(2, &["a", "b"]), 3).unwrap_err();
        assert!(fault.message.contains("2 tiles") && fault.remedy.contains("2 at most"), "{fault}");
        assert_eq!(dealt_out(&[], 1), Ok(Vec::new()));
    }
}
