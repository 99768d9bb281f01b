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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crc16_check_value_matches_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn a_nonempty_first_hash_tag_determines_the_slot() {
        assert_eq!(tag(b"a{user}b{other}"), b"user");
        assert_eq!(tag(b"{{x}}"), b"{x");
        for whole in ["plain", "{}x", "open{x", "}x{"] {
            assert_eq!(tag(whole.as_bytes()), whole.as_bytes());
        }
        assert_eq!(of(b"foo"), 12_182);
        assert_eq!(of(b"{foo}:bar"), 12_182);
    }
}
