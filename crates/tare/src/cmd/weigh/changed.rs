//! Whether what a folder has a copy of has changed since the copy was made.

use super::args::About;
use super::{load, local};
use anyhow::Result;
use std::path::Path;

/// Tells which script, and which files of a command, are no longer as the copies of them in the folder.
///
/// # Errors
/// When the script cannot be read.
pub(super) fn tell(about: &About, folder: &Path, say: &mut dyn FnMut(&str)) -> Result<()> {
    let mut told = |path: &Path| {
        let shown = path.display();
        say(&format!("{shown} has changed since; the folder has the copy of then: remove it, or --out DIR"));
    };
    if let Some((path, name, text)) = load::script_copy(about)?
        && std::fs::read(folder.join(name)).is_ok_and(|copy| copy != text.as_bytes())
    {
        told(path);
    }
    if let Some(words) = about.local_command() {
        local::changed(words, folder).iter().for_each(|path| told(path));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::weigh::args::typed::about;

    #[test]
    fn a_script_that_has_changed_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let text = "export default function () { http.get(__ENV.TARGET) }";
        let script = tare_testkit::files::write(&folder.path().join("load.js"), text);
        tare_testkit::files::write(&folder.path().join("weigh-x/script.js"), text);
        let lines = || {
            let mut lines = Vec::new();
            let about = about(&["x", "--k6", script.to_str().unwrap()]);
            tell(&about, &folder.path().join("weigh-x"), &mut |line: &str| lines.push(line.to_owned())).unwrap();
            lines
        };
        assert_eq!(lines(), Vec::<String>::new());
        std::fs::write(&script, format!("{text}\n")).unwrap();
        let told = lines();
        assert!(told.len() == 1 && told[0].contains("load.js has changed since"), "{told:?}");
    }
}
