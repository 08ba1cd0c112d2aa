//! What NVIDIA's management library tells: the driver, the clocks that a GPU may have, and those that it has under load.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use cudarc::driver::CudaContext;
use measure::stream::device_index;
use nvml_wrapper::{
    Nvml,
    bitmasks::device::ThrottleReasons,
    enum_wrappers::device::{Clock, TemperatureSensor},
    error::NvmlError,
};
use serde::{Deserialize, Serialize};
use warpsparse::Device;

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Gpu {
    Known(Facts),
    Skipped {
        /// Why nothing is known.
        skipped: String,
    },
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) driver: String,
    pub(crate) max_sm_clock_mhz: Option<u32>,
    pub(crate) max_memory_clock_mhz: Option<u32>,
    /// What is enforced.
    pub(crate) power_limit_w: Option<f64>,
}

/// Of samples while the GPU was at work.
#[derive(Serialize, Deserialize)]
pub(crate) struct UnderLoad {
    pub(crate) samples: usize,
    pub(crate) sm_clock_mhz: Range,
    pub(crate) memory_clock_mhz: Range,
    pub(crate) power_w: Range,
    pub(crate) temperature_c: Range,
    /// What kept clocks down in any of them.
    pub(crate) slowed_by: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Range {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

/// The library, and the GPU in it.
pub(crate) struct Watch {
    nvml: Nvml,
    uuid: String,
}

/// How often clocks are read: seldom enough not to disturb what is measured.
const PERIOD: Duration = Duration::from_millis(500);

impl Watch {
    /// Of the GPU that a device is, or why there is nothing to be known.
    pub(crate) fn new(device: &Device) -> Result<Self, String> {
        let index = device_index(device)?;
        let context = CudaContext::new(index as usize).map_err(|error| error.to_string())?;
        let uuid = uuid(context.uuid().map_err(|error| error.to_string())?.bytes.map(|byte| byte as u8));
        let nvml = Nvml::init().map_err(|error| format!("NVML: {error}"))?;
        let found = nvml.device_by_uuid(uuid.as_str()).map(drop);
        found.map_err(|error| format!("NVML knows no {uuid}: {error}"))?;
        Ok(Self { nvml, uuid })
    }

    pub(crate) fn facts(&self) -> Result<Facts, String> {
        let facts = || {
            let gpu = self.nvml.device_by_uuid(self.uuid.as_str())?;
            Ok(Facts {
                driver: self.nvml.sys_driver_version()?,
                max_sm_clock_mhz: gpu.max_clock_info(Clock::SM).ok(),
                max_memory_clock_mhz: gpu.max_clock_info(Clock::Memory).ok(),
                power_limit_w: gpu.enforced_power_limit().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
            })
        };
        facts().map_err(|error: NvmlError| format!("NVML: {error}"))
    }

    /// Reads clocks from time to time while something else is done.
    pub(crate) fn during<T>(&self, work: impl FnOnce() -> T) -> (T, Option<UnderLoad>) {
        let (done, is_done) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let samples = scope.spawn(move || {
                let mut samples = Vec::new();
                while is_done.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                    samples.extend(self.sample().ok().flatten());
                }
                samples
            });
            let result = work();
            drop(done);
            (result, samples.join().ok().and_then(|samples| UnderLoad::of(&samples)))
        })
    }

    /// None of a GPU that does nothing.
    fn sample(&self) -> Result<Option<Sample>, NvmlError> {
        let gpu = self.nvml.device_by_uuid(self.uuid.as_str())?;
        if gpu.utilization_rates()?.gpu == 0 {
            return Ok(None);
        }
        Ok(Some(Sample {
            sm_clock_mhz: f64::from(gpu.clock_info(Clock::SM)?),
            memory_clock_mhz: f64::from(gpu.clock_info(Clock::Memory)?),
            power_w: f64::from(gpu.power_usage()?) / 1e3,
            temperature_c: f64::from(gpu.temperature(TemperatureSensor::Gpu)?),
            slowed_by: gpu.current_throttle_reasons()? - ThrottleReasons::GPU_IDLE,
        }))
    }
}

/// As the management library writes them.
fn uuid(bytes: [u8; 16]) -> String {
    let hex = |range: std::ops::Range<usize>| bytes[range].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("GPU-{}-{}-{}-{}-{}", hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16))
}

struct Sample {
    sm_clock_mhz: f64,
    memory_clock_mhz: f64,
    power_w: f64,
    temperature_c: f64,
    slowed_by: ThrottleReasons,
}

impl UnderLoad {
    fn of(samples: &[Sample]) -> Option<Self> {
        let of = |figure: fn(&Sample) -> f64| Range::of(samples.iter().map(figure).collect());
        let reasons = samples.iter().fold(ThrottleReasons::NONE, |all, sample| all | sample.slowed_by);
        Some(Self {
            samples: samples.len(),
            sm_clock_mhz: of(|sample| sample.sm_clock_mhz)?,
            memory_clock_mhz: of(|sample| sample.memory_clock_mhz)?,
            power_w: of(|sample| sample.power_w)?,
            temperature_c: of(|sample| sample.temperature_c)?,
            slowed_by: reasons.iter_names().map(|(name, _)| name.to_lowercase().replace('_', " ")).collect(),
        })
    }
}

impl Range {
    /// None of no figures.
    fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        Some(Self { min: *figures.first()?, median: figures[figures.len() / 2], max: *figures.last()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_summed_up() {
        let sample = |clock, slowed_by| Sample {
            sm_clock_mhz: clock,
            memory_clock_mhz: 3201.0,
            power_w: clock / 4.0,
            temperature_c: 40.0,
            slowed_by,
        };
        let samples = [
            sample(1980.0, ThrottleReasons::NONE),
            sample(1200.0, ThrottleReasons::SW_POWER_CAP),
            sample(1500.0, ThrottleReasons::SW_POWER_CAP),
        ];
        let load = UnderLoad::of(&samples).unwrap();
        assert_eq!((load.samples, load.sm_clock_mhz), (3, Range { min: 1200.0, median: 1500.0, max: 1980.0 }));
        assert_eq!((load.power_w.median, load.memory_clock_mhz.max), (375.0, 3201.0));
        assert_eq!(load.slowed_by, ["sw power cap"]);
        assert!(UnderLoad::of(&[]).is_none());
    }

    #[test]
    fn gpus_are_named_as_nvml_names_them() {
        let bytes = [0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(uuid(bytes), "GPU-12345678-9abc-def0-0102-030405060708");
    }

    #[test]
    fn the_cpu_is_no_gpu() {
        assert_eq!(Watch::new(&Device::cpu()).err().unwrap(), "not a CUDA device");
    }
}
