//! Finds the folder that builds write to.

use std::path::{Path, PathBuf};

/// Returns cargo's target folder.
///
/// Shared servers are kept per target folder, so that each checkout has its own.
pub(crate) fn target() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let workspace = workspace.canonicalize().unwrap_or(workspace);
    match std::env::var_os("CARGO_TARGET_DIR") {
        // A relative folder is relative to where `cargo` was called, which is usually the workspace
        // root.
        Some(folder) => workspace.join(folder),
        None => workspace.join("target"),
    }
}
