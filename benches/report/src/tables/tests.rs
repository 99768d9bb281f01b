//! Tests of `tables.rs`.

use super::*;

#[test]
fn what_exceeds_its_bound_is_bold() {
    let rows = "limiter,threads,admitted,should_be_at_most\n\
            good,1,100,100\ngood,4,99,100\nbad,1,100,100\nbad,4,101,100\n";
    let table = admitted(&Rows::parse(rows).unwrap());
    assert_eq!(
        table,
        "| limiter | should be at most | threads: 1 | threads: 4 |\n\
             |---|---|---:|---:|\n\
             | good | 100 | 100 | 99 |\n\
             | bad | 100 | 100 | **101** |\n"
    );
}

#[test]
fn peers_are_next_to_gcra() {
    let rows = "client,calls_in_flight,call,thousand_calls_per_second,p50_us,p99_us,server_us\n\
            redis-rs,1,\"gcra, allowed\",9,80,90,70\n\
            redis-rs,64,\"gcra, allowed\",100,500,900,8\n\
            redis-rs,256,\"gcra, allowed\",110,2000,3000,8\n\
            fred,1,\"gcra, allowed\",1,1,1,1\n\
            redis-rs,256,INCR,1,1,1,1\n\
            redis-rs,64,\"peer: other, allowed\",50,900,1200,17\n\
            redis-rs,256,\"peer: other, allowed\",50,900,1200,16\n\
            redis-rs,256,\"peer: other, denied\",50,900,1200,16\n";
    let table = peers_on_server(&Rows::parse(rows).unwrap());
    let rows: Vec<&str> = table.lines().skip(2).collect();
    assert_eq!(
        rows,
        [
            "| gcra | 80.0 | 100 | 900 | 8.00 | 1.00 |",
            "| other | – | 50.0 | 1200 | 16.0 | 2.00 |",
        ]
    );
}

#[test]
fn ratios_are_of_the_same_server_client_and_number_of_calls() {
    let rows = "server,client,calls_in_flight,call,server_us,server_time_to_that_of_incr,time_to_that_of_the_script_by_hand\n\
            R,redis-rs,256,INCR,2,1,\n\
            R,redis-rs,256,\"gcra, allowed\",9,4.5,1.02\n\
            R,redis-rs,256,\"gcra, denied\",6,3,\n\
            R,redis-rs,1,\"gcra, allowed\",90,1.1,\n\
            R,redis-rs,1,INCR,60,1,\n\
            R,redis-rs,256,\"two gcra together, allowed\",18,9,\n";
    let rows = Rows::parse(rows).unwrap();
    let cost = cost(&rows);
    assert!(cost.contains("| gcra | 4.50 / 3.00 |"), "{cost}");
    assert!(cost.contains("| two gcra together | 9.00 |"), "{cost}");
    assert!(cost.contains("| sliding counter | – |"), "{cost}");
    let targets = targets(&rows);
    assert!(
        targets.contains("| server, GCRA : `INCR` | 4.5 | 1.50 / – / 4.50 |"),
        "{targets}"
    );
    assert!(
        targets.contains("| server, two limits : one | 1.4 | – / – / 2.00 |"),
        "{targets}"
    );
    assert!(
        targets.contains("median of all cases | 1.03 | – / – / 1.02 |"),
        "{targets}"
    );
}
