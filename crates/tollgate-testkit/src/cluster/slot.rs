//! Computes the cluster slot of a key.

const SLOTS: u16 = super::form::SLOTS;

/// Returns the slot of `key`.
pub(super) fn of(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

/// Returns the hash tag between the first `{` and the next `}`, or all of `key` without one.
fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else {
        return key;
    };
    let rest = &key[open + 1..];
    match rest.iter().position(|&byte| byte == b'}') {
        None | Some(0) => key,
        Some(close) => &rest[..close],
    }
}

/// CRC-16/XMODEM, as the cluster specification requires.
fn crc16(bytes: &[u8]) -> u16 {
    let mut crc = 0u16;
    for &byte in bytes {
        crc ^= u16::from(byte) << 8;
        for _ in 0..8 {
            let carry = crc & 0x8000 != 0;
            crc <<= 1;
            if carry {
                crc ^= 0x1021;
            }
        }
    }
    crc
}
