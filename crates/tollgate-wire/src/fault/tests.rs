//! Tests of `fault.rs`.

use super::*;

fn kind_of(line: &str) -> ErrorKind {
    error(Failure::refused(line, "source"), Effect::Counts).kind()
}

#[test]
fn error_codes_map_to_kinds() {
    for (line, kind) in [
        (
            "OOM command not allowed when used memory > 'maxmemory'.",
            ErrorKind::Full,
        ),
        (
            "ERR Error running script (call to f_ab): @user_script:1: @user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.",
            ErrorKind::Full,
        ),
        (
            "ERR Error running script (call to f_ab): @user_script:3: WRONGTYPE Operation against a key holding the wrong kind of value",
            ErrorKind::Misconfigured,
        ),
        (
            "READONLY You can't write against a read only replica.",
            ErrorKind::Unavailable,
        ),
        (
            "LOADING Redis is loading the dataset in memory",
            ErrorKind::Unavailable,
        ),
        (
            "NOPERM this user has no permissions",
            ErrorKind::Misconfigured,
        ),
        (
            "ERR The user executing the script can't run this command or subcommand script: ab",
            ErrorKind::Misconfigured,
        ),
        ("MOVED 4574 127.0.0.1:7120", ErrorKind::Unavailable),
        (
            "CROSSSLOT Keys in request don't hash to the same slot",
            ErrorKind::Misconfigured,
        ),
        (
            "ERR unknown command 'EVALSHA', with args beginning with: 'ab' '1' 'p:OOM:BUSY No permission'",
            ErrorKind::Unsupported,
        ),
        ("ERR max number of clients reached", ErrorKind::Unavailable),
        (
            "ERR Error running script (call to f_ab): @user_script:1: Script killed by user with SCRIPT KILL...",
            ErrorKind::Unavailable,
        ),
        (
            "ERR Script killed by user with SCRIPT KILL. script: ab, on @user_script:1.",
            ErrorKind::Unavailable,
        ),
        ("ERR something new about OOM", ErrorKind::Protocol),
        ("", ErrorKind::Protocol),
    ] {
        assert_eq!(kind_of(line), kind, "{line}");
    }
}

#[test]
fn messages_say_what_to_do_and_quote_the_server() {
    for (word, ..) in MEANINGS {
        let said = format!("{word} details");
        let message = error(Failure::refused(said.clone(), "source"), Effect::Counts).to_string();
        assert!(message.ends_with(&format!("({said})")), "{message}");
    }
}

#[test]
fn only_errors_after_a_possible_write_are_unknown() {
    for (effect, kind) in [
        (Effect::Nothing, ErrorKind::Unavailable),
        (Effect::Counts, ErrorKind::Unknown),
        (Effect::CountsOnce, ErrorKind::Unknown),
        (Effect::Blocks, ErrorKind::Unknown),
        (Effect::Lowers, ErrorKind::Unknown),
        (Effect::Plans, ErrorKind::Unknown),
        (Effect::Holds, ErrorKind::Unknown),
        (Effect::Forgets, ErrorKind::Unknown),
    ] {
        assert_eq!(error(Failure::lost("cut"), effect).kind(), kind);
        let late = |is_out| too_late(Duration::from_millis(5), effect, is_out).kind();
        assert_eq!([late(true), late(false)], [kind, ErrorKind::Unavailable]);
        let not_sent = error(Failure::not_sent("down"), effect);
        assert_eq!(not_sent.kind(), ErrorKind::Unavailable);
    }
    for (effect, advice) in [
        (Effect::Blocks, "block it again, which is safe"),
        (Effect::Lowers, "lower it again, which is safe"),
        (Effect::Forgets, "reset it again"),
    ] {
        let message = error(Failure::lost("cut"), effect).to_string();
        assert!(message.ends_with(advice), "{message}");
    }
}

#[test]
fn an_error_of_a_call_that_was_not_sent_says_what_was_not_done() {
    for (effect, said) in [
        (Effect::Counts, "nothing was counted"),
        (Effect::Blocks, "nothing was blocked"),
        (Effect::Lowers, "nothing was lowered"),
        (Effect::Plans, "nothing was planned or changed"),
        (Effect::Holds, "no lease was changed"),
    ] {
        let message = error(Failure::not_sent("down"), effect).to_string();
        assert_eq!(message, format!("no connection to the server: {said}"));
        let message = too_late(Duration::from_millis(5), effect, false).to_string();
        let late = "the call was not sent within 5ms";
        assert_eq!(message, format!("{late}: {said}, so try again"));
    }
}
