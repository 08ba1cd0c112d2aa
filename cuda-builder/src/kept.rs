//! How PTX and machine code are kept: compressed by LZMA, whose window reaches back to similar entries as that of Deflate does not.
//! PTX for all but a family's oldest architecture is compressed with that for the next older one as its dictionary, and registers are kept as distances.

use std::{
    fs,
    io::{self, Read, Write},
    path::Path,
};

use lzma_rust2::{LzmaOptions, LzmaReader, LzmaWriter};

use crate::{
    CudaBuilderError,
    text::{REGISTER_MARK, replace_registers, with_registers},
};

/// The machine code that a file holds compressed; `None` where there is no such file, or it holds something else.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, CudaBuilderError> {
    read_with(path, None)
}

/// Compresses machine code into a file. One that holds it already stays as it is: another version of the compressor may have
/// written it.
pub(crate) fn write(path: &Path, code: &[u8]) -> Result<(), CudaBuilderError> {
    // Instructions are 16 bytes long, so a byte's position says what to expect.
    write_with(path, code, LzmaOptions { lc: 0, lp: 4, pb: 4, ..strongest() })
}

/// The [kept form](kept_form) of the text that a file holds, where `older` is that for the next older architecture; `None` as for [`read`].
pub(crate) fn read_text(path: &Path, older: Option<&str>) -> Result<Option<String>, CudaBuilderError> {
    Ok(read_with(path, older.map(str::as_bytes))?.and_then(|bytes| String::from_utf8(bytes).ok()))
}

/// Writes the kept form of a text as [`write`] does.
pub(crate) fn write_text(path: &Path, kept: &str, older: Option<&str>) -> Result<(), CudaBuilderError> {
    let preset_dict = older.map(|older| older.as_bytes().to_vec());
    // Text has no alignment: without position bits, PTX compresses to 5% less.
    write_with(path, kept.as_bytes(), LzmaOptions { pb: 0, preset_dict, ..strongest() })
}

fn read_with(path: &Path, dictionary: Option<&[u8]>) -> Result<Option<Vec<u8>>, CudaBuilderError> {
    if !path.is_file() {
        return Ok(None);
    }
    let compressed = fs::read(path).map_err(CudaBuilderError::io("read", path))?;
    Ok(decompress(&compressed, dictionary).ok())
}

fn write_with(path: &Path, bytes: &[u8], options: LzmaOptions) -> Result<(), CudaBuilderError> {
    if read_with(path, options.preset_dict.as_deref())?.is_some_and(|kept| kept == bytes) {
        return Ok(());
    }
    let written = compress(bytes, &options).and_then(|compressed| fs::write(path, compressed));
    written.map_err(CudaBuilderError::io("write", path))
}

/// What compresses most: the last preset, which searches longer for each match, and for the longest that there are.
fn strongest() -> LzmaOptions {
    LzmaOptions { depth_limit: 1000, nice_len: 273, ..LzmaOptions::with_preset(9) }
}

/// Compresses into the format `.lzma`. The library refuses to write its header where there is a preset dictionary.
fn compress(bytes: &[u8], options: &LzmaOptions) -> io::Result<Vec<u8>> {
    let mut compressed = vec![options.get_props()];
    compressed.extend(options.dict_size.to_le_bytes());
    compressed.extend((bytes.len() as u64).to_le_bytes());
    let mut writer = LzmaWriter::new_no_header(compressed, options, false)?;
    writer.write_all(bytes)?;
    writer.finish()
}

fn decompress(compressed: &[u8], dictionary: Option<&[u8]>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    LzmaReader::new_mem_limit(compressed, u32::MAX, dictionary)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The form in which a text is kept: with registers as distances, if [`with_registers`] restores the text from it.
pub(crate) fn kept_form(text: &str) -> String {
    without_registers(text).unwrap_or_else(|| text.to_owned())
}

fn without_registers(text: &str) -> Option<String> {
    let distances = replace_registers(text, |last, after| {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let number = after[..digits].parse::<i64>().ok()?;
        Some((format!("{:+}", number.wrapping_sub(std::mem::replace(last, number))), digits))
    });
    let kept = format!("{REGISTER_MARK}{distances}");
    (distances != text && with_registers(&kept) == text).then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_older_architecture_is_the_dictionary() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.lzma");
        let lines: String = (0..2000u32).map(|i| format!("{}\n", i * i % 977)).collect();
        let [older, newer] = ["6.3", "7.8"].map(|version| format!(".version {version}\n{lines}"));
        write_text(&path, &older, None).unwrap();
        let alone = fs::metadata(&path).unwrap().len();
        write_text(&path, &newer, Some(&older)).unwrap();
        let shared = fs::metadata(&path).unwrap().len();
        assert!(shared < 100 && alone > 1000, "{shared} and {alone} bytes");
        assert_eq!(read_text(&path, Some(&older)).unwrap().as_ref(), Some(&newer));
        for other in [None, Some(&*lines), Some("")] {
            assert_ne!(read_text(&path, other).unwrap().as_ref(), Some(&newer));
        }
        // Texts that have nothing in common.
        for (text, older) in [("", "a"), ("a", ""), ("abc", "xyz")] {
            write_text(&path, text, Some(older)).unwrap();
            assert_eq!(read_text(&path, Some(older)).unwrap().as_deref(), Some(text));
        }
    }

    #[test]
    fn registers_are_distances_from_the_last_of_their_kind() {
        let text = "add.s64 %rd7, %rd5, %r12; ld [%rd7+16], %r11; %tid.x %clock64 %SP+8 100%";
        let kept = without_registers(text).unwrap();
        assert_eq!(kept, "%add.s64 %rd+7, %rd-2, %r+12; ld [%rd+2+16], %r-1; %tid.x %clock+64 %SP+8 100%");
        assert_eq!(with_registers(&kept), text);
        assert_eq!(with_registers(text), text);
        for text in ["", " %r07", " %r+1", " %r-1", " %r1 %r+2", " %99", " %r99999999999999999999", " %r+", " %"] {
            assert_eq!(with_registers(&kept_form(text)), text);
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
