//! The headers `RateLimit` and `RateLimit-Policy`, of the drafts from the seventh on.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use sfv::visitor::{DictionaryVisitor, EntryVisitor, Ignored, InnerListVisitor, ItemVisitor};
use sfv::{BareItem, BareItemFromInput, Item, KeyRef, List, ListEntry, Parser};

use crate::limit_hint::LimitHint;

/// What `RateLimit` and `RateLimit-Policy` are called: by all who write them, and at Atlassian.
const NAMES: [[&str; 2]; 2] = [
    ["ratelimit", "ratelimit-policy"],
    ["beta-ratelimit", "beta-ratelimit-policy"],
];

/// So many policies of a field are read: each limit is looked for among them.
const MOST_POLICIES: usize = 100;

/// Returns the limits that `RateLimit` and `RateLimit-Policy` describe.
pub(crate) fn limits(headers: &HeaderMap) -> Vec<LimitHint> {
    let limits = NAMES.into_iter().filter_map(|[limit, policy]| {
        let field = joined(headers, limit)?;
        Some(described(&field, joined(headers, policy)))
    });
    limits.flatten().collect()
}

/// Returns the limits that a field describes, with what their policies say.
fn described(field: &str, policies: Option<String>) -> Vec<LimitHint> {
    let policies = policies.and_then(|field| items(&field));
    let policies = policies.iter().flatten().take(MOST_POLICIES);
    let policies: Vec<LimitHint> = policies.filter_map(policy).collect();
    if let Some(items) = items(field) {
        let limits = items.iter().filter_map(|item| remaining(item, &policies));
        return limits.collect();
    }
    let limits = Parser::new(field).parse_dictionary_with_visitor(Seventh::default());
    let limits = limits.unwrap_or_default().into_iter().map(|fields| {
        let number = |name: &str| u64::try_from(*fields.get(name)?).ok();
        let amount = number("limit");
        let same = policies.iter().find(|policy| policy.amount == amount);
        LimitHint {
            amount,
            window: same.and_then(|policy| policy.window),
            remaining: fields.get("remaining").copied().map(left),
            reset_after: number("reset").map(Duration::from_secs),
            ..LimitHint::default()
        }
    });
    limits.filter(LimitHint::is_of_use).collect()
}

/// Returns the value of a header that may come in several lines.
fn joined(headers: &HeaderMap, name: &str) -> Option<String> {
    let lines = headers.get_all(name).iter();
    let lines: Vec<&str> = lines.filter_map(|line| line.to_str().ok()).collect();
    (!lines.is_empty()).then(|| lines.join(", "))
}

/// Returns the items of a list that is well-formed.
fn items(field: &str) -> Option<Vec<Item>> {
    let list: List = Parser::new(field).parse().ok()?;
    let items = list.into_iter().map(|entry| match entry {
        ListEntry::Item(item) => Some(item),
        ListEntry::InnerList(_) => None,
    });
    items.collect()
}

/// Reads a policy: `"burst";q=100;w=60`, or `100;w=60` in drafts before the eighth.
fn policy(item: &Item) -> Option<LimitHint> {
    let named = name(item);
    let amount = match named {
        Some(_) => parameter(item, "q"),
        None => whole(&item.bare_item),
    };
    Some(LimitHint {
        name: named,
        amount: Some(amount?),
        window: parameter(item, "w").map(Duration::from_secs),
        ..LimitHint::default()
    })
}

/// Reads what remains: `"burst";r=50;t=30`, and takes the rest from the policy of that name.
fn remaining(item: &Item, policies: &[LimitHint]) -> Option<LimitHint> {
    let name = name(item)?;
    let remaining = left(item.params.get("r")?.as_integer()?.into());
    let mut policies = policies.iter();
    let policy = policies.find(|policy| policy.name.as_deref() == Some(&*name));
    Some(LimitHint {
        name: Some(name),
        amount: policy.and_then(|policy| policy.amount),
        window: policy.and_then(|policy| policy.window),
        remaining: Some(remaining),
        reset_after: parameter(item, "t").map(Duration::from_secs),
        ..LimitHint::default()
    })
}

fn name(item: &Item) -> Option<Arc<str>> {
    match &item.bare_item {
        BareItem::String(name) => Some(name.as_str().into()),
        // Before the eleventh draft, some services wrote names without quotes.
        BareItem::Token(name) => Some(name.as_str().into()),
        _ => None,
    }
}

fn parameter(item: &Item, name: &str) -> Option<u64> {
    whole(item.params.get(name)?)
}

fn whole(value: &BareItem) -> Option<u64> {
    u64::try_from(i64::from(value.as_integer()?)).ok()
}

/// Returns what remains. Less than nothing is nothing.
fn left(remaining: i64) -> u64 {
    remaining.try_into().unwrap_or(0)
}

/// The limits of the seventh draft. A key that comes again begins another limit, such as a
/// gateway's; in a [`Dictionary`](sfv::Dictionary), it would replace the first.
#[derive(Default)]
struct Seventh<'de>(Vec<HashMap<&'de str, i64>>);

impl<'de> DictionaryVisitor<'de> for Seventh<'de> {
    type Out = Vec<HashMap<&'de str, i64>>;
    type Error = Infallible;

    fn entry(&mut self, key: &'de KeyRef) -> Result<impl EntryVisitor<'de>, Infallible> {
        if self
            .0
            .last()
            .is_none_or(|limit| limit.contains_key(key.as_str()))
        {
            self.0.push(HashMap::new());
        }
        let limit = self.0.last_mut();
        Ok(limit.map(|limit| Field {
            limit,
            key: key.as_str(),
        }))
    }

    fn finish(self) -> Result<Self::Out, Infallible> {
        Ok(self.0)
    }
}

/// Where a number of the seventh draft belongs.
struct Field<'l, 'de> {
    limit: &'l mut HashMap<&'de str, i64>,
    key: &'de str,
}

impl<'de> EntryVisitor<'de> for Field<'_, 'de> {
    type Error = Infallible;

    fn item(self) -> Result<impl ItemVisitor<'de>, Infallible> {
        Ok(move |value: BareItemFromInput<'de>| {
            if let BareItemFromInput::Integer(number) = value {
                let _ = self.limit.insert(self.key, number.into());
            }
            Ok::<_, Infallible>(Ignored)
        })
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'de>, Infallible> {
        Ok(Ignored)
    }
}
