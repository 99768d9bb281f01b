//! Limits as text: parsing, the position of syntax errors, and serde formats.

use std::fmt::Debug;
use std::str::FromStr;
use std::time::Duration;

use tollgate_core::Algorithm;
use tollgate_core::{Limit, LimitError, LimitErrorKind, Quota, lease, schedule};

const LIMITS: [&str; 14] = [
    "a=fixed-window:20/1h",
    "a=fixed-window:20/1h,anchored",
    "a=fixed-window:20/1h,anchored,count-denied",
    "a=sliding-log:5/1m,count-denied",
    "a=sliding-counter:20/90m",
    "a=sliding-buckets:20/1h,buckets=12",
    "a=gcra:10/250ms",
    "a=gcra:5/1300ms",
    "a=gcra:5/36h",
    "a=gcra:5/1d",
    "a=sliding-log:5/1m",
    "a.b-c_D=gcra:10/1us,burst=3",
    "a=block:5m",
    "a=block:90s,doublings=3",
];

#[test]
fn limits_are_written_as_they_are_read() {
    for text in LIMITS {
        let limit: Limit = text.parse().unwrap();
        assert_eq!(limit.to_string(), text);
        let (name, algorithm) = text.split_once('=').unwrap();
        let made = Limit::new(name, algorithm.parse::<Algorithm>().unwrap()).unwrap();
        assert_eq!(limit, made);
    }
    let usual: Algorithm = "gcra:4/1m,burst=4".parse().unwrap();
    assert_eq!(usual.to_string(), "gcra:4/1m");
}

/// Checks that each text of a table is wrong at `^`, where something else was expected.
pub(crate) fn expects<T>(table: &str)
where
    T: Debug + FromStr<Err = LimitError>,
{
    for line in table.trim().lines() {
        let (marked, expected) = line.split_once(" => ").unwrap();
        let text = marked.replace('^', "");
        let error = text.parse::<T>().expect_err(&text);
        assert_eq!(error.kind(), LimitErrorKind::Syntax, "{error}");
        assert_eq!(error.position(), marked.find('^'), "{error}");
        let said = error.to_string();
        assert!(said.starts_with(&format!("{text:?} ")), "{said}");
        assert!(said.contains(&format!(": expected {expected}")), "{said}");
    }
}

/// Texts that are no limits, each wrong at `^`, and what was expected there.
const WRONG: &str = "
^gcra:10/1m => a name and `=`
^gcra:10/1m,burst=3 => a name and `=`
^ => a name and `=`
a=^ => an algorithm:
a=^bucket:10/1m => an algorithm:
a=gcra^ => `:` and a quota
a=gcra^/10 => `:` and a quota
a=gcra:^ => a whole number
a=gcra:^ten/1m => a whole number
a=gcra:^+5/1m => a whole number
a=gcra:^18446744073709551616/1m => a smaller number
a=gcra:10^ => `/` and a window
a=gcra:10^,burst=3 => `/` and a window
a=gcra:10/^ => a number and a unit
a=gcra:10/^x => a unit
a=gcra:10/^-1m => a unit
a=gcra:10/^99999999999999999999m => a smaller number
a=gcra:10/^213503983d => a time
a=gcra:10/1^ => a unit
a=gcra:10/1^mn => a unit
a=gcra:5/1^w => a unit
a=gcra:5/1^.5s => a unit
a=gcra:5^+/1s => `/` and a window
a=fixed-window:5/1m,^anchored=1 => one of the options `anchored`, `count-denied` or `shadow`, once
a=gcra:10/1^day => a unit
a=gcra:10/1m^: => `,` and an option
a=gcra:10/1m,^ => one of the options `burst=NUMBER` or `shadow`, once
a=gcra:5/1s,^delay=8 => one of the options `burst=NUMBER` or `shadow`, once
a=gcra:10/1m,shadow,^shadow => one of the options `burst=NUMBER` or `shadow`, once
a=gcra:10/1m,^shadow=1 => one of the options `burst=NUMBER` or `shadow`, once
a=gcra:10/1m,^burst => one of the options `burst=NUMBER` or `shadow`, once
a=gcra:10/1m,burst=^ => a number
a=gcra:10/1m,burst=^+3 => a number
a=gcra:10/1m,burst=^99999999999999999999 => a smaller number
a=^b=gcra:10/1m => an algorithm without a name
a=gcra:10/1m,burst=3,^burst=3 => one of the options `burst=NUMBER` or `shadow`, once
a=gcra:10/1m,^anchored => one of the options `burst=NUMBER` or `shadow`, once
a=sliding-log:5/1m,^burst=3 => one of the options `count-denied` or `shadow`, once
a=sliding-log:5/1m,^count-denied=1 => one of the options `count-denied` or `shadow`, once
a=sliding-counter:5/1m,^x => the option `shadow`, once
a=block^ => `:` and how long a block lasts
a=block:5^ => a unit
a=block:1^/5m => a unit
a=block:5m,^burst=3 => one of the options `doublings=NUMBER` or `shadow`, once
a=sliding-buckets:5/1m^ => `,buckets=NUMBER`
a=fixed-window:5/1m,anchored,^anchored => one of the options `anchored`,
a=sliding-log:5/1m,count-denied,^count-denied => one of the options `count-denied` or `shadow`, once
a=sliding-buckets:5/1m,buckets=2,^buckets=2 => one of the options `buckets=NUMBER` or `shadow`, once
";

#[test]
fn errors_point_at_the_character_that_is_wrong() {
    expects::<Limit>(WRONG);
    let error = "a=gcra:10/1m,brust=3".parse::<Limit>().unwrap_err();
    assert_eq!(
        error.to_string(),
        r#""a=gcra:10/1m,brust=3" is wrong at character 14 ("brust=3"): expected one of the options `burst=NUMBER` or `shadow`, once"#
    );
    let error = "a=gcra:10/1".parse::<Limit>().unwrap_err();
    assert_eq!(
        error.to_string(),
        r#""a=gcra:10/1" ends too early: expected a unit: us, ms, s, m, h or d"#
    );
    let error = "a=gcra:5/mn".parse::<Limit>().unwrap_err();
    assert_eq!(
        error.to_string(),
        r#""a=gcra:5/mn" is wrong at character 10 ("mn"): expected a unit: us, ms, s, m, h or d"#
    );
}

#[test]
fn units_may_be_written_as_words_and_one_of_them_without_a_number() {
    for (text, quota) in [
        ("5/s", Quota::per_second(5)),
        ("5/sec", Quota::per_second(5)),
        ("5/1second", Quota::per_second(5)),
        ("5/60seconds", Quota::per_minute(5)),
        ("5/m", Quota::per_minute(5)),
        ("5/min", Quota::per_minute(5)),
        ("5/minute", Quota::per_minute(5)),
        ("5/60minutes", Quota::per_hour(5)),
        ("5/h", Quota::per_hour(5)),
        ("5/hour", Quota::per_hour(5)),
        ("5/24hours", Quota::per_day(5)),
        ("5/d", Quota::per_day(5)),
        ("5/60s", Quota::per_minute(5)),
        ("5/1000ms", Quota::per_second(5)),
        ("5/1000000us", Quota::per_second(5)),
    ] {
        assert_eq!(text.parse(), Ok(quota), "{text}");
        let limit: Limit = format!("a=gcra:{text},burst=1").parse().unwrap();
        assert_eq!(limit.algorithm().quota(), quota);
    }
    assert!("a=block:m".parse::<Limit>().is_err());
    assert!("a=block:5min".parse::<Limit>().is_ok());
}

/// Checks that each text of a table is wrong at `^`, and that the error is of a kind and gives a reason.
fn points_at<T>(table: &str)
where
    T: Debug + FromStr<Err = LimitError>,
{
    for line in table.trim().lines() {
        let [marked, kind, reason] = line.split(" => ").collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let text = marked.replace('^', "");
        let error = text.parse::<T>().expect_err(&text);
        assert_eq!(format!("{:?}", error.kind()), kind, "{error}");
        assert_eq!(error.position(), marked.find('^'), "{error}");
        let said = error.to_string();
        assert!(said.starts_with(&format!("{text:?} is wrong at")), "{said}");
        assert!(said.contains(reason), "{said}");
    }
}

/// Texts of limits with numbers or names that are not possible.
const IMPOSSIBLE: &str = r#"
^a b=gcra:1/1s => Name => "a b" is not a name
^=gcra:1/1m => Name => "" is not a name
login=gcra:5/^0s => Duration => a window of 0ns is not
a=sliding-buckets:1/1s,buckets=^0 => Amount => 0 buckets are not possible
a=gcra:0/1s,burst=^1 => Amount => a burst of 1 on a quota of zero
a=sliding-log:^500000/1m => Amount => an amount of 500000 is too large: choose at most 100000,
a=sliding-counter:^9007199254741/1s => Amount => an amount of 9007199254741 is too large: choose at most 9007199254740,
a=gcra:1/1s,burst=^9007199254740991 => Amount => a burst of 9007199254740991 cannot be counted exactly in this window: choose at most 9007199254
a=fixed-window:^9007199254740992/1m => Amount => an amount of 9007199254740992 is too large: choose at most 9007199254740991,
"#;

#[test]
fn values_that_are_not_possible_are_pointed_at() {
    points_at::<Limit>(IMPOSSIBLE);
    let error = "login=gcra:5/0s".parse::<Limit>().unwrap_err();
    assert_eq!(
        error.to_string(),
        r#""login=gcra:5/0s" is wrong at character 14 ("0s"): a window of 0ns is not possible: use whole microseconds, from 1 µs to 9007199254.740991s"#
    );
    assert!("20/1h,anchored".parse::<Quota>().is_err());
    for text in ["off", "login=off"] {
        let error = text.parse::<Limit>().unwrap_err();
        assert_eq!(error.kind(), LimitErrorKind::Off, "{text}: {error}");
    }
}

/// Quotas of schedules with numbers or names that are not possible.
const IMPOSSIBLE_IN_SCHEDULES: &str = "
long=1/^40000d => Duration => from 1 µs to 1125899906.842623s
x=^100001/1h => Amount => an amount of 100001 is too large: choose at most 100000, or count in a larger unit
^a b=5/1h => Name => is not a name
^100001/day@Europe/Berlin => Amount => too large
^=5/1h => Name => is not a name
";

/// Schedules have quotas with bounds of their own.
#[test]
fn quotas_of_schedules_say_their_own_bounds() {
    points_at::<schedule::Quota>(IMPOSSIBLE_IN_SCHEDULES);
    let said = schedule::Terms::new("plans", [""; 0])
        .unwrap_err()
        .to_string();
    assert_eq!(
        said,
        "a schedule needs at least one quota that counts events, such as `5/1h`"
    );
    let many = (1..=33).map(|hours| format!("1/{hours}h"));
    let said = schedule::Terms::new("plans", many).unwrap_err().to_string();
    assert_eq!(
        said,
        "33 quotas in one schedule are too many: use at most 32"
    );
}

#[test]
fn quotas_of_schedules_are_written_as_they_are_read() {
    for text in [
        "5/1h",
        "hourly=5/1h",
        "10/day@Europe/Berlin",
        "3/week@UTC",
        "9/year@UTC",
        "monthly=40/month@America/New_York",
        "monthly=40/month@America/New_York,day=15,at=04:00",
    ] {
        let quota: schedule::Quota = text.parse().unwrap();
        assert_eq!(quota.to_string(), text);
        let name = text.split_once('=').map_or(text, |(name, _)| name);
        assert_eq!(quota.name(), name);
    }
}

#[test]
fn leases_say_their_own_bounds() {
    let of = |amount, ttl| {
        lease::Terms::new("uploads", amount, ttl)
            .unwrap_err()
            .to_string()
    };
    for (ttl, said) in [
        (
            Duration::from_micros(500),
            "leases of 500µs are not possible",
        ),
        (
            Duration::from_secs(40 * 366 * 86_400),
            "leases of 1264896000s are not possible",
        ),
    ] {
        let error = of(1, ttl);
        assert!(error.starts_with(said), "{error}");
        assert!(
            error.ends_with("choose whole microseconds, from 1ms to 1125899906.842623s"),
            "{error}"
        );
    }
    let error = of(10_001, Duration::from_secs(1));
    assert!(!error.contains("algorithm"), "{error}");
    assert!(error.contains("choose at most 1000,"), "{error}");
}

#[test]
fn a_name_before_an_algorithm_alone_is_pointed_at() {
    let error = "login=gcra:5/1m".parse::<Algorithm>().unwrap_err();
    assert_eq!(
        error.to_string(),
        r#""login=gcra:5/1m" is wrong at character 1 ("login=gcra:5/1m"): expected an algorithm without a name before it, such as `gcra:10/1m`"#
    );
}

/// A text of a megabyte makes no error of a megabyte.
#[test]
fn errors_quote_long_texts_in_part() {
    let long = "é".repeat(500_000);
    let errors = [
        long.parse::<Limit>().unwrap_err(),
        format!("{long}=gcra:1/1m").parse::<Limit>().unwrap_err(),
        format!("a=gcra:1/1m,{long}").parse::<Limit>().unwrap_err(),
        format!("a=gcra:1/{long}").parse::<Limit>().unwrap_err(),
        Limit::new(&long, "gcra:1/1m".parse::<Algorithm>().unwrap()).unwrap_err(),
    ];
    for error in errors {
        let said = error.to_string();
        assert!(said.len() < 900, "{said}");
        assert!(said.contains("ééé\"..."), "{said}");
    }
}

#[test]
fn limits_are_serialized_as_strings() {
    #[derive(Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    struct Settings {
        limits: Vec<Limit>,
        quota: Quota,
        algorithm: Algorithm,
        schedule: Vec<schedule::Quota>,
    }
    let json = r#"{"limits":["a=gcra:10/1m","b=sliding-log:5/1h"],"quota":"3/1s","algorithm":"sliding-counter:20/1h","schedule":["hourly=5/1h","10/day@Europe/Berlin"]}"#;
    let settings: Settings = serde_json::from_str(json).unwrap();
    assert_eq!(settings.limits[1].name(), "b");
    assert_eq!(settings.quota, Quota::per_second(3));
    assert_eq!(serde_json::to_string(&settings).unwrap(), json);
    let error = serde_json::from_str::<Limit>(r#""a=gcra:10/1mn""#).unwrap_err();
    assert!(
        error.to_string().contains("wrong at character 12"),
        "{error}"
    );
    for (error, example) in [
        (
            serde_json::from_str::<Limit>("5").err(),
            r#""login=gcra:10/1m""#,
        ),
        (
            serde_json::from_str::<Algorithm>("5").err(),
            r#""gcra:10/1m""#,
        ),
        (serde_json::from_str::<Quota>("5").err(), r#""10/1m""#),
        (
            serde_json::from_str::<schedule::Quota>("5").err(),
            r#""hourly=5/1h""#,
        ),
    ] {
        let error = error.unwrap().to_string();
        let expected = format!("expected a string such as {example} at");
        assert!(error.contains(&expected), "{error}");
    }
}
