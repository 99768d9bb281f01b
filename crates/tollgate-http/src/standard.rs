//! The headers `RateLimit` and `RateLimit-Policy`, of the drafts from the seventh on.

use std::time::Duration;

use http::HeaderMap;
use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parser};

use crate::LimitHint;

/// Returns the limits that `RateLimit` and `RateLimit-Policy` describe.
pub(crate) fn limits(headers: &HeaderMap) -> Vec<LimitHint> {
    let Some(field) = joined(headers, "ratelimit") else {
        return Vec::new();
    };
    let policies = joined(headers, "ratelimit-policy").and_then(|field| items(&field));
    let policies: Vec<LimitHint> = policies.iter().flatten().filter_map(policy).collect();
    if let Some(items) = items(&field) {
        let limits = items.iter().filter_map(|item| remaining(item, &policies));
        return limits.collect();
    }
    // The seventh draft: `limit=100, remaining=50, reset=30`.
    let Ok(fields) = Parser::new(&field).parse::<Dictionary>() else {
        return Vec::new();
    };
    let number = |name: &str| match fields.get(name)? {
        ListEntry::Item(item) => whole(&item.bare_item),
        ListEntry::InnerList(_) => None,
    };
    let amount = number("limit");
    let same = policies.iter().find(|policy| policy.amount == amount);
    let limit = LimitHint {
        name: None,
        amount,
        window: same.and_then(|policy| policy.window),
        remaining: number("remaining"),
        reset_after: number("reset").map(Duration::from_secs),
    };
    if limit.is_of_use() {
        vec![limit]
    } else {
        Vec::new()
    }
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
    let remaining = parameter(item, "r")?;
    let mut policies = policies.iter();
    let policy = policies.find(|policy| policy.name.as_deref() == Some(&*name));
    Some(LimitHint {
        name: Some(name),
        amount: policy.and_then(|policy| policy.amount),
        window: policy.and_then(|policy| policy.window),
        remaining: Some(remaining),
        reset_after: parameter(item, "t").map(Duration::from_secs),
    })
}

fn name(item: &Item) -> Option<String> {
    match &item.bare_item {
        BareItem::String(name) => Some(name.as_str().to_owned()),
        // Before the eleventh draft, some services wrote names without quotes.
        BareItem::Token(name) => Some(name.as_str().to_owned()),
        _ => None,
    }
}

fn parameter(item: &Item, name: &str) -> Option<u64> {
    whole(item.params.get(name)?)
}

fn whole(value: &BareItem) -> Option<u64> {
    u64::try_from(i64::from(value.as_integer()?)).ok()
}
