//! Fetches the Python packages that tests compare with.

use std::path::Path;

use xshell::Shell;

use super::wheel::pip;
use crate::outcome::Outcome;

/// Another implementation of structured fields (RFC 9651), and what it needs.
const HTTP_SF: &str = "\
http-sf==1.5.0 --hash=sha256:031282bd376549b04fcaa397d9ef351acdc5bd383435cccd1d8ea17b1661c80e
typing_extensions==4.16.0 --hash=sha256:481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8
";

/// Installs them in the folder of all servers, unless they are there.
pub(super) fn fetch(shell: &Shell, servers: &Path) -> Outcome {
    let folder = servers.join("http-sf-1.5.0");
    if !folder.exists() {
        println!("fetching http-sf 1.5.0");
        // Another process may fetch it, too, so move it into place when it is complete.
        let scratch = servers.join(format!("fetching-{}", std::process::id()));
        shell.remove_path(&scratch)?;
        let packages = scratch.join("packages");
        let target = packages.display().to_string();
        let arguments = ["install", "--target", &target];
        let outcome = pip(shell, &arguments, HTTP_SF, &scratch)
            .and_then(|()| Ok(std::fs::rename(packages, &folder)?));
        shell.remove_path(&scratch)?;
        outcome?;
    }
    println!("http-sf 1.5.0: {}", folder.display());
    Ok(())
}
