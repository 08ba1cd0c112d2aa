//! One launch of each kernel: its shape, and its memory before and after. A new kernel is a new row in one of the tables.

mod hopper;
mod hopper_bugs;
mod planted_bugs;
mod selftest;

use cuda_std::{
    emulator::{Finding, GlobalBuffer, Launch},
    tma::TensorLayout,
};
pub use hopper::{Product, hopper, products};
pub use hopper_bugs::hopper_bugs;
pub use planted_bugs::planted_bugs;
pub use selftest::selftests;

/// A launch of a kernel whose arguments are all pointers, one to each buffer.
#[derive(Clone, Debug)]
pub struct Case {
    /// The entry's name.
    pub name: &'static str,
    /// Blocks of the grid.
    pub grid: u32,
    /// Threads of a block.
    pub block: u32,
    /// Dynamic shared memory of each block.
    pub dynamic_shared_bytes: u32,
    /// Whether all blocks must be resident at once.
    pub cooperative: bool,
    /// Whether it may never end on a GPU.
    pub may_hang: bool,
    /// In the order of the arguments.
    pub buffers: Vec<Buffer>,
    /// Calls the kernel with a pointer to each buffer.
    kernel: unsafe fn(&[*mut u8]),
}

/// Global memory that a kernel gets a pointer to, in words of 32 bits.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// The argument's name.
    pub label: &'static str,
    /// What it holds before the launch.
    pub before: Before,
    /// What it must hold after the launch, bit for bit; None where the kernel is not expected to end well.
    pub after: Option<Vec<u32>>,
}

/// What a buffer holds before the launch.
#[derive(Clone, Debug)]
pub enum Before {
    /// These words.
    Words(Vec<u32>),
    /// As many words, never written.
    Uninitialised(usize),
    /// As many words, which no longer belong to the process.
    Freed(usize),
    /// A matrix of these words, of which the kernel gets a tensor map, for the emulator only. The address is filled in.
    Matrix(Vec<u32>, TensorLayout),
}

/// A [`Case`] on one block of 64 threads: `case!(module::kernel(argument: (before, after), ...))`.
macro_rules! case {
    ($module:ident::$kernel:ident($($argument:ident: $contents:expr),*)) => {
        $crate::cases::Case {
            name: stringify!($kernel),
            grid: 1,
            block: 64,
            dynamic_shared_bytes: 0,
            cooperative: false,
            may_hang: false,
            buffers: vec![$({
                let (before, after) = $contents;
                $crate::cases::Buffer { label: stringify!($argument), before, after }
            }),*],
            kernel: |pointers| {
                let &[$($argument),*] = pointers else { unreachable!("a pointer for each buffer") };
                // SAFETY: who calls this gives pointers to the buffers, or runs the kernel under the emulator.
                unsafe { $crate::$module::$kernel($($argument.cast()),*) }
            },
        }
    };
}
use case;

impl Case {
    /// Runs the kernel under the emulator, in so many schedules from that seed on. Returns the buffers' words, None for
    /// one that has a word which nothing has written, or that is freed.
    ///
    /// # Errors
    /// The emulator's first finding.
    pub fn emulate(&self, seed: u64, schedules: u32) -> Result<Vec<Option<Vec<u32>>>, Box<Finding>> {
        let allocate = |buffer: &Buffer| match &buffer.before {
            Before::Words(words) | Before::Matrix(words, _) => GlobalBuffer::from_slice(words).labelled(buffer.label),
            Before::Uninitialised(len) | Before::Freed(len) => GlobalBuffer::uninitialised(*len).labelled(buffer.label),
        };
        let mut memory: Vec<Option<GlobalBuffer<u32>>> = self.buffers.iter().map(|it| Some(allocate(it))).collect();
        let mut pointers: Vec<*mut u8> = memory.iter_mut().flatten().map(|it| it.as_mut_ptr().cast()).collect();
        let maps = self.buffers.iter().zip(&mut pointers).filter_map(|(buffer, pointer)| match buffer.before {
            Before::Matrix(_, layout) => {
                let map = TensorLayout { address: *pointer as u64, ..layout }
                    .emulated()
                    .expect("a layout that maps can have");
                let map = GlobalBuffer::from_slice(map.words()).labelled("tensor map");
                *pointer = map.as_ptr().cast_mut().cast();
                Some(map)
            }
            _ => None,
        });
        let _maps: Vec<_> = maps.collect();
        for (memory, buffer) in memory.iter_mut().zip(&self.buffers) {
            memory.take_if(|_| matches!(buffer.before, Before::Freed(_)));
        }
        let mut launch = Launch::new(self.grid, self.block)
            .name(self.name)
            .dynamic_shared_bytes(self.dynamic_shared_bytes)
            .seed(seed)
            .schedules(schedules);
        if self.cooperative {
            launch = launch.cooperative();
        }
        // SAFETY: the emulator checks every access of the kernel before it happens.
        launch.run(|| unsafe { (self.kernel)(&pointers) })?;
        Ok(memory.iter().map(|memory| memory.as_ref()?.to_vec()).collect())
    }

    /// Compares what a run left in the buffers with what it must have left.
    ///
    /// # Panics
    /// At the first word that differs.
    pub fn check(&self, found: &[Option<Vec<u32>>]) {
        assert_eq!(found.len(), self.buffers.len(), "{}: buffers", self.name);
        for (found, buffer) in found.iter().zip(&self.buffers) {
            let Some(expected) = &buffer.after else { continue };
            let place = format!("{}: {}", self.name, buffer.label);
            let found = found.as_ref().unwrap_or_else(|| panic!("{place}: words never written"));
            assert_eq!(found.len(), expected.len(), "{place}: length");
            for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
                assert_eq!(found, expected, "{place}[{i}]: {found:#010x}, expected {expected:#010x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernels_in(source: &str) -> Vec<&str> {
        let signatures = source.lines().filter_map(|line| line.strip_prefix("pub unsafe fn "));
        signatures.filter_map(|signature| signature.split('(').next()).collect()
    }

    fn names(cases: &[Case]) -> Vec<&'static str> {
        cases.iter().map(|case| case.name).collect()
    }

    #[test]
    fn every_kernel_has_a_row_in_the_order_of_the_source() {
        assert_eq!(names(&selftests()), kernels_in(include_str!("../selftest.rs")));
        assert_eq!(names(&planted_bugs()), kernels_in(include_str!("../planted_bugs.rs")));
        assert_eq!(names(&hopper()), kernels_in(include_str!("../hopper.rs")));
        assert_eq!(names(&hopper_bugs()), kernels_in(include_str!("../hopper_bugs.rs")));
    }
}
