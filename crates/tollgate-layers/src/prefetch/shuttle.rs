//! A call that asks, while the task that gives back is about to end.

use std::sync::Arc;
use std::time::Duration;

use shuttle::thread;
use tollgate_core::store::Check;
use tollgate_core::{Limit, Timestamp};

use super::hand::Take;
use super::sweeper::Sweeper;
use super::table::Table;
use crate::shuttle::check;

/// Whatever is granted is in the table, and a task looks after it.
#[test]
fn units_are_looked_after_while_the_task_ends() {
    const L: Duration = Duration::from_millis(200);
    check(|| {
        let shared = Arc::new((Table::new(L), Sweeper::default()));
        let limit: Limit = "a=fixed-window:1000/1h".parse().unwrap();
        let at = |millis| Timestamp::UNIX_EPOCH.saturating_add(Duration::from_millis(millis));
        let find = |table: &Table| {
            let checks = [Check::new(&limit, "k", 1)];
            (0..4)
                .find_map(|_| Some(Arc::clone(&*table.find(&checks, 1, at(1_000))?)))
                .unwrap()
        };
        drop(find(&shared.0));
        let number = shared.1.start(at(1_000), L, L).unwrap();
        let ending = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                shared.0.forget_quiet(at(2_000));
                let next = shared.1.goes_on(number, &shared.0, at(2_000), L);
                next.is_some()
            }
        });
        let hot = find(&shared.0);
        let taken = hot.with(|hand| {
            assert!(hand.take(1, at(1_000)).is_none());
            hand.otherwise(1, at(1_000), || true)
        });
        assert!(matches!(taken, Take::Ask { .. }));
        let is_other = shared.1.start(at(1_000), L, L).is_some();
        let goes_on = ending.join().unwrap();
        drop(hot);
        assert!(is_other || goes_on);
        assert_eq!(shared.0.which(|_| true).len(), 1);
    });
}
