//! The folder that a tool gets: for its result, and with the files that the workload gives it.

use serde::{Deserialize, Serialize};
use std::io::Read as _;
use std::path::Path;
use tare_core::config::{Node, Problems};
use tare_core::fault::{Doing, Fault};
use tempfile::TempDir;

/// The longest result in a file: 64 MiB.
const RESULT_MAX: u64 = 64 << 20;

/// A file that the tool gets, such as its script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolFile {
    /// Its path, relative to the workload and to the folder of such files, without `..`.
    pub name: String,
    /// What is in it.
    #[serde(with = "base64_text")]
    pub content: Vec<u8>,
}

/// Bytes as text of base64.
mod base64_text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Reads `files:`, a list of files beside the workload.
pub(super) fn read_files(node: &Node, problems: &mut Problems) -> Vec<ToolFile> {
    let mut files = Vec::new();
    for item in node.items(problems).unwrap_or_default() {
        let Some(name) = item.text(problems) else { continue };
        match problems.bytes_beside(&name) {
            Ok(content) => files.push(ToolFile { name, content }),
            Err(message) => problems.add(item.place, message, "name files beside the workload, of 4MiB at most each"),
        }
    }
    files
}

/// A folder for one command; removed when dropped.
pub(super) struct ToolFolder {
    /// The file to which the tool may write its result.
    pub output: String,
    /// The folder with its files.
    pub files: String,
    _folder: TempDir,
}

impl ToolFolder {
    /// A folder with copies of `files`, of which the user that runs the tool is the owner.
    ///
    /// # Errors
    /// When it cannot be made, or a file cannot be written.
    pub(super) fn new(files: &[ToolFile]) -> Result<Self, Fault> {
        let folder = tempfile::Builder::new().prefix("tare-exec-").tempdir();
        let folder = folder.doing("make a folder for the tool's result")?;
        let place = folder.path().join("files");
        for file in files {
            let path = place.join(&file.name);
            let above = path.parent().unwrap_or(&place);
            std::fs::create_dir_all(above).doing("make a folder for the tool's files")?;
            std::fs::write(&path, &file.content).doing(format_args!("write the tool's file {}", file.name))?;
        }
        let text = |path: &Path| path.display().to_string();
        Ok(ToolFolder { output: text(&folder.path().join("result")), files: text(&place), _folder: folder })
    }

    /// Removes an earlier result.
    ///
    /// # Errors
    /// When there is one that cannot be removed.
    pub(super) fn clear(&self) -> Result<(), Fault> {
        match std::fs::remove_file(&self.output) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Fault::from_error("remove the result of settling", &error))
            }
            _ => Ok(()),
        }
    }

    /// The content of the result's file if the command names it, otherwise what was printed.
    ///
    /// # Errors
    /// When the file cannot be read, or is too long.
    pub(super) fn read_or(&self, arguments: &[String], printed: &str) -> Result<String, Fault> {
        if !arguments.iter().any(|argument| argument.contains(&self.output)) {
            return Ok(printed.to_owned());
        }
        let file = std::fs::File::open(&self.output);
        let file = file.doing("open the file to which the tool should write its result")?;
        let mut text = Vec::new();
        file.take(RESULT_MAX + 1).read_to_end(&mut text).doing("read the tool's result")?;
        if text.len() as u64 > RESULT_MAX {
            return Err(Fault::new("the tool's result is longer than 64 MiB")
                .remedy("let it write less, or measure for a shorter time"));
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_there_as_long_as_the_folder() {
        let file = |name: &str| ToolFile { name: name.to_owned(), content: b"a\0b".to_vec() };
        let files = vec![file("script.js"), file("lib/more.js")];
        let json = serde_json::to_value(&files).unwrap();
        assert_eq!(json[0]["content"], "YQBi");
        assert_eq!(serde_json::from_value::<Vec<ToolFile>>(json).unwrap(), files);
        let folder = ToolFolder::new(&files).unwrap();
        let place = Path::new(&folder.files).to_owned();
        assert_eq!(std::fs::read(place.join("lib/more.js")).unwrap(), b"a\0b");
        drop(folder);
        assert!(!place.exists());
    }
}
