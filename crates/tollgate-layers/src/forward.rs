//! `forward!`: a layer's leases and schedules are those of its store; `decide_by_begin!`: it decides by `begin`.

/// Implements the traits of leases and schedules for a layer: each call is the store's, made by a method of
/// the layer if one is named.
macro_rules! forward {
    ($layer:ident<S $(, $other:ident)?>, $($store:ident).+ $(, by $pass_on:ident)?) => {
        const _: () = {
            use tollgate_core::store::BoxFuture;
            use tollgate_core::{Key, StoreError, lease, schedule};

            #[async_trait::async_trait]
            impl<S: lease::Store $(, $other: Send + Sync)?> lease::Store for $layer<S $(, $other)?> {
                fn lease<'a: 'f, 'f>(
                    &'a self,
                    request: lease::Request<'a>,
                ) -> BoxFuture<'f, Result<lease::Answer, StoreError>> {
                    let call = self.$($store).+.lease(request);
                    $(let call = Box::pin(self.$pass_on(call));)?
                    call
                }

                fn reset_leases<'a: 'f, 'f>(
                    &'a self,
                    terms: &'a lease::Terms,
                    key: Key<'a>,
                ) -> BoxFuture<'f, Result<(), StoreError>> {
                    let call = self.$($store).+.reset_leases(terms, key);
                    $(let call = Box::pin(self.$pass_on(call));)?
                    call
                }
            }

            #[async_trait::async_trait]
            impl<S: schedule::Store $(, $other: Send + Sync)?> schedule::Store
                for $layer<S $(, $other)?>
            {
                fn schedule<'a: 'f, 'f>(
                    &'a self,
                    request: schedule::Request<'a>,
                ) -> BoxFuture<'f, Result<schedule::Answer, StoreError>> {
                    let call = self.$($store).+.schedule(request);
                    $(let call = Box::pin(self.$pass_on(call));)?
                    call
                }

                fn reset_schedule<'a: 'f, 'f>(
                    &'a self,
                    terms: &'a schedule::Terms,
                    key: Key<'a>,
                ) -> BoxFuture<'f, Result<(), StoreError>> {
                    let call = self.$($store).+.reset_schedule(terms, key);
                    $(let call = Box::pin(self.$pass_on(call));)?
                    call
                }
            }
        };
    };
}

pub(crate) use forward;

/// Implements `decide` by `begin`.
macro_rules! decide_by_begin {
    () => {
        fn decide<'a: 'f, 'f>(
            &'a self,
            request: Request<'a>,
        ) -> tollgate_core::store::BoxFuture<'f, Result<Verdicts, StoreError>> {
            self.begin(&request).into_future()
        }
    };
}

pub(crate) use decide_by_begin;
