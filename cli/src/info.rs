//! `warpsparse info`.

use clap::Args;
use measure::{Outcome, emit};
use serde_json::{Value, json};
use warpsparse::{Device, DeviceInfo};

#[derive(Args)]
pub(crate) struct Options {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let gpus: Vec<_> = match Device::cuda_count() {
        Ok(count) => (0..count).map(|index| (index, Device::cuda(index).and_then(|device| device.info()))).collect(),
        Err(_) => Vec::new(),
    };
    let auto = Device::auto();
    let cpu = Device::cpu().info()?;

    if options.json {
        let gpu_json = |(index, info): &(usize, warpsparse::Result<DeviceInfo>)| match info {
            Ok(info) => device_json(&format!("cuda:{index}"), info),
            Err(error) => json!({ "name": format!("cuda:{index}"), "error": error.to_string() }),
        };
        let mut devices: Vec<Value> = gpus.iter().map(gpu_json).collect();
        devices.push(device_json("cpu", &cpu));
        let report = json!({
            "schema": "warpsparse.info",
            "version": 1,
            "warpsparse": env!("CARGO_PKG_VERSION"),
            "auto": auto.to_string(),
            "auto_reason": auto.describe(),
            "devices": devices,
        });
        return emit(&format!("{report:#}"));
    }
    let mut lines = vec![format!("warpsparse {}", env!("CARGO_PKG_VERSION"))];
    lines.extend(gpus.iter().map(|(index, info)| match info {
        Ok(info) => format!("cuda:{index}  {info}"),
        Err(error) => format!("cuda:{index}  not usable: {error}"),
    }));
    lines.push(format!("cpu     {cpu}"));
    lines.push(format!("auto    {}", auto.describe()));
    emit(&lines.join("\n"))
}

fn device_json(name: &str, info: &DeviceInfo) -> Value {
    json!({
        "name": name,
        "model": info.name,
        "parallel_units": info.parallel_units,
        "memory_bytes": info.memory_bytes,
        "l2_bytes": info.l2_bytes,
        "cuda": info.cuda.as_ref().map(|cuda| json!({
            "compute_capability": format!("{}.{}", cuda.compute_capability.0, cuda.compute_capability.1),
            "driver_cuda": format!("{}.{}", cuda.driver_cuda.0, cuda.driver_cuda.1),
            "kernels": format!("sm_{}", cuda.kernel_arch),
        })),
    })
}
