//! Columns as wide as they have to be.

/// Lines of cells under each other, a row a line. `header` begins with `<` for each column of text, which stands to the
/// left; numbers stand to the right.
pub(crate) fn text(header: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<String>| cells.join("  ").trim_end().to_owned() + "\n";
    aligned(header, rows).into_iter().map(line).collect()
}

/// The same as a table in Markdown.
pub(crate) fn markdown(header: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut lines = aligned(header, rows);
    let rule = |(title, cell): (&&str, &String)| {
        let dashes = "-".repeat(cell.chars().count().max(2) - 1);
        if title.starts_with('<') { format!(":{dashes}") } else { format!("{dashes}:") }
    };
    lines.insert(1, header.iter().zip(&lines[0]).map(rule).collect());
    lines.into_iter().map(line).collect()
}

/// The header and the rows, the cells of a column of one width.
fn aligned(header: &[&str], rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let is_text: Vec<bool> = header.iter().map(|title| title.starts_with('<')).collect();
    let header = header.iter().map(|title| title.trim_start_matches('<').to_owned()).collect();
    let lines: Vec<&Vec<String>> = std::iter::once(&header).chain(rows).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |line: &&Vec<String>| {
        let cell = |column: usize| {
            let (cell, width) = (&line[column], widths[column]);
            if is_text[column] { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        };
        (0..header.len()).map(cell).collect()
    };
    lines.iter().map(line).collect()
}

/// What there is no figure for.
pub(crate) fn none() -> String {
    "–".into()
}

/// A time in microseconds, of short ones with two digits after the point.
pub(crate) fn us(time: f64) -> String {
    if time < 9.995 { format!("{time:.2}") } else { format!("{time:.1}") }
}

/// About three digits.
pub(crate) fn short(figure: f64) -> String {
    match figure {
        ..9.995 => format!("{figure:.2}"),
        ..99.95 => format!("{figure:.1}"),
        _ => format!("{figure:.0}"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn text_stands_left_and_numbers_right() {
        let rows = [["é".to_owned(), "10".to_owned()].to_vec(), ["long name".to_owned(), "5".to_owned()].to_vec()];
        assert_eq!(super::text(&["<name", "µs"], &rows), "name       µs\né          10\nlong name   5\n");
    }
    #[test]
    fn markdown_has_a_rule_that_tells_the_sides() {
        let rows = [["é".to_owned(), "10".to_owned()].to_vec(), ["long name".to_owned(), "5".to_owned()].to_vec()];
        let table = "| name      | µs |\n| :-------- | -: |\n| é         | 10 |\n| long name |  5 |\n";
        assert_eq!(super::markdown(&["<name", "µs"], &rows), table);
    }
}
