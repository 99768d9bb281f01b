//! Headers as well-known services send them.

use std::time::Duration;

use tollgate_http::Hints;

use super::{Shown, hints, shown};

#[test]
fn services_are_understood() {
    let cases: &[(&str, &str, &[Shown<'_>], Option<u64>)] = &[
        (
            "GitHub",
            "date: Tue, 14 Nov 2023 22:13:20 GMT
             x-ratelimit-limit: 60
             x-ratelimit-remaining: 0
             x-ratelimit-reset: 1700001800
             x-ratelimit-resource: core
             x-ratelimit-used: 60",
            &[(Some("core"), [Some(60), Some(0)], [None, Some(1_800_000)])],
            Some(1_800_000),
        ),
        (
            "GitHub, a secondary limit",
            "retry-after: 60
             x-ratelimit-limit: 5000
             x-ratelimit-remaining: 4900
             x-ratelimit-reset: 1700003600",
            &[(None, [Some(5_000), Some(4_900)], [None, Some(3_600_000)])],
            Some(60_000),
        ),
        (
            "GitLab",
            "RateLimit-Limit: 60
             RateLimit-Name: throttle_authenticated_web
             RateLimit-Observed: 67
             RateLimit-Remaining: 0
             RateLimit-Reset: 1700000030
             RateLimit-ResetTime: Tue, 14 Nov 2023 22:13:50 GMT
             Retry-After: 30",
            &[(None, [Some(60), Some(0)], [None, Some(30_000)])],
            Some(30_000),
        ),
        (
            "X",
            "x-rate-limit-limit: 900
             x-rate-limit-remaining: 0
             x-rate-limit-reset: 1700000900",
            &[(None, [Some(900), Some(0)], [None, Some(900_000)])],
            Some(900_000),
        ),
        (
            "OpenAI",
            "x-ratelimit-limit-requests: 60
             x-ratelimit-limit-tokens: 150000
             x-ratelimit-remaining-requests: 59
             x-ratelimit-remaining-tokens: 0
             x-ratelimit-reset-requests: 1s
             x-ratelimit-reset-tokens: 6m0s",
            &[
                (Some("requests"), [Some(60), Some(59)], [None, Some(1_000)]),
                (
                    Some("tokens"),
                    [Some(150_000), Some(0)],
                    [None, Some(360_000)],
                ),
            ],
            Some(360_000),
        ),
        (
            "Azure OpenAI",
            "retry-after: 2
             retry-after-ms: 1280",
            &[],
            Some(1_280),
        ),
        (
            "Anthropic",
            "anthropic-ratelimit-requests-limit: 50
             anthropic-ratelimit-requests-remaining: 49
             anthropic-ratelimit-requests-reset: 2023-11-14T22:13:21Z
             anthropic-ratelimit-tokens-limit: 40000
             anthropic-ratelimit-tokens-remaining: 0
             anthropic-ratelimit-tokens-reset: 2023-11-14T22:14:20Z
             request-id: req_018EeWyXxfu5pfWkrYcMdjWG",
            &[
                (Some("requests"), [Some(50), Some(49)], [None, Some(1_000)]),
                (
                    Some("tokens"),
                    [Some(40_000), Some(0)],
                    [None, Some(60_000)],
                ),
            ],
            Some(60_000),
        ),
        (
            "Discord",
            "Retry-After: 65
             X-RateLimit-Limit: 10
             X-RateLimit-Remaining: 0
             X-RateLimit-Reset: 1700000064.57
             X-RateLimit-Reset-After: 64.57
             X-RateLimit-Bucket: abcd1234
             X-RateLimit-Scope: user",
            &[(None, [Some(10), Some(0)], [None, Some(64_570)])],
            Some(65_000),
        ),
        (
            "Shopify",
            "Retry-After: 2.0
             X-Shopify-Shop-Api-Call-Limit: 40/40",
            &[],
            Some(2_000),
        ),
        (
            "Docker Hub",
            "ratelimit-limit: 100;w=21600
             ratelimit-remaining: 76;w=21600
             docker-ratelimit-source: 192.0.2.1",
            &[(None, [Some(100), Some(76)], [Some(21_600_000), None])],
            None,
        ),
        (
            "Reddit",
            "x-ratelimit-remaining: 0.0
             x-ratelimit-reset: 123
             x-ratelimit-used: 996",
            &[(None, [None, Some(0)], [None, Some(123_000)])],
            Some(123_000),
        ),
        (
            "Atlassian",
            "Retry-After: 5
             X-RateLimit-Limit: 100
             X-RateLimit-NearLimit: true
             X-RateLimit-Remaining: 0
             X-RateLimit-Reset: 2023-11-14T22:13Z",
            &[(None, [Some(100), Some(0)], [None, Some(60_000)])],
            Some(5_000),
        ),
        (
            "a service behind a gateway",
            "X-RateLimit-Remaining: 100
             X-RateLimit-Remaining: 0
             X-RateLimit-Reset: 5
             X-RateLimit-Reset: 3600",
            &[(None, [None, Some(0)], [None, Some(3_600_000)])],
            Some(3_600_000),
        ),
        (
            "a service with milliseconds",
            "X-RateLimit-Limit: 50, 10;w=1, 50;w=60
             X-RateLimit-Remaining: 0
             X-RateLimit-Reset-Ms: 1280",
            &[(None, [Some(50), Some(0)], [Some(60_000), Some(1_280)])],
            Some(1_280),
        ),
        (
            "Kong",
            "X-RateLimit-Limit-Minute: 10
             X-RateLimit-Remaining-Minute: 0
             X-RateLimit-Limit-Hour: 100
             X-RateLimit-Remaining-Hour: 90
             RateLimit-Limit: 10
             RateLimit-Remaining: 0
             RateLimit-Reset: 35",
            &[
                (None, [Some(10), Some(0)], [None, Some(35_000)]),
                (Some("hour"), [Some(100), Some(90)], [None, None]),
                (Some("minute"), [Some(10), Some(0)], [None, None]),
            ],
            Some(35_000),
        ),
        (
            "Brave",
            "X-RateLimit-Limit: 1, 15000
             X-RateLimit-Policy: 1;w=1, 15000;w=2592000
             X-RateLimit-Remaining: 0, 14523
             X-RateLimit-Reset: 1, 1419704",
            &[
                (None, [Some(1), Some(0)], [None, Some(1_000)]),
                (
                    None,
                    [Some(15_000), Some(14_523)],
                    [None, Some(1_419_704_000)],
                ),
            ],
            Some(1_000),
        ),
        (
            "Atlassian, by points",
            "Beta-RateLimit-Policy: \"global-app-quota\";q=65000;w=3600
             Beta-RateLimit: \"global-app-quota\";r=0;t=600",
            &[(
                Some("global-app-quota"),
                [Some(65_000), Some(0)],
                [Some(3_600_000), Some(600_000)],
            )],
            Some(600_000),
        ),
        (
            "Strava",
            "X-RateLimit-Limit: 200,2000
             X-RateLimit-Usage: 200,501
             X-ReadRateLimit-Limit: 100,1000
             X-ReadRateLimit-Usage: 101,11",
            &[
                (None, [Some(200), Some(0)], [None, None]),
                (None, [Some(2_000), Some(1_499)], [None, None]),
                (None, [Some(100), Some(0)], [None, None]),
                (None, [Some(1_000), Some(989)], [None, None]),
            ],
            None,
        ),
        (
            "AspNetCoreRateLimit",
            "X-Rate-Limit-Limit: 15m
             X-Rate-Limit-Remaining: 0
             X-Rate-Limit-Reset: 2023-11-14T22:28:20.0000000Z",
            &[(None, [None, Some(0)], [Some(900_000), Some(900_000)])],
            Some(900_000),
        ),
        (
            "Spring Cloud Gateway without its store",
            "X-RateLimit-Remaining: -1
             X-RateLimit-Requested-Tokens: 1
             X-RateLimit-Burst-Capacity: 20
             X-RateLimit-Replenish-Rate: 10",
            &[],
            None,
        ),
        ("Slack", "Retry-After: 30", &[], Some(30_000)),
        (
            "a service behind a maintenance page",
            "Date: Tue, 14 Nov 2023 22:00:00 GMT
             Retry-After: Tue, 14 Nov 2023 22:10:00 GMT",
            &[],
            Some(600_000),
        ),
    ];
    for (service, headers, limits, wait) in cases {
        let hints = hints(headers);
        let found: Vec<_> = hints.limits().iter().map(shown).collect();
        assert_eq!(found, *limits, "{service}");
        assert_eq!(hints.wait(), wait.map(Duration::from_millis), "{service}");
    }
}

#[test]
fn every_draft_of_the_standard_is_understood() {
    let full: Shown<'_> = (None, [Some(100), Some(50)], [Some(60_000), Some(30_000)]);
    let named = |name: &'static str| (Some(name), full.1, full.2);
    for (draft, headers, limits) in [
        (
            "6",
            "RateLimit-Limit: 100, 100;w=60
             RateLimit-Remaining: 50
             RateLimit-Reset: 30",
            vec![full],
        ),
        (
            "7",
            "RateLimit-Policy: 10;w=1, 100;w=60
             RateLimit: limit=100, remaining=50, reset=30",
            vec![full],
        ),
        (
            "8 to 11",
            r#"RateLimit-Policy: "burst";q=100;w=60, "day";q=5000;w=86400;pk=:sdfjLJUOUH==:
             RateLimit: "burst";r=50;t=30"#,
            vec![named("burst")],
        ),
        (
            "11, on two lines",
            r#"RateLimit-Policy: "burst";q=100;w=60
             RateLimit-Policy: "day";q=5000;w=86400
             RateLimit: "burst";r=50;t=30
             RateLimit: "day";r=4000"#,
            vec![
                named("burst"),
                (
                    Some("day"),
                    [Some(5_000), Some(4_000)],
                    [Some(86_400_000), None],
                ),
            ],
        ),
        (
            "11, without policies",
            r#"RateLimit: "default";r=50;t=30;acme-extra=?1"#,
            vec![(Some("default"), [None, Some(50)], [None, Some(30_000)])],
        ),
        (
            "8 to 10, with names that are tokens",
            "RateLimit-Policy: burst;q=100;w=60
             RateLimit: burst;r=50;t=30",
            vec![named("burst")],
        ),
    ] {
        let hints = hints(headers);
        let found: Vec<_> = hints.limits().iter().map(shown).collect();
        assert_eq!(found, limits, "{draft}");
        assert_eq!(hints.wait(), None, "{draft}");
    }
}

#[test]
fn retry_after_takes_precedence() {
    let hints = hints(
        r#"Retry-After: 7
         RateLimit: "burst";r=0;t=30"#,
    );
    assert_eq!(hints.retry_after(), Some(Duration::from_secs(7)));
    assert_eq!(hints.wait(), Some(Duration::from_secs(7)));
}

#[test]
fn malformed_fields_are_ignored() {
    for headers in [
        "",
        "Retry-After: soon",
        "Retry-After: -5",
        "RateLimit: burst r=50",
        r#"RateLimit: "burst";r=-0.5"#,
        r#"RateLimit: ("burst");r=1"#,
        r#"RateLimit: "burst";r=many"#,
        "RateLimit: 5",
        "RateLimit: remaining=(1 2)",
        "X-RateLimit-Limit: unlimited",
        "X-RateLimit-Remaining: - 1",
        "X-RateLimit-Limit: -1",
        "X-RateLimit-Reset: later",
        "X-RateLimit: 5",
        "X-Ratelimited: yes",
        "RateLimit-Policy: \"burst\";q=100;w=60",
    ] {
        assert_eq!(hints(headers), Hints::default(), "{headers}");
    }
}
