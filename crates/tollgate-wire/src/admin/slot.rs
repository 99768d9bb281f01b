//! The hash slot of a key in a cluster.

/// Returns the slot of `key`: CRC-16/XMODEM of its hash tag, modulo 16,384.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.split(|&byte| byte == b'{').nth(1);
    let tag = tag.and_then(|rest| rest.split(|&byte| byte == b'}').next());
    let crc = tag.unwrap_or(key).iter().fold(0_u16, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 {
                shifted
            } else {
                shifted ^ 0x1021
            }
        })
    });
    crc % 16_384
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_equal_those_of_servers() {
        // The check value of CRC-16/XMODEM.
        assert_eq!(slot_of(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"a{123456789}:b"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12_182);
    }
}
