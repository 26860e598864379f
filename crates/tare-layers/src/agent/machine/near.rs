//! The near end: what is asked of an agent on another machine.

use super::super::client::AgentHost;
use super::question::{MachineFacts, Question, Stamps, VerbEnd};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;
use tare_clock::realtime_ns;
use tare_core::fault::Fault;

/// How long an answer may take that needs no work, once the connection stands.
const SHORT: Duration = Duration::from_secs(10);
/// How much longer an answer may take than what is done for it.
const SPARE: Duration = Duration::from_secs(15);

/// By how much the clock of another machine differs from this one's, both CLOCK_REALTIME.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    /// The other clock minus this one, ns.
    pub offset_ns: i64,
    /// The offset is off by no more than this, ns, however unequal the ways there and back are.
    pub uncertainty_ns: u64,
    /// The time on both ways, without the time that the other end took to answer, ns.
    pub round_trip_ns: u64,
}

impl ClockReading {
    /// From four time stamps: sent here, received there, sent there, received here, ns. As NTP does (RFC 5905,
    /// section 8): the offset if both ways take equally long; it is off by half of the round trip at most.
    fn of(sent: u64, there: Stamps, received: u64) -> ClockReading {
        let [sent, received] = [sent, received].map(i128::from);
        let [came, went] = [there.received_ns, there.sent_ns].map(i128::from);
        let offset = ((came - sent) + (went - received)) / 2;
        let trip = u64::try_from((received - sent) - (went - came)).unwrap_or(0);
        let limit = |value: i128| i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX });
        ClockReading { offset_ns: limit(offset), uncertainty_ns: trip.div_ceil(2), round_trip_ns: trip }
    }
}

impl AgentHost {
    /// Asks an agent on another machine what it is. `within` includes the time that the connection takes.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn greet(&mut self, within: Duration) -> Result<MachineFacts, Fault> {
        self.ask(Question::Greet, "say what it is", within)
    }

    /// Compares the clock of another machine with this one's: of `tries`, the reading with the shortest round trip.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn wall_clock(&mut self, tries: u32) -> Result<ClockReading, Fault> {
        let mut best: Option<ClockReading> = None;
        for _ in 0..tries.max(1) {
            let sent = realtime_ns();
            let there: Stamps = self.ask(Question::WallClock, "tell the time", SHORT)?;
            let reading = ClockReading::of(sent, there, realtime_ns());
            if best.is_none_or(|best| reading.round_trip_ns < best.round_trip_ns) {
                best = Some(reading);
            }
        }
        Ok(best.expect("at least one try"))
    }

    /// Whether another machine has this address.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn has_address(&mut self, address: IpAddr) -> Result<bool, Fault> {
        self.ask(Question::HasAddress(address), "look for an address", SHORT)
    }

    /// Has another machine carry out a verb of this program. The agent ends it after `within`.
    ///
    /// # Errors
    /// When it does not end in time, or the agent does not answer.
    pub fn carry_out(&mut self, arguments: &[&str], within: Duration) -> Result<VerbEnd, Fault> {
        let doing = format!("carry out `tare {}`", arguments.join(" "));
        let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        self.ask(Question::Verb(arguments, within), &doing, within + SPARE)
    }

    /// Has an agent on another machine end, and waits until it says that it does.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn leave(&mut self) -> Result<(), Fault> {
        self.ask(Question::Leave, "end", SHORT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_time_stamps_give_an_offset_with_its_uncertainty() {
        let reading = |sent, received_ns, sent_ns, received| {
            let ClockReading { offset_ns, uncertainty_ns, round_trip_ns } =
                ClockReading::of(sent, Stamps { received_ns, sent_ns }, received);
            (offset_ns, uncertainty_ns, round_trip_ns)
        };
        // Equal ways of 10 and 5 for the answer; the other clock is 1000 ahead, or behind.
        assert_eq!(reading(5000, 6010, 6015, 5025), (1000, 10, 20));
        assert_eq!(reading(5000, 4010, 4015, 5025), (-1000, 10, 20));
        // All of the time on the way there: the true offset, 1000, is just within.
        assert_eq!(reading(5000, 6020, 6025, 5025), (1010, 10, 20));
        // A clock that was set back meanwhile makes no negative time, and an hour is no overflow.
        assert_eq!(reading(5000, 6000, 6100, 5025).2, 0);
        assert_eq!(reading(0, 3_600_000_000_000, 3_600_000_000_000, 0).0, 3_600_000_000_000);
        assert_eq!(reading(0, u64::MAX, u64::MAX, 0).0, i64::MAX);
    }
}
