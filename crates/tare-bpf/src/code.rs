//! The instructions of programs, as `linux/bpf.h` numbers them.

use crate::map::{Map, Word};

/// A register. A program starts with its context in `R1`. Calls take their arguments in `R1` to `R5`, return their
/// result in `R0` and preserve `R6` to `R9`. `R10` points to the end of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "they are numbers")]
pub enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

use Register::R0;

/// A function of the kernel that a program may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Function {
    /// Finds the value of the key that `R2` points to in the map in `R1`: a pointer to it, or 0.
    LookUp = 1,
    /// Sets the value of the key that `R2` points to in the map in `R1` to what `R3` points to; `R4` holds flags.
    Update = 2,
    /// Removes the key that `R2` points to from the map in `R1`.
    Delete = 3,
    /// The number of the running process in the upper half, that of its thread in the lower half.
    ProcessAndThread = 14,
    /// The group of the running process in the upper half, its user in the lower half, as in the initial user
    /// namespace.
    GroupAndUser = 15,
    /// The cookie of the socket in `R1`: a number that is unique until the machine reboots.
    Socket = 46,
    /// Copies `R4` bytes of the packet in `R1`, from byte `R2` on, to where `R3` points. `R2` counts from the start of
    /// the frame if `R5` is 0, of the network header if it is 1. The result is not 0 if the packet is shorter.
    Bytes = 68,
    /// Copies `R2` bytes of the kernel's memory from `R3` on to where `R1` points. The result is not 0 if that memory
    /// does not exist.
    ReadKernel = 113,
    /// The cookie of the network namespace of the socket in `R1`: a number that is unique until the machine reboots.
    Network = 122,
}

/// One instruction in the kernel's encoding.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    operation: u8,
    /// The destination register in the lower half, the source register in the upper half.
    registers: u8,
    offset: i16,
    number: i32,
}

/// Marks a number as a map's descriptor.
const OF_A_MAP: u8 = 1;

impl Instruction {
    const fn new(operation: u8, to: Register, from: Register, offset: i16, number: i32) -> Instruction {
        Instruction { operation, registers: to as u8 | (from as u8) << 4, offset, number }
    }

    /// `to = from`
    pub const fn copy(to: Register, from: Register) -> Instruction {
        Instruction::new(0xbf, to, from, 0, 0)
    }

    /// `to = number`
    pub const fn set(to: Register, number: i32) -> Instruction {
        Instruction::new(0xb7, to, R0, 0, number)
    }

    /// `to = map`, which takes two instructions.
    pub fn set_map<K: Word, V: Word>(to: Register, map: &Map<K, V>) -> [Instruction; 2] {
        let first =
            Instruction { operation: 0x18, registers: to as u8 | OF_A_MAP << 4, offset: 0, number: map.number() };
        [first, Instruction { operation: 0, registers: 0, offset: 0, number: 0 }]
    }

    /// `to += number`
    pub const fn add(to: Register, number: i32) -> Instruction {
        Instruction::new(0x07, to, R0, 0, number)
    }

    /// `to += from`
    pub const fn add_register(to: Register, from: Register) -> Instruction {
        Instruction::new(0x0f, to, from, 0, 0)
    }

    /// `to &= number`
    pub const fn and_number(to: Register, number: i32) -> Instruction {
        Instruction::new(0x57, to, R0, 0, number)
    }

    /// `to |= number`
    pub const fn or_number(to: Register, number: i32) -> Instruction {
        Instruction::new(0x47, to, R0, 0, number)
    }

    /// `to |= from`
    pub const fn or(to: Register, from: Register) -> Instruction {
        Instruction::new(0x4f, to, from, 0, 0)
    }

    /// `to <<= bits`
    pub const fn shift_left(to: Register, bits: i32) -> Instruction {
        Instruction::new(0x67, to, R0, 0, bits)
    }

    /// `to >>= bits`, filled with zeros.
    pub const fn shift_right(to: Register, bits: i32) -> Instruction {
        Instruction::new(0x77, to, R0, 0, bits)
    }

    /// `to = (u16)to`, with its bytes swapped if this machine's byte order is not the network's.
    pub const fn order_of_network_u16(to: Register) -> Instruction {
        Instruction::new(0xdc, to, R0, 0, 16)
    }

    /// `to = *(u8 *)(from + offset)`
    pub const fn read_u8(to: Register, from: Register, offset: i16) -> Instruction {
        Instruction::new(0x71, to, from, offset, 0)
    }

    /// `to = *(u16 *)(from + offset)`
    pub const fn read_u16(to: Register, from: Register, offset: i16) -> Instruction {
        Instruction::new(0x69, to, from, offset, 0)
    }

    /// `to = *(u32 *)(from + offset)`
    pub const fn read_u32(to: Register, from: Register, offset: i16) -> Instruction {
        Instruction::new(0x61, to, from, offset, 0)
    }

    /// `to = *(u64 *)(from + offset)`
    pub const fn read_u64(to: Register, from: Register, offset: i16) -> Instruction {
        Instruction::new(0x79, to, from, offset, 0)
    }

    /// `*(u32 *)(to + offset) = from`
    pub const fn write_u32(to: Register, offset: i16, from: Register) -> Instruction {
        Instruction::new(0x63, to, from, offset, 0)
    }

    /// `*(u64 *)(to + offset) = from`
    pub const fn write_u64(to: Register, offset: i16, from: Register) -> Instruction {
        Instruction::new(0x7b, to, from, offset, 0)
    }

    /// `*(u32 *)(to + offset) = number`
    pub const fn write_number_u32(to: Register, offset: i16, number: i32) -> Instruction {
        Instruction::new(0x62, to, R0, offset, number)
    }

    /// `*(u64 *)(to + offset) = number`
    pub const fn write_number_u64(to: Register, offset: i16, number: i32) -> Instruction {
        Instruction::new(0x7a, to, R0, offset, number)
    }

    /// `*(u64 *)to += from`, atomically.
    pub const fn add_at_once_u64(to: Register, from: Register) -> Instruction {
        Instruction::new(0xdb, to, from, 0, 0)
    }

    /// Skips the next instructions.
    pub const fn skip(instructions: i16) -> Instruction {
        Instruction::new(0x05, R0, R0, instructions, 0)
    }

    /// Skips the next instructions if `register == number`.
    pub const fn skip_if_equal(register: Register, number: i32, instructions: i16) -> Instruction {
        Instruction::new(0x15, register, R0, instructions, number)
    }

    /// Skips the next instructions if `register == other`.
    pub const fn skip_if_same(register: Register, other: Register, instructions: i16) -> Instruction {
        Instruction::new(0x1d, register, other, instructions, 0)
    }

    /// `if register == number { block }`
    pub fn if_equal(register: Register, number: i32, block: &[Instruction]) -> Vec<Instruction> {
        Instruction::guarded(Instruction::new(0x55, register, R0, 0, number), block)
    }

    /// `if register != number { block }`
    pub fn unless_equal(register: Register, number: i32, block: &[Instruction]) -> Vec<Instruction> {
        Instruction::guarded(Instruction::skip_if_equal(register, number, 0), block)
    }

    /// `if register > number { block }`, both unsigned.
    pub fn if_above(register: Register, number: i32, block: &[Instruction]) -> Vec<Instruction> {
        Instruction::guarded(Instruction::new(0xb5, register, R0, 0, number), block)
    }

    /// A block, with the instruction that skips it in front.
    fn guarded(skip: Instruction, block: &[Instruction]) -> Vec<Instruction> {
        let offset = i16::try_from(block.len()).expect("blocks written by hand are short");
        [&[Instruction { offset, ..skip }][..], block].concat()
    }

    /// `R0 = function(R1, R2, R3, R4, R5)`
    pub const fn call(function: Function) -> Instruction {
        Instruction::new(0x85, R0, R0, 0, function as i32)
    }

    /// Ends the program with the result in `R0`.
    pub const fn end() -> Instruction {
        Instruction::new(0x95, R0, R0, 0, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Register::{R1, R10};

    /// The eight bytes that the kernel's own assembler generates for `*(u32 *)(r10 - 4) = r1`.
    #[test]
    fn an_instruction_is_eight_bytes_as_the_kernel_reads_them() {
        assert_eq!(size_of::<Instruction>(), 8);
        let write = Instruction::write_u32(R10, -4, R1);
        assert_eq!((write.operation, write.registers, write.offset, write.number), (0x63, 0x1a, -4, 0));
    }
}
