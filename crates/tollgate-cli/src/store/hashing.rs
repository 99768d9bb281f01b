//! The secret by which a service hashes its keys.

use std::env;

use tollgate_wire::Options;

use crate::failure::Failure;

/// The environment variable with the secret for hashing keys. Not an option, because other users of
/// the machine can read command lines.
const SECRET: &str = "TOLLGATE_KEY_SECRET";

/// Returns `settings` with the key-hashing secret of the service, if there is one.
pub(super) fn hashing(settings: Options, only_long: bool) -> Result<Options, Failure> {
    let Some(secret) = env::var_os(SECRET) else {
        return if only_long {
            Err(Failure::Secret)
        } else {
            Ok(settings)
        };
    };
    let secret = secret.to_str().and_then(bytes).ok_or(Failure::Secret)?;
    Ok(if only_long {
        settings.with_hashed_long_keys(secret)
    } else {
        settings.with_hashed_keys(secret)
    })
}

pub(crate) fn has_secret() -> bool {
    env::var_os(SECRET).is_some()
}

/// Parses 32 hex digits as 16 bytes.
fn bytes(hex: &str) -> Option<[u8; 16]> {
    let is_hex = hex.len() == 32 && hex.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = is_hex.then(|| u128::from_str_radix(hex, 16).ok())?;
    number.map(u128::to_be_bytes)
}
