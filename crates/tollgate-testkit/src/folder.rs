//! Where builds leave their files.

use std::path::{Path, PathBuf};

/// Returns the folder that `cargo` builds into.
///
/// It is what tells two checkouts apart, so that each has shared servers of its own.
pub(crate) fn target() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let workspace = workspace.canonicalize().unwrap_or(workspace);
    match std::env::var_os("CARGO_TARGET_DIR") {
        // A relative folder is relative to where `cargo` was called, which is most often the root.
        Some(folder) => workspace.join(folder),
        None => workspace.join("target"),
    }
}
