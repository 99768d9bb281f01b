//! The commands of a store.

use redis::Cmd;
use tollgate_wire::ScriptCall;

pub(crate) fn evalsha(call: &ScriptCall<'_>) -> Cmd {
    // The keys and the argument of a batch are large: with room for them, the command need not grow.
    let keys: usize = call.keys().iter().map(Vec::len).sum();
    let mut command = Cmd::with_capacity(4 + call.keys().len(), 64 + keys + call.argument().len());
    command
        .arg("EVALSHA")
        .arg(call.script().sha1())
        .arg(call.keys().len())
        .arg(call.keys())
        .arg(call.argument());
    command
}

pub(crate) fn script_load(call: &ScriptCall<'_>) -> Cmd {
    let mut command = redis::cmd("SCRIPT");
    command.arg("LOAD").arg(call.script().text());
    command
}

pub(crate) fn unlink(keys: &[Vec<u8>]) -> Cmd {
    let mut command = redis::cmd("UNLINK");
    command.arg(keys);
    command
}
