//! What a test may lack. Where it does, it says so in a line that the gate knows, and is over.

/// None if this process does not run as root; then it prints the line by which the gate counts a skip.
pub fn root() -> Option<()> {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: it needs root");
    }
    is_root.then_some(())
}
