//! Reports in files, compressed by xz or not, and brought up to date where older commands wrote them.

use std::{fs, io::Read, path::Path};

use lzma_rust2::XzReader;
use serde_json::Value;

use super::Document;

/// The report in a file, and what it says.
pub(crate) fn read(path: &Path) -> Result<(Value, Document), String> {
    let at = |problem: String| format!("{}: {problem}", path.display());
    let mut bytes = fs::read(path).map_err(|error| at(error.to_string()))?;
    if bytes.starts_with(b"\xfd7zXZ\0") {
        let mut text = Vec::new();
        XzReader::new(&*bytes, true).read_to_end(&mut text).map_err(|error| at(error.to_string()))?;
        bytes = text;
    }
    let mut report: Value = serde_json::from_slice(&bytes).map_err(|error| at(format!("no JSON: {error}")))?;
    update(&mut report);
    let document = Document::read(&report).map_err(at)?;
    Ok((report, document))
}

/// Names of today: benchmarks were subcommands of `warpsparse`, one of them was called `sgemm`, and baselines were rivals.
pub(super) fn update(report: &mut Value) {
    match report {
        Value::Object(fields) => {
            if let Some(rivals) = fields.remove("rivals") {
                fields.insert("baselines".into(), rivals);
            }
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "command" => *text = command(text),
                    Value::String(text) if text == "warpsparse.bench.sgemm" => *text = "warpsparse.bench.gemm".into(),
                    value => update(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(update),
        _ => {}
    }
}

fn command(recorded: &str) -> String {
    let mut words: Vec<&str> = recorded.split(' ').collect();
    if words.starts_with(&["warpsparse", "bench"]) {
        words.splice(..2, ["warpsparse-bench"]);
    }
    if let ["warpsparse-bench", benchmark @ "sgemm", ..] = &mut words[..] {
        *benchmark = "gemm";
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn older_reports_are_brought_up_to_date() {
        let old = ["warpsparse", "bench", "sgemm --limit 1"].join(" ");
        let mut report = json!({
            "schema": "warpsparse.bench.all",
            "sections": [
                { "command": old, "report": { "schema": "warpsparse.bench.sgemm" } },
                { "command": "warpsparse-bench spmm", "report": { "results": [{ "rivals": [{ "name": "cuSPARSE" }] }] } },
                { "command": null },
            ],
        });
        update(&mut report);
        let expected = json!({
            "schema": "warpsparse.bench.all",
            "sections": [
                { "command": "warpsparse-bench gemm --limit 1", "report": { "schema": "warpsparse.bench.gemm" } },
                { "command": "warpsparse-bench spmm", "report": { "results": [{ "baselines": [{ "name": "cuSPARSE" }] }] } },
                { "command": null },
            ],
        });
        assert_eq!(report, expected);
    }
}
