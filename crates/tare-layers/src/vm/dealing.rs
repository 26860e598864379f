//! Which guest each service runs in, if a form has several guests.

use std::collections::BTreeSet;
use tare_core::fault::Fault;
use tare_core::workload::Service;

/// The number of each service's guest, from 0: whole tiles if there are several, otherwise single instances, in their
/// order and as evenly as possible, so that services that start one after another are together.
///
/// # Errors
/// When there are more guests than things to distribute: one would be empty.
pub(super) fn dealt_out<'s>(services: impl IntoIterator<Item = &'s Service>, guests: u32) -> Result<Vec<usize>, Fault> {
    let tiles: Vec<u32> = services.into_iter().map(Service::tile).collect();
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
    Ok(units.into_iter().map(|unit| unit * guests / there).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::workload::Replica;

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
    fn no_guest_stays_empty() {
        let fault = dealt_out(&services(1, &["a", "b"]), 3).unwrap_err();
        assert!(fault.message.contains("3 guests") && fault.message.contains("2 instances"), "{fault}");
        let fault = dealt_out(&services(2, &["a", "b"]), 3).unwrap_err();
        assert!(fault.message.contains("2 tiles") && fault.remedy.contains("2 at most"), "{fault}");
        assert_eq!(dealt_out(&[], 1), Ok(Vec::new()));
    }
}
