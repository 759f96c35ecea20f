//! The slots of a Cluster.

/// How many there are.
pub const SLOTS: u16 = 16_384;

/// The slot of a key or a sharded channel: that of its hash tag, if it has one.
#[must_use]
pub fn slot_of(name: &[u8]) -> u16 {
    let tag = name.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &name[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    crc16(tag.unwrap_or(name)) % SLOTS
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_the_one_that_servers_compute() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        for (name, slot) in [("foo", 12_182), ("bar{zz}", 14_415), ("", 0), ("foo{}{bar}", 8_363)] {
            assert_eq!(slot_of(name.as_bytes()), slot, "{name}");
        }
    }
}
