//! `Plan`: the limits to check a promise on, the number of histories, and the file for failures.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestError, TestRunner};
use tokio::runtime::Handle;
use tollgate_core::Limit;

use crate::harness::HISTORIES;
use crate::watched::Tally;

/// How often histories are run again that asked the store nothing.
const MOST_RUNS: u32 = 20;

/// Why a history ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The store broke the promise.
    Broken(String),
    /// The store does not support what the history needs, or the clock cannot move as needed.
    Moot,
}

/// The result of a history.
pub(crate) type Outcome<T = ()> = Result<T, Stop>;

/// Turns a moot outcome into `None`.
pub(crate) fn unless_moot<T>(outcome: Outcome<T>) -> Outcome<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Stop::Moot) => Ok(None),
        Err(broken) => Err(broken),
    }
}

/// The limits to check a promise on, the number of histories, and the file for failing seeds.
#[derive(Clone, Debug)]
pub struct Plan {
    limits: Vec<Limit>,
    histories: u32,
    regressions: Option<&'static str>,
    tally: Arc<Tally>,
}

impl Plan {
    /// Returns a plan that checks `limits` on 64 histories and saves no failing seeds.
    #[must_use]
    pub fn new(limits: Vec<Limit>) -> Self {
        Self {
            limits,
            histories: HISTORIES,
            regressions: None,
            tally: Arc::default(),
        }
    }

    /// Saves the seeds of failing histories next to the test, in `FILE-STEM.regressions/CASE.txt`.
    ///
    /// Commit these files: every later run tries them first. Pass the test crate's
    /// `CARGO_MANIFEST_DIR` and `file!()`. Cargo makes the latter relative to the workspace, whose
    /// folder may be any ancestor of the crate's.
    #[must_use]
    pub fn keeping_failures(mut self, manifest_dir: &str, file: &str, case: &str) -> Self {
        let test = Path::new(manifest_dir)
            .ancestors()
            .map(|ancestor| ancestor.join(file))
            .find(|path| path.exists());
        self.regressions = test.and_then(|test| {
            let folder = test.with_extension("regressions");
            let path = folder.join(format!("{case}.txt")).into_os_string();
            // Leaks one short path per test of the process.
            path.into_string().ok().map(|path| &*path.leak())
        });
        self
    }

    /// Returns the same plan with this number of histories.
    #[must_use]
    pub fn with_histories(mut self, histories: u32) -> Self {
        self.histories = histories;
        self
    }

    /// Returns the same plan for these limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Vec<Limit>) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    pub(crate) fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// Checks `test` on each limit, with values of the strategy that `values` returns for it.
    ///
    /// # Panics
    ///
    /// If a value fails, with the smallest failing value.
    pub(crate) fn check_each<S: Strategy>(
        &self,
        values: impl Fn(&Limit) -> S,
        test: impl AsyncFn(&Limit, S::Value) -> Outcome,
    ) {
        let limits = u32::try_from(self.limits.len()).unwrap().max(1);
        for limit in &self.limits {
            let share = self.histories.div_ceil(limits);
            self.run(&limit.to_string(), share, &values(limit), async |value| {
                test(limit, value).await
            });
        }
    }

    /// Checks `test` on values of `strategy`.
    ///
    /// # Panics
    ///
    /// If a value fails, with the smallest failing value.
    pub(crate) fn check<S: Strategy>(&self, strategy: &S, test: impl AsyncFn(S::Value) -> Outcome) {
        let subject: Vec<_> = self.limits.iter().map(Limit::to_string).collect();
        self.run(&subject.join(", "), self.histories, strategy, test);
    }

    fn run<S: Strategy>(
        &self,
        subject: &str,
        histories: u32,
        strategy: &S,
        test: impl AsyncFn(S::Value) -> Outcome,
    ) {
        let persistence = self
            .regressions
            .map(|path| Box::new(FileFailurePersistence::Direct(path)) as Box<_>);
        let config = Config {
            cases: histories,
            failure_persistence: persistence,
            max_shrink_iters: 10_000,
            // A store on a server is slow, and histories are short to begin with.
            max_shrink_time: 20_000,
            ..Config::default()
        };
        let run = || {
            TestRunner::new(config.clone()).run(strategy, |value| {
                // In a box, so that the runtime's code is compiled once.
                let history: Pin<Box<dyn Future<Output = Outcome> + '_>> = Box::pin(test(value));
                let outcome = Handle::current().block_on(history);
                if let Err(Stop::Broken(what)) = outcome {
                    return Err(TestCaseError::fail(what));
                }
                self.tally.history(outcome.is_ok());
                Ok(())
            })
        };
        let result = tokio::task::block_in_place(|| {
            let mut again = 0..MOST_RUNS;
            loop {
                let result = run();
                if result.is_err() || !self.tally.tells_nothing() || again.next().is_none() {
                    break result;
                }
            }
        });
        match result {
            Ok(()) => {}
            Err(TestError::Fail(reason, value)) => {
                panic!("{subject}: {reason}\nsmallest failing case: {value:?}");
            }
            Err(TestError::Abort(reason)) => panic!("{subject}: gave up: {reason}"),
        }
    }
}
