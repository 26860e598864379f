//! `ports:` and `expose:`.

use crate::keys::Keys;
use crate::sources::{Sources, Weight};
use crate::yaml::{Kind, Value};
use std::ops::RangeInclusive;

/// The most ports that a range may stand for.
const RANGE_MAX: u16 = 100;

/// A port of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listening {
    numbers: RangeInclusive<u16>,
    tcp: bool,
}

/// Reads `ports:` or `expose:`; `key` names it in notes. Returns the TCP ports, in their order.
pub(super) fn read(value: &Value, key: &str, sources: &mut Sources) -> Vec<u16> {
    let mut ports = Vec::new();
    for item in value.items(sources).to_vec() {
        let listening = match &item.kind {
            Kind::Map(_) => read_long(&item, sources),
            _ => read_short(&item, sources),
        };
        match listening {
            Some(Listening { numbers, tcp: true }) => ports.extend(numbers),
            Some(Listening { .. }) => {
                let instead = "it is left out: the load and the services reach each other by TCP";
                sources.note(item.at, key, Weight::Differs, instead);
            }
            None => {}
        }
    }
    ports
}

fn read_short(item: &Value, sources: &mut Sources) -> Option<Listening> {
    let text = item.text(sources)?;
    let listening = parse(&text);
    if listening.is_none() {
        let hint = "write for example 80, 8080:80, 127.0.0.1:8080:80 or 53:53/udp";
        sources.wrong(item.at, format!("'{text}' is no port"), hint);
    }
    listening
}

fn read_long(item: &Value, sources: &mut Sources) -> Option<Listening> {
    let mut keys = Keys::of(item, "a port", sources)?;
    keys.know(&["published", "host_ip", "mode", "app_protocol", "name"]);
    let target = keys.get("target");
    let protocol = keys.text("protocol", sources);
    keys.finish(sources);
    let Some(target) = target else {
        sources.wrong(item.at, "a port has no 'target'", "add 'target:', the number inside the container");
        return None;
    };
    let text = target.value.text(sources)?;
    let Some(numbers) = range(&text) else {
        sources.wrong(target.value.at, format!("'{text}' is no port"), "from 1 to 65535");
        return None;
    };
    Some(Listening { numbers, tcp: protocol.is_none_or(|protocol| protocol.eq_ignore_ascii_case("tcp")) })
}

/// `[[ADDRESS:]PUBLISHED:]TARGET[/PROTOCOL]`; what is published is left to the form.
fn parse(text: &str) -> Option<Listening> {
    let (text, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let target = text.rsplit(':').next()?;
    let published = text.strip_suffix(target)?.trim_end_matches(':');
    // An address in brackets has colons of its own.
    let published = published.rsplit_once(']').map_or(published, |(_, rest)| rest.trim_start_matches(':'));
    let published = published.rsplit(':').next().unwrap_or_default();
    let is_address = published.contains('.');
    if !published.is_empty() && !is_address && published != "0" && range(published).is_none() {
        return None;
    }
    let tcp = match protocol.to_ascii_lowercase().as_str() {
        "tcp" => true,
        "udp" | "sctp" => false,
        _ => return None,
    };
    Some(Listening { numbers: range(target)?, tcp })
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first != 0 && first <= last && last - first < RANGE_MAX).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_port_inside_is_what_counts() {
        let tcp = |text: &str| parse(text).filter(|found| found.tcp).map(|found| found.numbers);
        for text in ["80", "8080:80", "127.0.0.1:8080:80", "[::1]:8080:80", "127.0.0.1::80", "8080:80/tcp", "0:80"] {
            assert_eq!(tcp(text), Some(80..=80), "{text}");
        }
        assert_eq!(tcp("3000-3001:80-81"), Some(80..=81));
        assert_eq!(parse("53:53/udp").map(|found| found.tcp), Some(false));
        for text in ["", "x", "80:", "a:80", "0", "70000", "80/http", "9-8", "1-1000"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_port_or_none(text in "[0-9:/.\\[\\]a-z-]{0,24}") {
            let _ = parse(&text);
        }
    }
}
