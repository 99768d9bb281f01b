//! `forward!`: a layer's leases and schedules are those of its store.

/// Implements the traits of leases and schedules for a layer: each call is the store's, made by
/// the layer's `pass_on`.
macro_rules! forward {
    ($layer:ident<S $(, $other:ident)?>, $($store:ident).+) => {
        #[async_trait::async_trait]
        impl<S: tollgate_core::lease::Store $(, $other: Send + Sync)?> tollgate_core::lease::Store
            for $layer<S $(, $other)?>
        {
            async fn lease<'a>(
                &self,
                request: tollgate_core::lease::Request<'a>,
            ) -> Result<tollgate_core::lease::Answer, tollgate_core::StoreError> {
                self.pass_on(self.$($store).+.lease(request)).await
            }

            async fn reset_leases<'a>(
                &self,
                terms: &'a tollgate_core::lease::Terms,
                key: tollgate_core::Key<'a>,
            ) -> Result<(), tollgate_core::StoreError> {
                self.pass_on(self.$($store).+.reset_leases(terms, key)).await
            }
        }

        #[async_trait::async_trait]
        impl<S: tollgate_core::schedule::Store $(, $other: Send + Sync)?>
            tollgate_core::schedule::Store for $layer<S $(, $other)?>
        {
            async fn schedule<'a>(
                &self,
                request: &tollgate_core::schedule::Request<'a>,
            ) -> Result<tollgate_core::schedule::Answer, tollgate_core::StoreError> {
                self.pass_on(self.$($store).+.schedule(request)).await
            }

            async fn reset_schedule<'a>(
                &self,
                terms: &'a tollgate_core::schedule::Terms,
                key: tollgate_core::Key<'a>,
            ) -> Result<(), tollgate_core::StoreError> {
                self.pass_on(self.$($store).+.reset_schedule(terms, key)).await
            }
        }
    };
}

pub(crate) use forward;
