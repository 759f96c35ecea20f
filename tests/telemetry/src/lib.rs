//! What the tests of metrics, spans and the log share.

/// The value of a series in the text that a Prometheus server scrapes; `None` where there is none.
/// `labels` are those that it must have, perhaps among others: with several such series it is their
/// sum.
#[must_use]
pub fn value(scraped: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    let values = scraped.lines().filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let (found, all) = series.split_once('{').unwrap_or((series, ""));
        let fits = found == name && labels.iter().all(|label| all.contains(label));
        fits.then(|| value.parse::<f64>().ok())?
    });
    values.reduce(|sum, value| sum + value)
}
