//! Times as logs write them, and texts that are no times.

use super::*;

fn log(text: &str) -> Result<u64, Skip> {
    let stamp = text.as_bytes().try_into().map_err(|_| Skip::NoTime)?;
    LogClock::new().read(stamp).map(Timestamp::as_micros)
}

fn any(text: &str) -> Result<u64, Skip> {
    read_any(text).map(Timestamp::as_micros)
}

const MAY: u64 = 1_431_857_103_000_000;

#[test]
fn log_times_are_read_with_their_zone() {
    assert_eq!(log("17/May/2015:10:05:03 +0000"), Ok(MAY));
    assert_eq!(log("17/May/2015:03:05:03 -0700"), Ok(MAY));
    assert_eq!(log("17/May/2015:15:35:03 +0530"), Ok(MAY));
    assert_eq!(log("01/Jan/1970:00:00:00 +0000"), Ok(0));
    assert_eq!(
        log("29/Feb/2016:23:59:60 +0000"),
        log("01/Mar/2016:00:00:00 +0000")
    );
}

#[test]
fn impossible_times_are_refused() {
    for text in [
        "29/Feb/2015:10:05:03 +0000",
        "17/Mai/2015:10:05:03 +0000",
        "17/May/2015:24:05:03 +0000",
        "17/May/2015:10:60:03 +0000",
        "17/May/2015:10:05:61 +0000",
        "17/May/2015:10:05:03 00000",
        "17/May/2015:10:05:0x +0000",
        "17-May-2015:10:05:03 +0000",
    ] {
        assert_eq!(log(text), Err(Skip::NoTime), "{text}");
    }
    assert_eq!(log("31/Dec/1969:23:59:59 +0000"), Err(Skip::NoSuchInstant));
    assert_eq!(log("17/May/9999:10:05:03 +0000"), Err(Skip::NoSuchInstant));
}

#[test]
fn the_cached_minute_changes_no_result() {
    let mut clock = LogClock::new();
    for text in [
        b"17/May/2015:10:05:03 +0000",
        b"17/May/2015:10:05:04 +0000",
        b"17/May/2015:10:05:04 +0100",
        b"17/May/2015:10:06:04 +0100",
        b"18/May/2015:10:06:04 +0100",
    ] {
        assert_eq!(clock.read(text), LogClock::new().read(text));
    }
    // A minute that was rejected is rejected again.
    assert!(clock.read(b"99/May/2015:10:06:04 +0100").is_err());
    assert!(clock.read(b"99/May/2015:10:06:04 +0100").is_err());
}

#[test]
fn numbers_are_unix_seconds_or_finer() {
    assert_eq!(any("1431857103"), Ok(MAY));
    assert_eq!(any("1431857103.25"), Ok(MAY + 250_000));
    assert_eq!(any("1431857103.123456789"), Ok(MAY + 123_456));
    assert_eq!(any("1431857103000"), Ok(MAY));
    assert_eq!(any("1431857103000.5"), Ok(MAY + 500));
    assert_eq!(any("1431857103000000"), Ok(MAY));
    assert_eq!(any("1431857103000000000"), Ok(MAY));
    assert_eq!(any("99999999999999999999999"), Err(Skip::NoSuchInstant));
    assert_eq!(any("99999999999"), Err(Skip::NoSuchInstant));
    assert_eq!(any("-5"), Err(Skip::UnknownTime));
    assert_eq!(any("."), Err(Skip::UnknownTime));
    assert_eq!(any(""), Err(Skip::UnknownTime));
}

#[test]
fn exponents_move_the_point_exactly() {
    for text in [
        "1.431857103e9",
        "1431857103e0",
        "1431857103E+00",
        "14318571030000e-4",
        "0.000001431857103e+15",
        "0001431857.103e3",
        "1431857103000000000e-9",
        "1.431857103e12",
        "1.431857103e15",
        "1431857103e9",
    ] {
        assert_eq!(any(text), Ok(MAY), "{text}");
    }
    assert_eq!(any("1.43185710325e9"), Ok(MAY + 250_000));
    // A float would be exact only to 1431857103.1234567.
    assert_eq!(any("1.431857103123457e9"), Ok(MAY + 123_457));
    assert_eq!(any("4.503599627370497e15"), Ok(4_503_599_627_370_497));
    assert_eq!(any("1e-6"), Ok(1));
    assert_eq!(any("12e-7"), Ok(1));
    assert_eq!(any("9e-7"), Ok(0));
    assert_eq!(any("1e-99999999999999999999"), Ok(0));
    assert_eq!(any("0e99999999999999999999"), Ok(0));
    assert_eq!(any("0.00e5"), Ok(0));
    for text in ["1e99", "1e99999999999999999999", "9.9e10", "1e19", "1e20"] {
        assert_eq!(any(text), Err(Skip::NoSuchInstant), "{text}");
    }
    for text in [
        "1e", "e5", "1e+", "1e-", "1e5e5", "1e5.0", "1e+-5", "1 e5", "-1e5", ".5e1",
    ] {
        assert_eq!(any(text), Err(Skip::UnknownTime), "{text}");
    }
}

#[test]
fn texts_are_rfc_3339_or_as_in_access_logs() {
    assert_eq!(any("2015-05-17T10:05:03Z"), Ok(MAY));
    assert_eq!(any("2015-05-17T12:05:03.25+02:00"), Ok(MAY + 250_000));
    assert_eq!(any("17/May/2015:10:05:03 +0000"), Ok(MAY));
    assert_eq!(any("1969-12-31T23:59:59Z"), Err(Skip::NoSuchInstant));
    assert_eq!(any("yesterday"), Err(Skip::UnknownTime));
}

#[test]
fn times_without_a_zone_are_in_utc() {
    for text in [
        "2015-05-17 10:05:03",
        "2015-05-17T10:05:03",
        "17/May/2015:10:05:03",
    ] {
        assert_eq!(any(text), Ok(MAY), "{text}");
        assert_eq!(any(&format!("{text}.25")), Ok(MAY + 250_000), "{text}");
        assert_eq!(any(&format!("{text},1234567")), Ok(MAY + 123_456), "{text}");
        for end in [".", ".x", "x", " +2", "[Europe/Berlin]", ".25.", "+99:00"] {
            assert_eq!(
                any(&format!("{text}{end}")),
                Err(Skip::UnknownTime),
                "{text}{end}"
            );
        }
    }
    for text in [
        "2015-02-29 10:05:03",
        "2015-13-01 10:05:03",
        "2015-05-17 24:05:03",
        "2015-05-17 10:60:03",
        "2015-05-17 10:05:61",
        "2015-05-17 10:05",
        "2015-05-17",
        "32/May/2015:10:05:03",
        "17/May/2015",
    ] {
        assert_eq!(any(text), Err(Skip::UnknownTime), "{text}");
    }
    assert_eq!(any("1969-12-31 23:59:59"), Err(Skip::NoSuchInstant));
    assert_eq!(any("31/Dec/1969:23:59:59.5"), Err(Skip::NoSuchInstant));
}
