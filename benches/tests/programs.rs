//! The programs that measure work: each measures little, once.

use std::process::Command;

#[test]
fn each_program_measures() {
    for (program, arguments) in [
        (
            env!("CARGO_BIN_EXE_ratios"),
            &["allowed, 1 key", "--rounds", "1"][..],
        ),
        (
            env!("CARGO_BIN_EXE_servers"),
            &["--quick", "--flavor", "redis_system"],
        ),
        (env!("CARGO_BIN_EXE_prefetch"), &["--quick"]),
    ] {
        let output = Command::new(program).args(arguments).output();
        let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {errors}");
        assert!(output.stdout.contains(&b'|'), "{program} prints no table");
    }
}
