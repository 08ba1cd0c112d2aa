//! A launch: its shape, its schedules, and the loop over its blocks.

use core::{
    marker::PhantomData,
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};
use std::sync::{Arc, Mutex, PoisonError};

use super::{
    block::BlockRunner,
    memory::{self, Allocation},
    panics,
    release::SequentialFences,
    report::{Finding, Stats},
    state::{LaunchState, Undo, next_epoch},
};
use crate::mem::DeviceValue;

/// The extent of a grid or of a block: one, two or three numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dim3(pub [u32; 3]);

impl Default for Dim3 {
    fn default() -> Self {
        Self([1; 3])
    }
}
impl From<u32> for Dim3 {
    fn from(x: u32) -> Self {
        Self([x, 1, 1])
    }
}
impl From<(u32, u32)> for Dim3 {
    fn from((x, y): (u32, u32)) -> Self {
        Self([x, y, 1])
    }
}
impl From<(u32, u32, u32)> for Dim3 {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self([x, y, z])
    }
}

/// How to run a kernel under the emulator. `'a` is the life of the slices that it borrows.
///
/// ```
/// # #[cfg(not(target_arch = "nvptx64"))] {
/// use cuda_std::{emulator::Launch, kernel, mem, thread};
///
/// #[kernel]
/// unsafe fn double(n: u32, x: *const f32, y: *mut f32) {
///     let i = thread::index_1d();
///     if i < n {
///         // SAFETY: i < n, and both arrays hold n elements.
///         unsafe { mem::store(y.add(i as usize), 2.0 * mem::load(x.add(i as usize))) };
///     }
/// }
///
/// let (x, mut y) = ([1.0, 2.0, 3.0], [0.0; 3]);
/// let mut launch = Launch::new(1, 32).name("double");
/// let (x, y_ptr) = (launch.borrow("x", &x), launch.borrow_mut("y", &mut y));
/// // SAFETY: the arrays hold 3 elements.
/// let stats = launch.run(|| unsafe { double(3, x, y_ptr) }).unwrap();
/// assert_eq!((y, stats.global_loads), ([2.0, 4.0, 6.0], 3));
/// # }
/// ```
pub struct Launch<'a> {
    grid: Dim3,
    block: Dim3,
    name: String,
    dynamic_shared_bytes: u32,
    seed: u64,
    schedules: u32,
    cooperative: bool,
    parallel: bool,
    slices: Vec<Arc<Allocation>>,
    borrows: PhantomData<&'a mut [u32]>,
}

impl core::fmt::Debug for Launch<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Launch")
            .field("name", &self.name)
            .field("grid", &self.grid.0)
            .field("block", &self.block.0)
            .field("dynamic_shared_bytes", &self.dynamic_shared_bytes)
            .field("seed", &self.seed)
            .field("schedules", &self.schedules)
            .field("cooperative", &self.cooperative)
            .finish_non_exhaustive()
    }
}

impl Default for Launch<'_> {
    fn default() -> Self {
        Self::new(1, 32)
    }
}

impl<'a> Launch<'a> {
    /// A launch of a grid of `grid` blocks of `block` threads, in the natural order, without dynamic shared memory.
    #[must_use]
    pub fn new(grid: impl Into<Dim3>, block: impl Into<Dim3>) -> Self {
        Self {
            grid: grid.into(),
            block: block.into(),
            name: String::from("kernel"),
            dynamic_shared_bytes: 0,
            seed: 0,
            schedules: 1,
            cooperative: false,
            parallel: false,
            slices: Vec::new(),
            borrows: PhantomData,
        }
    }

    /// The kernel's name, for reports.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Bytes of dynamic shared memory per block.
    #[must_use]
    pub fn dynamic_shared_bytes(mut self, bytes: u32) -> Self {
        self.dynamic_shared_bytes = bytes;
        self
    }

    /// The seed of the (first) schedule: which ready thread runs next, the order of the blocks, and which of the values that
    /// the memory model permits an atomic load returns. 0, the default, is the natural order with the newest values.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Runs the kernel this many times, with consecutive seeds. Before each further run, memory that the kernel
    /// wrote gets back its contents of before the launch.
    #[must_use]
    pub fn schedules(mut self, schedules: u32) -> Self {
        self.schedules = schedules.max(1);
        self
    }

    /// Keeps all blocks resident at once, as a cooperative launch does: the kernel may use grid barriers, and blocks
    /// may wait for each other. Costs a stack for each thread of the grid.
    #[must_use]
    pub fn cooperative(mut self) -> Self {
        self.cooperative = true;
        self
    }

    /// Spreads the blocks over rayon's threads (at most 16). Findings and results stay the same, except that of
    /// a race between two blocks it depends on chance which of the two is reported. No effect on a cooperative launch.
    ///
    /// # Safety
    /// The closure that runs the kernel must be safe to call from several CPU threads at once. One that only calls a
    /// kernel, with arguments that are plain data, is.
    #[cfg(feature = "rayon")]
    #[must_use]
    pub unsafe fn parallel(mut self) -> Self {
        self.parallel = true;
        self
    }

    /// Makes a slice global memory of this launch, for reading. Kernels that write to it are found out.
    ///
    /// Costs nothing per element. An access beyond the slice is found unless it hits other memory of the launch.
    ///
    /// The slice stands for a buffer of its own, which on a GPU begins at a multiple of 256 bytes. Here that is one of 16,
    /// the most that an access needs: a slice that begins elsewhere is copied. To have a kernel begin within a buffer,
    /// borrow the whole and go on from the pointer.
    #[must_use]
    pub fn borrow<T: DeviceValue>(&mut self, label: &str, slice: &'a [T]) -> *const T {
        self.register(label, NonNull::from(slice), false)
    }

    /// Makes a slice global memory of this launch, for reading and writing, as [`borrow`](Self::borrow) does for reading.
    /// After each [`run`](Self::run) the slice has what the kernel wrote.
    ///
    /// Costs 64 bytes of bookkeeping for each 4 bytes that the kernel touches.
    #[must_use]
    pub fn borrow_mut<T: DeviceValue>(&mut self, label: &str, slice: &'a mut [T]) -> *mut T {
        self.register(label, NonNull::from(slice), true)
    }

    fn register<T: DeviceValue>(&mut self, label: &str, slice: NonNull<[T]>, writable: bool) -> *mut T {
        let memory = Allocation::borrowed(slice, label, writable);
        let start = memory.start as *mut T;
        self.slices.push(Arc::new(memory));
        start
    }

    /// Runs the kernel: `kernel` is called once for each thread of the grid (and schedule).
    ///
    /// # Errors
    /// The first finding. The launch stops there; what it wrote stays written.
    ///
    /// # Panics
    /// If a block has no threads or more than 1024, or the grid no blocks or more than 2^32 - 1, or if there is no memory
    /// for the stacks.
    pub fn run(&self, kernel: impl Fn()) -> Result<Stats, Box<Finding>> {
        panics::install_hook();
        let result = self.run_schedules(&kernel);
        self.slices.iter().for_each(|slice| slice.write_back());
        result
    }

    fn run_schedules(&self, kernel: &dyn Fn()) -> Result<Stats, Box<Finding>> {
        let mut stats = Stats::default();
        let mut undo: Option<Undo> = None;
        for schedule in 0..self.schedules {
            if let Some(undo) = undo.take() {
                undo.restore();
            }
            let seed = self.seed.wrapping_add(u64::from(schedule));
            let launch = Arc::new(self.state(kernel, seed, schedule + 1 < self.schedules));
            stats += if self.cooperative { run_cooperative(&launch)? } else { self.run_blocks(&launch)? };
            undo = launch
                .undo
                .as_ref()
                .map(|undo| core::mem::take(&mut *undo.lock().unwrap_or_else(PoisonError::into_inner)));
        }
        Ok(stats)
    }

    fn state(&self, kernel: &dyn Fn(), seed: u64, undo: bool) -> LaunchState {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let (grid_dim, block_dim) = (self.grid.0, self.block.0);
        let product = |dim: [u32; 3]| dim.iter().try_fold(1u32, |product, &n| product.checked_mul(n));
        let threads = product(block_dim).unwrap_or(0);
        assert!((1..=1024).contains(&threads), "a block has 1 to 1024 threads, not {block_dim:?}");
        let blocks = product(grid_dim).filter(|&blocks| blocks > 0);
        let mut allocations = memory::live_buffers();
        allocations.extend(self.slices.iter().cloned());
        allocations.sort_by_key(|allocation| allocation.start);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        LaunchState {
            // SAFETY: only the lifetime changes: the state is dropped before `run` returns.
            kernel: unsafe { core::mem::transmute::<*const dyn Fn(), *const (dyn Fn() + 'static)>(&raw const *kernel) },
            name: self.name.clone(),
            grid_dim,
            block_dim,
            blocks: blocks.expect("a grid has 1 to 2^32 - 1 blocks"),
            dynamic_shared_bytes: self.dynamic_shared_bytes,
            seed,
            id,
            epoch: AtomicU32::new(next_epoch()),
            cooperative: self.cooperative,
            contended: self.parallel && !self.cooperative,
            allocations,
            undo: undo.then(Mutex::default),
            histories: Mutex::default(),
            sequential_fences: SequentialFences::default(),
            has_fences: AtomicBool::new(false),
        }
    }

    fn run_blocks(&self, launch: &Arc<LaunchState>) -> Result<Stats, Box<Finding>> {
        let block = launch.block_order();
        #[cfg(feature = "rayon")]
        if self.parallel {
            return super::parallel::run(launch, &block);
        }
        let mut runner = BlockRunner::new(launch);
        for position in 0..launch.blocks {
            run_block(&mut runner, block(position))?;
        }
        let stats = *runner.block.stats.borrow();
        Ok(stats)
    }
}

/// Runs a block from its start to its end.
pub(super) fn run_block(runner: &mut BlockRunner, block: u32) -> Result<(), Box<Finding>> {
    runner.start(block);
    while runner.has_ready() && !runner.spins_in_vain() {
        runner.run()?;
    }
    if runner.block.live.get() > 0 { Err(runner.block.deadlock()) } else { Ok(()) }
}

/// Runs all blocks in turn, each until it waits for others.
fn run_cooperative(launch: &Arc<LaunchState>) -> Result<Stats, Box<Finding>> {
    let mut runners: Vec<BlockRunner> = (0..launch.blocks).map(|_| BlockRunner::new(launch)).collect();
    let block = launch.block_order();
    runners.iter_mut().zip(0..).for_each(|(runner, position)| runner.start(block(position)));
    loop {
        let mut ready = false;
        for runner in runners.iter_mut().filter(|runner| runner.has_ready()) {
            ready = true;
            runner.run()?;
        }
        let mut moved = false;
        runners.iter().for_each(|runner| moved |= runner.block.moved.take());
        if moved {
            // Who has spun in vain may have been waiting for just this.
            runners.iter().for_each(|runner| runner.block.idle_spins.set(0));
        }
        let spinning = |runner: &BlockRunner| runner.has_ready() && !runner.spins_in_vain();
        if runners.iter().all(|runner| runner.block.live.get() == 0) {
            break;
        } else if runners.iter().all(|runner| runner.block.at_grid_barrier.get() == launch.threads_per_block()) {
            launch.epoch.store(next_epoch(), Ordering::Relaxed);
            runners.iter().for_each(|runner| runner.block.release_grid_barrier());
        } else if !ready || !runners.iter().any(spinning) {
            let stuck = runners.iter().find(|runner| runner.block.live.get() > 0);
            return Err(stuck.unwrap_or(&runners[0]).block.deadlock());
        }
    }
    let mut stats = Stats::default();
    runners.iter().for_each(|runner| stats += *runner.block.stats.borrow());
    Ok(stats)
}
