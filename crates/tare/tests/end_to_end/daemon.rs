//! Images that the container engine on this machine has, as sources of bundles.

use crate::end_to_end::lab::{Lab, flat, text};
use std::process::Command;

/// Images in the engine, removed at the end.
struct Images(Vec<String>);

impl Images {
    /// Imports a tree of one program, with this text in it, as an image of this name; its ID.
    fn import(&mut self, name: &str, content: &str) -> String {
        let script = "set -e; d=$(mktemp -d); trap 'rm -rf $d' EXIT; mkdir $d/bin\n\
                      printf '#!/bin/go\\n# %s\\n' \"$2\" > $d/bin/go; chmod 755 $d/bin/go\n\
                      tar -c -C $d . | docker import --change 'CMD [\"/bin/go\"]' --change 'EXPOSE 8080' - \"$1\"";
        let made = Command::new("sh").args(["-c", script, "sh", name, content]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let id = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        self.0.push(id.clone());
        id
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        for id in &self.0 {
            let _ = Command::new("docker").args(["rmi", "-f", id]).output();
        }
    }
}

/// The digest of the bundle of an image that the engine has.
fn digest(lab: &Lab, image: &str) -> String {
    let said = lab.expect(0, &["bundle", "build", "--image", image]);
    said.lines().find(|line| line.starts_with("sha256:")).expect("it says the digest").to_owned()
}

#[test]
fn a_bundle_of_an_image_of_the_engine_follows_the_tag() {
    let Some(lab) = Lab::with_engine(&["docker", "tar"]) else { return };
    let mut images = Images(Vec::new());
    let tag = format!("tare-test-{}/server:1", std::process::id());
    let image = format!("docker-daemon:{tag}");
    let first_id = images.import(&tag, "one");
    let first = digest(&lab, &image);
    assert_eq!(digest(&lab, &image), first);
    let second_id = images.import(&tag, "two");
    let second = digest(&lab, &image);
    assert!(first != second && first_id != second_id, "the tag was built again");
    assert_eq!(digest(&lab, &format!("{image}@{first_id}")), first, "the ID decides");
    let listed = flat(&lab.expect(0, &["bundle", "list"]));
    assert!(listed.contains(&format!("{image}@")), "{listed}");
    lab.expect(0, &["bundle", "rm", &first, &second]);
}

#[test]
fn an_image_of_the_engine_is_read_with_the_workload_that_names_it() {
    let Some(lab) = Lab::with_engine(&["docker", "tar"]) else { return };
    let mut images = Images(Vec::new());
    let tag = format!("tare-test-{}/reader:1", std::process::id());
    images.import(&tag, "one");
    let workload = |name: &str| {
        format!(
            "workload: w\nload: {{protocol: {{http: {{requests: [{{path: /}}]}}}}}}\nservices:\n  \
             s: {{bundle: {{image: \"docker-daemon:{name}\"}}}}\n"
        )
    };
    let file = lab.write("w/workload.yaml", workload(&tag));
    let said = flat(&lab.expect(0, &["check", text(&file)]));
    assert!(said.contains("command from the image: /bin/go") && said.contains("ports from the image: 8080"), "{said}");
    let file = lab.write("w/workload.yaml", workload(&tag.replace("reader:1", "raeder:1")));
    let said = flat(&lab.expect(2, &["check", text(&file)]));
    assert!(said.contains("w/workload.yaml:4:") && said.contains("the container engine has no image"), "{said}");
    assert!(said.contains(&format!("did you mean {tag}")), "{said}");
    let said = flat(&lab.expect(2, &["bundle", "build", "--image", "docker-daemon:a b"]));
    assert!(said.contains("'a b' is not the name of an image"), "{said}");
}
