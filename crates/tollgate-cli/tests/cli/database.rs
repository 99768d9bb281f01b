//! Keys in a database, in builds with the feature `sql`.

use tollgate_testkit::Postgres;

use crate::program::{SAMPLE, fails, run, stdout};

#[test]
fn keys_in_a_database_are_checked_and_changed_but_not_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let server = Postgres::start();
    let file = format!("sqlite:{}", folder.path().join("limits.db").display());
    for store in [server.url(), file] {
        let says = |status: i32, command: &str| {
            let line =
                format!("{command} --store {store} --key alice --limit login=fixed-window:2/1d");
            let output = run(&line);
            assert_eq!(output.status.code(), Some(status), "{line}: {output:?}");
            stdout(&output)
        };
        for (status, command, left) in [
            (0, "peek", 2),
            (0, "check", 1),
            (0, "check", 0),
            (1, "check", 0),
            (0, "give", 1),
            (0, "charge", 0),
        ] {
            let told = says(status, &format!("{command} --json"));
            assert!(
                told.contains(&format!("\"remaining\":{left}")),
                "{command}: {told}"
            );
        }
        let blocked = run(&format!(
            "block --store {store} --key alice --limit ban=block:15m"
        ));
        assert!(blocked.status.success(), "{blocked:?}");
        let key = format!("--store {store} --key alice");
        for (line, why) in [
            (format!("reset {key}"), "are not looked for"),
            (format!("explain {key}"), "are not looked for"),
            (format!("list --store {store}"), "are not looked for"),
            (format!("doctor --store {store}"), "no checks of databases"),
            (
                format!("peek {key} --limit a=gcra:1/1s --prefix other"),
                "leave out --prefix",
            ),
            (
                format!("replay {SAMPLE} --limit gcra:1/1s --key ip --store {store}"),
                "keys of its own",
            ),
        ] {
            fails(&run(&line), &[why]);
        }
    }
}
