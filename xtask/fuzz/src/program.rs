//! Files that the program `tollgate` reads.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;

use tempfile::NamedTempFile;

use crate::input::{Input, LogOptions};
use crate::planned::Messages;
use crate::progress::Progress;

/// The options of `tollgate replay` that say how to read a log.
#[derive(Debug, clap::Parser)]
struct Replay {
    #[command(flatten)]
    log: LogOptions,
}

thread_local! {
    /// A file for each thread, whose content changes with each call.
    static LOG: RefCell<Option<NamedTempFile>> = const { RefCell::new(None) };
}

/// What the program is called with, one of which the first byte chooses.
const OPTIONS: [&[&str]; 4] = [
    &[],
    &["--key", "client+path"],
    &["--key", "ip+user", "--format", "json", "--ip-field", "a.0"],
    &["--pattern", "{date} {time} {ip} {} user={user} \"{path}\""],
];

/// Reads an access log: each line is a request or is skipped, and the requests are sorted.
pub fn logs(data: &[u8]) {
    let Some((&choice, log)) = data.split_first() else {
        return;
    };
    LOG.with_borrow_mut(|file| {
        let file = file.get_or_insert_with(|| {
            NamedTempFile::new().unwrap_or_else(|error| panic!("no temporary file: {error}"))
        });
        fs::write(file.path(), log).unwrap_or_else(|error| panic!("no file to write: {error}"));
        let options = OPTIONS[usize::from(choice) % OPTIONS.len()];
        let mut words = vec![OsStr::new("replay"), file.path().as_os_str()];
        words.extend(options.iter().map(OsStr::new));
        let replay = <Replay as clap::Parser>::try_parse_from(words);
        let Replay { log: options } = replay.unwrap_or_else(|error| panic!("{error}"));
        let key = match options.key_parts() {
            Ok(key) => key,
            Err(error) => panic!("{error}"),
        };
        match Input::read(&options, &key, true, &Progress::new(false)) {
            Ok(input) => {
                let lines = log.split(|&byte| byte == b'\n').count();
                let lines = u64::try_from(lines).unwrap_or(u64::MAX);
                let is_gzip = log.starts_with(b"\x1f\x8b");
                assert!(is_gzip || (1..=lines).contains(&input.trace.requests()));
                let (first, last) = input.trace.span();
                assert!(first <= last);
            }
            Err(failure) => assert!(!failure.to_string().is_empty()),
        }
    });
}

/// Reads the messages of `tollgate schedule plan`: all of the file, or an error with its line.
pub fn messages(data: &[u8]) {
    match Messages::parse("messages".to_owned(), data) {
        Ok(messages) => {
            let lines = data.split(|&byte| byte == b'\n' || byte == b'\r').count();
            assert!((1..=lines).contains(&messages.len()));
            let wanted: Vec<_> = messages.iter().map(|message| message.wanted).collect();
            let decided = messages.instants(true);
            assert!(decided.iter().zip(&wanted).all(|(at, wanted)| at <= wanted));
            assert!(messages.key_ids().all(|key| !messages.key(key).is_empty()));
        }
        Err(failure) => assert!(!failure.to_string().is_empty()),
    }
}
