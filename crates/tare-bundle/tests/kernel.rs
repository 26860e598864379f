//! The kernel for guests is really there.

use crate::packages::{kept_store, unless_unreachable};
use tare_core::bundle::BundleStore;

#[test]
fn the_kernel_has_its_modules_and_is_fetched_once() {
    let Some(()) = tare_testkit::needs::root() else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = kept_store(folder.path());
    let Some(kernel) = unless_unreachable(store.kernel()) else { return };
    println!("{kernel:?}");
    assert!(std::fs::metadata(&kernel.image).unwrap().len() > 1 << 20);
    assert!(kernel.modules.ends_with(&kernel.release));
    assert!(kernel.modules.join("modules.dep").is_file());
    assert_eq!(store.kernel().unwrap(), kernel);
}
