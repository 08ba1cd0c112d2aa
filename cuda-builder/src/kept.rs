//! How PTX and machine code are kept: deflated, and PTX that is almost that for an older architecture as the lines in
//! which it differs.

use std::{
    fs,
    io::{Read, Write},
    path::Path,
};

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};

use crate::CudaBuilderError;

/// The bytes that a file holds deflated; `None` where there is no such file, or it holds something else.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, CudaBuilderError> {
    if !path.is_file() {
        return Ok(None);
    }
    let deflated = fs::read(path).map_err(CudaBuilderError::io("read", path))?;
    let mut bytes = Vec::new();
    Ok(DeflateDecoder::new(deflated.as_slice()).read_to_end(&mut bytes).is_ok().then_some(bytes))
}

/// Deflates bytes into a file. One that holds them already stays as it is: another version of the compressor may have
/// written it.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), CudaBuilderError> {
    if read(path)?.is_some_and(|kept| kept == bytes) {
        return Ok(());
    }
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    let deflated = encoder.write_all(bytes).and_then(|()| encoder.finish());
    deflated.and_then(|deflated| fs::write(path, deflated)).map_err(CudaBuilderError::io("write", path))
}

/// The text with an empty line for each that is the same in `older`, if [`whole`] makes the text of that again.
pub(crate) fn differences(text: &str, older: &str) -> Option<String> {
    let differences =
        text.lines().zip(older.lines()).flat_map(|(line, old)| [if line == old { "" } else { line }, "\n"]);
    let differences: String = differences.collect();
    (differences.starts_with('\n') && whole(&differences, older) == text).then_some(differences)
}

/// The text of which these are the [`differences`]. They begin with an empty line, as the PTX of a compiler does not.
pub(crate) fn whole(differences: &str, older: &str) -> String {
    let lines = differences.lines().zip(older.lines());
    lines.flat_map(|(line, old)| [if line.is_empty() { old } else { line }, "\n"]).collect()
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
        let path = dir.path().join("a.deflate");
        assert_eq!(read(&path).unwrap(), None);
        // Deflate without compression: the last block, its length, the length's complement.
        let stored = [&[1, 2, 0, 0xfd, 0xff][..], b"ab"].concat();
        fs::write(&path, &stored).unwrap();
        write(&path, b"ab").unwrap();
        assert_eq!(fs::read(&path).unwrap(), stored);
        write(&path, b"abc").unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), b"abc");
        fs::write(&path, b"\xff not deflated").unwrap();
        assert_eq!(read(&path).unwrap(), None);
    }
}
