//! Times as text, in UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use humantime::{format_rfc3339_millis, format_rfc3339_seconds};

/// The last time that humantime writes, since 1970: the end of the year 9999. It panics before 1970.
const LAST: Duration = Duration::from_millis(253_402_300_799_999);

/// Writes a time as people read it: `2026-11-26 10:00:00 UTC`, with its milliseconds if it has some.
pub(crate) fn utc(time: SystemTime) -> String {
    let time = writable(time);
    let has_millis = time.duration_since(UNIX_EPOCH).is_ok_and(|since_1970| since_1970.subsec_millis() > 0);
    let text = if has_millis { format_rfc3339_millis(time) } else { format_rfc3339_seconds(time) };
    text.to_string().replace('T', " ").replace('Z', " UTC")
}

/// Writes a time as programs read it, to the second: `2026-11-26T10:00:00Z`.
#[cfg(any(feature = "tracing", feature = "serde"))]
pub(crate) fn rfc3339(time: SystemTime) -> String {
    format_rfc3339_seconds(writable(time)).to_string()
}

/// Returns the nearest time that can be written: a token that another program wrote may hold any.
fn writable(time: SystemTime) -> SystemTime {
    UNIX_EPOCH + time.duration_since(UNIX_EPOCH).unwrap_or_default().min(LAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_people_read_them() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_164_799, "2024-02-28 23:59:59 UTC"),
            (1_795_687_200, "2026-11-26 10:00:00 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
        assert_eq!(utc(UNIX_EPOCH + Duration::from_millis(1_500)), "1970-01-01 00:00:01.500 UTC");
    }

    #[test]
    fn a_time_out_of_range_is_written_as_the_nearest_one() {
        assert_eq!(utc(UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(UNIX_EPOCH + LAST + Duration::from_secs(1)), "9999-12-31 23:59:59.999 UTC");
    }

    #[cfg(feature = "tracing")]
    #[test]
    fn the_log_has_times_that_programs_read() {
        assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_millis(1_795_347_005_900)), "2026-11-22T11:30:05Z");
    }
}
