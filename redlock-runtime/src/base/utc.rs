//! A time as people read it, without a time zone of their own.

use std::time::{SystemTime, UNIX_EPOCH};

/// In seconds.
const DAY: u64 = 86_400;

/// A time as people read it: `2026-11-26 10:00:00 UTC`, with the milliseconds if there are some.
pub(crate) fn utc(time: SystemTime) -> String {
    let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (since_1970.as_secs(), since_1970.subsec_millis());
    let [year, month, day] = date_of(seconds / DAY);
    let of_day = seconds % DAY;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let fraction = if millis > 0 { format!(".{millis:03}") } else { String::new() };
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{fraction} UTC")
}

/// Year, month and day of the day with this number since 1970: years are counted from March on, so
/// that a leap day is the last one of its year.
fn date_of(days: u64) -> [u64; 3] {
    let days = days.saturating_add(719_468);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    [era.saturating_mul(400) + year_of_era + u64::from(month <= 2), month, day]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
}
