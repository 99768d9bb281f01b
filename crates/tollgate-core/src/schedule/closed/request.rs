//! What closed times mean for a request: whether it can be planned, and which of them refuses it.

use std::time::Duration;

use crate::schedule::cover::{FIRST_SPAN, before};
use crate::schedule::{Quota, Request, Zone};
use crate::time::Timestamp;

impl<'a> Request<'a> {
    /// Returns whether the zone of this call leaves no time open around those that it asks for. Closed
    /// times of fixed zones are together open at some time.
    pub(in crate::schedule) fn is_never_open(&self) -> bool {
        const YEAR: Duration = Duration::from_secs(366 * 86_400);
        let closed: Vec<_> = self.terms().closed_times().collect();
        closed.iter().any(|rule| *rule.zone() == Zone::Local)
            && self.span().is_some_and(|(first, last)| {
                [first, last].into_iter().all(|at| {
                    let (from, until) = (before(at, YEAR), at.saturating_add(YEAR));
                    !super::are_open(&closed, self.zone.as_ref(), from, until)
                })
            })
    }

    /// Returns, of the closed times, those that alone are open again last after `time`, or that stay closed
    /// for 40 days.
    pub(in crate::schedule) fn last_to_open(&self, time: Timestamp) -> Option<&'a Quota> {
        let until = time.saturating_add(FIRST_SPAN);
        let opens = |quota: &&Quota| {
            let times = quota.closed_times()?;
            let zone = times.zone().of_call(self.zone.as_ref())?;
            let mut open = times.open_times(zone, time, until).into_iter();
            open.find(|open| open.start() < open.end())
                .map_or(Some(Timestamp::END), |open| Some(open.start()))
        };
        let quotas = self.terms().quotas().iter();
        let closed = quotas.rev().filter(|quota| !quota.counts());
        closed.max_by_key(opens)
    }
}
