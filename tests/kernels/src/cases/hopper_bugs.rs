//! The kernels of [`hopper_bugs`](crate::hopper_bugs), each launched so that its bug shows.

use cuda_std::tma::{ElementType, Swizzle, TensorLayout};

use super::{Before, Case, case};

/// A row for each kernel.
#[must_use]
pub fn hopper_bugs() -> Vec<Case> {
    let rows = vec![
        case!(hopper_bugs::load_before_phase(a: a(), b: b(), y: zeros())),
        case!(hopper_bugs::product_before_phase(a: a(), b: b(), y: zeros())),
        case!(hopper_bugs::one_warp_waits(a: a(), b: b(), y: zeros())),
        case!(hopper_bugs::wrong_parity(a: a(), b: b(), y: zeros())),
        case!(hopper_bugs::short_expect(a: a(), b: b(), y: zeros())),
        case!(hopper_bugs::long_expect(a: a(), b: b(), y: zeros())),
        case!(hopper_bugs::early_reload(a: a(), b: b(), y: zeros())),
        case!(hopper_bugs::store_during_product(a: a(), b: b(), y: zeros())),
        case!(hopper_bugs::product_without_fence(y: zeros())),
        case!(hopper_bugs::fence_of_three_warps(y: zeros())),
        case!(hopper_bugs::store_without_fence(a: a())),
        case!(hopper_bugs::barrier_without_fence(a: a())),
        case!(hopper_bugs::early_arrival()),
        case!(hopper_bugs::too_many_arrivals()),
        case!(hopper_bugs::invalidated_barrier()),
        case!(hopper_bugs::descriptor_outside(a: a(), b: b(), y: zeros())),
        case!(hopper_bugs::unaligned_descriptor(a: a(), b: b(), y: zeros())),
        case!(hopper_bugs::step_beyond_row(a: a(), b: b(), y: zeros())),
        case!(hopper_bugs::unaligned_tile(a: a())),
        case!(hopper_bugs::wrong_swizzle(a: a(), b: b(), y: zeros())),
        case!(hopper_bugs::two_descriptors(a: a(), b: b(), y: zeros())),
        case!(hopper_bugs::product_of_three_warps(a: a(), b: b(), y: zeros())),
        case!(hopper_bugs::store_during_copy(a: a())),
        case!(hopper_bugs::exit_during_copy(b: b())),
        case!(hopper_bugs::no_map(y: zeros())),
        case!(hopper_bugs::arrival_with_two_counts()),
    ];
    let threads = |case: &Case| if case.name == "store_during_product" { 160 } else { 128 };
    rows.into_iter().map(|case| Case { block: threads(&case), dynamic_shared_bytes: 192 * 128, ..case }).collect()
}

fn zeros() -> (Before, Option<Vec<u32>>) {
    (Before::Words(vec![0; 128]), None)
}

fn a() -> (Before, Option<Vec<u32>>) {
    matrix(64)
}

fn b() -> (Before, Option<Vec<u32>>) {
    matrix(128)
}

/// Ones in rows of 32, and a map with one box for all of them.
fn matrix(rows: u32) -> (Before, Option<Vec<u32>>) {
    let layout = TensorLayout {
        address: 0,
        element: ElementType::F32,
        rows: rows.into(),
        columns: 32,
        row_stride_bytes: 128,
        box_rows: rows,
        box_columns: 32,
        swizzle: Swizzle::Bytes128,
    };
    (Before::Matrix(vec![1f32.to_bits(); 32 * rows as usize], layout), None)
}
