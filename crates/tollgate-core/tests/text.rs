//! Limits as text: parsing, the position of syntax errors, and serde formats.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use tollgate_core::algorithm::Algorithm;
use tollgate_core::{Limit, LimitError, Quota};

const LIMITS: [&str; 8] = [
    "a=fixed-window:20/1h",
    "a=fixed-window:20/1h,anchored",
    "a=fixed-window:20/1h,anchored,count-denied",
    "a=sliding-log:5/1m,count-denied",
    "a=sliding-counter:20/90m",
    "a=sliding-buckets:20/1h,buckets=12",
    "a=gcra:10/250ms",
    "a.b-c_D=gcra:10/1us,burst=3",
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
}

#[test]
fn errors_point_at_the_character_that_is_wrong() {
    for (text, at, expected) in [
        ("gcra:10/1m", 0, "a name and `=`"),
        ("gcra:10/1m,burst=3", 0, "a name and `=`"),
        ("", 0, "a name and `=`"),
        ("a=", 2, "an algorithm: "),
        ("a=bucket:10/1m", 2, "an algorithm: "),
        ("a=gcra", 6, "`:` and a quota"),
        ("a=gcra/10", 6, "`:` and a quota"),
        ("a=gcra:", 7, "a whole number"),
        ("a=gcra:ten/1m", 7, "a whole number"),
        ("a=gcra:+5/1m", 7, "a whole number"),
        ("a=gcra:18446744073709551616/1m", 7, "a whole number"),
        ("a=gcra:10", 9, "`/` and a window"),
        ("a=gcra:10,burst=3", 9, "`/` and a window"),
        ("a=gcra:10/", 10, "a window"),
        ("a=gcra:10/m", 10, "a window"),
        ("a=gcra:10/213503983d", 10, "a window"),
        ("a=gcra:10/1", 11, "a unit"),
        ("a=gcra:10/1min", 11, "a unit"),
        ("a=gcra:10/1m:", 12, "`,` and an option"),
        ("a=gcra:10/1m,", 13, "the option `burst=NUMBER`"),
        ("a=gcra:10/1m,burst", 13, "the option `burst=NUMBER`"),
        ("a=gcra:10/1m,burst=", 19, "a number"),
        ("a=gcra:10/1m,burst=+3", 19, "a number"),
        (
            "a=gcra:10/1m,burst=3,burst=3",
            21,
            "the option `burst=NUMBER`",
        ),
        ("a=gcra:10/1m,anchored", 13, "the option `burst=NUMBER`"),
        (
            "a=sliding-log:5/1m,burst=3",
            19,
            "the option `count-denied`",
        ),
        (
            "a=sliding-log:5/1m,count-denied=1",
            19,
            "the option `count-denied`",
        ),
        ("a=sliding-counter:5/1m,x", 23, "the end"),
        ("a=sliding-buckets:5/1m", 22, "`,buckets=NUMBER`"),
        ("a=fixed-window:5/1m,anchored,anchored", 29, "an option"),
        (
            "a=sliding-log:5/1m,count-denied,count-denied",
            32,
            "the option `count-denied`",
        ),
        (
            "a=sliding-buckets:5/1m,buckets=2,buckets=2",
            33,
            "the option `buckets=NUMBER`",
        ),
    ] {
        let Err(LimitError::Syntax {
            at: found,
            expected: said,
            text: given,
        }) = text.parse::<Limit>()
        else {
            panic!("{text} is no limit");
        };
        assert_eq!((found, given.as_str()), (at, text));
        assert!(said.starts_with(expected), "{text}: {said}");
    }
    let error = "a=gcra:10/1m,brust=3".parse::<Limit>().unwrap_err();
    assert_eq!(
        error.to_string(),
        r#""a=gcra:10/1m,brust=3" is wrong at character 14 ("brust=3"): expected the option `burst=NUMBER`, once"#
    );
    let error = "a=gcra:10/1".parse::<Limit>().unwrap_err();
    assert_eq!(
        error.to_string(),
        r#""a=gcra:10/1" ends too early: expected a unit: us, ms, s, m, h or d"#
    );
}

#[test]
fn well_formed_text_of_an_impossible_limit_gives_its_limit_error() {
    let of = |text: &str| text.parse::<Limit>().unwrap_err();
    assert!(matches!(of("a b=gcra:1/1s"), LimitError::BadName { .. }));
    assert!(matches!(of("a=gcra:1/0s"), LimitError::BadWindow { .. }));
    assert!(matches!(
        of("a=sliding-buckets:1/1s,buckets=0"),
        LimitError::BadBuckets { buckets: 0 }
    ));
    assert!(matches!(
        of("a=gcra:0/1s,burst=1"),
        LimitError::NeverRefills { burst: 1 }
    ));
    assert!("20/1h,anchored".parse::<Quota>().is_err());
}

#[test]
fn limits_are_serialized_as_strings() {
    #[derive(Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    struct Settings {
        limits: Vec<Limit>,
        quota: Quota,
        algorithm: Algorithm,
    }
    let json = r#"{"limits":["a=gcra:10/1m","b=sliding-log:5/1h"],"quota":"3/1s","algorithm":"sliding-counter:20/1h"}"#;
    let settings: Settings = serde_json::from_str(json).unwrap();
    assert_eq!(settings.limits[1].name(), "b");
    assert_eq!(settings.quota, Quota::per_second(3));
    assert_eq!(serde_json::to_string(&settings).unwrap(), json);
    let error = serde_json::from_str::<Limit>(r#""a=gcra:10/1min""#).unwrap_err();
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
    ] {
        let error = error.unwrap().to_string();
        let expected = format!("expected a string such as {example} at");
        assert!(error.contains(&expected), "{error}");
    }
}
