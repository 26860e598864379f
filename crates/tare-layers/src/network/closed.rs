//! Which places are closed: the table that programs and this process share, and how a program looks into it.

use std::net::{IpAddr, SocketAddr};
use tare_bpf::Register::{self, R0, R1, R2, R3, R4, R10};
use tare_bpf::{Function, Instruction, Map, Word};

/// How many places may be closed at once: as many as there are ports, of both protocols.
pub(super) const CLOSED_MAX: u32 = 2 * 65_536;

/// Closed places, by [`key`], and the user for whom each is.
pub(super) type Closed = Map<Key, u32>;

/// A port of a protocol at an address: the address as packets of IPv6 hold it, then the protocol's number over the
/// port's.
pub(super) type Key = [u32; 5];

/// The protocols whose ports are closed, by the kernel's numbers: TCP and UDP.
pub(super) const TRANSPORTS: [u32; 2] = [6, 17];

/// The third word of an address of IPv4 where one of IPv6 is expected. The others before the last are zero.
pub(super) const MAPPED: u32 = u32::from_ne_bytes([0, 0, 0xff, 0xff]);
/// Marks every address of IPv6 where no address of IPv4 is among them. Without it, `[::]` is every address of both.
pub(super) const IPV6_ALONE: u32 = 1 << 24;

/// What a socket of this protocol has that was bound to this place: `0.0.0.0` is every address of IPv4, and `[::]`
/// every address there is.
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
/// The last word of it.
pub(super) const KEY_PORT: i16 = KEY + 16;

/// `map.function(stack[key], stack[value])`, the value being for [`Function::Update`] alone.
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

/// `stack[KEY].address = register[offset..]`, an address of IPv4 in one word.
pub(super) fn put_ipv4(register: Register, offset: i16) -> [Instruction; 4] {
    [
        Instruction::write_number_u64(R10, KEY, 0),
        Instruction::write_number_u32(R10, KEY + 8, MAPPED.cast_signed()),
        Instruction::read_u32(R1, register, offset),
        Instruction::write_u32(R10, KEY + 12, R1),
    ]
}

/// `stack[KEY].address = register[offset..]`, an address of IPv6 in four words.
pub(super) fn put_ipv6(register: Register, offset: i16) -> Vec<Instruction> {
    let word = |number: i16| {
        let read = Instruction::read_u32(R1, register, offset + 4 * number);
        [read, Instruction::write_u32(R10, KEY + 4 * number, R1)]
    };
    (0..4).flat_map(word).collect()
}

/// Told in words: `if key in closed or key.with(every address) in closed { then }`, where `then` ends the program.
/// `ipv4` holds 1 when the address is one of IPv4, and 0 when it is not. The key is another one afterwards.
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
