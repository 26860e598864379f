//! The users that services run as: who gets which ids.

/// The uid and gid of a service that states none, until it is spelled out: Debian's `nobody` and `nogroup`. It never
/// runs as these, because daemons of the machine do: each instance gets a user of its own, from [`FIRST_OWN`] on.
pub const NOBODY: u32 = 65_534;

/// The first uid and gid of instances with users of their own.
///
/// From here to 99999 nothing allocates ids by itself: systemd's dynamic users end at 65519, and it calls 65536 to
/// 524287 unused (<https://systemd.io/UIDS-GIDS/>); the subordinate ids of users begin at 100000 (`SUB_UID_MIN`,
/// login.defs(5)). There are at most [`INSTANCES_MAX`](crate::workload::INSTANCES_MAX) of them.
pub const FIRST_OWN: u32 = 65_536;

/// The value that the kernel reads as "leave it unchanged" where it expects a user or group.
const NO_ID: u32 = u32::MAX;

/// Why no service may run as this user and group; none when one may.
pub fn why_not_user(user: (u32, u32)) -> Option<&'static str> {
    match user {
        (0, _) => Some("a service runs unprivileged, never as user 0"),
        (NO_ID, _) | (_, NO_ID) => Some("4294967295 is not a user or group: to the kernel it means no change"),
        _ => None,
    }
}

/// The last uid and gid that Tare allocates by itself: to instances, to its own processes beside a form, and to guests.
const LAST_OWN: u32 = 99_999;

/// Why no workload or image may state this user and group; none when one may.
pub fn why_not_stated(user: (u32, u32)) -> Option<&'static str> {
    let own = FIRST_OWN..=LAST_OWN;
    if own.contains(&user.0) || own.contains(&user.1) {
        return Some(
            "65536 to 99999 are for users that Tare assigns: another service, the load or a guest may have it",
        );
    }
    why_not_user(user)
}

/// The last user and group that a service has which runs as its image does: as many as container images use.
const IMAGE_LAST: u32 = 65_535;

/// Why a service that runs as its image does may not have this user and group; none when it may. Root is one of them.
pub fn why_not_in_image(user: (u32, u32)) -> Option<&'static str> {
    let known = user.0 <= IMAGE_LAST && user.1 <= IMAGE_LAST;
    (!known).then_some("with 'as_image' a service has the users and groups from 0 to 65535")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_runs_as_its_image_may_be_root() {
        for fine in [(0, 0), (0, 5), (999, 0), (IMAGE_LAST, IMAGE_LAST)] {
            assert_eq!(why_not_in_image(fine), None, "{fine:?}");
        }
        for beyond in [(FIRST_OWN, 0), (0, FIRST_OWN), (NO_ID, NO_ID)] {
            assert!(why_not_in_image(beyond).is_some(), "{beyond:?}");
        }
    }

    #[test]
    fn numbers_that_are_given_out_are_not_to_be_stated() {
        for free in [(1, 1), (999, 1000), (NOBODY, NOBODY), (100_000, 100_000), (1_000_650_000, 1)] {
            assert_eq!(why_not_stated(free), None, "{free:?}");
        }
        for taken in [(FIRST_OWN, 5), (5, 98_999), (99_000, 99_000), (LAST_OWN, 1), (0, 5), (NO_ID, 5), (5, NO_ID)] {
            assert!(why_not_stated(taken).is_some(), "{taken:?}");
        }
        assert_eq!(why_not_user((FIRST_OWN, FIRST_OWN)), None, "Tare itself gives it out");
    }
}
