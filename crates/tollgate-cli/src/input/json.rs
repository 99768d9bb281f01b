//! JSON lines, and lines within the objects of others.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;

use super::address::without_port;
use super::instant::Clock;
use super::options::FieldNames;
use super::record::{Record, Skip, method_of_field, path_of_field};
use super::wanted::Needs;

/// The fields of an object or a list, in their own text: no time passes through a float.
type Fields<'a> = HashMap<String, &'a RawValue>;

pub(super) struct Object<'a> {
    time: Option<Cow<'a, str>>,
    /// The client, the user, the path, the method, the status and the user agent.
    texts: [Option<Cow<'a, str>>; 6],
    /// The address has a port after the last colon.
    ip_has_port: bool,
}

impl<'a> Object<'a> {
    /// Parses objects such as `{"time": 1431857103, "ip": "203.0.113.7"}`.
    pub(super) fn parse(line: &'a [u8], names: &FieldNames) -> Option<Self> {
        let fields: Fields<'a> = serde_json::from_slice(line).ok()?;
        let of = |name: &String| text(find(&fields, name)?);
        let texts = [
            &names.ip_field,
            &names.user_field,
            &names.path_field,
            &names.method_field,
            &names.status_field,
            &names.agent_field,
        ];
        Some(Self {
            time: of(&names.time_field),
            texts: texts.map(of),
            ip_has_port: names.ip_has_port(),
        })
    }

    /// Returns the request; what it does not need may be missing.
    pub(super) fn record(&self, needs: Needs, clock: &mut Clock) -> Result<Record<'_>, Skip> {
        let time = self.time.as_deref().ok_or(Skip::NoTimeField)?;
        let texts = self.texts.each_ref();
        let texts = texts.map(|text| text.as_deref().map(str::as_bytes));
        let [client, user, line, method, status, agent] = texts;
        let method = method.filter(|method| !method.is_empty());
        let method = method
            .or_else(|| line.map(method_of_field))
            .unwrap_or_default();
        for (is_needed, is_missing, skip) in [
            (needs.client, client.is_none(), Skip::NoIpField),
            (needs.path, line.is_none(), Skip::NoPathField),
            (needs.method, method.is_empty(), Skip::NoMethod),
            (needs.status, status.is_none(), Skip::NoStatus),
        ] {
            if is_needed && is_missing {
                return Err(skip);
            }
        }
        let client = client.unwrap_or_default();
        Ok(Record {
            at: clock.read(time)?,
            client: match self.ip_has_port {
                true => without_port(client),
                false => client,
            },
            user: user.unwrap_or(b"-"),
            path: path_of_field(line.unwrap_or_default()),
            method,
            status: status.unwrap_or_default(),
            agent: agent.unwrap_or_default(),
        })
    }
}

/// Returns the field `name`: `a.b` is the field `b` of the object `a`, and `a.0` the first element of
/// the list `a`.
fn find<'a>(fields: &Fields<'a>, name: &str) -> Option<&'a RawValue> {
    if let Some(found) = fields.get(name) {
        return Some(found);
    }
    name.match_indices('.').find_map(|(dot, _)| {
        let json = fields.get(&name[..dot])?.get();
        let inner = serde_json::from_str(json).or_else(|_| {
            let list: Vec<&RawValue> = serde_json::from_str(json)?;
            let elements = (0..).zip(list);
            Ok::<_, serde_json::Error>(
                elements
                    .map(|(at, it): (u32, _)| (at.to_string(), it))
                    .collect(),
            )
        });
        find(&inner.ok()?, &name[dot + 1..])
    })
}

/// Returns the text of a string or number; other values count as missing.
fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let json = raw.get();
    match json.as_bytes().first()? {
        b'"' => serde_json::from_str(json).ok().map(Cow::Owned),
        b'-' | b'0'..=b'9' => Some(Cow::Borrowed(json)),
        _ => None,
    }
}

/// Returns the line within an object: Docker's, Filebeat's or the journal's.
pub(super) fn unwrapped(line: &[u8]) -> Option<String> {
    let fields: Fields<'_> = serde_json::from_slice(line).ok()?;
    let names = ["log", "message", "MESSAGE"];
    let text = names.iter().find_map(|name| text(fields.get(*name)?))?;
    let text = text.trim_end_matches(['\r', '\n']);
    // A line of its own only: what follows would be a second one.
    (!text.contains('\n')).then(|| text.to_owned())
}

/// Returns whether `line` starts as in the files of Docker, in which every line is wrapped.
pub(super) fn is_from_docker(line: &[u8]) -> bool {
    line.starts_with(b"{\"log\":\"")
}
