//! Schedules and leases in memory.

use async_trait::async_trait;
use tollgate_core::{
    Key, LeaseAnswer, LeaseRequest, LeaseStore, LeaseTerms, ScheduleAnswer, ScheduleRequest,
    ScheduleStore, ScheduleTerms, StoreError, SyncLeaseStore, SyncScheduleStore,
};

use crate::store::MemoryStore;

impl SyncScheduleStore for MemoryStore {
    fn schedule_now(&self, request: &ScheduleRequest<'_>) -> Result<ScheduleAnswer, StoreError> {
        request.validate()?;
        let (terms, caller) = (request.terms(), request.caller_time());
        self.decide_kept(
            &self.schedules,
            terms,
            request.key(),
            caller,
            |state, now| request.decide_on(state, now),
            |answer| match answer {
                ScheduleAnswer::Added(added) => *added > 0,
                ScheduleAnswer::Planned { is_new, .. } => *is_new,
                ScheduleAnswer::Cancelled(was_planned) => *was_planned,
                _ => false,
            },
        )
    }

    fn reset_schedule_now(&self, terms: &ScheduleTerms, key: Key<'_>) -> Result<(), StoreError> {
        self.reset_kept(&self.schedules, terms, key);
        Ok(())
    }
}

#[async_trait]
impl ScheduleStore for MemoryStore {
    async fn schedule<'a>(
        &self,
        request: &ScheduleRequest<'a>,
    ) -> Result<ScheduleAnswer, StoreError> {
        self.schedule_now(request)
    }

    async fn reset_schedule<'a>(
        &self,
        terms: &'a ScheduleTerms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        self.reset_schedule_now(terms, key)
    }
}

impl SyncLeaseStore for MemoryStore {
    fn lease_now(&self, request: &LeaseRequest<'_>) -> Result<LeaseAnswer, StoreError> {
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

    fn reset_leases_now(&self, terms: &LeaseTerms, key: Key<'_>) -> Result<(), StoreError> {
        self.reset_kept(&self.leases, terms, key);
        Ok(())
    }
}

#[async_trait]
impl LeaseStore for MemoryStore {
    async fn lease<'a>(&self, request: LeaseRequest<'a>) -> Result<LeaseAnswer, StoreError> {
        self.lease_now(&request)
    }

    async fn reset_leases<'a>(
        &self,
        terms: &'a LeaseTerms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        self.reset_leases_now(terms, key)
    }
}
