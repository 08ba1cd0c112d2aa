//! The file that says what the prebuilt PTX was made from.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    CudaBuilderError, PtxInfo,
    sources::{hash_text, read_text},
};

/// The manifest of a directory of prebuilt PTX.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format version: [`Manifest::SCHEMA`].
    pub schema: u32,
    /// The PTX files by name.
    pub files: BTreeMap<String, FileRecord>,
}

/// The record of one PTX file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// The first 128 bits of the SHA-256 of the sources and flags from which it was built.
    pub source_hash: String,
    /// The first 128 bits of the SHA-256 of its text.
    pub ptx_hash: String,
    /// The compiler's version.
    pub rustc: String,
    /// The facts parsed from the PTX.
    #[serde(flatten)]
    pub info: PtxInfo,
    /// Its machine code, if stored with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cubin: Option<CubinRecord>,
}

/// The record of the machine code that an assembler produced from a PTX file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CubinRecord {
    /// The first 128 bits of the SHA-256 of its bytes.
    pub hash: String,
    /// The assembler's version.
    pub ptxas: String,
}

impl FileRecord {
    /// Returns whether the record is about this text.
    #[must_use]
    pub fn is_of(&self, text: &str) -> bool {
        self.ptx_hash == hash_text(text)
    }
}

impl Manifest {
    /// The format version that this crate reads and writes.
    pub const SCHEMA: u32 = 1;

    /// Reads a manifest; a missing file is an empty manifest.
    ///
    /// # Errors
    /// If the file cannot be read, is malformed or has another schema.
    pub fn read(file: &Path) -> Result<Self, CudaBuilderError> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        if !file.exists() {
            return Ok(Self::default());
        }
        let text = read_text(file)?;
        let bad = |source| CudaBuilderError::BadManifest { file: file.to_owned(), source };
        let Head { schema } = serde_json::from_str(&text).map_err(bad)?;
        if schema != Self::SCHEMA {
            let file = file.to_owned();
            return Err(CudaBuilderError::ManifestSchema { file, found: schema, expected: Self::SCHEMA });
        }
        serde_json::from_str(&text).map_err(bad)
    }

    /// Writes the manifest as JSON, with sorted keys, a line for each PTX file, and a final newline.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, file: &Path) -> Result<(), CudaBuilderError> {
        let line = |(name, record)| {
            Ok(format!("\n{}:{}", serde_json::to_string(name)?, serde_json::to_string::<FileRecord>(record)?))
        };
        let lines = self.files.iter().map(line).collect::<Result<Vec<_>, _>>();
        let lines = lines.map_err(|source| CudaBuilderError::BadManifest { file: file.to_owned(), source })?;
        let text = format!("{{\"schema\":{},\"files\":{{{}\n}}}}\n", self.schema, lines.join(","));
        fs::write(file, text).map_err(CudaBuilderError::io("write", file))
    }
}

impl Default for Manifest {
    fn default() -> Self {
        Self { schema: Self::SCHEMA, files: BTreeMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_a_round_trip_and_ends_in_a_newline() {
        let info = PtxInfo {
            version: "7.0".to_owned(),
            target: "sm_80".to_owned(),
            entries: [("entry".to_owned(), 56)].into(),
        };
        let [source_hash, ptx_hash, rustc] = ["s", "p", "rustc 1.96.0"].map(str::to_owned);
        let cubin = Some(CubinRecord { hash: "c".to_owned(), ptxas: "ptxas 13.0".to_owned() });
        let record = FileRecord { source_hash, ptx_hash, rustc, info, cubin };
        let manifest = Manifest { files: [("a.sm_80.ptx".to_owned(), record)].into(), ..Manifest::default() };
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("manifest.json");
        manifest.write(&file).unwrap();
        assert_eq!(Manifest::read(&file).unwrap(), manifest);
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!((text.lines().count(), text.ends_with("}\n")), (3, true), "{text}");
    }

    #[test]
    fn another_schema_is_refused_by_number() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("manifest.json");
        fs::write(&file, "{\"schema\": 7, \"modules\": []}").unwrap();
        let message = Manifest::read(&file).unwrap_err().to_string();
        assert!(message.contains("schema 7"), "{message}");
    }
}
