//! Which places are closed: the table that BPF programs and this process share, and how a program looks things up in
//! it.

use std::net::{IpAddr, SocketAddr};
use tare_bpf::Register::{self, R0, R1, R2, R3, R4, R10};
use tare_bpf::{Function, Instruction, Map, Word};

/// How many places may be closed at once: as many as there are ports in both protocols.
pub(super) const CLOSED_MAX: u32 = 2 * 65_536;

/// Closed places, by [`key`], and the user that each is closed for.
pub(super) type Closed = Map<Key, u32>;

/// A port of a protocol at an address: the address as IPv6 packets hold it, then the protocol's number over the port's.
pub(super) type Key = [u32; 5];

/// The protocols whose ports are closed, by the kernel's numbers: TCP and UDP.
pub(super) const TRANSPORTS: [u32; 2] = [6, 17];

/// The third word of an IPv4 address where an IPv6 address is expected. All words before it are zero.
pub(super) const MAPPED: u32 = u32::from_ne_bytes([0, 0, 0xff, 0xff]);
/// Marks "every IPv6 address" where it does not include IPv4 addresses. Without it, `[::]` is every address of both.
pub(super) const IPV6_ALONE: u32 = 1 << 24;

/// The key of a socket of this protocol bound to this place: `0.0.0.0` is every IPv4 address, and `[::]` every address
/// there is.
pub(super) fn key(transport: u32, place: SocketAddr) -> Key {
    let address = match place.ip() {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let octets = address.octets();
    let word = |at: usize| u32::from_ne_bytes(octets[at..at + 4].try_into().expect("four bytes were taken"));
    [word(0), word(4), word(8), word(12), transport << 16 | u32::from(place.port())]
}

/// Where programs keep the key on their stack.
pub(super) const KEY: i16 = -24;
/// Its last word.
pub(super) const KEY_PORT: i16 = KEY + 16;

/// `map.function(stack[key], stack[value])`, where the value is only for [`Function::Update`].
pub(super) fn call<K: Word, V: Word>(function: Function, map: &Map<K, V>, key: i16, value: i16) -> [Instruction; 8] {
    let [map1, map2] = Instruction::set_map(R1, map);
    let [key, value] = [key, value].map(i32::from);
    [
        map1,
        map2,
        Instruction::copy(R2, R10),
        Instruction::add(R2, key),
        Instruction::copy(R3, R10),
        Instruction::add(R3, value),
        Instruction::set(R4, 0),
        Instruction::call(function),
    ]
}

/// `stack[KEY].address = register[offset..]`, for an IPv4 address in one word.
pub(super) fn put_ipv4(register: Register, offset: i16) -> [Instruction; 4] {
    [
        Instruction::write_number_u64(R10, KEY, 0),
        Instruction::write_number_u32(R10, KEY + 8, MAPPED.cast_signed()),
        Instruction::read_u32(R1, register, offset),
        Instruction::write_u32(R10, KEY + 12, R1),
    ]
}

/// `stack[KEY].address = register[offset..]`, for an IPv6 address in four words.
pub(super) fn put_ipv6(register: Register, offset: i16) -> Vec<Instruction> {
    let word = |number: i16| {
        let read = Instruction::read_u32(R1, register, offset + 4 * number);
        [read, Instruction::write_u32(R10, KEY + 4 * number, R1)]
    };
    (0..4).flat_map(word).collect()
}

/// In words: `if key in closed or key.with(every address) in closed { then }`, where `then` ends the program. `ipv4`
/// holds 1 for an IPv4 address, and 0 otherwise. The key is changed afterwards.
pub(super) fn where_closed(closed: &Closed, ipv4: Register, then: &[Instruction]) -> Vec<Instruction> {
    let look = || [&call(Function::LookUp, closed, KEY, KEY)[..], &Instruction::unless_equal(R0, 0, then)].concat();
    let every = [Instruction::write_number_u64(R10, KEY, 0), Instruction::write_number_u64(R10, KEY + 8, 0)];
    let of_ipv4 = [Instruction::write_number_u32(R10, KEY + 8, MAPPED.cast_signed())];
    [
        &look()[..],
        &every,
        &look(),
        &Instruction::if_equal(ipv4, 1, &of_ipv4),
        &Instruction::if_equal(ipv4, 0, &mark_ipv6_alone()),
        &look(),
    ]
    .concat()
}

/// `stack[KEY].port |= IPV6_ALONE`
pub(super) fn mark_ipv6_alone() -> [Instruction; 3] {
    [
        Instruction::read_u32(R1, R10, KEY_PORT),
        Instruction::or_number(R1, IPV6_ALONE.cast_signed()),
        Instruction::write_u32(R10, KEY_PORT, R1),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_ipv4_is_the_same_in_both_notations() {
        let key = |place: &str| key(6, place.parse().unwrap());
        assert_eq!(key("192.0.2.1:80"), key("[::ffff:192.0.2.1]:80"));
        assert_eq!(key("0.0.0.0:80"), [0, 0, MAPPED, 0, 6 << 16 | 80]);
        assert_eq!(key("[::]:80"), [0, 0, 0, 0, 6 << 16 | 80]);
        assert_ne!(key("[::1]:80"), key("[::]:80"));
    }
}
