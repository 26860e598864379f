//! Links that packages' installation scripts would make with `update-alternatives`. The scripts are not run, because
//! what they do depends on the machine. The links are made here, because programs such as `iptables` and `awk` cannot
//! be found without them.

use std::collections::BTreeMap;

/// A link to be made: where, and what it points to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Alternative {
    /// Absolute path of the link.
    pub(crate) link: String,
    /// Name under `/etc/alternatives`.
    pub(crate) name: String,
    /// Absolute path of the file.
    pub(crate) path: String,
}

/// The links that the installation scripts `scripts` ask for: for each, of all that offer themselves, the one with
/// the highest priority. Calls with variables in them are left out.
pub(crate) fn wanted<'a>(scripts: impl IntoIterator<Item = &'a str>) -> Vec<Alternative> {
    let mut best: BTreeMap<String, (i64, Vec<Alternative>)> = BTreeMap::new();
    for script in scripts {
        for line in script.replace("\\\n", " ").lines() {
            let Some((priority, links)) = parse(line) else { continue };
            let name = links[0].name.clone();
            if best.get(&name).is_none_or(|(known, _)| *known < priority) {
                best.insert(name, (priority, links));
            }
        }
    }
    best.into_values().flat_map(|(_, links)| links).filter(|link| !link.link.contains("/man/")).collect()
}

/// `update-alternatives --install LINK NAME PATH PRIORITY [--slave LINK NAME PATH]...`
fn parse(line: &str) -> Option<(i64, Vec<Alternative>)> {
    let (_, call) = line.split_once("update-alternatives ")?;
    let (_, arguments) = call.split_once("--install ")?;
    let mut slaves = arguments.split("--slave ");
    let main = slaves.next()?;
    let priority = main.split_whitespace().nth(3)?.trim_end_matches(';').parse().ok()?;
    let mut links = vec![alternative(main)?];
    links.extend(slaves.filter_map(alternative));
    Some((priority, links))
}

/// `LINK NAME PATH`, if they are plain: no variables, no quotes.
fn alternative(text: &str) -> Option<Alternative> {
    let plain = |word: &&str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._+-".contains(&byte));
    let words: Vec<&str> = text.split_whitespace().take(3).filter(plain).collect();
    let [link, name, path] = words[..] else { return None };
    let good = link.starts_with('/') && path.starts_with('/') && !name.contains('/') && !name.starts_with('.');
    good.then(|| Alternative { link: link.to_owned(), name: name.to_owned(), path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_priority_wins_and_its_slaves_come_along() {
        let script = "\
if true; then
	update-alternatives \\
	  --install /usr/sbin/iptables iptables /usr/sbin/iptables-legacy 10 \\
	  --slave /usr/sbin/iptables-save iptables-save /usr/sbin/iptables-legacy-save
        update-alternatives \\
          --install /usr/sbin/iptables iptables /usr/sbin/iptables-nft 20 \\
          --slave /usr/sbin/iptables-save iptables-save /usr/sbin/iptables-nft-save \\
          --slave /usr/share/man/man8/x.gz x.gz /usr/share/man/man8/y.gz
fi
update-alternatives --quiet --install /usr/bin/$a a /usr/bin/$b 10
update-alternatives --install ../x y z 1
";
        let links: Vec<String> = wanted([script]).iter().map(|a| format!("{} {}", a.link, a.path)).collect();
        let expected =
            ["/usr/sbin/iptables /usr/sbin/iptables-nft", "/usr/sbin/iptables-save /usr/sbin/iptables-nft-save"];
        assert_eq!(links, expected);
    }
}
