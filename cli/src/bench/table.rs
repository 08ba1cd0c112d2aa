//! Columns as wide as they have to be.

/// Lines of cells under each other, a row a line. `header` begins with `<` for each column of text, which stands to the
/// left; numbers stand to the right.
pub(crate) fn text(header: &[&str], rows: &[Vec<String>]) -> String {
    let is_text: Vec<bool> = header.iter().map(|title| title.starts_with('<')).collect();
    let header = header.iter().map(|title| title.trim_start_matches('<').to_owned()).collect();
    let lines: Vec<&Vec<String>> = std::iter::once(&header).chain(rows).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..header.len()).map(width).collect();

    let mut text = String::new();
    for line in lines {
        let cell = |column: usize| {
            let (cell, width) = (&line[column], widths[column]);
            if is_text[column] { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        };
        text += (0..header.len()).map(cell).collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn text_stands_left_and_numbers_right() {
        let rows = [["é".to_owned(), "10".to_owned()].to_vec(), ["long name".to_owned(), "5".to_owned()].to_vec()];
        assert_eq!(super::text(&["<name", "µs"], &rows), "name       µs\né          10\nlong name   5\n");
    }
}
