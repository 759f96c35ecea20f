//! A table that fits a terminal: by columns of the terminal, of which a CJK character takes two.

use anstyle::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Between two columns.
const GAP: usize = 2;
/// What is cut keeps as much.
const SHORTEST: usize = 10;

/// What becomes of a text that is too long.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    Never,
    /// Its end tells more.
    Start,
    /// Its start tells more.
    End,
}

pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) cut: Cut,
    /// Where all of them do not fit, those with the highest number are left out first, and those
    /// with 0 never.
    pub(crate) rank: u8,
}

#[derive(Clone)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) style: Style,
    /// In place of that of its column.
    pub(crate) cut: Option<Cut>,
}

impl Cell {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::styled(text, Style::new())
    }

    pub(crate) fn styled(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style, cut: None }
    }
}

/// A header, and a line for each row, the columns below each other, in this width.
pub(crate) struct Table<'a> {
    columns: &'a [Column],
    /// How wide each column is; `None` where it is left out.
    widths: Vec<Option<usize>>,
}

impl<'a> Table<'a> {
    pub(crate) fn new(columns: &'a [Column], rows: &[Vec<Cell>], width: Option<usize>) -> Self {
        let natural = |(column, of): (usize, &Column)| {
            let cells = rows.iter().filter_map(|row| Some(row.get(column)?.text.width()));
            Some(cells.fold(of.title.width(), usize::max))
        };
        let mut table = Self { columns, widths: columns.iter().enumerate().map(natural).collect() };
        if let Some(width) = width {
            table.fit(width);
        }
        table
    }

    fn fit(&mut self, width: usize) {
        let natural = self.widths.clone();
        while self.width() > width {
            if self.cut_widest() {
                continue;
            }
            if !self.leave_one_out() {
                return;
            }
            // There is room again for those that are left.
            let left = self.widths.iter_mut().zip(&natural).filter(|(width, _)| width.is_some());
            left.for_each(|(width, natural)| *width = *natural);
        }
    }

    /// False when none can be cut further.
    fn cut_widest(&mut self) -> bool {
        let shown = self.columns.iter().zip(&mut self.widths).filter(|(column, _)| column.cut != Cut::Never);
        let widest = shown.filter_map(|(_, width)| width.as_mut()).max_by_key(|width| **width);
        let widest = widest.filter(|width| **width > SHORTEST);
        widest.map(|width| *width -= 1).is_some()
    }

    pub(crate) fn width(&self) -> usize {
        let shown = || self.widths.iter().flatten();
        shown().sum::<usize>() + GAP * shown().count().saturating_sub(1)
    }

    /// False when each that is left has to stay.
    fn leave_one_out(&mut self) -> bool {
        let shown = self.columns.iter().zip(&mut self.widths).filter(|(_, width)| width.is_some());
        match shown.max_by_key(|(column, _)| column.rank).filter(|(column, _)| column.rank > 0) {
            Some((_, width)) => {
                *width = None;
                true
            }
            None => false,
        }
    }

    pub(crate) fn header(&self) -> String {
        let style = Style::new().bold();
        let cells = self.columns.iter().map(|column| Cell::styled(column.title, style));
        self.line(&cells.collect::<Vec<_>>())
    }

    pub(crate) fn line(&self, row: &[Cell]) -> String {
        let shown = self.columns.iter().zip(row).zip(&self.widths);
        let mut line = String::new();
        let mut blanks = 0;
        for ((column, cell), width) in shown.filter_map(|(of, width)| Some((of, (*width)?))) {
            let text = fitted(&cell.text, width, cell.cut.unwrap_or(column.cut));
            line.extend(std::iter::repeat_n(' ', blanks));
            line.push_str(&styled(&text, cell.style));
            blanks = width.saturating_sub(text.width()) + GAP;
        }
        line
    }
}

pub(crate) fn styled(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}

/// The text in so many columns, with a sign where something is left out.
fn fitted(text: &str, width: usize, cut: Cut) -> String {
    if cut == Cut::Never || text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    if cut == Cut::End {
        return format!("{}…", start(text, room));
    }
    let over = text.char_indices().map(|(at, _)| &text[at..]).find(|rest| rest.width() <= room);
    format!("…{}", over.unwrap_or_default())
}

/// As much of the start of the text as takes at most so many columns.
pub(crate) fn start(text: &str, width: usize) -> &str {
    let mut taken = 0;
    let over = text.char_indices().find(|(_, char)| {
        taken += char.width().unwrap_or_default();
        taken > width
    });
    over.map_or(text, |(at, _)| &text[..at])
}

/// The text in as many lines as it needs.
pub(crate) fn folded(mut text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    while text.width() > width {
        let most = start(text, width);
        let most = most.rfind(' ').filter(|at| *at > 0).map_or(most, |at| &most[..at]);
        // A terminal of one column shows no wide character.
        if most.is_empty() {
            return lines;
        }
        lines.push(most.to_owned());
        text = text[most.len()..].trim_start();
    }
    lines.push(text.to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [
        Column { title: "KEY", cut: Cut::End, rank: 0 },
        Column { title: "FUNCTION", cut: Cut::Start, rank: 1 },
        Column { title: "WAITERS", cut: Cut::Never, rank: 0 },
    ];

    fn shown(rows: &[[&str; 3]], width: Option<usize>) -> Vec<String> {
        let rows: Vec<Vec<Cell>> = rows.iter().map(|row| row.map(Cell::plain).to_vec()).collect();
        let table = Table::new(&COLUMNS, &rows, width);
        rows.iter().map(|row| table.line(row)).collect()
    }

    #[test]
    fn each_column_is_as_wide_as_its_widest_text_on_the_screen() {
        assert_eq!(
            shown(&[["靴下", "f", "1"], ["a", "g", "2"]], None),
            ["靴下  f         1", "a     g         2"]
        );
    }

    #[test]
    fn the_widest_column_is_cut_where_it_tells_least() {
        let long = ["order:0123456789", "shop::orders::purchase", "12"];
        assert_eq!(shown(&[long], Some(40)), ["order:01234567…  …ers::purchase  12"]);
    }

    #[test]
    fn a_narrow_terminal_has_fewer_columns_but_never_without_the_last() {
        let long = ["order:0123456789", "shop::orders::purchase", "12"];
        assert_eq!(shown(&[long], Some(24)), ["order:01234567…  12"]);
        assert_eq!(shown(&[long], Some(5)), ["order:012…  12"]);
    }

    #[test]
    fn a_wide_character_is_not_cut_in_two() {
        assert_eq!(fitted("靴靴靴", 4, Cut::End), "靴…");
        assert_eq!(fitted("靴靴靴", 4, Cut::Start), "…靴");
        assert_eq!(start("靴a", 1), "");
        assert_eq!(start("a\u{301}b", 1), "a\u{301}");
    }
}
