//! Tests of `targets.rs`.

use super::*;

#[test]
fn a_target_is_met_by_all_cases_or_the_obstacle_is_named() {
    let row = |aim, found: &[f64]| {
        let mut table = Table(String::new());
        let target = Target {
            what: "a : b",
            aim,
            found: found.iter().copied().map(Some).collect(),
            obstacle: "it is slow".to_owned(),
        };
        target.row(&mut table);
        table.0
    };
    let most = Aim::AtMost(1.5);
    assert_eq!(row(most, &[1.5]), "| a : b | at most 1.5 | 1.50 | yes |\n");
    assert_eq!(
        row(most, &[1.6, 1.4]),
        "| a : b | at most 1.5 | 1.40 to 1.60 | in part: it is slow |\n"
    );
    assert_eq!(
        row(Aim::AtLeast(2.0), &[1.9]),
        "| a : b | at least 2 | 1.90 | no: it is slow |\n"
    );
    assert_eq!(row(most, &[]), "| a : b | at most 1.5 | – | – |\n");
}

#[test]
fn targets_in_memory_compare_the_same_outcome_and_keys() {
    let rows = "outcome,keys,threads,limiter,ns,ratio_to_governor\n\
            allowed,1 key,1,gcra,40,0.6\n\
            allowed,1 key,1,two-gcra,60,1\n\
            allowed,1 key,1,gcra-awaited,90,1\n\
            denied,1 key,1,gcra,50,0.7\n\
            denied,1 key,1,two-gcra,50,1\n\
            allowed,10 k keys,1,gcra,80,0.8\n\
            allowed,10 k keys,2,gcra,100,0.8\n";
    let text = in_memory_targets(&Rows::parse(rows).unwrap());
    for row in [
        "| GCRA : governor, one key, one thread | at most 0.65 | 0.60 to 0.70 | in part",
        "| two limits : one, one key, one thread | at most 1.4 | 1.00 to 1.50 | in part",
        "| awaited through `dyn Store`, in ns above a call that is not | at most 15 | 50.0 | no",
        "one, calls a second, ten thousand and a million keys | at least 1.8 | 1.60 | no",
        "| four limits : one, one key, one thread | at most 2 | – | – |",
    ] {
        assert!(text.contains(row), "{row} in {text}");
    }
}

#[test]
fn targets_on_a_server_compare_with_each_other_limiter() {
    let columns = "server,client,calls_in_flight,call,thousand_calls_per_second,p99_us,server_us\n";
    let peers = format!(
        "{columns}R,redis-rs,64,\"gcra, allowed\",110,80,9\n\
             R,redis-rs,64,\"peer: a, allowed\",100,100,8\n\
             R,redis-rs,64,\"peer: b, allowed\",50,160,8\n\
             R,redis-rs,64,\"peer: b, denied\",500,1,1\n"
    );
    let servers = format!(
        "{columns}R,redis-rs,256,\"gcra, allowed\",1,1,5\n\
             R,redis-rs,256,\"four gcra together, allowed\",1,1,11\n"
    );
    let [servers, peers] = [&servers, &peers].map(|text| Rows::parse(text).unwrap());
    let text = on_server_targets(&servers, &peers);
    for row in [
        "each other limiter, 64 in flight | at least 1.1 | 1.10 to 2.20 | yes |",
        "each other limiter : GCRA, 64 in flight | at least 1.1 | 1.25 to 2.00 | yes |",
        "| server, four limits : one | at most 2 | 2.20 | no: ",
    ] {
        assert!(text.contains(row), "{row} in {text}");
    }
}

#[test]
fn targets_of_batches_compare_the_same_server_client_and_keys() {
    let columns =
        "server,client,keys,limit,callers,sent,decisions_per_second,client_ns,server_ns\n";
    let row = |client: &str, sent: &str, rate: u64| {
        format!("R,{client},hot,l=gcra:1000000000/1000d,1024,{sent},{rate},400,50\n")
    };
    let rows = [
        row("redis", "alone", 100_000),
        row("redis", "together", 1_600_000),
        row("fred", "alone", 200_000),
        row("fred", "together", 1_800_000),
    ];
    let text = in_batches_targets(&Rows::parse(&(columns.to_owned() + &rows.concat())).unwrap());
    for row in [
        "one hot key, 1,024 callers | at least 10 | 9.00 to 16.0 | in part: ",
        "million decisions a second, the same | at least 1.5 | 1.60 to 1.80 | yes |",
        "µs of the server per decision, the same | at most 0.3 | 0.05 | yes |",
        "1,000 keys, 256 callers | at least 1.8 | – | – |",
    ] {
        assert!(text.contains(row), "{row} in {text}");
    }
}
