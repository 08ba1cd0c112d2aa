//! Products by warpgroups: everything from the fence to the wait is one `asm!`.
//!
//! Between several, LLVM would move sums that the tensor cores still write, and ptxas would wait after each product (its note C7517).

use core::arch::asm;

use super::hopper::Descriptor;

/// The text of one product, which adds to the sums `{0}` to `{63}` if the predicate holds.
macro_rules! product {
    ($kind:literal, $constants:literal, $predicate:literal, $a:literal, $b:literal) => {
        concat!(
            "wgmma.mma_async.sync.aligned.m64n128",
            $kind,
            " ",
            "{{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}, {10}, {11}, {12}, {13}, {14}, {15}, ",
            "{16}, {17}, {18}, {19}, {20}, {21}, {22}, {23}, {24}, {25}, {26}, {27}, {28}, {29}, {30}, {31}, ",
            "{32}, {33}, {34}, {35}, {36}, {37}, {38}, {39}, {40}, {41}, {42}, {43}, {44}, {45}, {46}, {47}, ",
            "{48}, {49}, {50}, {51}, {52}, {53}, {54}, {55}, {56}, {57}, {58}, {59}, {60}, {61}, {62}, {63}}}, ",
            "{",
            $a,
            "}, {",
            $b,
            "}, ",
            $predicate,
            $constants
        )
    };
}

/// Everything from the fence to the wait. `$place` numbers the products from the second on, `$a` and `$b` their operands.
macro_rules! region {
    ($direction:ident, $before:literal, $kind:literal, $constants:literal, $sums:ident, $products:ident,
     [$(($place:literal, $a:literal, $b:literal))*], [$($i:literal)*]) => {
        asm!(
            "{{ .reg .pred before, always;",
            concat!("setp.ne.b32 before, ", $before, ", 0;"),
            "setp.ne.b32 always, 1, 0;",
            "wgmma.fence.sync.aligned;",
            product!($kind, $constants, "before", 64, 65),
            $(product!($kind, $constants, "always", $a, $b),)*
            "wgmma.commit_group.sync.aligned;",
            "wgmma.wait_group.sync.aligned 0; }}",
            $($direction(reg32) $sums[$i],)*
            in(reg64) $products[0].0, in(reg64) $products[0].1,
            $(in(reg64) $products[$place].0, in(reg64) $products[$place].1,)*
            options(nostack)
        )
    };
    ($direction:ident, $before:literal, $kind:literal, $constants:literal, $sums:ident, $products:ident, $others:tt) => {
        region!($direction, $before, $kind, $constants, $sums, $products, $others, [
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21
            22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43
            44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
        ])
    };
}

/// The instructions for `$N` products. LLVM keeps one arm.
macro_rules! regions {
    ($direction:ident, $before:literal, $kind:literal, $constants:literal, $sums:ident, $products:ident, $N:ident) => {
        // SAFETY: the rules of `wgmma`.
        unsafe {
            match $N {
                1 => region!($direction, $before, $kind, $constants, $sums, $products, []),
                2 => region!($direction, $before, $kind, $constants, $sums, $products, [(1, 66, 67)]),
                4 => region!(
                    $direction,
                    $before,
                    $kind,
                    $constants,
                    $sums,
                    $products,
                    [(1, 66, 67)(2, 68, 69)(3, 70, 71)]
                ),
                _ => region!(
                    $direction,
                    $before,
                    $kind,
                    $constants,
                    $sums,
                    $products,
                    [(1, 66, 67)(2, 68, 69)(3, 70, 71)(4, 72, 73)(5, 74, 75)(6, 76, 77)(7, 78, 79)(8, 80, 81)(
                        9, 82, 83
                    )(10, 84, 85)(11, 86, 87)]
                ),
            }
        }
    };
}

macro_rules! kinds {
    ($($product:ident $product_add:ident $kind:literal $constants:literal;)*) => {$(
        #[inline(always)]
        pub(crate) unsafe fn $product<const N: usize>(products: [(Descriptor, Descriptor); N]) -> [f32; 64] {
            let mut sums = [0.0; 64];
            regions!(out, 0, $kind, $constants, sums, products, N);
            sums
        }

        #[inline(always)]
        pub(crate) unsafe fn $product_add<const N: usize>(
            mut sums: [f32; 64],
            products: [(Descriptor, Descriptor); N],
        ) -> [f32; 64] {
            regions!(inout, 1, $kind, $constants, sums, products, N);
            sums
        }
    )*};
}
kinds! {
    m64n128k8_tf32 m64n128k8_tf32_add "k8.f32.tf32.tf32" ", 1, 1;";
    m64n128k16_bf16 m64n128k16_bf16_add "k16.f32.bf16.bf16" ", 1, 1, 0, 0;";
    m64n128k16_f16 m64n128k16_f16_add "k16.f32.f16.f16" ", 1, 1, 0, 0;";
}
