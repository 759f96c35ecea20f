//! One table as horizontal bars, in SVG: ours in color, the reference as a dashed line, for a
//! light and a dark page. Where the table has a p99, a line connects the bar with it. The legend
//! explains each shade and each line.
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
/// For two figures, as where a p99 follows.
const BOTH_FIGURES: f64 = 120.0;
const TOP: f64 = 62.0;
const ROW: f64 = 22.0;
const BAR: f64 = 14.0;
/// Beyond this ratio of the longest to the shortest, a reader could not compare the shorter ones.
const LINEAR_UP_TO: f64 = 20.0;

const STYLE: &str = ".page{fill:#fff}text{font:12px system-ui,sans-serif;fill:#24292f}.t{font-weight:600;font-size:14px}\
.u,.a{fill:#57606a}.a{font-size:10px}.g{stroke:#d0d7de}.m{stroke:#cf222e;stroke-dasharray:4 3}\
.ours{fill:#0969da}.peer{fill:#8c959f}.article{fill:#c4cad1}.limit{fill:none;stroke:#cf222e}.b{font-weight:600}\
.f{paint-order:stroke;stroke:#fff;stroke-width:3px}.w{stroke:#57606a;stroke-width:1.5}.r{font-weight:400}\
@media(prefers-color-scheme:dark){.page{fill:#0d1117}text{fill:#e6edf3}.u,.a{fill:#9198a1}.g{stroke:#3d444d}.f{paint-order:stroke;stroke:#fff;stroke-width:3px}.f{stroke:#0d1117}.w{stroke:#9198a1}.m,.limit{stroke:#ff7b72}\
.ours{fill:#4493f8}.peer{fill:#768390}.article{fill:#444c56}}";

struct Bar<'a> {
    name: &'a str,
    kind: Kind,
    value: Option<f64>,
    p99: Option<f64>,
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
    let to_p99 = if bars.iter().any(|bar| bar.p99.is_some()) { "; a line ends at the p99" } else { "" };
    let title = escape(&sheet.title);
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{left} 0 {width} {height}\" role=\"img\" \
         aria-label=\"{title}\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"page\" x=\"{left}\" width=\"{width}\" height=\"{height}\"/>\n\
         <text class=\"t\" x=\"{start}\" y=\"20\">{title}</text>\n\
         <text class=\"u\" x=\"{start}\" y=\"38\">{}: {better}{logarithmic}{to_p99}</text>\n",
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
    // Above the line of the reference.
    for (row, bar) in bars.iter().enumerate() {
        draw_figures(&mut svg, &scale, bar, TOP + ROW * row as f64);
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
        (Kind::Reference, "limit", "reference"),
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
    if bars.iter().any(|bar| bar.p99.is_some()) {
        let middle = baseline - 3.5;
        draw_line(svg, x, x + 20.0, middle);
        let _ = write!(svg, "<text class=\"a\" x=\"{:.0}\" y=\"{baseline:.0}\">p99</text>", x + 25.0);
        x += 61.0;
    }
    if bars.iter().any(|bar| bar.value.is_none()) {
        let _ =
            write!(svg, "<text class=\"a\" x=\"{x:.0}\" y=\"{baseline:.0}\">– did not complete it</text>");
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
    let bar = |row: &'a Row| Bar {
        name: &row.name,
        kind: row.kind,
        value: value(row),
        p99: sheet.figure(row, "p99"),
    };
    let mut bars: Vec<Bar> = sheet.rows.iter().map(bar).collect();
    bars.sort_by(|one, two| rank(one).total_cmp(&rank(two)));
    bars
}

fn draw_bar(svg: &mut String, scale: &Scale, bar: &Bar, top: f64) {
    let class = match bar.kind {
        Kind::Reference => "limit",
        Kind::Ours => "ours",
        Kind::Article => "article",
        Kind::Peer => "peer",
    };
    if bar.value.is_some() {
        let width = scale.end(bar.value) - LABELS;
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{LABELS}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{BAR}\"/>",
        );
    }
    if bar.p99.is_some() {
        draw_line(svg, scale.end(bar.value), scale.end(bar.p99), top + BAR / 2.0);
    }
}

/// The name before the bar, and what it shows behind it.
fn draw_figures(svg: &mut String, scale: &Scale, bar: &Bar, top: f64) {
    let (bold, bold_figures) = if bar.kind == Kind::Ours { (" class=\"b\"", " b") } else { ("", "") };
    let baseline = top + 11.5;
    let _ = write!(
        svg,
        "<text{bold} text-anchor=\"end\" x=\"{:.0}\" y=\"{baseline:.1}\">{}</text>",
        LABELS - 8.0,
        escape(bar.name),
    );
    let mut text = figure(bar.value);
    if bar.p99.is_some() {
        let _ = write!(text, " <tspan class=\"a r\">p99 {}</tspan>", figure(bar.p99));
    }
    let x = scale.end(bar.value).max(scale.end(bar.p99)) + 5.0;
    let _ = writeln!(svg, "<text class=\"f{bold_figures}\" x=\"{x:.1}\" y=\"{baseline:.1}\">{text}</text>");
}

/// From the end of a bar to its p99.
fn draw_line(svg: &mut String, from: f64, to: f64, y: f64) {
    let (top, bottom) = (y - 4.0, y + 4.0);
    let _ = write!(
        svg,
        "<path class=\"w\" fill=\"none\" d=\"M{from:.1} {y:.1}H{to:.1}M{to:.1} {top:.1}V{bottom:.1}\"/>",
    );
}

struct Scale {
    logarithmic: bool,
    /// The length of the longest bar or line.
    length: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn of(bars: &[Bar]) -> Self {
        let values = bars.iter().flat_map(|bar| [bar.value, bar.p99]).flatten().filter(|value| *value > 0.0);
        let (least, most) =
            values.fold((f64::MAX, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        let logarithmic = most > LINEAR_UP_TO * least;
        // The shortest bar is still visible.
        let from = if logarithmic { 10_f64.powf((least / 1.5).log10().floor()) } else { 0.0 };
        let figures = if bars.iter().any(|bar| bar.p99.is_some()) { BOTH_FIGURES } else { FIGURES };
        Self { logarithmic, length: WIDTH - LABELS - figures, from, to: if most > 0.0 { most } else { 1.0 } }
    }

    /// Where the bar of this figure ends.
    fn end(&self, figure: Option<f64>) -> f64 {
        figure.map_or(LABELS, |figure| self.x(figure))
    }

    fn x(&self, value: f64) -> f64 {
        let part = if self.logarithmic {
            (value.max(self.from) / self.from).log10() / (self.to / self.from).log10()
        } else {
            value / self.to
        };
        LABELS + part * self.length
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
    use serde_json::json;

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

    #[test]
    fn a_line_goes_on_from_a_bar_to_its_p99_and_the_legend_names_it() {
        let mut with_p99 = sheet(false);
        assert!(!draw(&with_p99).contains("p99"), "a table without a p99 has no such line");
        with_p99.columns.push("p99".to_owned());
        for row in &mut with_p99.rows {
            let p99 = sheet(false).figure(row, "u").map(|figure| 100.0 * figure);
            row.figures.push(json!(p99));
        }
        let picture = draw(&with_p99);
        assert_eq!(picture.matches("class=\"w\"").count(), 5 + 1, "five contenders, and the legend");
        assert!(picture.contains("p99 7,000<") && picture.contains(">p99</text>"));
        // The longest line ends where the longest bar of a picture without a p99 could not: before
        // its two figures.
        assert!(picture.contains("H680.0M"), "{picture}");
    }
}
