// How the text of PTX is read from what is kept of it. Also a part of programs that embed kept PTX, so it depends on the standard library alone.

/// The text of which this is kept. After a mark, each register is written as its distance from the last one of its kind, which repeats
/// itself more often than its number.
pub(crate) fn with_registers(kept: &str) -> String {
    let Some(distances) = kept.strip_prefix(REGISTER_MARK) else { return kept.to_owned() };
    replace_registers(distances, |last, after| {
        let digits = after.bytes().skip(1).take_while(u8::is_ascii_digit).count();
        let distance = after.get(..1 + digits)?.parse::<i64>().ok().filter(|_| after.starts_with(['+', '-']))?;
        *last = last.wrapping_add(distance);
        Some((last.to_string(), 1 + digits))
    })
}

/// What a text begins with if its registers are distances.
pub(crate) const REGISTER_MARK: char = '%';

/// Replaces what follows the names of registers, such as `%rd`: by a text and for so many bytes, as `replace` says, which gets the last number of
/// the kind and what follows.
pub(crate) fn replace_registers(
    text: &str,
    mut replace: impl FnMut(&mut i64, &str) -> Option<(String, usize)>,
) -> String {
    let (mut replaced, mut rest) = (String::with_capacity(text.len()), text);
    let mut kinds: Vec<(&str, i64)> = Vec::new();
    while let Some(percent) = rest.find('%') {
        let letters = rest[percent + 1..].bytes().take_while(u8::is_ascii_lowercase).count();
        let (before, after) = rest.split_at(percent + 1 + letters);
        let kind = &before[percent + 1..];
        let place = kinds.iter().position(|known| known.0 == kind).unwrap_or_else(|| {
            kinds.push((kind, 0));
            kinds.len() - 1
        });
        let (number, bytes) = replace(&mut kinds[place].1, after).unwrap_or_default();
        replaced += before;
        replaced += &number;
        rest = &after[bytes..];
    }
    replaced + rest
}
