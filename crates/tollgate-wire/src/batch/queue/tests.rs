//! Tests of `Queues`.

use std::sync::Arc;
use std::thread;

use super::{Queue, Queues};

/// While the last user of a queue waits for the table, the next user of its name makes a new one.
#[test]
fn a_queue_that_goes_leaves_the_one_that_took_its_place() {
    let queues = Queues::new(None);
    let old = queues.get(1, b"alice");
    let (name, seen) = (old.name.clone(), Arc::downgrade(&old));
    let new = Arc::new(Queue::new(name.clone(), queues.clone()));
    thread::scope(|scope| {
        let mut table = queues.lock();
        scope.spawn(move || drop(old));
        while seen.strong_count() > 0 {
            thread::yield_now();
        }
        table.insert(name, Arc::downgrade(&new));
    });
    assert!(Arc::ptr_eq(&queues.get(1, b"alice"), &new));
    drop(new);
    assert!(queues.lock().is_empty());
}
