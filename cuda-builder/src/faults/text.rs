//! Splits PTX into functions, and these into statements.

/// A function with a body.
pub(super) struct FunctionText<'a> {
    pub(super) head: Head<'a>,
    pub(super) body: Vec<Statement<'a>>,
}

/// What comes before the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head<'a> {
    /// Whether the host launches the function.
    pub(super) is_entry: bool,
    /// What the function returns, as it is declared.
    pub(super) result: &'a str,
    pub(super) name: &'a str,
    /// As they are declared.
    pub(super) parameters: &'a str,
}

/// A part of a function's body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Statement<'a> {
    /// `{`, the start of a scope.
    Open,
    /// `}`, its end.
    Close,
    Label(&'a str),
    /// An instruction or a directive, without the semicolon. Lines are counted from 1.
    Text {
        line: usize,
        text: &'a str,
    },
}

/// The text with comments replaced by spaces, so that lines keep their numbers.
pub(super) fn without_comments(ptx: &str) -> String {
    let mut out = String::with_capacity(ptx.len());
    let mut rest = ptx;
    while let Some(at) = rest.find(['/', '"']) {
        let (before, from) = rest.split_at(at);
        let up_to = |start: usize, end: &str| from[start..].find(end).map_or(from.len(), |at| start + at + end.len());
        let (len, is_comment) = if from.starts_with("//") {
            (from.find('\n').unwrap_or(from.len()), true)
        } else if from.starts_with("/*") {
            (up_to(2, "*/"), true)
        } else if from.starts_with('"') {
            (up_to(1, "\""), false)
        } else {
            (1, false)
        };
        let (piece, after) = from.split_at(len);
        out.push_str(before);
        if is_comment {
            out.extend(piece.chars().map(|c| if c == '\n' { c } else { ' ' }));
        } else {
            out.push_str(piece);
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The functions that are defined in a text without comments, and the names of those that do not return.
pub(super) fn functions(ptx: &str) -> (Vec<FunctionText<'_>>, Vec<&str>) {
    let (mut functions, mut do_not_return) = (Vec::new(), Vec::new());
    let mut current: Option<FunctionText> = None;
    let mut depth = 0;
    for (line, piece) in Pieces::new(ptx) {
        let Some(function) = &mut current else {
            if let Piece::Text(text) | Piece::Open(text) = piece
                && let Some(head) = Head::parse(text)
            {
                do_not_return.extend(text.contains(".noreturn").then_some(head.name));
                current = matches!(piece, Piece::Open(_)).then_some(FunctionText { head, body: Vec::new() });
            }
            continue;
        };
        function.body.push(match piece {
            Piece::Open(_) => {
                depth += 1;
                Statement::Open
            }
            Piece::Close if depth == 0 => {
                functions.extend(current.take());
                continue;
            }
            Piece::Close => {
                depth -= 1;
                Statement::Close
            }
            Piece::Label(label) => Statement::Label(label),
            Piece::Text(text) => Statement::Text { line, text },
        });
    }
    (functions, do_not_return)
}

/// The words that may be names of registers, such as `%tid.x`, of variables or of labels.
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.');
    let words = text.split(move |c: char| !is_part(c));
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$' | '%')))
}

impl<'a> Head<'a> {
    /// Parses the text before a function's body; `None` if it is something else.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        if !text.trim_start().starts_with('.') {
            return None;
        }
        let (is_entry, rest) = match text.split_once(".entry") {
            Some((_, rest)) => (true, rest),
            None => (false, text.split_once(".func")?.1),
        };
        // The result comes before the name.
        let (result, rest) = parenthesised(rest);
        let name = names(rest).next()?;
        let (parameters, _) = parenthesised(rest.split_once(name)?.1);
        Some(Self { is_entry, result, name, parameters })
    }
}

/// The text in parentheses that a text starts with, if any, and the rest.
fn parenthesised(text: &str) -> (&str, &str) {
    let inside = text.trim_start().strip_prefix('(').and_then(|rest| rest.split_once(')'));
    inside.unwrap_or(("", text))
}

#[derive(Clone, Copy)]
enum Piece<'a> {
    /// What comes before a `{` that starts a scope.
    Open(&'a str),
    Close,
    Label(&'a str),
    Text(&'a str),
}

/// Iterates over the statements of a text, with the line that each starts in.
struct Pieces<'a> {
    ptx: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Pieces<'a> {
    fn new(ptx: &'a str) -> Self {
        Self { ptx, at: 0, line: 1 }
    }

    /// Advances by a number of bytes.
    fn skip(&mut self, bytes: usize) {
        self.line += self.ptx[self.at..self.at + bytes].matches('\n').count();
        self.at += bytes;
    }

    /// Skips space, directives that end with their line, and debug sections.
    fn skip_to_statement(&mut self) {
        const OF_A_LINE: [&str; 5] = [".version", ".target", ".address_size", ".file", ".loc"];
        loop {
            let rest = &self.ptx[self.at..];
            let space = rest.len() - rest.trim_start().len();
            let rest = &rest[space..];
            let word = rest.split(char::is_whitespace).next().unwrap_or_default();
            let end = match word {
                _ if OF_A_LINE.contains(&word) => '\n',
                ".section" => '}',
                _ => return self.skip(space),
            };
            self.skip(space + rest.find(end).map_or(rest.len(), |at| at + 1));
        }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = (usize, Piece<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.skip_to_statement();
        let (rest, line) = (&self.ptx[self.at..], self.line);
        let mut in_string = false;
        for (at, c) in rest.char_indices() {
            let before = || rest[..at].trim_end();
            let piece = match c {
                '"' => {
                    in_string = !in_string;
                    continue;
                }
                _ if in_string => continue,
                ';' => Piece::Text(before()),
                '{' if opens_scope(before()) => Piece::Open(before()),
                '}' if before().is_empty() => Piece::Close,
                ':' if names(before()).next() == Some(before()) => Piece::Label(before()),
                _ => continue,
            };
            self.skip(at + 1);
            return Some((line, piece));
        }
        self.at = self.ptx.len();
        None
    }
}

/// Whether a `{` after this text starts a scope, and not a list of operands or values.
fn opens_scope(before: &str) -> bool {
    before.is_empty() || Head::parse(before).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_split_into_statements() {
        let ptx = "/* x;\n */ .version 7.0\n.target sm_80\n.address_size 64\n.global .align 4 .b8 table[8] = {1, 2};\n\
                   .func  (.param .b32 result) stop\n(\n\t.param .b64 stop_param_0\n)\n.noreturn;\n\
                   .visible .entry e(\n\t.param .u32 p\n)\n.maxntid 256, 1, 1\n{\n\t.reg .b32 \t%r<3>;\n\t.local .b8 depot[4];\n\
                   \t// comment; with {\n\t{ .reg .pred p; vote.sync.any.pred p, p, -1; }\n$L__BB0_1:\n\
                   \tmov.b64 {%r1, // low\n\t%r2}, %rd1;\n\t.pragma \"no;unroll\";\n\ttrap; exit;\n}\n";
        let text = without_comments(ptx);
        let (functions, do_not_return) = functions(&text);
        assert_eq!(do_not_return, ["stop"]);
        let heads: Vec<_> = functions.iter().map(|function| function.head).collect();
        assert_eq!(heads, [Head { is_entry: true, result: "", name: "e", parameters: "\n\t.param .u32 p\n" }]);
        let text = |line, text| Statement::Text { line, text };
        let expected = [
            text(16, ".reg .b32 \t%r<3>"),
            text(17, ".local .b8 depot[4]"),
            Statement::Open,
            text(19, ".reg .pred p"),
            text(19, "vote.sync.any.pred p, p, -1"),
            Statement::Close,
            Statement::Label("$L__BB0_1"),
            text(21, "mov.b64 {%r1,       \n\t%r2}, %rd1"),
            text(23, ".pragma \"no;unroll\""),
            text(24, "trap"),
            text(24, "exit"),
        ];
        assert_eq!(functions[0].body, expected);
    }

    #[test]
    fn names_are_told_from_numbers_and_opcodes() {
        let found: Vec<_> = names("[%rd1+16], {%r1, -2}, 0f3F80, %tid.x, $L__1").collect();
        assert_eq!(found, ["%rd1", "%r1", "%tid.x", "$L__1"]);
    }
}
