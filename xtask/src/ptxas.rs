//! `cargo xtask ptxas`: assembles the prebuilt PTX, guards what it costs in registers and local memory, and keeps the
//! machine code.
//! `cargo xtask test-kernels`: builds and assembles the kernels that test `cuda_std`.

use std::{collections::BTreeMap, env, fs, panic::resume_unwind, path::Path, process::Command, thread};

use anyhow::{Context, Result, bail};
use clap::Args;
use cuda_builder::{Arch, CudaBuilder, Prebuilt, PtxFile};
use serde::{Deserialize, Serialize};

use crate::kept::{ARCHS, Kept, kept};

/// Assemble every prebuilt PTX file with `ptxas` ($PTXAS, or from the PATH), and fail on spills, on local memory, on
/// more registers than the registers.json beside it allows, and where the machine code beside it is not what it gives.
#[derive(Args)]
pub(crate) struct Options {
    /// Record the register counts of this run as the ceilings, and keep its machine code.
    #[arg(long)]
    pub(crate) update: bool,
}

/// registers.json: the most registers that each entry may take.
#[derive(Serialize, Deserialize)]
struct Ceilings {
    schema: u32,
    /// The version that the counts come from.
    ptxas: String,
    registers: Registers,
}

/// Registers by entry, then by architecture, as in [`COLUMNS`]; `None` where no PTX has the entry.
type Registers = BTreeMap<String, [Option<u32>; COLUMNS.len()]>;

const COLUMNS: [Arch; 4] = [Arch::Sm75, Arch::Sm80, Arch::Sm90, Arch::Sm90a];

/// What an entry costs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Usage {
    registers: u32,
    shared: u32,
    spilled: u32,
    stack: u32,
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let ptxas = program();
    let version = version(&ptxas)?;
    println!(
        "{version}\n{:8} {:40} {:>9} {:>7} {:>7} {:>6}",
        "arch", "entry", "registers", "shared", "spilled", "stack"
    );
    kept(root).iter().try_for_each(|kept| run_on(kept, &ptxas, &version, options.update))
}

fn run_on(Kept { prebuilt, cubins: cubin_archs, .. }: &Kept, ptxas: &str, version: &str, update: bool) -> Result<()> {
    if update && !prebuilt.stale()?.is_empty() {
        bail!("{} is not what the sources give: run `cargo xtask kernels` first", prebuilt.dir().display());
    }
    let path = prebuilt.dir().join("registers.json");
    let ceilings = if update { BTreeMap::new() } else { read_ceilings(&path)?.registers };

    let manifest = prebuilt.manifest()?;
    let (mut problems, mut cubins) = (Vec::new(), Vec::new());
    let mut measured = Registers::new();
    for (file, (usages, cubin)) in assemble_all(prebuilt, ptxas)? {
        let column = COLUMNS.iter().position(|&arch| arch == file.arch);
        let column = column.with_context(|| format!("registers.json has no column for {}", file.arch))?;
        if cubin_archs.contains(&file.arch) {
            let kept = manifest.files.get(&file.name()).and_then(|record| record.cubin.as_ref());
            // Of another version it differs, and need not be worse.
            if !update && kept.is_none_or(|kept| kept.ptxas == version) {
                let same = prebuilt.machine_code(&file).is_ok_and(|kept| kept == cubin);
                let differs = || format!("{}: missing, or not what this ptxas makes of it", file.cubin_name());
                problems.extend((!same).then(differs));
            }
            cubins.push((file.clone(), cubin));
        }
        for (entry, usage) in usages {
            let Usage { registers, shared, spilled, stack } = usage;
            println!("{:8} {entry:40} {registers:9} {shared:7} {spilled:7} {stack:6}", file.arch);
            if spilled > 0 || stack > 0 {
                problems.push(format!("{entry} for {}: {spilled} bytes spilled, {stack} bytes of stack", file.arch));
            }
            let ceiling = ceilings.get(&entry).and_then(|by_arch| by_arch[column]);
            match ceiling {
                Some(ceiling) if registers > ceiling => {
                    problems
                        .push(format!("{entry} for {}: {registers} registers, at most {ceiling} allowed", file.arch));
                }
                None if !update => problems.push(format!("{entry} for {}: no ceiling recorded", file.arch)),
                _ => {}
            }
            measured.entry(entry).or_default()[column] = Some(registers);
        }
    }
    if update {
        prebuilt.keep_cubins(&cubins, version)?;
        let ceilings = Ceilings { schema: 2, ptxas: version.to_owned(), registers: measured };
        // A line for each entry.
        fs::write(&path, serde_json::to_string(&ceilings)?.replace("],", "],\n") + "\n")?;
    }
    if !problems.is_empty() {
        bail!(
            "{}\n`cargo xtask kernels` records machine code and, if you accept it, the use of more registers; no kernel may spill registers or use the stack",
            problems.join("\n")
        );
    }
    Ok(())
}

/// Build tests/kernels for every architecture that PTX is checked in for, and for sm_90a, and assemble it with `ptxas` ($PTXAS, or from
/// the PATH). Only its kernels with products by warpgroups need to be lean.
#[derive(Args)]
pub(crate) struct TestKernels;

pub(crate) fn test_kernels(root: &Path) -> Result<()> {
    let (ptxas, scratch) = (program(), tempfile::tempdir()?);
    for arch in ARCHS.iter().copied().chain([Arch::Sm90a]) {
        let ptx = scratch.path().join(format!("test_kernels.{arch}.ptx"));
        CudaBuilder::new(root.join("tests/kernels")).arch(arch).allow_faults(true).copy_to(&ptx).build()?;
        let (report, _) = report_and_code(&ptxas, &ptx, arch)?;
        let usages = parse_report(&report);
        println!("{arch}: {} kernels assembled", usages.len());
        if arch == Arch::Sm90a {
            check_products(&usages, &report)?;
        }
    }
    Ok(())
}

/// Products by warpgroups, `multiply_*`, must neither spill their sums nor wait for each other.
fn check_products(usages: &BTreeMap<String, Usage>, report: &str) -> Result<()> {
    let mut products = usages.iter().filter(|(entry, _)| entry.starts_with("multiply_")).peekable();
    if products.peek().is_none() {
        bail!("no kernel is named multiply_*: there is nothing to check");
    }
    for (entry, usage) in products {
        println!("{entry}: {} registers", usage.registers);
        if usage.spilled > 0 || usage.stack > 0 {
            bail!("{entry}: {} bytes spilled, {} bytes of stack", usage.spilled, usage.stack);
        }
    }
    match report.lines().find(|line| line.contains("(C75")) {
        Some(note) => bail!("ptxas lets products wait for each other: {note}"),
        None => Ok(()),
    }
}

fn program() -> String {
    env::var("PTXAS").unwrap_or_else(|_| "ptxas".to_owned())
}

fn read_ceilings(path: &Path) -> Result<Ceilings> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is malformed", path.display()))
}

fn version(ptxas: &str) -> Result<String> {
    let run = Command::new(ptxas).arg("--version").output();
    let run = run.with_context(|| format!("cannot run {ptxas}: set PTXAS to the path of ptxas"))?;
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let release = text.lines().find_map(|line| Some(line.split_once("release ")?.1));
    Ok(format!("ptxas {}", release.unwrap_or("of unknown version")))
}

/// What the entries cost, and the machine code.
type Assembled = (BTreeMap<String, Usage>, Vec<u8>);

/// Assembles all files, on all cores.
fn assemble_all(prebuilt: &Prebuilt, ptxas: &str) -> Result<BTreeMap<PtxFile, Assembled>> {
    let (files, scratch) = (prebuilt.files(), tempfile::tempdir()?);
    let cores = thread::available_parallelism()?.get();
    let share_of = |core| {
        files.iter().skip(core).step_by(cores).map(|file| {
            let ptx = scratch.path().join(file.name());
            fs::write(&ptx, prebuilt.text(file)?)?;
            Ok((file.clone(), assemble(ptxas, &ptx, file.arch)?))
        })
    };
    let assembled: Vec<Result<Vec<_>>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|core| scope.spawn(move || share_of(core).collect())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    Ok(assembled.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

fn assemble(ptxas: &str, ptx: &Path, arch: Arch) -> Result<Assembled> {
    let (report, code) = report_and_code(ptxas, ptx, arch)?;
    Ok((parse_report(&report), code))
}

fn report_and_code(ptxas: &str, ptx: &Path, arch: Arch) -> Result<(String, Vec<u8>)> {
    let scratch = tempfile::tempdir()?;
    let cubin = scratch.path().join("cubin");
    let run = Command::new(ptxas)
        .args(["-v", "-arch", arch.as_str(), "-o"])
        .arg(&cubin)
        .arg(ptx)
        .output()
        .with_context(|| format!("cannot run {ptxas}: set PTXAS to the path of ptxas"))?;
    let report = String::from_utf8_lossy(&run.stderr) + String::from_utf8_lossy(&run.stdout);
    if !run.status.success() {
        bail!("ptxas does not assemble {}:\n{report}", ptx.display());
    }
    Ok((report.into_owned(), fs::read(&cubin)?))
}

/// Reads `ptxas -v`: per entry a line that names it, one on stack and spills, one on registers and shared memory.
/// What a function that the entry calls spills is printed between them, and counts as the entry's.
fn parse_report(report: &str) -> BTreeMap<String, Usage> {
    let mut usages: BTreeMap<String, Usage> = BTreeMap::new();
    let mut current = String::new();
    for line in report.lines() {
        if let Some((_, entry)) = line.split_once("Compiling entry function '") {
            current = entry.split('\'').next().unwrap_or_default().to_owned();
            usages.entry(current.clone()).or_default();
        }
        let Some(usage) = usages.get_mut(&current) else {
            continue;
        };
        usage.stack += number_before(line, " bytes stack frame");
        usage.spilled += number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads");
        usage.registers = usage.registers.max(number_before(line, " registers"));
        usage.shared = usage.shared.max(number_before(line, " bytes smem"));
    }
    usages
}

/// 24 of `Used 24 registers, ...`, and 0 where the line does not speak of it.
fn number_before(line: &str, unit: &str) -> u32 {
    let number = line.split_once(unit).and_then(|(before, _)| before.rsplit([' ', ',']).next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_ptxas_reports() {
        let report = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'lean' for 'sm_80'
ptxas info    : Function properties for lean
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 1 barriers, 1024 bytes smem, 408 bytes cmem[0]
ptxas info    : Compiling entry function 'heavy' for 'sm_80'
ptxas info    : Function properties for heavy
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers, 16 bytes cumulative stack size, 408 bytes cmem[0]
";
        let lean = Usage { registers: 24, shared: 1024, ..Usage::default() };
        let heavy = Usage { registers: 255, shared: 0, spilled: 12, stack: 16 };
        assert_eq!(parse_report(report), [("lean".to_owned(), lean), ("heavy".to_owned(), heavy)].into());
    }

    #[test]
    fn products_must_not_wait_for_each_other() {
        let lean = Usage { registers: 134, ..Usage::default() };
        let usages = |usage| [("multiply_tf32".to_owned(), usage)].into();
        let note = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized";
        assert!(check_products(&usages(lean), "").is_ok());
        assert!(check_products(&usages(Usage { registers: 134, ..Usage::default() }), note).is_err());
        assert!(check_products(&usages(Usage { spilled: 4, ..Usage::default() }), "").is_err());
        assert!(check_products(&BTreeMap::new(), "").is_err());
    }
}
