//! Scanners over the text of the kernel's files. They borrow, allocate nothing, and answer `None` to nonsense.

/// The lines of a file, without their ends.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// The words of a line.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

/// A word that is a whole number.
pub(crate) fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A word that is a hexadecimal number, without a prefix.
pub(crate) fn hexadecimal(word: &[u8]) -> Option<u64> {
    let digits = word.iter().all(u8::is_ascii_hexdigit);
    std::str::from_utf8(word).ok().filter(|_| digits).and_then(|word| u64::from_str_radix(word, 16).ok())
}

/// The number at an index among the words of a line, counted from 0.
pub(crate) fn number_at(line: &[u8], index: usize) -> Option<u64> {
    number(words(line).nth(index)?)
}

/// The number after a key at the start of a line: `key 5`, `key: 5 kB`, `key    :   5`.
pub(crate) fn keyed(text: &[u8], key: &str) -> Option<u64> {
    lines(text).find_map(|line| {
        let rest = line.strip_prefix(key.as_bytes())?;
        let separator = rest.first().copied()?;
        if separator != b':' && !separator.is_ascii_whitespace() {
            return None;
        }
        words(rest).find(|word| *word != b":").and_then(number)
    })
}

/// What follows the name in a line of `/proc/<pid>/stat`. The name may hold anything, spaces and brackets too, so it
/// ends at the last bracket.
pub(crate) fn after_name(stat: &[u8]) -> Option<&[u8]> {
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    Some(&stat[close + 1..])
}

/// Names and numbers of a group in a file of paired lines, a line of names and a line of numbers, such as
/// `/proc/net/snmp` and `/proc/net/netstat`. `group` ends with its colon; what is not a number is left out.
pub(crate) fn pairs<'a>(text: &'a [u8], group: &str) -> impl Iterator<Item = (&'a [u8], u64)> {
    let mut of_group = lines(text).filter(|line| line.starts_with(group.as_bytes()));
    let (names, values) = (of_group.next().unwrap_or_default(), of_group.next().unwrap_or_default());
    words(names).zip(words(values)).filter_map(|(name, value)| Some((name, number(value)?)))
}

/// The total of a `some` line of a pressure file, in microseconds.
pub(crate) fn pressure_some_us(text: &[u8]) -> Option<u64> {
    let line = lines(text).find(|line| line.starts_with(b"some "))?;
    words(line).find_map(|word| number(word.strip_prefix(b"total=")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_where_the_kernel_writes_them() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number(b"18446744073709551616"), None);
        assert_eq!(number(b"-1"), None);
        assert_eq!(number(b""), None);
        let text = b"usage_usec_total 9\nusage_usec 71\nMemTotal:  12 kB\nse.nr_migrations   :    4\n";
        assert_eq!(keyed(text, "usage_usec"), Some(71));
        assert_eq!(keyed(text, "MemTotal"), Some(12));
        assert_eq!(keyed(text, "se.nr_migrations"), Some(4));
        assert_eq!(keyed(text, "absent"), None);
        let snmp = b"Ip: A B\nIp: 1 2\nTcp: Out RetransSegs MaxConn\nTcp: 8 3 -1\n";
        let tcp: Vec<(&[u8], u64)> = pairs(snmp, "Tcp:").collect();
        assert_eq!(tcp, [(&b"Out"[..], 8), (&b"RetransSegs"[..], 3)]);
        assert_eq!(pairs(snmp, "Udp:").count(), 0);
        assert_eq!((hexadecimal(b"0a4fa7a5"), hexadecimal(b"0x1"), hexadecimal(b"")), (Some(0x0a4f_a7a5), None, None));
        assert_eq!(pressure_some_us(b"some avg10=0.00 avg60=0.00 avg300=0.00 total=154\nfull total=9\n"), Some(154));
    }
}
