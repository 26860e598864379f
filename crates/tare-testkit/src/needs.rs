//! What a test may lack. Where it does, it says so in a line that the gate knows, and is over.

/// None, and a word about it, where this process is not root's.
pub fn root() -> Option<()> {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: it needs root");
    }
    is_root.then_some(())
}
