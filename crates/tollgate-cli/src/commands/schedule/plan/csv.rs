//! The plan as CSV, with times in UTC.

use csv::Writer;

use super::answer::Plan;
use crate::commands::schedule::options::Only;
use crate::text::rfc3339;

impl Plan<'_> {
    /// Returns a heading, and a record for each message or key.
    pub(super) fn to_csv(&self, only: Option<Only>, per_key: bool) -> String {
        let mut writer = Writer::from_writer(Vec::new());
        let mut record = |fields: &[&str]| {
            // Writing to memory cannot fail, and every record has the fields of the heading.
            let _ = writer.write_record(fields);
        };
        if per_key {
            record(&[
                "key",
                "messages",
                "as_wanted",
                "moved",
                "refused",
                "last_planned",
            ]);
            for of in self.of_each_key(only) {
                let counts = [of.messages, of.as_wanted(), of.moved, of.refused];
                let [messages, as_wanted, moved, refused] = counts.map(|count| count.to_string());
                let last = of.last.map(rfc3339).unwrap_or_default();
                record(&[of.key, &messages, &as_wanted, &moved, &refused, &last]);
            }
        } else {
            record(&["key", "id", "wanted", "planned", "quota", "refused"]);
            for row in self.listed(only) {
                let wanted = rfc3339(row.message.wanted);
                let planned = row.planned.map(rfc3339).unwrap_or_default();
                let reason = row.planned.err().unwrap_or_default();
                let quota = row.quota.unwrap_or_default();
                record(&[row.key, &row.message.id, &wanted, &planned, quota, reason]);
            }
        }
        let text = writer.into_inner().unwrap_or_default();
        String::from_utf8(text).unwrap_or_default()
    }
}
