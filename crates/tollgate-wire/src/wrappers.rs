//! The traits of stores, for [`WireStore`](crate::WireStore) and for the stores of client crates, which
//! wrap one in a field: each method calls the inherent one.

/// Implements [`Store`](tollgate_core::Store), by the type itself, or by what follows it, such as `.0`.
#[doc(hidden)]
#[macro_export]
macro_rules! __decides {
    ($name:ident<$of:ident: $bound:path> $($inner:tt)*) => {
        const _: () = {
            use async_trait::async_trait;
            use tollgate_core::store::{BoxFuture, Checks, Request, Verdicts};
            use tollgate_core::{Store, StoreError, SyncStore};

            #[deny(clippy::missing_trait_methods)]
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

                fn as_sync(&self) -> Option<&dyn SyncStore> {
                    None
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
