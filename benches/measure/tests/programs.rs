//! Each program measures little, once.

use std::process::Command;

#[test]
fn each_program_measures() {
    for arguments in [
        &[
            "servers",
            "--rounds",
            "1",
            "--slice",
            "1",
            "--flavor",
            "redis_system",
        ][..],
        &["prefetch", "--rounds", "1"],
    ] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_tollgate-measure"));
        let output = program.args(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        assert!(
            output.stdout.contains(&b'|'),
            "{arguments:?} prints no table"
        );
    }
}
