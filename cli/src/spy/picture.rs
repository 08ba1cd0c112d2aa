//! What is drawn, and where: the same for PNG and SVG.

use super::grid::{Axis, Grid, LEVELS};

/// Red, green and blue of each ink: paper, text and frame, and the shades of bins.
pub(super) const INKS: [[u8; 3]; 2 + LEVELS as usize] = {
    let mut inks = [[255, 255, 255]; 2 + LEVELS as usize];
    inks[TEXT as usize] = [27, 31, 36];
    let (light, dark) = ([125i32, 175, 235], [8i32, 28, 84]);
    let mut level = 0;
    while level < LEVELS as usize {
        let mut channel = 0;
        while channel < 3 {
            let (from, to) = (light[channel], dark[channel]);
            inks[2 + level][channel] = (from + (to - from) * level as i32 / (LEVELS as i32 - 1)) as u8;
            channel += 1;
        }
        level += 1;
    }
    inks
};

/// Places in [`INKS`].
pub(super) const PAPER: u8 = 0;
pub(super) const TEXT: u8 = 1;

/// The ink of a level from 1 on.
fn shade(level: u8) -> u8 {
    TEXT + level
}

/// The width of a character, and the distance of lines.
pub(super) const CHARACTER: usize = 7;
const LINE: usize = 17;
/// The longest line of text, in characters.
const MAX_LINE: usize = 96;
const MARGIN: usize = 16;
/// A shade in the legend.
const SWATCH: usize = 12;
/// From this size on, squares are drawn apart.
const APART: usize = 4;

/// Rectangles that do not overlap, and texts.
pub(super) struct Picture {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) rectangles: Vec<Rectangle>,
    pub(super) texts: Vec<Text>,
}

/// Filled with one ink.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rectangle {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) ink: u8,
}

/// One line, from its left end on its baseline.
pub(super) struct Text {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) content: String,
}

impl Picture {
    /// The grid in its frame, and beneath it a legend and these lines.
    pub(super) fn new(grid: &Grid, lines: &[&str]) -> Self {
        let (width, height) = (grid.columns.extent(), grid.rows.extent());
        let mut picture = Self { width: MARGIN + width, height: 0, rectangles: Vec::new(), texts: Vec::new() };
        picture.frame(MARGIN - 1, MARGIN - 1, width + 2, height + 2);
        picture.bins(grid);
        let mut y = MARGIN + height + MARGIN;
        for line in lines {
            y += LINE;
            picture.text(MARGIN, y, line);
        }
        if let Some(range) = grid.range() {
            y += LINE;
            picture.text(MARGIN, y, &scale(grid.rows, grid.columns));
            y += LINE;
            picture.legend(y, range);
        }
        picture.width += MARGIN;
        picture.height = y + MARGIN;
        picture
    }

    fn fill(&mut self, x: usize, y: usize, width: usize, height: usize, ink: u8) {
        self.rectangles.push(Rectangle { x, y, width, height, ink });
    }

    fn frame(&mut self, x: usize, y: usize, width: usize, height: usize) {
        self.fill(x, y, width, 1, TEXT);
        self.fill(x, y + height - 1, width, 1, TEXT);
        self.fill(x, y + 1, 1, height - 2, TEXT);
        self.fill(x + width - 1, y + 1, 1, height - 2, TEXT);
    }

    /// Widens the picture to hold the text; returns where it ends.
    fn text(&mut self, x: usize, y: usize, text: &str) -> usize {
        let content = shown(text);
        let end = x + content.chars().count() * CHARACTER;
        self.width = self.width.max(end);
        self.texts.push(Text { x, y, content });
        end
    }

    /// Neighbours of the same shade in a row become one rectangle, unless squares are drawn apart.
    fn bins(&mut self, grid: &Grid) {
        let (rows, columns) = (grid.rows, grid.columns);
        let gap = |axis: Axis| usize::from(axis.positions == 1 && axis.pixels >= APART);
        if columns.bins() == 0 {
            return;
        }
        for (row, levels) in grid.levels().chunks(columns.bins()).enumerate() {
            let mut begin = 0;
            for run in levels.chunk_by(|left, right| left == right && gap(columns) == 0) {
                if run[0] > 0 {
                    let (x, y) = (MARGIN + begin * columns.pixels, MARGIN + row * rows.pixels);
                    let (width, height) = (run.len() * columns.pixels - gap(columns), rows.pixels - gap(rows));
                    self.fill(x, y, width, height, shade(run[0]));
                }
                begin += run.len();
            }
        }
    }

    /// The shades, between the densities that the lightest and the darkest stand for.
    fn legend(&mut self, y: usize, (least, most): (f64, f64)) {
        let mut x = self.text(MARGIN, y, "entries per position:") + CHARACTER;
        let mut levels = LEVELS..=LEVELS;
        if least < most {
            x = self.text(x, y, &two_digits(least)) + CHARACTER;
            levels = 1..=LEVELS;
        }
        for level in levels {
            self.fill(x, y - SWATCH + 2, SWATCH, SWATCH, shade(level));
            x += SWATCH;
        }
        self.text(x + CHARACTER, y, &two_digits(most));
    }
}

/// What a bin is, rows before columns.
fn scale(rows: Axis, columns: Axis) -> String {
    let bin = match (rows.pixels, columns.pixels) {
        (1, 1) => "a pixel".to_owned(),
        (rows, columns) => format!("{rows} x {columns} pixels"),
    };
    match (rows.positions, columns.positions) {
        (1, 1) => format!("{bin} for each position"),
        (rows, columns) => format!("{bin} for {rows} x {columns} positions"),
    }
}

/// The end of a text that is too long, which of a path tells more than its beginning; nothing that cannot be shown.
fn shown(text: &str) -> String {
    let printable = |character: char| if character.is_control() { '?' } else { character };
    let length = text.chars().count();
    if length <= MAX_LINE {
        return text.chars().map(printable).collect();
    }
    let end = text.chars().skip(length + 3 - MAX_LINE).map(printable);
    "...".chars().chain(end).collect()
}

/// A positive number rounded to two digits.
fn two_digits(number: f64) -> String {
    let text = format!("{number:.1e}");
    match text.parse::<f64>() {
        Ok(rounded) if (1e-3..1e6).contains(&rounded) => rounded.to_string(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_from_the_left_and_hold_nothing_that_cannot_be_shown() {
        assert_eq!(shown("a/b.mtx\n\u{1b}"), "a/b.mtx??");
        let long = format!("{}{}", "x".repeat(50), "é".repeat(MAX_LINE - 3));
        assert_eq!(shown(&long), format!("...{}", "é".repeat(MAX_LINE - 3)));
        assert_eq!(shown(&long[50..]), &long[50..]);
    }

    #[test]
    fn densities_have_two_digits() {
        let texts = [1.0, 0.5, 0.0204, 0.00346, 0.000_999_99, 6.4e-7, 12.3].map(two_digits);
        assert_eq!(texts, ["1", "0.5", "0.02", "0.0035", "0.001", "6.4e-7", "12"]);
    }
}
