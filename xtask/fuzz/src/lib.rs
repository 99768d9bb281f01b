//! The targets: functions that take any bytes, and panic if the code under test is wrong about them.
//!
//! Each target has seeds in the folder `seeds` and a program in `fuzz_targets`.

#![allow(
    dead_code,
    unused_imports,
    reason = "no target uses all of the modules of `tollgate-cli`"
)]
#![allow(
    clippy::missing_panics_doc,
    reason = "a panic is how a target reports a mistake"
)]

mod program;
mod proxies;
mod server;
mod states;
mod texts;

pub use program::{logs, messages};
pub use proxies::{addresses, hints};
pub use server::replies;
pub use states::states;
pub use texts::{limits, quotas};

/// A target takes any bytes.
pub type Target = fn(&[u8]);

/// All targets, by the names of their programs and of their folders of seeds.
pub const TARGETS: [(&str, Target); 8] = [
    ("addresses", addresses),
    ("hints", hints),
    ("limits", limits),
    ("logs", logs),
    ("messages", messages),
    ("quotas", quotas),
    ("replies", replies),
    ("states", states),
];

// The modules of `tollgate-cli` that read files. It is a program without a library, and a library only
// for this would have to be published with it.
#[path = "../../../crates/tollgate-cli/src/failure.rs"]
mod failure;
#[path = "../../../crates/tollgate-cli/src/file.rs"]
mod file;
#[path = "../../../crates/tollgate-cli/src/input/mod.rs"]
mod input;
#[path = "../../../crates/tollgate-cli/src/commands/schedule/plan/messages/mod.rs"]
mod planned;
#[path = "../../../crates/tollgate-cli/src/progress.rs"]
mod progress;
#[path = "../../../crates/tollgate-cli/src/signals.rs"]
mod signals;
#[path = "../../../crates/tollgate-cli/src/text/mod.rs"]
mod text;
#[path = "../../../crates/tollgate-cli/src/time.rs"]
mod time;
#[path = "../../../crates/tollgate-cli/src/trace.rs"]
mod trace;
