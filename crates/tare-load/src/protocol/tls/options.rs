//! Reads how connections are secured.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tare_core::config::{Fields, Node, Problems};

/// How connections are secured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct TlsOptions {
    /// Whose certificates are trusted.
    pub verify: Trust,
    /// The server's name, sent to it and expected in its certificate; none expects its address, which is not sent.
    pub name: Option<String>,
    /// "1.2" or "1.3"; none lets both sides choose.
    pub version: Option<String>,
    /// Whether a connection may resume an earlier session, which saves the expensive part.
    pub resume: bool,
}

/// Whose certificates are trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum Trust {
    /// Those signed by authorities that the machine trusts.
    System,
    /// Those signed by the certificates in a PEM file of the machine.
    File(PathBuf),
    /// Those signed by these certificates, in PEM form.
    Pem(String),
    /// Any certificate: for a lab.
    Nothing,
}

/// Reads the options.
pub(in super::super) fn read_tls(node: &Node, problems: &mut Problems) -> Option<TlsOptions> {
    let mut fields = Fields::of(node, "tls", problems)?;
    let verify = fields.get("verify").map_or(Some(Trust::System), |node| read_trust(node, problems));
    let name_node = fields.get("name");
    let name = name_node.and_then(|node| node.text(problems));
    if let (Some(node), Some(name)) = (name_node, &name)
        && rustls::pki_types::ServerName::try_from(name.as_str()).is_err()
    {
        problems.add(node.place, format!("'{name}' is not a server's name"), "such as shop.example.test");
    }
    let version = fields.choice("version", &["1.2", "1.3"], problems).map(str::to_owned);
    let resume = fields.boolean("resume", problems).unwrap_or(false);
    fields.finish(problems);
    Some(TlsOptions { verify: verify?, name, version, resume })
}

fn read_trust(node: &Node, problems: &mut Problems) -> Option<Trust> {
    let text = node.text(problems)?;
    match text.as_str() {
        "true" | "system" => Some(Trust::System),
        "false" => Some(Trust::Nothing),
        path if path.starts_with('/') => Some(Trust::File(path.into())),
        name => match problems.beside(name) {
            Ok(text) if CertificateDer::pem_slice_iter(text.as_bytes()).next().is_some_and(|first| first.is_ok()) => {
                Some(Trust::Pem(text))
            }
            Ok(_) => {
                problems.add(node.place, format!("'{name}' holds no certificate"), "give a file in PEM form");
                None
            }
            Err(message) => {
                let hint = "write true for the machine's own roots, false to trust anybody, or name a PEM file";
                problems.add(node.place, message, hint);
                None
            }
        },
    }
}
