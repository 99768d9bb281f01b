//! Headers as well-known services send them, and as the drafts of the standard define them.

use std::time::Duration;

use tollgate_http::Hints;

use super::{hints, shown};

/// What services send: in the first line of each, what the headers mean, as `shown` writes it, and for
/// how many milliseconds to wait.
const SERVICES: &str = r#"
GitHub => core 60 0 - 1800000 => 1800000
  date: Tue, 14 Nov 2023 22:13:20 GMT
  x-ratelimit-limit: 60
  x-ratelimit-remaining: 0
  x-ratelimit-reset: 1700001800
  x-ratelimit-resource: core
  x-ratelimit-used: 60
GitHub, a secondary limit => - 5000 4900 - 3600000 => 60000
  retry-after: 60
  x-ratelimit-limit: 5000
  x-ratelimit-remaining: 4900
  x-ratelimit-reset: 1700003600
GitLab => - 60 0 - 30000 => 30000
  RateLimit-Limit: 60
  RateLimit-Name: throttle_authenticated_web
  RateLimit-Observed: 67
  RateLimit-Remaining: 0
  RateLimit-Reset: 1700000030
  RateLimit-ResetTime: Tue, 14 Nov 2023 22:13:50 GMT
  Retry-After: 30
X => - 900 0 - 900000 => 900000
  x-rate-limit-limit: 900
  x-rate-limit-remaining: 0
  x-rate-limit-reset: 1700000900
OpenAI => requests 60 59 - 1000, tokens 150000 0 - 360000 => 360000
  x-ratelimit-limit-requests: 60
  x-ratelimit-limit-tokens: 150000
  x-ratelimit-remaining-requests: 59
  x-ratelimit-remaining-tokens: 0
  x-ratelimit-reset-requests: 1s
  x-ratelimit-reset-tokens: 6m0s
Azure OpenAI => => 1280
  retry-after: 2
  retry-after-ms: 1280
Anthropic => requests 50 49 - 1000, tokens 40000 0 - 60000 => 60000
  anthropic-ratelimit-requests-limit: 50
  anthropic-ratelimit-requests-remaining: 49
  anthropic-ratelimit-requests-reset: 2023-11-14T22:13:21Z
  anthropic-ratelimit-tokens-limit: 40000
  anthropic-ratelimit-tokens-remaining: 0
  anthropic-ratelimit-tokens-reset: 2023-11-14T22:14:20Z
  request-id: req_018EeWyXxfu5pfWkrYcMdjWG
Discord => - 10 0 - 64570 => 65000
  Retry-After: 65
  X-RateLimit-Limit: 10
  X-RateLimit-Remaining: 0
  X-RateLimit-Reset: 1700000064.57
  X-RateLimit-Reset-After: 64.57
  X-RateLimit-Bucket: abcd1234
  X-RateLimit-Scope: user
Shopify => => 2000
  Retry-After: 2.0
  X-Shopify-Shop-Api-Call-Limit: 40/40
Docker Hub => - 100 76 21600000 - =>
  ratelimit-limit: 100;w=21600
  ratelimit-remaining: 76;w=21600
  docker-ratelimit-source: 192.0.2.1
Reddit => - - 0 - 123000 => 123000
  x-ratelimit-remaining: 0.0
  x-ratelimit-reset: 123
  x-ratelimit-used: 996
Atlassian => - 100 0 - 60000 => 5000
  Retry-After: 5
  X-RateLimit-Limit: 100
  X-RateLimit-NearLimit: true
  X-RateLimit-Remaining: 0
  X-RateLimit-Reset: 2023-11-14T22:13Z
a service behind a gateway => - - 0 - 3600000 => 3600000
  X-RateLimit-Remaining: 100
  X-RateLimit-Remaining: 0
  X-RateLimit-Reset: 5
  X-RateLimit-Reset: 3600
a service with milliseconds => - 50 0 60000 1280 => 1280
  X-RateLimit-Limit: 50, 10;w=1, 50;w=60
  X-RateLimit-Remaining: 0
  X-RateLimit-Reset-Ms: 1280
Kong => - 10 0 - 35000, hour 100 90 - -, minute 10 0 - - => 35000
  X-RateLimit-Limit-Minute: 10
  X-RateLimit-Remaining-Minute: 0
  X-RateLimit-Limit-Hour: 100
  X-RateLimit-Remaining-Hour: 90
  RateLimit-Limit: 10
  RateLimit-Remaining: 0
  RateLimit-Reset: 35
Brave => - 1 0 - 1000, - 15000 14523 - 1419704000 => 1000
  X-RateLimit-Limit: 1, 15000
  X-RateLimit-Policy: 1;w=1, 15000;w=2592000
  X-RateLimit-Remaining: 0, 14523
  X-RateLimit-Reset: 1, 1419704
Atlassian, by points => global-app-quota 65000 0 3600000 600000 => 600000
  Beta-RateLimit-Policy: "global-app-quota";q=65000;w=3600
  Beta-RateLimit: "global-app-quota";r=0;t=600
Strava => - 200 0 - -, - 2000 1499 - -, - 100 0 - -, - 1000 989 - - =>
  X-RateLimit-Limit: 200,2000
  X-RateLimit-Usage: 200,501
  X-ReadRateLimit-Limit: 100,1000
  X-ReadRateLimit-Usage: 101,11
AspNetCoreRateLimit => - - 0 900000 900000 => 900000
  X-Rate-Limit-Limit: 15m
  X-Rate-Limit-Remaining: 0
  X-Rate-Limit-Reset: 2023-11-14T22:28:20.0000000Z
Spring Cloud Gateway without its store => =>
  X-RateLimit-Remaining: -1
  X-RateLimit-Requested-Tokens: 1
  X-RateLimit-Burst-Capacity: 20
  X-RateLimit-Replenish-Rate: 10
Slack => => 30000
  Retry-After: 30
a service behind a maintenance page => => 600000
  Date: Tue, 14 Nov 2023 22:00:00 GMT
  Retry-After: Tue, 14 Nov 2023 22:10:00 GMT
"#;

/// The same of each draft of the standard.
const DRAFTS: &str = r#"
draft 6 => - 100 50 60000 30000 =>
  RateLimit-Limit: 100, 100;w=60
  RateLimit-Remaining: 50
  RateLimit-Reset: 30
draft 7 => - 100 50 60000 30000 =>
  RateLimit-Policy: 10;w=1, 100;w=60
  RateLimit: limit=100, remaining=50, reset=30
draft 8 to 11 => burst 100 50 60000 30000 =>
  RateLimit-Policy: "burst";q=100;w=60, "day";q=5000;w=86400;pk=:sdfjLJUOUH==:
  RateLimit: "burst";r=50;t=30
draft 11, on two lines => burst 100 50 60000 30000, day 5000 4000 86400000 - =>
  RateLimit-Policy: "burst";q=100;w=60
  RateLimit-Policy: "day";q=5000;w=86400
  RateLimit: "burst";r=50;t=30
  RateLimit: "day";r=4000
draft 11, without policies => default - 50 - 30000 =>
  RateLimit: "default";r=50;t=30;acme-extra=?1
draft 11, with a name of any text => a "b;r=0,\ 100 50 60000 30000 =>
  RateLimit-Policy: "a \"b;r=0,\\";qu=a/b;q=100;w=60
  RateLimit: "a \"b;r=0,\\";x=@1700000000;r=50;t=30;y=-1.5
draft 8 to 10, with names that are tokens => burst 100 50 60000 30000 =>
  RateLimit-Policy: burst;q=100;w=60
  RateLimit: burst;r=50;t=30
"#;

/// Checks what is understood of each case.
fn understands(cases: &str) {
    // The lines of one case become one line.
    for case in cases.trim().replace("\n  ", "\r").lines() {
        let (first, headers) = case.split_once('\r').unwrap();
        let parts: Vec<_> = first.split("=>").map(str::trim).collect();
        let [service, limits, wait] = parts.try_into().unwrap();
        let hints = hints(&headers.replace('\r', "\n"));
        assert_eq!(shown(&hints), limits, "{service}");
        let wait = wait.parse().ok().map(Duration::from_millis);
        assert_eq!(hints.wait(), wait, "{service}");
    }
}

#[test]
fn services_are_understood() {
    understands(SERVICES);
}

#[test]
fn every_draft_of_the_standard_is_understood() {
    understands(DRAFTS);
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
