//! What a promise is checked on: which limits, how many histories, and where failures are kept.

use std::path::Path;
use std::sync::Arc;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestError, TestRunner};
use tokio::runtime::Handle;
use tollgate_core::Limit;

use crate::harness::HISTORIES;
use crate::session::{Outcome, Stop};
use crate::watched::Tally;

/// Which limits a promise is checked on, on how many histories, and where failures are kept.
#[derive(Clone, Debug)]
pub struct Plan {
    limits: Vec<Limit>,
    histories: u32,
    regressions: Option<&'static str>,
    tally: Arc<Tally>,
}

impl Plan {
    /// Returns a plan for `limits` on 64 histories that keeps no failures.
    #[must_use]
    pub fn new(limits: Vec<Limit>) -> Self {
        Self {
            limits,
            histories: HISTORIES,
            regressions: None,
            tally: Arc::default(),
        }
    }

    /// Keeps the seeds of failing histories of `case` beside the test, to be committed.
    ///
    /// They are in the folder of `file`, `FILE-STEM.regressions/CASE.txt`, and are tried first in
    /// every later run. `manifest_dir` and `file` are those of the test's crate, where cargo says
    /// paths relative to a workspace that may be any of the crate's ancestors.
    #[must_use]
    pub fn keeping_failures(mut self, manifest_dir: &str, file: &str, case: &str) -> Self {
        let test = Path::new(manifest_dir)
            .ancestors()
            .map(|ancestor| ancestor.join(file))
            .find(|path| path.exists());
        self.regressions = test.and_then(|test| {
            let folder = test.with_extension("regressions");
            let path = folder.join(format!("{case}.txt")).into_os_string();
            // One short path for each test of the process.
            path.into_string().ok().map(|path| &*path.leak())
        });
        self
    }

    /// Returns the same plan with another number of histories.
    #[must_use]
    pub fn with_histories(mut self, histories: u32) -> Self {
        self.histories = histories;
        self
    }

    /// Returns the same plan for other limits.
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

    /// Checks `test` on each limit and values of the strategy that `values` returns for it.
    ///
    /// # Panics
    ///
    /// When a value fails, with the least one that does.
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
    /// When a value fails, with the least one that does.
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
        let mut runner = TestRunner::new(Config {
            cases: histories,
            failure_persistence: persistence,
            max_shrink_iters: 10_000,
            // A store on a server answers slowly, and a history is short to begin with.
            max_shrink_time: 20_000,
            ..Config::default()
        });
        let result = tokio::task::block_in_place(|| {
            runner.run(strategy, |value| {
                let outcome = Handle::current().block_on(test(value));
                if let Err(Stop::Broken(what)) = outcome {
                    return Err(TestCaseError::fail(what));
                }
                self.tally.history(outcome.is_ok());
                Ok(())
            })
        });
        match result {
            Ok(()) => {}
            Err(TestError::Fail(reason, value)) => {
                panic!("{subject}: {reason}\nthe least that fails: {value:?}");
            }
            Err(TestError::Abort(reason)) => panic!("{subject}: gave up: {reason}"),
        }
    }
}
