//! What NVIDIA's profiler, Nsight Compute, tells of kernels' durations.

use std::{
    env,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use warpsparse::Device;

use super::{ClockResult, PROFILED};

/// The time from the first to the last cycle of a kernel.
const METRIC: &str = "gpu__time_duration.sum";

/// Of a product, the durations of its kernels in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Durations {
    pub(super) ours: f64,
    pub(super) theirs: f64,
}

/// A kernel that ran, and how long in microseconds.
type Kernel = (String, f64);

/// Of the products of these results: profiles this command as a child.
pub(super) fn durations(
    ncu: Option<&Path>,
    device: &Device,
    results: &[ClockResult],
) -> Result<Vec<Durations>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let log = folder.path().join("ncu.csv");
    let known = [PathBuf::from("ncu"), PathBuf::from("/usr/local/cuda/bin/ncu")];
    let candidates = ncu.map_or(known.to_vec(), |path| vec![path.to_owned()]);
    for program in candidates {
        match run(&program, &log, device, results) {
            Ok(()) => {
                let text = fs::read_to_string(&log).map_err(|error| format!("{}: {error}", log.display()))?;
                return of_products(&kernels(&text)?, results.len());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{}: {error}", program.display())),
        }
    }
    Err("ncu was not found: is Nsight Compute's folder in PATH?".into())
}

/// Clocks and caches stay as they are: emptied caches would lack the instructions too.
fn run(ncu: &Path, log: &Path, device: &Device, results: &[ClockResult]) -> io::Result<()> {
    let mut command = Command::new(ncu);
    command.args(["--csv", "--metrics", METRIC, "--print-units", "base"]);
    command
        .args(["--clock-control", "none", "--cache-control", "none", "--profile-from-start", "off"])
        .args([OsStr::new("--log-file"), log.as_os_str()]);
    command.arg(env::current_exe()?).args(["clock", "--device", &device.to_string()]);
    for ClockResult { name, way, .. } in results {
        command.args([name, "--child", way]);
    }
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    // It tells of its own failures in the log.
    let log = fs::read_to_string(log).unwrap_or_default();
    let error = String::from_utf8_lossy(&output.stderr);
    let told = log.lines().chain(error.lines()).filter(|line| line.contains("ERROR") || line.starts_with("error"));
    Err(io::Error::other(told.collect::<Vec<_>>().join(" ")))
}

/// The kernels of a log, in the order in which they ran.
fn kernels(log: &str) -> Result<Vec<Kernel>, String> {
    let mut rows = log.lines().filter(|line| line.starts_with('"')).map(cells);
    let header = rows.next().ok_or("ncu has told nothing")?;
    let place = |title: &str| {
        let place = header.iter().position(|cell| cell == title);
        place.ok_or_else(|| format!("ncu has told no column `{title}`"))
    };
    let [name, metric, unit, value] =
        [place("Kernel Name")?, place("Metric Name")?, place("Metric Unit")?, place("Metric Value")?];
    let of_metric = rows.filter(|row| row.get(metric).is_some_and(|cell| cell == METRIC));
    let kernel = |row: Vec<String>| {
        let us = row.get(unit).and_then(|unit| microseconds(unit)).zip(row.get(value).and_then(|value| number(value)));
        let (unit, value) = us.ok_or_else(|| format!("ncu has told no time: {}", row.join(",")))?;
        Ok((row[name].clone(), unit * value))
    };
    of_metric.map(kernel).collect()
}

/// Of each shape the kernels of our products, and then those of cuBLAS's: as the names tell, one or more a product.
fn of_products(kernels: &[Kernel], shapes: usize) -> Result<Vec<Durations>, String> {
    let is_ours = |kernel: &Kernel| {
        ["gemm_tiles_", "gemm_dmma_", "gemm_tf32_", "gemm_wgmma_"].iter().any(|family| kernel.0.contains(family))
    };
    let groups: Vec<f64> = kernels
        .chunk_by(|a, b| is_ours(a) == is_ours(b))
        .map(|group| group.iter().map(|(_, us)| us).sum::<f64>() / PROFILED as f64)
        .collect();
    if groups.len() != 2 * shapes || !kernels.first().is_some_and(is_ours) {
        return Err(format!("ncu has seen {} kernels, which are not the products of {shapes} shapes", kernels.len()));
    }
    Ok(groups.chunks(2).map(|pair| Durations { ours: pair[0], theirs: pair[1] }).collect())
}

/// Of a line of comma-separated values, all of them in quotes.
fn cells(line: &str) -> Vec<String> {
    let inside = line.trim_end().trim_start_matches('"').trim_end_matches('"');
    inside.split("\",\"").map(|cell| cell.replace("\"\"", "\"")).collect()
}

/// Of a unit, how many microseconds it is.
fn microseconds(unit: &str) -> Option<f64> {
    match unit {
        "ns" | "nsecond" => Some(1e-3),
        "us" | "usecond" => Some(1.0),
        "ms" | "msecond" => Some(1e3),
        "s" | "second" => Some(1e6),
        _ => None,
    }
}

/// It may have commas between thousands.
fn number(text: &str) -> Option<f64> {
    text.replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "==PROF== Connected to process 7\n\"ID\",\"Process ID\",\"Kernel Name\",\"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n";

    #[test]
    fn a_log_is_read() {
        let row =
            |name: &str, unit, value| format!("\"0\",\"7\",\"{name}\",\"\",\"{METRIC}\",\"{unit}\",\"{value}\"\n");
        let other = "\"0\",\"7\",\"x\",\"\",\"sm__cycles.sum\",\"cycle\",\"9\"\n";
        let log =
            HEADER.to_owned() + &row("f<int, \"\"a\"\">(T *)", "nsecond", "6,720") + other + &row("g", "us", "1.5");
        let expected = [("f<int, \"a\">(T *)".to_owned(), 6.72), ("g".to_owned(), 1.5)];
        assert_eq!(kernels(&log).unwrap(), expected);
        assert_eq!(kernels("==ERROR== no\n").unwrap_err(), "ncu has told nothing");
        assert!(kernels("\"ID\"\n").unwrap_err().contains("Kernel Name"));
        assert!(kernels(&(HEADER.to_owned() + &row("f", "cycle", "3"))).unwrap_err().contains("no time"));
    }

    #[test]
    fn kernels_belong_to_products_by_their_names() {
        let of = |name: &str, us: f64, count: usize| vec![(name.to_owned(), us); count];
        let ours = "gemm_tiles_f32_32x32_a_rows_b_rows";
        // cuBLAS takes two kernels for the second shape.
        let second = [of("cutlass", 6.0, PROFILED), of("splitKreduce", 1.0, PROFILED)].concat();
        let kernels = [of(ours, 6.0, PROFILED), of("cutlass", 5.0, PROFILED), of(ours, 8.0, PROFILED), second].concat();
        let expected = [Durations { ours: 6.0, theirs: 5.0 }, Durations { ours: 8.0, theirs: 7.0 }];
        assert_eq!(of_products(&kernels, 2).unwrap(), expected);
        assert!(of_products(&kernels, 3).unwrap_err().contains("not the products of 3 shapes"));
        assert!(of_products(&kernels[PROFILED..], 1).is_err());
    }
}
