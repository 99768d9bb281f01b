//! Schedules and leases in memory.

use async_trait::async_trait;
use tollgate_core::lease::SyncStore as _;
use tollgate_core::schedule::SyncStore as _;
use tollgate_core::{Key, StoreError, lease, schedule};

use crate::memory_store::MemoryStore;

impl schedule::SyncStore for MemoryStore {
    fn schedule_now(
        &self,
        request: &schedule::Request<'_>,
    ) -> Result<schedule::Answer, StoreError> {
        request.validate()?;
        let (terms, caller) = (request.terms(), request.caller_time());
        self.decide_kept(
            &self.schedules,
            terms,
            request.key(),
            caller,
            |state, now| request.decide_on(state, now),
            |answer| match answer {
                schedule::Answer::Added(added) => *added > 0,
                schedule::Answer::Planned { is_new, .. } => *is_new,
                schedule::Answer::Cancelled(was_planned) => *was_planned,
                _ => false,
            },
        )
    }

    fn reset_schedule_now(&self, terms: &schedule::Terms, key: Key<'_>) -> Result<(), StoreError> {
        self.reset_kept(&self.schedules, terms, key);
        Ok(())
    }
}

#[async_trait]
impl schedule::Store for MemoryStore {
    async fn schedule<'a>(
        &'a self,
        request: schedule::Request<'a>,
    ) -> Result<schedule::Answer, StoreError> {
        self.schedule_now(&request)
    }

    async fn reset_schedule<'a>(
        &'a self,
        terms: &'a schedule::Terms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        self.reset_schedule_now(terms, key)
    }
}

impl lease::SyncStore for MemoryStore {
    fn lease_now(&self, request: &lease::Request<'_>) -> Result<lease::Answer, StoreError> {
        request.validate()?;
        let (terms, caller) = (request.terms(), request.caller_time());
        self.decide_kept(
            &self.leases,
            terms,
            request.key(),
            caller,
            |state, now| request.decide_on(state, now),
            // Leases expire by times of their own, whatever the terms.
            |_| false,
        )
    }

    fn reset_leases_now(&self, terms: &lease::Terms, key: Key<'_>) -> Result<(), StoreError> {
        self.reset_kept(&self.leases, terms, key);
        Ok(())
    }
}

#[async_trait]
impl lease::Store for MemoryStore {
    async fn lease<'a>(&'a self, request: lease::Request<'a>) -> Result<lease::Answer, StoreError> {
        self.lease_now(&request)
    }

    async fn reset_leases<'a>(
        &'a self,
        terms: &'a lease::Terms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        self.reset_leases_now(terms, key)
    }
}
