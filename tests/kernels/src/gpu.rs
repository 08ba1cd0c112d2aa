//! Launches on the first GPU, from the PTX that `cargo xtask bundle` builds of this crate.

use std::{
    env,
    ffi::c_void,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use cudarc::{
    driver::{
        CudaContext, CudaModule, DriverError, result,
        sys::{self, CUdeviceptr},
    },
    nvrtc::Ptx,
};

use crate::cases::{Before, Buffer, Case};

/// The folder of the PTX, instead of one beside the executable.
const PTX_VARIABLE: &str = "WARPSPARSE_TEST_PTX";

/// A GPU with the kernels of this crate loaded.
#[derive(Debug)]
pub struct Gpu {
    context: Arc<CudaContext>,
    module: Arc<CudaModule>,
}

/// The context of the first GPU.
///
/// # Errors
/// Why there is none.
pub fn first_device() -> Result<Arc<CudaContext>, String> {
    // SAFETY: opens the driver's library, as any CUDA program does. Asked first, because the bindings panic where the
    // library is missing.
    if !unsafe { sys::is_culib_present() } {
        return Err("no NVIDIA driver is installed (libcuda was not found)".into());
    }
    CudaContext::new(0).map_err(|error| format!("the NVIDIA driver gives no GPU: {error}"))
}

impl Gpu {
    /// Loads the PTX for the newest architecture that the device understands.
    ///
    /// # Errors
    /// Where there is no such PTX, or the driver does not load it.
    pub fn new(context: Arc<CudaContext>) -> Result<Self, String> {
        let path = ptx_for(&context)?;
        Self::with_ptx(context, &path)
    }

    /// Loads the PTX of that file.
    ///
    /// # Errors
    /// Where the file cannot be read, or the driver does not load it.
    pub fn with_ptx(context: Arc<CudaContext>, path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let module = context
            .load_module(Ptx::from_src(text))
            .map_err(|error| format!("the driver does not load {}: {error}", path.display()))?;
        Ok(Self { context, module })
    }

    /// Runs the kernel once, and returns the buffers' words, None for one that is freed.
    ///
    /// # Errors
    /// The driver's error.
    pub fn run(&self, case: &Case) -> Result<Vec<Option<Vec<u32>>>, DriverError> {
        self.context.bind_to_thread()?;
        let memory = case.buffers.iter().map(Memory::of).collect::<Result<Vec<_>, _>>()?;
        let mut pointers: Vec<CUdeviceptr> = memory.iter().map(|memory| memory.pointer).collect();
        let mut arguments: Vec<*mut c_void> = pointers.iter_mut().map(|it| (&raw mut *it).cast()).collect();
        let function = self.module.load_function(case.name)?;
        let launch = if case.cooperative { result::launch_cooperative_kernel } else { result::launch_kernel };
        // SAFETY: the entry takes a pointer for each buffer, by the macro that calls it in `cases`. A kernel with a bug
        // can spoil no more than this context.
        unsafe {
            launch(
                function.cu_function(),
                (case.grid, 1, 1),
                (case.block, 1, 1),
                case.dynamic_shared_bytes,
                self.context.default_stream().cu_stream(),
                &mut arguments,
            )
        }?;
        self.context.synchronize()?;
        memory.iter().map(Memory::read).collect()
    }
}

/// Memory of the device, freed at the end of its life or before.
struct Memory {
    pointer: CUdeviceptr,
    words: usize,
    freed: bool,
}

impl Memory {
    fn of(buffer: &Buffer) -> Result<Self, DriverError> {
        let (words, contents) = match &buffer.before {
            Before::Words(words) => (words.len(), Some(words)),
            // Its driver makes tensor maps, which nobody asks it for yet.
            Before::Matrix(..) => return Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_SUPPORTED)),
            Before::Uninitialised(words) | Before::Freed(words) => (*words, None),
        };
        // SAFETY: whoever reads the memory takes it as uninitialised.
        let pointer = unsafe { result::malloc_sync(words * size_of::<u32>()) }?;
        let mut memory = Self { pointer, words, freed: false };
        if let Some(contents) = contents {
            // SAFETY: the memory is as long as the contents.
            unsafe { result::memcpy_htod_sync(pointer, contents) }?;
        }
        if matches!(buffer.before, Before::Freed(_)) {
            memory.free()?;
        }
        Ok(memory)
    }

    fn read(&self) -> Result<Option<Vec<u32>>, DriverError> {
        if self.freed {
            return Ok(None);
        }
        let mut words = vec![0; self.words];
        // SAFETY: the memory is as long as the vector, and any bits are words.
        unsafe { result::memcpy_dtoh_sync(&mut words, self.pointer) }?;
        Ok(Some(words))
    }

    fn free(&mut self) -> Result<(), DriverError> {
        self.freed = true;
        // SAFETY: allocated by `of`; no kernel runs any more, and nothing frees it again.
        unsafe { result::free_sync(self.pointer) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !self.freed {
            // After a kernel that failed, the driver refuses: the context takes the memory with it.
            let _ = self.free();
        }
    }
}

/// The PTX file for the newest architecture that the device understands.
///
/// # Errors
/// Where there is none, with the places searched.
pub fn ptx_for(context: &CudaContext) -> Result<PathBuf, String> {
    let (major, minor) =
        context.compute_capability().map_err(|error| format!("reading the compute capability: {error}"))?;
    let folders = ptx_folders();
    let newest = folders.iter().find_map(|folder| newest_ptx(folder, (10 * major + minor) as u32));
    newest.ok_or_else(|| {
        let searched: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        format!(
            "no test_kernels.sm_*.ptx for a device of compute capability {major}.{minor} in {}: `cargo xtask bundle` \
             builds them into bundle/ptx; {PTX_VARIABLE} names another folder",
            searched.join(" or ")
        )
    })
}

/// In a bundle, the executable lies beside the folder `ptx`, or in another folder beside it.
fn ptx_folders() -> Vec<PathBuf> {
    if let Some(folder) = env::var_os(PTX_VARIABLE) {
        return vec![folder.into()];
    }
    let executable = env::current_exe().unwrap_or_default();
    executable.ancestors().skip(1).take(2).map(|folder| folder.join("ptx")).collect()
}

fn newest_ptx(folder: &Path, capability: u32) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.flatten();
    let of_arch = files.filter_map(|file| {
        let name = file.file_name().into_string().ok()?;
        let arch: u32 = name.strip_prefix("test_kernels.sm_")?.strip_suffix(".ptx")?.parse().ok()?;
        (arch <= capability).then(|| (arch, file.path()))
    });
    Some(of_arch.max_by_key(|&(arch, _)| arch)?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_ptx_that_the_device_understands_is_chosen() {
        let folder = env::temp_dir().join(format!("warpsparse-newest-ptx-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for name in ["test_kernels.sm_75.ptx", "test_kernels.sm_90.ptx", "other.sm_89.ptx", "manifest.json"] {
            fs::write(folder.join(name), "").unwrap();
        }
        let chosen = |capability| newest_ptx(&folder, capability);
        assert_eq!(chosen(89), Some(folder.join("test_kernels.sm_75.ptx")));
        assert_eq!(chosen(120), Some(folder.join("test_kernels.sm_90.ptx")));
        assert_eq!(chosen(70), None);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(chosen(90), None);
    }
}
