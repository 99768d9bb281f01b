//! `cargo xtask fuzz`: runs the fuzz targets of `xtask/fuzz` with libFuzzer.

use clap::Args;
use xshell::{Shell, cmd};

use crate::outcome::Outcome;
use crate::servers;

/// The folder of the targets, and of their seeds.
const FOLDER: &str = "xtask/fuzz";

/// What makes libFuzzer see which branches an input takes. Stable compilers know these options, too.
const INSTRUMENTED: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions";

/// Which targets to run, and how long.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The targets to run; all of them if none is given.
    targets: Vec<String>,
    /// How many seconds each target runs.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

impl Arguments {
    /// Returns the arguments that run every target briefly.
    pub(crate) fn briefly() -> Self {
        Self {
            targets: Vec::new(),
            seconds: 4,
        }
    }
}

pub(crate) fn run(shell: &Shell, arguments: &Arguments) -> Outcome {
    let known = targets(shell)?;
    for name in &arguments.targets {
        if !known.contains(name) {
            return Err(format!("{name} is no target; give some of {}", known.join(", ")).into());
        }
    }
    let chosen = match &arguments.targets[..] {
        [] => &known,
        _ => &arguments.targets,
    };
    let target = servers::target(shell);
    let host = host(shell)?;
    // With `--target`, build scripts and procedural macros are not instrumented.
    let build = cmd!(
        shell,
        "cargo build --locked --release --package xtask-fuzz --features libfuzzer --bins --target {host}"
    );
    build
        .env("RUSTFLAGS", INSTRUMENTED)
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .run()?;
    let seconds = arguments.seconds.to_string();
    for name in chosen {
        println!("fuzz: {name}, {seconds} s");
        let program = target.join(&host).join("release").join(name);
        // What was found is kept, so that the next run goes on from there.
        let found = target.join("fuzz").join(name);
        shell.create_dir(&found)?;
        let failures = target.join("fuzz").join(format!("{name}-failure-"));
        let seeds = format!("{FOLDER}/seeds/{name}");
        let ran = cmd!(
            shell,
            "{program} -max_total_time={seconds} -timeout=10 -verbosity=0 -print_funcs=0 -print_final_stats=1 -artifact_prefix={failures} {found} {seeds}"
        );
        let ran = ran.quiet().ignore_status().output()?;
        let text = String::from_utf8_lossy(&ran.stderr);
        // Hundreds of lines are words for a dictionary, for which libFuzzer has no option.
        for line in text.lines() {
            if !ran.status.success() || line.starts_with("stat::") {
                println!("{line}");
            }
        }
        if !ran.status.success() {
            return Err(format!(
                "{name} failed; run {} with the file that it names to see it again, mend it, and copy the file to {seeds}",
                program.display()
            )
            .into());
        }
    }
    Ok(())
}

/// Returns the names of the targets, sorted.
fn targets(shell: &Shell) -> Result<Vec<String>, xshell::Error> {
    let files = shell.read_dir(format!("{FOLDER}/fuzz_targets"))?;
    let names = files.iter().filter_map(|path| path.file_stem());
    let mut names: Vec<String> = names.map(|name| name.display().to_string()).collect();
    names.sort();
    Ok(names)
}

/// Returns the platform that the compiler runs on.
fn host(shell: &Shell) -> Result<String, Box<dyn std::error::Error>> {
    let version = cmd!(shell, "rustc --version --verbose").quiet().read()?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc does not say its host")?.to_owned())
}
