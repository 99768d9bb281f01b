//! Snippets in, mutants out.
use super::*;
#[test]
#[ignore]
fn show_dropped() {
    let files = Files::read(&crate::project::shell().unwrap()).unwrap();
    let dropped: BTreeSet<u64> = fs::read_to_string("/work/main/target/mutants/dropped").unwrap().lines().filter_map(|l| l.parse().ok()).collect();
    for s in sources::rust(&files, &BTreeSet::new()).unwrap() {
        for m in &s.mutants {
            println!("{} {m}", if dropped.contains(&m.id) {"DROP"} else {"keep"});
        }
    }
    for (_, ms) in sources::lua(&files) { for m in ms { println!("lua {m}"); } }
}
