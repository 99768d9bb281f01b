//! Of values that come more than once, the strictest counts; a malformed one hides no other.

use super::{hints, shown};

#[test]
fn longest_retry_after_counts() {
    for (headers, millis) in [
        ("Retry-After: 60\nRetry-After: 120", 120_000),
        ("Retry-After: 120\nRetry-After: 60", 120_000),
        ("Retry-After: 60, 120", 120_000),
        ("Retry-After: 120, 60", 120_000),
        ("Retry-After: Tue, 14 Nov 2023 22:14:20 GMT, 30", 60_000),
        ("Retry-After: 90, Tue, 14 Nov 2023 22:14:20 GMT", 90_000),
        (
            "Retry-After: Tue, 14 Nov 2023 22:14:20 GMT, Tuesday, 14-Nov-23 22:14:30 GMT",
            70_000,
        ),
        ("Retry-After: soon\nRetry-After: 60", 60_000),
        ("Retry-After: soon, 60,", 60_000),
        ("Retry-After: Mon, 60", 60_000),
        ("Retry-After: 600\nRetry-After-Ms: 0", 600_000),
        ("Retry-After: 1\nRetry-After-Ms: 1280", 1_280),
        ("Retry-After-Ms: 1280\nRetry-After-Ms: 20", 1_280),
        ("Retry-After-Ms: 20, 1280", 1_280),
        ("Retry-After: 600\nRetry-After-Ms: soon", 600_000),
        ("Retry-After: soon\nRetry-After-Ms: 1280", 1_280),
        // By the earlier of two clocks.
        (
            "Date: Tue, 14 Nov 2023 22:13:10 GMT
             Date: Tue, 14 Nov 2023 22:13:00 GMT
             Date: today
             Retry-After: Tue, 14 Nov 2023 22:14:00 GMT",
            60_000,
        ),
        // Whole seconds are the milliseconds, rounded up.
        ("Retry-After: 2\nRetry-After-Ms: 1280", 1_280),
        ("Retry-After: 2\nRetry-After-Ms: 1000", 2_000),
    ] {
        let found = hints(headers).retry_after().map(|time| time.as_millis());
        assert_eq!(found, Some(millis), "{headers}");
    }
}

#[test]
fn negative_remaining_is_none_left() {
    for headers in [
        "X-RateLimit-Remaining: -2\nX-RateLimit-Reset: 30",
        "X-RateLimit-Remaining: -1.5\nX-RateLimit-Reset: 30",
        "X-RateLimit-Remaining: -99999999999999999999\nX-RateLimit-Reset: 30",
        r#"RateLimit: "burst";r=-1;t=30"#,
        "RateLimit: limit=100, remaining=-1, reset=30",
    ] {
        let hints = hints(headers);
        assert_eq!(hints.limits().len(), 1, "{headers}");
        assert_eq!(hints.limits()[0].remaining(), Some(0), "{headers}");
        assert_eq!(hints.wait().map(|time| time.as_secs()), Some(30));
    }
}

/// Some say so of a request that they let through without counting it.
#[test]
fn minus_one_remaining_matters_only_to_a_request_that_was_refused() {
    let limit = "X-RateLimit-Limit: 100\nX-RateLimit-Remaining: -1\nX-RateLimit-Reset: 30";
    let minus_one = hints(limit);
    assert_eq!(shown(&minus_one), "- 100 - - 30000");
    assert_eq!(minus_one.wait().map(|time| time.as_secs()), Some(30));
    // What another says of the same limit counts.
    for headers in [
        format!("{limit}\nX-RateLimit-Remaining: 5"),
        format!("X-RateLimit-Remaining: 5\n{limit}"),
    ] {
        let hints = hints(&headers);
        assert_eq!(shown(&hints), "- 100 5 - 30000");
        assert_eq!(hints.wait(), None);
    }
}

#[test]
fn what_is_used_of_an_amount_leaves_the_rest() {
    for (headers, remaining) in [
        ("X-RateLimit-Used: 30", "70"),
        ("X-RateLimit-Usage: 130", "0"),
        // The more of two.
        ("X-RateLimit-Used: 30\nX-RateLimit-Used: 40", "60"),
        ("X-RateLimit-Used: many", "-"),
        ("X-RateLimit-Used: 30, 40", "-"),
        // It says what remains.
        ("X-RateLimit-Used: 30\nX-RateLimit-Remaining: 90", "90"),
    ] {
        let hints = hints(&format!("X-RateLimit-Limit: 100\n{headers}"));
        let expected = format!("- 100 {remaining} - -");
        assert_eq!(shown(&hints), expected, "{headers}");
    }
    assert!(hints("X-RateLimit-Used: 30").limits().is_empty());
}

#[test]
fn repeated_lines_are_one_strict_limit() {
    for headers in [
        "X-RateLimit-Limit: 100;w=60
         X-RateLimit-Limit: 50
         X-RateLimit-Remaining: 3
         X-RateLimit-Remaining: 70
         X-RateLimit-Reset: 3600
         X-RateLimit-Reset: 5",
        "X-RateLimit-Limit: 50
         X-RateLimit-Limit: 100;w=60
         X-RateLimit-Remaining: 70
         X-RateLimit-Remaining: 3
         X-RateLimit-Reset: 5
         X-RateLimit-Reset: 3600",
        "X-RateLimit-Limit: 50
         X-RateLimit-Remaining: 3
         X-RateLimit-Remaining: soon
         X-RateLimit-Reset: 3600, 5
         X-RateLimit-Reset: soon",
    ] {
        let hints = hints(headers);
        assert_eq!(shown(&hints), "- 50 3 - 3600000", "{headers}");
    }
}

#[test]
fn window_belongs_to_its_amount() {
    for (lines, amount, window) in [
        (["100;w=60", "50"], 50, "-"),
        (["50", "100;w=60"], 50, "-"),
        (["100", "50;w=60"], 50, "60000"),
        (["50;w=60", "100;w=1"], 50, "60000"),
        (["50", "50;w=60"], 50, "60000"),
        (["50;w=60", "50"], 50, "60000"),
        // The first is the limit, and the others are the service's policies.
        (["50, 10;w=1, 50;w=60", "100"], 50, "60000"),
        // Without windows, they are amounts.
        (["100, 50", "100"], 50, "-"),
    ] {
        let [one, other] = lines;
        let hints = hints(&format!("RateLimit-Limit: {one}\nRateLimit-Limit: {other}"));
        let expected = format!("- {amount} - {window} -");
        assert_eq!(shown(&hints), expected, "{lines:?}");
    }
}

#[test]
fn lists_of_equal_length_are_one_limit_each() {
    let two = "- 100 0 - 3000, - 1000 900 - 3000000";
    for headers in [
        "X-RateLimit-Limit: 100, 1000
         X-RateLimit-Remaining: 0, 900
         X-RateLimit-Reset: 3, 3000",
        // Lines of the same lengths are compared one by one.
        "X-RateLimit-Limit: 100, 1000
         X-RateLimit-Remaining: 20, 900
         X-RateLimit-Remaining: -2, 1000
         X-RateLimit-Reset: 3, 3000
         X-RateLimit-Reset: 1, 2000",
        "X-RateLimit-Limit: 100, 1000
         X-RateLimit-Remaining: 0, 900
         X-RateLimit-Reset: 1700000003, Tue, 14 Nov 2023 23:03:20 GMT",
        "X-RateLimit-Limit: 100, 1000
         X-RateLimit-Remaining: 0, 900
         X-RateLimit-Reset: 4, 4000
         X-RateLimit-Reset-After: 3, 3000",
    ] {
        let hints = hints(headers);
        assert_eq!(shown(&hints), two, "{headers}");
        assert_eq!(hints.wait().map(|time| time.as_secs()), Some(3));
    }
    // Nobody can tell which time is whose.
    let hints = hints(
        "X-RateLimit-Limit: 100, 1000
         X-RateLimit-Remaining: 900, 0
         X-RateLimit-Reset: 3000, 3, 60",
    );
    assert_eq!(shown(&hints), "- 100 0 - 3000000");
}

#[test]
fn repeated_keys_of_the_seventh_draft_are_several_limits() {
    for headers in [
        "RateLimit: limit=100, remaining=0, reset=30
         RateLimit: limit=1000, remaining=900, reset=10",
        "RateLimit: limit=100, remaining=0, reset=30, limit=1000, remaining=900, reset=10",
        "RateLimit: limit=100;acme=\"a,b\", remaining=0, reset=30, limit=1000, remaining=900, reset=10",
    ] {
        let hints = hints(headers);
        let expected = "- 100 0 - 30000, - 1000 900 - 10000";
        assert_eq!(shown(&hints), expected, "{headers}");
        assert_eq!(hints.wait().map(|time| time.as_secs()), Some(30));
    }
}

/// Otherwise each of many limits would be looked for among as many policies.
#[test]
fn only_the_first_hundred_policies_are_read() {
    let policies: Vec<_> = (0..200).map(|n| format!("{n};w=60")).collect();
    let headers = |limit| {
        format!(
            "RateLimit-Policy: {}\nRateLimit: {limit}",
            policies.join(",")
        )
    };
    let shown = |limit| shown(&hints(&headers(limit)));
    assert_eq!(shown("limit=99, remaining=5"), "- 99 5 60000 -");
    assert_eq!(shown("limit=100, remaining=5"), "- 100 5 - -");
}
