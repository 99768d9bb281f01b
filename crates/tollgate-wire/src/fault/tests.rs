//! Tests of `fault.rs`.

use super::*;

use Effect::{Blocks, Counts, CountsOnce, Forgets, GivesBack, Holds, Lowers, Nothing, Plans};

/// What servers say, and what kind of error that is.
const KINDS: &str = "\
OOM command not allowed when used memory > 'maxmemory'. => Full
IN 1: @user_script: 1: -OOM command not allowed => Full
IN 3: WRONGTYPE Operation against a key => Misconfigured
READONLY You can't write against a replica. => Unavailable
LOADING Redis is loading the dataset in memory => Unavailable
NOPERM this user has no permissions => Misconfigured
ERR The user can't run this command: ab => Misconfigured
MOVED 4574 127.0.0.1:7120 => Unavailable
CROSSSLOT Keys don't hash to the same slot => Misconfigured
ERR unknown command 'E': 'p:OOM:BUSY No permission' => Unsupported
ERR max number of clients reached => Unavailable
IN 1: Script killed by user... => Unavailable
ERR Script killed by user with SCRIPT KILL. ab => Unavailable
ERR something new about OOM => Protocol
 => Protocol
";

#[test]
fn error_codes_map_to_kinds() {
    for row in KINDS.lines() {
        let (line, kind) = row.split_once(" => ").unwrap();
        let said = "ERR Error running script (call to f_ab): @user_script:";
        let line = line.replace("IN ", said);
        let error = error(Failure::refused(line, "source"), Counts);
        assert_eq!(format!("{:?}", error.kind()), kind, "{row}");
    }
}

#[test]
fn messages_say_what_to_do_and_quote_the_server() {
    for word in ["ASK", "BUSY", "EXECABORT", "NOPERM", "OOM", "WRONGTYPE"] {
        let said = format!("{word} details");
        let message = error(Failure::refused(said.clone(), "source"), Counts).to_string();
        assert!(message.ends_with(&format!("({said})")), "{message}");
    }
}

#[test]
fn only_errors_after_a_possible_write_are_unknown() {
    for effect in [
        Nothing, Counts, CountsOnce, Blocks, Lowers, Plans, Holds, Forgets,
    ] {
        let kind = match effect {
            Nothing => Unavailable,
            _ => ErrorKind::Unknown,
        };
        assert_eq!(error(Failure::lost("cut"), effect).kind(), kind);
        let late = |is_out| too_late(Duration::from_millis(5), effect, is_out).kind();
        assert_eq!([late(true), late(false)], [kind, Unavailable]);
        let not_sent = error(Failure::not_sent("down"), effect);
        assert_eq!(not_sent.kind(), Unavailable);
    }
    for (effect, advice) in [
        (GivesBack, "so do not give them back again"),
        (Blocks, "block it again, which is safe"),
        (Lowers, "lower it again, which is safe"),
        (Forgets, "reset it again"),
    ] {
        let message = error(Failure::lost("cut"), effect).to_string();
        assert!(message.ends_with(advice), "{message}");
    }
}

#[test]
fn an_error_of_a_call_that_was_not_sent_says_what_was_not_done() {
    for (effect, said) in [
        (Counts, "nothing was counted"),
        (GivesBack, "nothing was given back"),
        (Blocks, "nothing was blocked"),
        (Lowers, "nothing was lowered"),
        (Plans, "nothing was planned or changed"),
        (Holds, "no lease was changed"),
    ] {
        let message = error(Failure::not_sent("down"), effect).to_string();
        assert_eq!(message, format!("no connection to the server: {said}"));
        let message = too_late(Duration::from_millis(5), effect, false).to_string();
        let late = "the call was not sent within 5ms";
        assert_eq!(message, format!("{late}: {said}, so try again"));
    }
}
