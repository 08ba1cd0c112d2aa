//! The kernels of [`hopper`](crate::hopper), with results worked out in plain Rust.

use cuda_std::tma::{ElementType, Swizzle, TensorLayout};

use super::{Before, Case, case};
use crate::hopper::{CHUNK, COLUMNS, ROWS, SLABS, SPLIT_BYTES, stage_bytes};

/// What a buffer holds before and after.
type Contents = (Before, Option<Vec<u32>>);

/// A product on the tensor cores, and what it should be.
#[derive(Clone, Debug)]
pub struct Product {
    /// The launch. The last buffer is `D`; what it must hold is the reference, rounded.
    pub case: Case,
    /// The elements of `D`, by rows, of the operands as the kernel takes them.
    pub reference: Vec<f64>,
    /// Those of the product of the operands' magnitudes.
    pub magnitudes: Vec<f64>,
}

/// A row for each kernel. The matrices hold small integers, so that results are exact.
#[must_use]
pub fn hopper() -> Vec<Case> {
    let products = products(&|i| (i * 7 % 9) as f32 - 4.0);
    products.into_iter().map(|product| product.case).chain([copy_boxes(), bulk_copies()]).collect()
}

/// The kernels that multiply, with matrices of these numbers.
#[must_use]
pub fn products(number: &dyn Fn(usize) -> f32) -> Vec<Product> {
    let smaller = (50, 100);
    let tf32 = |swizzle: Swizzle| {
        Matrices::new(smaller, swizzle.row_bytes() / 4 * SLABS - 5, Numbers::Tf32, number).in_boxes(swizzle)
    };
    let half = |numbers| Matrices::new(smaller, 64 * SLABS - 5, numbers, number).in_boxes(Swizzle::Bytes128);
    let (of_128, of_64, of_32) = (tf32(Swizzle::Bytes128), tf32(Swizzle::Bytes64), tf32(Swizzle::Bytes32));
    let (bf16, f16) = (half(Numbers::Bf16), half(Numbers::F16));
    let core = Matrices::new((ROWS, COLUMNS), 8, Numbers::Tf32, number);
    let split = Matrices::new(smaller, 32 * SLABS - 5, Numbers::SplitF32, number).in_boxes(Swizzle::Bytes128);
    let split_case = case!(hopper::multiply_split(a: split.a(), b: split.b(), d: split.out_in_one_box()));
    vec![
        of_128.product(128, case!(hopper::multiply_tf32(a: of_128.a(), b: of_128.b(), out: of_128.out()))),
        of_128.product(128, case!(hopper::multiply_tf32_by_slabs(a: of_128.a(), b: of_128.b(), out: of_128.out()))),
        of_64.product(64, case!(hopper::multiply_tf32_swizzle_64(a: of_64.a(), b: of_64.b(), out: of_64.out()))),
        of_32.product(32, case!(hopper::multiply_tf32_swizzle_32(a: of_32.a(), b: of_32.b(), out: of_32.out()))),
        bf16.product(128, case!(hopper::multiply_bf16(a: bf16.a(), b: bf16.b(), out: bf16.out()))),
        f16.product(128, case!(hopper::multiply_f16(a: f16.a(), b: f16.b(), out: f16.out()))),
        core.product(32, case!(hopper::multiply_core_matrices(a: core.a(), b: core.b(), out: core.out()))),
        split.product(128, Case { block: 256, dynamic_shared_bytes: SPLIT_BYTES, ..split_case }),
    ]
}

/// How a kernel takes the numbers of its operands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Numbers {
    Tf32,
    SplitF32,
    Bf16,
    F16,
}

impl Numbers {
    fn element(self) -> ElementType {
        match self {
            Self::Tf32 | Self::SplitF32 => ElementType::F32,
            Self::Bf16 => ElementType::Bf16,
            Self::F16 => ElementType::F16,
        }
    }

    /// The number that the kernel takes for `x`.
    fn taken(self, x: f32) -> f32 {
        match self {
            Self::SplitF32 => x,
            Self::Tf32 | Self::F16 => f32::from_bits(x.to_bits() & !0x1fff),
            Self::Bf16 => f32::from_bits(x.to_bits() & !0xffff),
        }
    }

    /// The bits of what is in memory.
    fn bits(self, x: f32) -> u32 {
        let bits = x.to_bits();
        match self {
            Self::Tf32 | Self::SplitF32 => bits,
            Self::Bf16 => bits >> 16,
            Self::F16 if x == 0.0 => 0,
            Self::F16 => {
                let exponent = (bits >> 23 & 255) as i32 - 112;
                assert!((1..31).contains(&exponent), "{x} is no normal number of half precision");
                bits >> 16 & 0x8000 | (exponent as u32) << 10 | bits >> 13 & 1023
            }
        }
    }
}

/// `A` and the transpose of `B`, by rows of `length` numbers.
struct Matrices {
    rows: u32,
    columns: u32,
    length: u32,
    numbers: Numbers,
    a: Vec<f32>,
    b: Vec<f32>,
    /// For tiles by bulk copies.
    swizzle: Option<Swizzle>,
}

impl Matrices {
    fn new((rows, columns): (u32, u32), length: u32, numbers: Numbers, number: &dyn Fn(usize) -> f32) -> Self {
        let a = (0..(rows * length) as usize).map(number).collect();
        let b = (0..(columns * length) as usize).map(|i| number(3 * i + 1)).collect();
        Self { rows, columns, length, numbers, a, b, swizzle: None }
    }

    fn in_boxes(self, swizzle: Swizzle) -> Self {
        Self { swizzle: Some(swizzle), ..self }
    }

    fn a(&self) -> Contents {
        self.operand(&self.a, self.rows, ROWS)
    }

    fn b(&self) -> Contents {
        self.operand(&self.b, self.columns, COLUMNS)
    }

    /// With a map, rows have a gap of not-a-numbers behind them.
    fn operand(&self, numbers: &[f32], rows: u32, box_rows: u32) -> Contents {
        let Some(swizzle) = self.swizzle else {
            return (Before::Words(numbers.iter().map(|x| x.to_bits()).collect()), None);
        };
        let element = self.numbers.element();
        let row_stride_bytes = (self.length * element.bytes()).next_multiple_of(16) + 16;
        let mut words = Vec::new();
        for row in numbers.chunks(self.length as usize) {
            let mut elements: Vec<u32> = row.iter().map(|&x| self.numbers.bits(x)).collect();
            elements.resize((row_stride_bytes / element.bytes()) as usize, u32::MAX);
            if element.bytes() == 4 {
                words.extend(elements);
            } else {
                words.extend(elements.chunks(2).map(|pair| pair[0] & 0xffff | pair[1] << 16));
            }
        }
        let layout = TensorLayout {
            address: 0,
            element,
            rows: rows.into(),
            columns: self.length.into(),
            row_stride_bytes: row_stride_bytes.into(),
            box_rows,
            box_columns: swizzle.row_bytes() / element.bytes(),
            swizzle,
        };
        (Before::Matrix(words, layout), None)
    }

    fn out(&self) -> Contents {
        let words: Vec<u32> = self.sums(|x| x).iter().map(|&sum| (sum as f32).to_bits()).collect();
        (Before::Uninitialised(words.len()), Some(words))
    }

    fn out_in_one_box(&self) -> Contents {
        let (_, after) = self.out();
        let layout = TensorLayout {
            address: 0,
            element: ElementType::F32,
            rows: ROWS.into(),
            columns: COLUMNS.into(),
            row_stride_bytes: u64::from(COLUMNS) * 4,
            box_rows: ROWS,
            box_columns: COLUMNS,
            swizzle: Swizzle::None,
        };
        (Before::Matrix(vec![0; (ROWS * COLUMNS) as usize], layout), after)
    }

    /// `D` with a function of each operand.
    fn sums(&self, of: fn(f64) -> f64) -> Vec<f64> {
        let row = |numbers: &[f32], row: u32| -> Vec<f64> {
            let row = numbers.chunks(self.length as usize).nth(row as usize).unwrap_or_default();
            row.iter().map(|&x| of(self.numbers.taken(x).into())).collect()
        };
        let (a, b): (Vec<_>, Vec<_>) =
            ((0..ROWS).map(|i| row(&self.a, i)).collect(), (0..COLUMNS).map(|i| row(&self.b, i)).collect());
        let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).fold(0.0, |sum, (a, b)| sum + a * b);
        a.iter().flat_map(|a| b.iter().map(move |b| sum(a, b))).collect()
    }

    fn product(&self, width: u32, case: Case) -> Product {
        let case = if case.block == 256 {
            case
        } else {
            let stages = if self.swizzle.is_some() { 2 } else { 1 };
            Case { block: 128, dynamic_shared_bytes: stages * stage_bytes(width), ..case }
        };
        Product { case, reference: self.sums(|x| x), magnitudes: self.sums(f64::abs) }
    }
}

/// 19 rows of 40 numbers of 2 bytes, with a gap behind each.
fn copy_boxes() -> Case {
    let layout = TensorLayout {
        address: 0,
        element: ElementType::F16,
        rows: 19,
        columns: 40,
        row_stride_bytes: 96,
        box_rows: 8,
        box_columns: 16,
        swizzle: Swizzle::Bytes32,
    };
    let words: Vec<u32> = (0..19 * 24).map(|i| i * 0x0001_0003 + 0x0001_0001).collect();
    let copied = words.iter().enumerate().map(|(i, &word)| if i % 24 < 20 { word } else { 0 }).collect();
    let case = case!(hopper::copy_boxes(
        from: (Before::Matrix(words.clone(), layout), Some(words)),
        to: (Before::Matrix(vec![0; 19 * 24], layout), Some(copied))
    ));
    Case { block: 32, dynamic_shared_bytes: layout.box_bytes(), ..case }
}

fn bulk_copies() -> Case {
    let words: Vec<u32> = (0..4 * CHUNK).map(|i| i * i + 1).collect();
    let reversed = words.chunks(CHUNK as usize).flat_map(|chunk| chunk.iter().rev().copied()).collect();
    case!(hopper::bulk_copies(
        input: (Before::Words(words), None),
        out: (Before::Uninitialised(4 * CHUNK as usize), Some(reversed))
    ))
}
