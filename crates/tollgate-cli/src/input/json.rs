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

/// A request of a JSON line.
pub(super) struct Object<'a> {
    time: Option<Cow<'a, str>>,
    ip: Option<Cow<'a, str>>,
    user: Option<Cow<'a, str>>,
    path: Option<Cow<'a, str>>,
    method: Option<Cow<'a, str>>,
    status: Option<Cow<'a, str>>,
    agent: Option<Cow<'a, str>>,
    /// The address has a port after the last colon.
    ip_has_port: bool,
}

impl<'a> Object<'a> {
    /// Parses objects such as `{"time": 1431857103, "ip": "203.0.113.7"}`.
    pub(super) fn parse(line: &'a [u8], names: &FieldNames) -> Option<Self> {
        let fields: Fields<'a> = serde_json::from_slice(line).ok()?;
        let of = |name: &str| text(find(&fields, name)?);
        Some(Self {
            time: of(&names.time_field),
            ip: of(&names.ip_field),
            user: of(&names.user_field),
            path: of(&names.path_field),
            method: of(&names.method_field),
            status: of(&names.status_field),
            agent: of(&names.agent_field),
            ip_has_port: names.ip_has_port(),
        })
    }

    /// Returns the request; what it does not need may be missing.
    pub(super) fn record(&self, needs: Needs, clock: &mut Clock) -> Result<Record<'_>, Skip> {
        fn bytes<'o>(text: &'o Option<Cow<'_, str>>) -> &'o [u8] {
            text.as_deref().unwrap_or("").as_bytes()
        }
        let time = self.time.as_deref().ok_or(Skip::NoTimeField)?;
        if needs.client && self.ip.is_none() {
            return Err(Skip::NoIpField);
        }
        if needs.path && self.path.is_none() {
            return Err(Skip::NoPathField);
        }
        let line = bytes(&self.path);
        let method = match bytes(&self.method) {
            b"" => method_of_field(line),
            method => method,
        };
        if needs.method && method.is_empty() {
            return Err(Skip::NoMethod);
        }
        if needs.status && self.status.is_none() {
            return Err(Skip::NoStatus);
        }
        let client = bytes(&self.ip);
        Ok(Record {
            at: clock.read(time)?,
            client: match self.ip_has_port {
                true => without_port(client),
                false => client,
            },
            user: self.user.as_deref().unwrap_or("-").as_bytes(),
            path: path_of_field(line),
            method,
            status: bytes(&self.status),
            agent: bytes(&self.agent),
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
