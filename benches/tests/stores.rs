//! What the benchmarks do to a server.

use std::time::Duration;

use criterion::Criterion;
use tollgate_benches::{Server, algorithms, compare, config};

/// Returns the options of a short run that writes its files to a folder.
fn short(folder: &tempfile::TempDir) -> Criterion {
    let short = Duration::from_millis(1);
    let config = config().sample_size(10).nresamples(10).without_plots();
    let config = config.warm_up_time(short).measurement_time(short);
    config.output_directory(folder.path())
}

#[test]
fn every_case_runs_and_deletes_its_keys_but_no_others() {
    let process = Server::new(None);
    let url = process.url().to_owned();
    let client = redis::Client::open(&*url).unwrap();
    let mut connection = client.get_connection().unwrap();
    redis::Cmd::set("mine", 1).exec(&mut connection).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut criterion = short(&folder);
    algorithms(&mut criterion);
    let server = Server::new(Some(url));
    compare(&mut criterion, &server);
    let count: u64 = redis::cmd("DBSIZE").query(&mut connection).unwrap();
    assert!(count > 10_000);
    drop(server);
    let left: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    assert_eq!(left, ["mine"]);
    for store in ["memory", "governor", "redis-rs", "fred"] {
        let estimates = format!("allowed, 1 key/{store}/new/estimates.json");
        assert!(folder.path().join(estimates).is_file(), "{store}");
    }
}

#[test]
fn a_filter_that_selects_nothing_on_a_server_connects_to_none() {
    let folder = tempfile::tempdir().unwrap();
    for filter in ["nothing", "/memory"] {
        // Nothing listens there.
        let server = Server::new(Some("redis://127.0.0.1:1".to_owned()));
        compare(&mut short(&folder).with_filter(filter), &server);
    }
}
