//! The file that says what the prebuilt PTX was made from.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    CudaBuilderError, PtxInfo,
    sources::{hash_text, read_text},
};

/// The manifest of a directory of prebuilt PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    pub const SCHEMA: u32 = 2;

    /// The fields that a file's record leaves out where they equal those of the record before it.
    const REPEATED: [&str; 2] = ["rustc", "entries"];

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
        Self::from_json(&text).map_err(bad)
    }

    /// Writes the manifest as JSON, with sorted keys, a line for each PTX file, and a final newline.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, file: &Path) -> Result<(), CudaBuilderError> {
        let bad = |source| CudaBuilderError::BadManifest { file: file.to_owned(), source };
        fs::write(file, self.to_json().map_err(bad)?).map_err(CudaBuilderError::io("write", file))
    }

    fn from_json(text: &str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Lines {
            files: BTreeMap<String, Map<String, Value>>,
        }
        let Lines { files } = serde_json::from_str(text)?;
        let mut before = Map::new();
        let whole = |(name, mut record): (String, Map<String, Value>)| {
            for key in Self::REPEATED {
                if let (None, Some(value)) = (record.get(key), before.get(key)) {
                    record.insert(key.to_owned(), value.clone());
                }
            }
            before.clone_from(&record);
            Ok((name, FileRecord::deserialize(Value::Object(record))?))
        };
        Ok(Self { schema: Self::SCHEMA, files: files.into_iter().map(whole).collect::<serde_json::Result<_>>()? })
    }

    fn to_json(&self) -> serde_json::Result<String> {
        let mut before = Value::Null;
        let line = |(name, record): (&String, &FileRecord)| {
            let whole = serde_json::to_value(record)?;
            let mut short = whole.clone();
            if let Some(fields) = short.as_object_mut() {
                fields.retain(|key, value| !Self::REPEATED.contains(&key.as_str()) || before[key.as_str()] != *value);
            }
            before = whole;
            Ok(format!("\n{}:{short}", serde_json::to_string(name)?))
        };
        let lines = self.files.iter().map(line).collect::<serde_json::Result<Vec<_>>>()?;
        Ok(format!("{{\"schema\":{},\"files\":{{{}\n}}}}\n", self.schema, lines.join(",")))
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
        let record = |arch: &str, rustc: &str, entry: &str| FileRecord {
            source_hash: "s".to_owned(),
            ptx_hash: arch.to_owned(),
            rustc: rustc.to_owned(),
            info: PtxInfo {
                version: "7.0".to_owned(),
                target: arch.to_owned(),
                entries: [(entry.to_owned(), 56)].into(),
            },
            cubin: (arch == "sm_90").then(|| CubinRecord { hash: "c".to_owned(), ptxas: "ptxas 13.0".to_owned() }),
        };
        // Entries as those of the line before, others, and those before them again; and another compiler.
        let files = [
            ("a.sm_80.ptx", record("sm_80", "rustc 1.96.0", "first")),
            ("a.sm_90.ptx", record("sm_90", "rustc 1.96.0", "first")),
            ("b.sm_80.ptx", record("sm_80", "rustc 1.96.0", "second")),
            ("b.sm_90.ptx", record("sm_90", "rustc 1.97.0", "first")),
        ];
        let files = files.map(|(name, record)| (name.to_owned(), record)).into();
        let manifest = Manifest { files, ..Manifest::default() };
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("manifest.json");
        manifest.write(&file).unwrap();
        assert_eq!(Manifest::read(&file).unwrap(), manifest);
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!((text.lines().count(), text.ends_with("}\n")), (6, true), "{text}");
        assert_eq!((text.matches("rustc").count(), text.matches("entries").count()), (4, 3), "{text}");
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
