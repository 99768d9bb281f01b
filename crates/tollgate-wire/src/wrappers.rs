//! The traits of stores, for [`WireStore`](crate::WireStore) and for the stores of client crates, which
//! wrap one in a field: each method calls the inherent one; and the options of their builders.

/// Implements [`Store`](tollgate_core::Store), by the type itself, or by what follows it, such as `.0`.
#[doc(hidden)]
#[macro_export]
macro_rules! __decides {
    ($name:ident<$of:ident: $bound:path> $($inner:tt)*) => {
        const _: () = {
            use async_trait::async_trait;
            use tollgate_core::store::{BoxFuture, Checks, Request, Verdicts};
            use tollgate_core::{Store, StoreError};

            #[async_trait]
            impl<$of: $bound> Store for $name<$of> {
                // The future holds the request once.
                fn decide<'a: 'f, 'f>(&'a self, request: Request<'a>) -> BoxFuture<'f, Result<Verdicts, StoreError>> {
                    Box::pin(async move { self$($inner)*.execute(&request).await })
                }

                async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
                    self$($inner)*.reset(&checks).await
                }

                fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
                    self$($inner)*.supports(request)
                }
            }
        };
    };
}

/// Implements the stores of schedules and leases, likewise.
#[doc(hidden)]
#[macro_export]
macro_rules! __plans_and_leases {
    ($name:ident<$of:ident: $bound:path> $($inner:tt)*) => {
        const _: () = {
            use async_trait::async_trait;
            use tollgate_core::{Key, StoreError, lease, schedule};

            #[deny(clippy::missing_trait_methods)]
            #[async_trait]
            impl<$of: $bound> schedule::Store for $name<$of> {
                async fn schedule<'a>(
                    &'a self,
                    request: schedule::Request<'a>,
                ) -> Result<schedule::Answer, StoreError> {
                    self$($inner)*.schedule(&request).await
                }

                async fn reset_schedule<'a>(
                    &'a self,
                    terms: &'a schedule::Terms,
                    key: Key<'a>,
                ) -> Result<(), StoreError> {
                    self$($inner)*.reset_schedule(terms, key).await
                }
            }

            #[deny(clippy::missing_trait_methods)]
            #[async_trait]
            impl<$of: $bound> lease::Store for $name<$of> {
                async fn lease<'a>(
                    &'a self,
                    request: lease::Request<'a>,
                ) -> Result<lease::Answer, StoreError> {
                    self$($inner)*.lease(&request).await
                }

                async fn reset_leases<'a>(
                    &'a self,
                    terms: &'a lease::Terms,
                    key: Key<'a>,
                ) -> Result<(), StoreError> {
                    self$($inner)*.reset_leases(terms, key).await
                }
            }
        };
    };
}

/// Implements `Operate`, by the field of a client crate's store.
#[cfg(feature = "operate")]
#[doc(hidden)]
#[macro_export]
macro_rules! __operates {
    ($name:ident<$of:ident: $bound:path>) => {
        const _: () = {
            use async_trait::async_trait;
            use tollgate_core::store::Verdict;
            use tollgate_core::{Key, Limit, StoreError};
            use $crate::operate::*;

            #[async_trait]
            impl<$of: $bound> Operate for $name<$of> {
                async fn clear(
                    &self,
                    what: &Clear,
                    progress: &mut (dyn for<'c> FnMut(&'c Cleared) + Send),
                ) -> Result<Cleared, StoreError> {
                    self.wire().clear(what, progress).await
                }

                async fn diagnose(&self) -> Diagnosis {
                    self.wire().diagnose().await
                }

                async fn find(
                    &self,
                    search: &mut Search,
                ) -> Result<Option<Vec<FoundState>>, StoreError> {
                    self.wire().find(search).await
                }

                async fn held(
                    &self,
                    limits: &[Limit],
                    key: Key<'_>,
                ) -> Result<Vec<FoundState>, StoreError> {
                    self.wire().held(limits, key).await
                }

                async fn forget(&self, states: &[FoundState]) -> Result<u64, StoreError> {
                    self.wire().forget_found(states).await
                }

                async fn read(
                    &self,
                    states: &[FoundState],
                ) -> Result<Vec<Option<Facts>>, StoreError> {
                    self.wire().read(states).await
                }

                async fn peek_at(
                    &self,
                    limit: &Limit,
                    states: &[FoundState],
                ) -> Result<Vec<Option<Verdict>>, StoreError> {
                    self.wire().peek_at(limit, states).await
                }
            }
        };
    };
}

/// Writes the options that the builders of all stores have, each by the builder's method `set`, which changes
/// its [`Options`](crate::Options).
#[doc(hidden)]
#[macro_export]
macro_rules! __sets_options {
    () => {
        /// Sets the prefix of every key, so that several programs can share a server: 1 to 64 ASCII
        /// letters, digits, `-`, `_`, `.` or `:`. The default is `tollgate`.
        pub fn prefix(self, prefix: &str) -> Self {
            self.set(|options| options.with_prefix(prefix))
        }

        /// Sets how long a decision may take, including loading scripts and following redirections. The
        /// default is 500 ms. With one of zero, which no call can meet, connecting returns an error.
        pub fn deadline(self, deadline: std::time::Duration) -> Self {
            self.set(|options| options.with_deadline(deadline).validated())
        }

        /// Sets which clock decides. The default is the server's.
        pub fn time_source(self, source: $crate::TimeSource) -> Self {
            self.set(|options| Ok(options.with_time_source(source)))
        }

        /// Sets the extra TTL of states written at a caller's instant, rounded up to milliseconds. The
        /// default is ten minutes.
        ///
        /// Redis expires keys by its own clock. If the caller's clock lags it by more than `slack` (in
        /// a replay slower than real time, say), a key can expire while it still counts, and the
        /// limiter admits more than the quota.
        pub fn caller_slack(self, slack: std::time::Duration) -> Self {
            self.set(|options| Ok(options.with_caller_slack(slack)))
        }

        /// Replaces both parts of every key with a 128-bit SipHash-2-4, keyed with `secret`.
        ///
        /// Use this for addresses, names and tokens that nobody should read off the server. A plain
        /// hash of these can be reversed by trying all inputs. All processes must use the same secret.
        /// Long parts are replaced so, too, whatever [`hashed_long_keys`](Self::hashed_long_keys) says.
        pub fn hashed_keys(self, secret: [u8; 16]) -> Self {
            self.set(|options| Ok(options.with_hashed_keys(secret)))
        }

        /// Replaces parts of keys longer than 64 bytes with a keyed hash, as
        /// [`hashed_keys`](Self::hashed_keys) does for all parts.
        pub fn hashed_long_keys(self, secret: [u8; 16]) -> Self {
            self.set(|options| Ok(options.with_hashed_long_keys(secret)))
        }

        /// Switches batches on or off: calls that are made while many others are in flight are sent
        /// together. They are off by default.
        ///
        /// One script then decides many calls, and equal calls cost a server what one costs. If a reply is
        /// lost, every call in that batch may have been counted. A task on the runtime that polls the calls
        /// sends them; `docs/internals/batches.md` tells the rest.
        pub fn batches(self, batches: bool) -> Self {
            self.set(|options| Ok(options.with_batches(batches)))
        }
    };
}
