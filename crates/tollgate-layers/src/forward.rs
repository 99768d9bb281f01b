//! `forward!`: a layer's leases and schedules are those of its store; `decide_by_begin!`: it decides by `begin`.

/// Implements the traits of leases and schedules for a layer: each call is the store's, made by a method of
/// the layer if one is named.
macro_rules! forward {
    ($layer:ident<S $(, $other:ident)?>, $($store:ident).+ $(, by $pass_on:ident)?) => {
        const _: () = {
            use tollgate_core::store::BoxFuture;
            use tollgate_core::{Key, StoreError, lease, schedule};

            impl<S: lease::Store $(, $other: Send + Sync)?> lease::Store for $layer<S $(, $other)?> {
                $crate::forward::forward! { @call [$($store).+] [$($pass_on)?]
                    fn lease(request: lease::Request<'a>) -> lease::Answer }
                $crate::forward::forward! { @call [$($store).+] [$($pass_on)?]
                    fn reset_leases(terms: &'a lease::Terms, key: Key<'a>) -> () }
            }

            impl<S: schedule::Store $(, $other: Send + Sync)?> schedule::Store
                for $layer<S $(, $other)?>
            {
                $crate::forward::forward! { @call [$($store).+] [$($pass_on)?]
                    fn schedule(request: schedule::Request<'a>) -> schedule::Answer }
                $crate::forward::forward! { @call [$($store).+] [$($pass_on)?]
                    fn reset_schedule(terms: &'a schedule::Terms, key: Key<'a>) -> () }
            }
        };
    };
    (@call [$($store:ident).+] [$($pass_on:ident)?]
        fn $name:ident($($argument:ident: $type:ty),+) -> $answer:ty) => {
        fn $name<'a: 'f, 'f>(
            &'a self,
            $($argument: $type),+
        ) -> BoxFuture<'f, Result<$answer, StoreError>> {
            let call = self.$($store).+.$name($($argument),+);
            $(let call = Box::pin(self.$pass_on(call));)?
            call
        }
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
