//! How PTX and machine code are kept: compressed by LZMA, whose window reaches back to similar entries as that of Deflate does not.
//! PTX that is almost that for an older architecture is kept as the lines in which it differs, and registers as distances.

use std::{
    fs,
    io::{self, Read, Write},
    path::Path,
};

use lzma_rust2::{LzmaOptions, LzmaReader, LzmaWriter};

use crate::{
    CudaBuilderError,
    text::{REGISTER_MARK, replace_registers, whole, with_registers},
};

/// The bytes that a file holds compressed; `None` where there is no such file, or it holds something else.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, CudaBuilderError> {
    if !path.is_file() {
        return Ok(None);
    }
    let compressed = fs::read(path).map_err(CudaBuilderError::io("read", path))?;
    Ok(decompress(&compressed).ok())
}

/// Compresses machine code into a file. One that holds it already stays as it is: another version of the compressor may have
/// written it.
pub(crate) fn write(path: &Path, code: &[u8]) -> Result<(), CudaBuilderError> {
    // Instructions are 16 bytes long, so a byte's position says what to expect.
    write_with(path, code, LzmaOptions { lc: 0, lp: 4, pb: 4, ..strongest() })
}

fn write_with(path: &Path, bytes: &[u8], options: LzmaOptions) -> Result<(), CudaBuilderError> {
    if read(path)?.is_some_and(|kept| kept == bytes) {
        return Ok(());
    }
    let written = compress(bytes, &options).and_then(|compressed| fs::write(path, compressed));
    written.map_err(CudaBuilderError::io("write", path))
}

/// What compresses most: the last preset, which searches longer for each match.
fn strongest() -> LzmaOptions {
    LzmaOptions { depth_limit: 1000, ..LzmaOptions::with_preset(9) }
}

fn compress(bytes: &[u8], options: &LzmaOptions) -> io::Result<Vec<u8>> {
    let size = Some(bytes.len() as u64);
    let mut writer = LzmaWriter::new_use_header(Vec::new(), options, size)?;
    writer.write_all(bytes)?;
    writer.finish()
}

fn decompress(compressed: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    LzmaReader::new_mem_limit(compressed, u32::MAX, None)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text with an empty line for each that is the same in `older`, if [`whole`] makes the text of that again.
pub(crate) fn differences(text: &str, older: &str) -> Option<String> {
    let differences =
        text.lines().zip(older.lines()).flat_map(|(line, old)| [if line == old { "" } else { line }, "\n"]);
    let differences: String = differences.collect();
    (differences.starts_with('\n') && whole(&differences, older) == text).then_some(differences)
}

/// The text that a file holds; `None` as for [`read`].
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, CudaBuilderError> {
    Ok(read(path)?.and_then(|bytes| String::from_utf8(bytes).ok()).map(with_registers))
}

/// Writes a text as [`write`] does, in less space.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), CudaBuilderError> {
    let kept = without_registers(text);
    // Text has no alignment: without position bits, PTX compresses to 5% less.
    write_with(path, kept.as_deref().unwrap_or(text).as_bytes(), LzmaOptions { pb: 0, ..strongest() })
}

/// The text with registers as distances, if [`with_registers`] makes the text of that again.
fn without_registers(text: &str) -> Option<String> {
    let distances = replace_registers(text, |last, after| {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let number = after[..digits].parse::<i64>().ok()?;
        Some((format!("{:+}", number.wrapping_sub(std::mem::replace(last, number))), digits))
    });
    let kept = format!("{REGISTER_MARK}{distances}");
    (distances != text && with_registers(kept.clone()) == text).then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "// PTX\n\n.version 6.3\n.target sm_75\n{\nret;\n}\n";

    #[test]
    fn lines_that_differ_make_the_text_again() {
        let new = OLD.replace("6.3", "7.8").replace("sm_75", "sm_90");
        let differences = differences(&new, OLD).unwrap();
        assert_eq!(differences, "\n\n.version 7.8\n.target sm_90\n\n\n\n");
        assert_eq!(whole(&differences, OLD), new);
    }

    #[test]
    fn registers_are_distances_from_the_last_of_their_kind() {
        let text = "add.s64 %rd7, %rd5, %r12; ld [%rd7+16], %r11; %tid.x %clock64 %SP+8 100%";
        let kept = without_registers(text).unwrap();
        assert_eq!(kept, "%add.s64 %rd+7, %rd-2, %r+12; ld [%rd+2+16], %r-1; %tid.x %clock+64 %SP+8 100%");
        assert_eq!(with_registers(kept), text);
        assert_eq!(with_registers(text.to_owned()), text);
        for text in ["", " %r07", " %r+1", " %r-1", " %r1 %r+2", " %99", " %r99999999999999999999", " %r+", " %"] {
            let kept = without_registers(text).unwrap_or(text.to_owned());
            assert_eq!(with_registers(kept), text);
        }
    }

    #[test]
    fn other_texts_are_kept_whole() {
        let longer = format!("{OLD}// end\n");
        let (emptied, no_newline) = (OLD.replace("ret;", ""), OLD.trim_end());
        for text in [&longer, &emptied, no_newline, "// other\n", &OLD.replace("// PTX", "// other"), ""] {
            assert_eq!(differences(text, OLD), None, "{text:?}");
        }
    }

    #[test]
    fn a_file_with_the_same_bytes_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.lzma");
        assert_eq!(read(&path).unwrap(), None);
        let text: Vec<_> = (0..2000u32).flat_map(|i| (i * i % 977).to_le_bytes()).collect();
        let (weakly, strongly) =
            [LzmaOptions::with_preset(0), strongest()].map(|options| compress(&text, &options).unwrap()).into();
        assert_ne!(weakly, strongly);
        fs::write(&path, &weakly).unwrap();
        write(&path, &text).unwrap();
        assert_eq!(fs::read(&path).unwrap(), weakly);
        write(&path, b"abc").unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), b"abc");
        fs::write(&path, b"\xff not compressed").unwrap();
        assert_eq!(read(&path).unwrap(), None);
    }
}
