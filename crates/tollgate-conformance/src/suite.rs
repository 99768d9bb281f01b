//! Checks promises by their names: one, or all of a suite on several threads.

#![allow(
    clippy::vec_init_then_push,
    reason = "a list calls a macro once, which pushes every promise"
)]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use tollgate_core::{Limit, Store, lease, schedule};

use crate::harness::{self, Source};
use crate::plan::Plan;
use crate::watched::Watched;
use crate::{block_on, families, leases, promises, schedules};

/// The suite about limits.
pub type Limits = dyn Store;
/// The suite about schedules.
pub type Schedules = dyn schedule::Store;
/// The suite about leases.
pub type Leases = dyn lease::Store;

/// A harness of any type for one kind of store.
type Shared<S> = Arc<dyn Source<S>>;

/// A kind of store whose promises are listed.
pub trait Suite: 'static {
    #[doc(hidden)]
    fn promises() -> Vec<Promise<Self>>;

    #[doc(hidden)]
    fn check(promise: &Promise<Self>, harness: &Shared<Self>, plan: &Plan) {
        block_on((promise.check)(&**harness, plan));
    }
}

/// A promise, the limits to check it on, and how.
#[allow(missing_debug_implementations, reason = "private to the suite")]
pub struct Promise<S: ?Sized> {
    name: &'static str,
    limits: fn() -> Vec<Limit>,
    check: Check<S>,
}

type Check<S> =
    for<'a> fn(&'a (dyn Source<S> + 'static), &'a Plan) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Makes a vector of the promises of a list.
macro_rules! __table {
    ($all:ident $([$($family:ident)*] $promises:tt)+) => {
        $($(
            __table! { @each $all $family (families::$family) [promises] $promises }
        )*)+
    };
    ($all:ident $family:ident $promises:tt) => {
        __table! { @each $all $family (Vec::new) [$family::promises] $promises }
    };
    (
        @each $all:ident $family:ident $limits:tt $module:tt
        { $($(#[$mark:ident])? $promise:ident,)* }
    ) => {
        $(__table! { @one $all $family $limits $module $promise })*
    };
    (@one $all:ident $family:ident $limits:tt [$($module:ident)::+] $promise:ident) => {
        $all.push(Promise {
            name: concat!(stringify!($family), ".", stringify!($promise)),
            limits: $limits,
            check: |harness, plan| Box::pin($($module)::+::$promise(harness, plan)),
        });
    };
}
pub(crate) use __table;

impl Suite for Limits {
    fn promises() -> Vec<Promise<Self>> {
        let mut all = Vec::new();
        crate::__promises! { __table all }
        all
    }

    fn check(promise: &Promise<Self>, harness: &Shared<Self>, plan: &Plan) {
        let harness = Watched::new(Arc::clone(harness), Arc::clone(plan.tally()));
        block_on((promise.check)(&harness, plan));
        harness.tell(promise.name);
    }
}

impl Suite for Schedules {
    fn promises() -> Vec<Promise<Self>> {
        let mut all = Vec::new();
        crate::__schedule_promises! { __table all }
        all
    }
}

impl Suite for Leases {
    fn promises() -> Vec<Promise<Self>> {
        let mut all = Vec::new();
        crate::__lease_promises! { __table all }
        all
    }
}

/// Checks the promise with this name, and saves failing seeds next to `file`.
///
/// # Panics
///
/// If the promise is broken.
pub fn check<S: Suite + ?Sized>(
    harness: Arc<dyn Source<S>>,
    name: &str,
    manifest_dir: &str,
    file: &str,
) {
    let promises = S::promises();
    let promise = promises.iter().find(|promise| promise.name == name);
    check_one(promise.unwrap(), &harness, manifest_dir, file);
}

/// Checks all promises, as many at a time as there are processors, and saves failing seeds next to
/// `file`.
///
/// # Panics
///
/// If promises are broken, with all their names.
#[expect(
    clippy::print_stdout,
    reason = "a promise that hangs is the last of those on its thread"
)]
pub fn check_all<S: Suite + ?Sized>(harness: Arc<dyn Source<S>>, manifest_dir: &str, file: &str) {
    let promises = S::promises();
    let next = AtomicUsize::new(0);
    let broken = Mutex::new(Vec::new());
    let work = || {
        while let Some(promise) = promises.get(next.fetch_add(1, Ordering::Relaxed)) {
            println!("checking {}", promise.name);
            let check = || check_one(promise, &harness, manifest_dir, file);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(check)) {
                let reason = reason(&*panic);
                broken.lock().unwrap().push((promise.name, reason));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut broken = broken.into_inner().unwrap();
    broken.sort();
    let names: Vec<_> = broken.iter().map(|(name, _)| *name).collect();
    let reasons = broken.iter();
    let reasons = reasons.map(|(name, reason)| format!("{name}: {reason}\n"));
    assert!(
        broken.is_empty(),
        "{}broken promises: {}",
        reasons.collect::<String>(),
        names.join(", ")
    );
}

fn check_one<S: Suite + ?Sized>(
    promise: &Promise<S>,
    harness: &Shared<S>,
    manifest_dir: &str,
    file: &str,
) {
    let histories = harness::cases().unwrap_or_else(|| harness.histories());
    let plan = Plan::new((promise.limits)()).with_histories(histories);
    let plan = plan.keeping_failures(manifest_dir, file, promise.name);
    S::check(promise, harness, &plan);
}

/// Returns the message of a panic.
fn reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kind of store with two promises that are broken, and one that is kept.
    struct Nothing;

    impl Suite for Nothing {
        fn promises() -> Vec<Promise<Self>> {
            let promise = |name, check| Promise {
                name,
                limits: Vec::new,
                check,
            };
            vec![
                promise("toy.late", |_, _| Box::pin(async { panic!("too late") })),
                promise("toy.kept", |_, _| Box::pin(async {})),
                promise("toy.early", |_, _| {
                    Box::pin(async { panic!("{} early", 2) })
                }),
            ]
        }
    }

    impl Source<Self> for Nothing {
        fn store<'a>(&'a self) -> Pin<Box<dyn Future<Output = Arc<Self>> + Send + 'a>> {
            Box::pin(async { Arc::new(Self) })
        }

        fn histories(&self) -> u32 {
            1
        }
    }

    #[test]
    fn every_broken_promise_is_named_with_its_reason() {
        let all = || check_all::<Nothing>(Arc::new(Nothing), env!("CARGO_MANIFEST_DIR"), file!());
        let panic = catch_unwind(all).unwrap_err();
        let expected =
            "toy.early: 2 early\ntoy.late: too late\nbroken promises: toy.early, toy.late";
        assert_eq!(reason(&*panic), expected);
    }

    #[test]
    fn promises_are_found_by_name() {
        let one =
            |name| check::<Nothing>(Arc::new(Nothing), name, env!("CARGO_MANIFEST_DIR"), file!());
        one("toy.kept");
        let panic = catch_unwind(|| one("toy.late")).unwrap_err();
        assert_eq!(reason(&*panic), "too late");
    }
}
