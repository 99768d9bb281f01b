//! `Columns`: a W3C log names the columns of its lines, from which their pattern follows.

use memchr::memchr;

use super::instant::Clock;
use super::options::{FieldNames, TIME_FIELD};
use super::pattern::{Field, Pattern};
use super::record::{Record, Skip};
use super::wanted::Needs;

/// How a line starts that names the columns of those after it.
const FIELDS: &[u8] = b"#Fields:";

/// The lines after a `#Fields` line.
#[derive(Clone)]
pub(super) struct Columns {
    spaces: Pattern,
    tabs: Pattern,
    /// A column that the key needs is missing.
    is_incomplete: bool,
}

impl Columns {
    /// Reads a line such as `#Fields: date time c-ip cs-username cs-uri-stem`; `None` if it is another.
    pub(super) fn of(line: &[u8], names: &FieldNames, needs: Needs) -> Option<Self> {
        let line = line.strip_prefix(FIELDS)?;
        let columns = line.split(u8::is_ascii_whitespace);
        let columns: Vec<&[u8]> = columns.filter(|name| !name.is_empty()).collect();
        let mut fields = vec![Field::Word; columns.len()];
        // Takes the first of `wanted` that is a column, and returns whether there is one.
        let mut take = |field, wanted: &[&str]| {
            let column = wanted
                .iter()
                .find_map(|name| columns.iter().position(|column| *column == name.as_bytes()));
            if let Some(column) = column {
                fields[column] = field;
            }
            column.is_some()
        };
        // Columns have names of their own; those for JSON lines come first, if the log has them.
        let has_own_time =
            names.time_field != TIME_FIELD && take(Field::Time, &[&names.time_field]);
        let has_time = has_own_time || take(Field::Time, &["time"]) && take(Field::Date, &["date"]);
        let client = if names.ip_has_port() {
            Field::Peer
        } else {
            Field::Ip
        };
        let has_client = take(client, &[&names.ip_field]) || take(Field::Ip, &["c-ip"]);
        let user = [&names.user_field, "cs-username", "cs(Username)"];
        let has_user = take(Field::User, &user);
        let has_path = take(Field::Path, &[&names.path_field, "cs-uri-stem", "cs-uri"]);
        let has_method = take(Field::Method, &[&names.method_field, "cs-method"]);
        let has_status = take(Field::Status, &[&names.status_field, "sc-status"]);
        take(Field::AgentWord, &[&names.agent_field, "cs(User-Agent)"]);
        let is_complete = has_time
            && (has_client || !needs.client)
            && (has_user || !needs.user)
            && (has_path || !needs.path)
            && (has_method || !needs.method)
            && (has_status || !needs.status);
        let of_tabs = fields.iter().map(|&field| match field {
            Field::Word => Field::Other,
            Field::AgentWord => Field::Agent,
            field => field,
        });
        Some(Self {
            tabs: Pattern::of_columns(of_tabs, b'\t'),
            spaces: Pattern::of_columns(fields, b' '),
            is_incomplete: !is_complete,
        })
    }

    /// Reads a line: its values are between tabs if it has any, and otherwise between spaces.
    pub(super) fn read<'a>(&self, line: &'a [u8], clock: &mut Clock) -> Result<Record<'a>, Skip> {
        if self.is_incomplete {
            return Err(Skip::MissingColumn);
        }
        let pattern = match memchr(b'\t', line) {
            Some(_) => &self.tabs,
            None => &self.spaces,
        };
        let read = pattern.read(line, clock);
        read.map(|(record, _)| record).map_err(|unlike| unlike.skip)
    }
}
