//! Where the checkout is.

use std::path::Path;

/// The checkout that is measured.
pub fn product() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}
