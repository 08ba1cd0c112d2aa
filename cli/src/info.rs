//! `warpsparse info`.

use clap::Args;
use measure::{Outcome, emit};
use serde_json::{Value, json};
use warpsparse::{Device, DeviceInfo, Result};

#[derive(Args)]
pub(crate) struct Options {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let devices: Vec<_> = (0..Device::cuda_count().unwrap_or(0)).map(Device::cuda).collect();
    let info = |device: &Result<Device>| match device {
        Ok(device) => device.info().map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let gpus: Vec<_> = devices.iter().map(info).enumerate().collect();
    let reached: Vec<_> = (0..devices.len()).map(|index| reached(&devices, index)).collect();
    let auto = Device::auto();
    let cpu = Device::cpu().info()?;

    if options.json {
        let gpu_json = |(index, info): &(usize, std::result::Result<DeviceInfo, String>)| match info {
            Ok(info) => {
                let mut device = device_json(&format!("cuda:{index}"), info);
                device["reaches"] = reached[*index].clone().into();
                device
            }
            Err(error) => json!({ "name": format!("cuda:{index}"), "error": error }),
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
    let links = reached.iter().enumerate().filter(|(_, others)| !others.is_empty());
    lines.extend(links.map(|(index, others)| format!("links   cuda:{index} sees the memory of {}", others.join(", "))));
    lines.push(format!("cpu     {cpu}"));
    lines.push(format!("auto    {}", auto.describe()));
    emit(&lines.join("\n"))
}

/// The GPUs whose memory this one reads and writes directly. None where the driver does not say.
fn reached(devices: &[Result<Device>], index: usize) -> Vec<String> {
    let Ok(device) = &devices[index] else { return Vec::new() };
    let others = devices.iter().flatten().filter(|other| device.reaches(other).unwrap_or(false));
    others.map(Device::to_string).collect()
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
