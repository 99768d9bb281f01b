//! The times of a picture at which closed times let nothing be planned.

use jiff::tz::TimeZone;
use tollgate_core::{Timestamp, schedule};

/// Returns the spans from `start` to `end` that are closed for messages of `zone`, each with the first
/// instant after it.
pub(super) fn spans(
    quotas: &[schedule::Quota],
    zone: &TimeZone,
    [start, end]: [Timestamp; 2],
) -> Vec<[Timestamp; 2]> {
    let mut spans = Vec::new();
    for times in quotas.iter().filter_map(schedule::Quota::closed_times) {
        let zone = times.zone().of_call(Some(zone)).unwrap_or(zone);
        let open = times.open_times(zone, start, end);
        spans.extend(open.windows(2).map(|pair| [pair[0].end(), pair[1].start()]));
    }
    spans.sort_unstable();
    let mut merged: Vec<[Timestamp; 2]> = Vec::new();
    for [from, until] in spans {
        match merged.last_mut() {
            Some([_, last]) if *last >= from => *last = until.max(*last),
            _ => merged.push([from, until]),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_several_rules_are_merged() {
        let rules = ["5/1h", "closed 22:00-23:00@UTC", "closed 22:30-02:00@local"];
        let quotas: Vec<_> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let hour = |hour: u64| Timestamp::saturating_from_micros(hour * 3_600_000_000);
        let zone = TimeZone::get("Etc/GMT-1").unwrap();
        // 22:30 of that zone is 21:30.
        let half = Timestamp::saturating_from_micros(43 * 1_800_000_000);
        let found = spans(&quotas, &zone, [hour(12), hour(40)]);
        assert_eq!(found, [[half, hour(25)]]);
        let found = spans(&quotas, &TimeZone::UTC, [hour(1), hour(23)]);
        let end = Timestamp::saturating_from_micros(hour(23).as_micros() + 1);
        assert_eq!(found, [[hour(1), hour(2)], [hour(22), end]]);
    }
}
