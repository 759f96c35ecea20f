//! One table as horizontal bars, in SVG: ours in colour, the reference as a dashed line, for a
//! light and a dark page. The last line names what each shade is.
//!
//! Equal figures give equal bytes.

use std::fmt::Write;

use crate::contender::Kind;
use crate::series::figure;
use crate::sheet::{Row, Sheet};

const WIDTH: f64 = 800.0;
const LABELS: f64 = 300.0;
/// The width of a character of a name, at most.
const CHARACTER: f64 = 7.0;
/// To the right of the longest bar, for its figure.
const FIGURES: f64 = 70.0;
const TOP: f64 = 62.0;
const ROW: f64 = 22.0;
const BAR: f64 = 14.0;
/// Beyond this ratio of the longest to the shortest, a reader could not compare the shorter ones.
const LINEAR_UP_TO: f64 = 20.0;

const STYLE: &str = ".page{fill:#fff}text{font:12px system-ui,sans-serif;fill:#24292f}.t{font-weight:600;font-size:14px}\
.u,.a{fill:#57606a}.a{font-size:10px}.g{stroke:#d0d7de}.m{stroke:#cf222e;stroke-dasharray:4 3}\
.ours{fill:#0969da}.peer{fill:#8c959f}.article{fill:#c4cad1}.limit{fill:none;stroke:#cf222e}.b{font-weight:600}\
@media(prefers-color-scheme:dark){.page{fill:#0d1117}text{fill:#e6edf3}.u,.a{fill:#9198a1}.g{stroke:#3d444d}.m,.limit{stroke:#ff7b72}\
.ours{fill:#4493f8}.peer{fill:#768390}.article{fill:#444c56}}";

struct Bar<'a> {
    name: &'a str,
    kind: Kind,
    value: Option<f64>,
}

pub fn draw(sheet: &Sheet) -> String {
    let bars: Vec<Bar> = in_order(sheet);
    let scale = Scale::of(&bars);
    let bottom = TOP + ROW * bars.len() as f64 + 2.0;
    let height = bottom + 42.0;
    let longest = bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or_default();
    // A name that is longer than its column widens the picture to the left.
    let left = (LABELS - 18.0 - longest as f64 * CHARACTER).min(0.0);
    let (start, width) = (left + 10.0, WIDTH - left);
    let mut svg = String::new();
    let better = if sheet.more_is_better { "longer is better" } else { "shorter is better" };
    let logarithmic = if scale.logarithmic { ", logarithmic" } else { "" };
    let title = escape(&sheet.title);
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{left} 0 {width} {height}\" role=\"img\" \
         aria-label=\"{title}\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"page\" x=\"{left}\" width=\"{width}\" height=\"{height}\"/>\n\
         <text class=\"t\" x=\"{start}\" y=\"20\">{title}</text>\n\
         <text class=\"u\" x=\"{start}\" y=\"38\">{}: {better}{logarithmic}</text>\n",
        escape(&sheet.unit),
    );
    for (value, label) in scale.ticks() {
        let x = scale.x(value);
        let _ = writeln!(
            svg,
            "<path class=\"g\" d=\"M{x:.1} {:.0}V{bottom:.0}\"/><text class=\"a\" text-anchor=\"middle\" x=\"{x:.1}\" \
             y=\"{:.0}\">{label}</text>",
            TOP - 6.0,
            bottom + 14.0,
        );
    }
    for (row, bar) in bars.iter().enumerate() {
        draw_bar(&mut svg, &scale, bar, TOP + ROW * row as f64);
    }
    if let Some((name, reference)) = &sheet.reference {
        let x = scale.x(*reference);
        let _ = writeln!(
            svg,
            "<path class=\"m\" d=\"M{x:.1} {:.0}V{bottom:.0}\"/><text class=\"a\" text-anchor=\"middle\" x=\"{x:.1}\" \
             y=\"{:.0}\">reference: {}</text>",
            TOP - 6.0,
            TOP - 9.0,
            escape(name),
        );
    }
    draw_legend(&mut svg, &bars, start, bottom + 34.0);
    svg + "</svg>\n"
}

/// Names the shades of the bars that the picture has.
fn draw_legend(svg: &mut String, bars: &[Bar], start: f64, baseline: f64) {
    let shades = [
        (Kind::Ours, "ours", "redlocked"),
        (Kind::Peer, "peer", "other libraries"),
        (Kind::Article, "article", "locks from articles"),
        (Kind::Reference, "limit", "reference, the bare commands"),
    ];
    let mut x = start;
    for (_, class, name) in shades.into_iter().filter(|(kind, ..)| bars.iter().any(|bar| bar.kind == *kind)) {
        let _ = write!(
            svg,
            "<rect class=\"{class}\" x=\"{x:.0}\" y=\"{:.0}\" width=\"9\" height=\"9\"/>\
             <text class=\"a\" x=\"{:.0}\" y=\"{baseline:.0}\">{name}</text>",
            baseline - 8.0,
            x + 14.0,
        );
        x += 34.0 + name.len() as f64 * 5.5;
    }
    if bars.iter().any(|bar| bar.value.is_none()) {
        let _ = write!(svg, "<text class=\"a\" x=\"{x:.0}\" y=\"{baseline:.0}\">– no figure</text>");
    }
    svg.push('\n');
}

/// The references, and then the best first.
fn in_order<'a>(sheet: &'a Sheet) -> Vec<Bar<'a>> {
    let rank = |bar: &Bar| match bar.value {
        _ if bar.kind == Kind::Reference => f64::NEG_INFINITY,
        None => f64::INFINITY,
        Some(value) if sheet.more_is_better => -value,
        Some(value) => value,
    };
    let value = |row: &Row| sheet.figure(row, &sheet.unit);
    let bar = |row: &'a Row| Bar { name: &row.name, kind: row.kind, value: value(row) };
    let mut bars: Vec<Bar> = sheet.rows.iter().map(bar).collect();
    bars.sort_by(|one, two| rank(one).total_cmp(&rank(two)));
    bars
}

fn draw_bar(svg: &mut String, scale: &Scale, bar: &Bar, top: f64) {
    let (class, bold) = match bar.kind {
        Kind::Reference => ("limit", ""),
        Kind::Ours => ("ours", " class=\"b\""),
        Kind::Article => ("article", ""),
        Kind::Peer => ("peer", ""),
    };
    let baseline = top + 11.5;
    let _ = write!(
        svg,
        "<text{bold} text-anchor=\"end\" x=\"{:.0}\" y=\"{baseline:.1}\">{}</text>",
        LABELS - 8.0,
        escape(bar.name),
    );
    let end = bar.value.map_or(LABELS, |value| scale.x(value));
    if bar.value.is_some() {
        let width = end - LABELS;
        let _ = write!(
            svg,
            "<rect class=\"{class}\" x=\"{LABELS}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{BAR}\"/>",
        );
    }
    let figure = figure(bar.value);
    let _ = writeln!(svg, "<text{bold} x=\"{:.1}\" y=\"{baseline:.1}\">{figure}</text>", end + 5.0);
}

struct Scale {
    logarithmic: bool,
    from: f64,
    to: f64,
}

impl Scale {
    fn of(bars: &[Bar]) -> Self {
        let values = bars.iter().filter_map(|bar| bar.value).filter(|value| *value > 0.0);
        let (least, most) =
            values.fold((f64::MAX, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        let logarithmic = most > LINEAR_UP_TO * least;
        // The shortest bar is still visible.
        let from = if logarithmic { 10_f64.powf((least / 1.5).log10().floor()) } else { 0.0 };
        Self { logarithmic, from, to: if most > 0.0 { most } else { 1.0 } }
    }

    fn x(&self, value: f64) -> f64 {
        let part = if self.logarithmic {
            (value.max(self.from) / self.from).log10() / (self.to / self.from).log10()
        } else {
            value / self.to
        };
        LABELS + part * (WIDTH - LABELS - FIGURES)
    }

    /// Each decade, or a handful of round values.
    fn ticks(&self) -> Vec<(f64, String)> {
        let step = if self.logarithmic {
            10.0
        } else {
            let rough = 10_f64.powf(self.to.log10().floor());
            let steps = [0.2, 0.5, 1.0, 2.0];
            rough * steps.into_iter().find(|step| self.to / (rough * step) <= 5.0).unwrap_or(2.0)
        };
        let mut ticks = Vec::new();
        let mut value = self.from;
        while value <= self.to {
            let digits = if value < 1.0 && value > 0.0 { 4 } else { 1 };
            let label = format!("{value:.digits$}");
            let label = label.trim_end_matches('0').trim_end_matches('.');
            ticks.push((value, if value >= 1000.0 { figure(Some(value)) } else { label.to_owned() }));
            value = if self.logarithmic { value * step } else { value + step };
        }
        ticks
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::draw;
    use crate::sheet::tests::sheet;

    #[test]
    fn a_picture_is_the_same_each_time_and_escapes_what_xml_means_otherwise() {
        let picture = draw(&sheet(false));
        assert_eq!(picture, draw(&sheet(false)));
        assert!(picture.contains("a &lt; b") && !picture.contains("a < b"));
        assert!(picture.contains("logarithmic"), "70 is more than 20 times 1");
        let places =
            ["limit<", "less<", "ours<", "most<", "more<", "idle<"].map(|name| picture.find(name).unwrap());
        assert!(places.is_sorted(), "the limit, and then the best first: {places:?}");
    }
}
