//! Compiles the crate `kernels` to PTX, for the oldest GPU that it is to run on: newer ones run it too.

use cuda_builder::{Arch, CudaBuilder};

fn main() {
    println!("cargo::rerun-if-changed=kernels");
    for variable in cuda_builder::VARIABLES {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let out_dir = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let built = CudaBuilder::new("kernels").arch(Arch::Sm75).copy_to(format!("{out_dir}/kernels.ptx")).build();
    built.unwrap_or_else(|error| panic!("{error}"));
}
