//! Generic code, compiled with this crate for both element types.
//!
//! Without optimisation, or with little of it, the compiler lets crates share instances of generic functions. The functions of this
//! crate are generic, so a program or a test would otherwise compile all of them again, which took most of the time of its
//! build. Nothing calls these functions; build.rs leaves them out where the compiler does not share, and with WARPSPARSE_INSTANCES=0 in the
//! environment: for a test that needs little of the library, a build without them is faster.

use crate::{
    Amg, Attention, AttentionGradients, AttentionInputs, BlockCg, BlockJacobi, BlockSize, BsrMatrix, Cg, Chebyshev,
    CooMatrix, CscMatrix, CsrMatrix, DenseLayout, Device, DeviceDense, DeviceMatrix, DeviceVec, DiaMatrix, Diagonal,
    Element, EllMatrix, Factor, Format, Fsai, GemmOptions, Half, HostMatrix, HybMatrix, Ilu, Jacobi, Map, Offset,
    Preconditioner, Reduce, Result, Scalar, Solver, SortKey, SpgemmOptions, SpgemmPlan, SpmmOptions, SpmvOptions,
    Tolerance, Triangle, TriangularSolver, TriangularSweeps, Weights, Zip, bf16,
    distributed::{
        self, Communicator, DistributedAmg, DistributedCg, DistributedDense, DistributedMatrix, DistributedVec,
    },
    f16, gemm_autotune, gemm_choice, gemm_with,
    learning::{self, Adam, Dropout, Labels, StepCounter},
};

#[doc(hidden)]
pub fn instances(device: &Device) -> Result<()> {
    of::<f32>(device)?;
    of::<f64>(device)?;
    halves::<bf16>(device)?;
    halves::<f16>(device)?;
    algorithms::<u32>(device)?;
    algorithms::<u64>(device)
}

fn algorithms<K: SortKey>(device: &Device) -> Result<()> {
    let mut keys = device.upload_vec::<K>(&[])?;
    keys.sort()?;
    let _ = (keys.unique()?, keys.run_lengths()?);
    pairs::<K, u32>(&mut keys)?;
    pairs::<K, u64>(&mut keys)?;
    pairs::<K, f32>(&mut keys)?;
    pairs::<K, f64>(&mut keys)
}

fn pairs<K: SortKey, V: Element>(keys: &mut DeviceVec<K>) -> Result<()> {
    let mut values = keys.device().zeros::<V>(0)?;
    keys.sort_pairs(&mut values)?;
    let _ = (keys.reduce_by_key(&values)?, values.select(&keys.device().zeros(0)?)?);
    let (mut sums, _) = (values.inclusive_scan()?, values.exclusive_scan()?);
    sums.inclusive_scan_from(&values)?;
    sums.exclusive_scan_from(&values)
}

fn of<T: Scalar>(device: &Device) -> Result<()> {
    let one = T::from_f64(1.0);
    let csr = formats::<T>()?;
    let mut x = device.upload_vec::<T>(&[])?;
    vectors(&mut x, one)?;
    let mut dense = device.upload_dense::<T>((0, 0), &[])?;
    training(&mut x, &mut dense)?;
    products(&mut device.upload(&csr)?, &mut x, &mut dense)?;
    graphs(&device.upload(&csr)?, one, &mut dense)?;
    solvers(&device.upload(&csr)?, &mut x)?;
    distributed::run(&[], |communicator| over_ranks(communicator, &csr, one)).map(|_| ())
}

fn formats<T: Scalar>() -> Result<CsrMatrix<T>> {
    let (cpu, mut coo) = (Device::cpu(), CooMatrix::<T>::new(0, 0)?);
    coo.push(0, 0, T::from_f64(1.0))?;
    let csr = CsrMatrix::try_from(&coo)?;
    of_offset::<T, u32>(&cpu, &csr)?;
    of_offset::<T, u64>(&cpu, &CsrMatrix::from(&csr))?;
    cpu.upload(&CooMatrix::from(&csr))?;
    cpu.upload(&CooMatrix::from(&CscMatrix::try_from(&csr)?))?;
    cpu.upload(&HostMatrix::Csr(csr.clone()))?;
    let _ = (csr.structure(), csr.cluster_rows(), csr.reverse_cuthill_mckee()?, csr.triplets().count());
    let _ = (csr.norm_frobenius(), csr.norm_one(), csr.norm_inf(), csr.norm_max());
    let _ = (csr.permute(&[], &[])?, csr.slice_rows(0..0)?, csr.drop_zeros(), csr.diagonal(), csr.is_canonical());
    #[cfg(feature = "io")]
    {
        csr.write_matrix_market("")?;
        let _ = (coo.write_matrix_market("")?, CooMatrix::<T>::read_matrix_market("")?);
        let source = crate::io::MatrixSource::File("".into());
        source.load::<T>()?;
    }
    Ok(csr.canonical())
}

fn of_offset<T: Scalar, O: Offset>(device: &Device, csr: &CsrMatrix<T, O>) -> Result<()> {
    device.upload_with(csr, &SpmvOptions::default())?;
    device.upload(&CscMatrix::try_from(csr)?)?;
    let (dia, ell) = (DiaMatrix::try_from(csr)?, EllMatrix::try_from(csr)?);
    let bsr = BsrMatrix::from_csr(csr, BlockSize::Auto)?;
    let _ = (csr.blocks(), bsr.transpose()?, device.upload(&bsr)?, CsrMatrix::<T, O>::try_from(&bsr)?);
    let hyb = HybMatrix::try_from(csr)?;
    let _ = (device.upload(&dia)?, device.upload(&ell)?, device.upload(&hyb)?, csr.transpose()?);
    let back =
        (CsrMatrix::<T, O>::try_from(&dia)?, CsrMatrix::<T, O>::try_from(&ell)?, CsrMatrix::<T, O>::try_from(&hyb)?);
    let _ = (back, CsrMatrix::<T, O>::try_from_csr_data(0, 0, vec![], vec![], vec![])?, csr * &[][..]);
    Ok(())
}

fn vectors<T: Scalar>(x: &mut DeviceVec<T>, one: T) -> Result<()> {
    let (device, y) = (x.device().clone(), x.device().zeros::<T>(0)?);
    let (mut scalar, indices) = (device.scalar(one)?, device.upload_indices(&[], 0)?);
    macro_rules! operations {
        ($x:expr) => {
            let x = $x;
            x.fill(one)?;
            x.fill(&scalar)?;
            x.scale(one)?;
            x.scale(&scalar)?;
            x.axpy(one, &y)?;
            x.axpy(&scalar, &y)?;
            x.axpby(one, &y, one)?;
            x.axpy_dot(one, &y, &y, &mut scalar)?;
            x.axpby_norm(one, &y, one, &mut scalar)?;
            x.map(Map::Abs)?;
            x.map_from(Map::Abs, &y)?;
            x.zip(Zip::Mul, &y)?;
            x.zip_from(Zip::Mul, &y, &y)?;
            x.fill_uniform(0, one, one)?;
            x.fill_normal(0, one, one)?;
            x.assign(&y)?;
            x.gather(&indices, &y)?;
            x.scatter(&indices, &y)?;
        };
    }
    let _ = (device.filled(0, one)?, x.try_clone()?);
    operations!(&mut *x);
    operations!(&mut x.slice_mut(..)?);
    let other = device.scalar(one)?;
    let factor: Factor<'_, T> = -(&scalar / &other);
    x.axpy(factor, &y)?;
    let (sum, dot, norm) = (y.sum()?, y.dot(&y)?, y.norm2()?);
    let _ = (sum.get()?, dot.get()?, norm.get()?, y.norm1()?, y.norm_inf()?, y.max()?, y.min()?, y.to_vec()?);
    x.copy_from(&[])
}

fn products<T: Scalar>(a: &mut DeviceMatrix<T>, x: &mut DeviceVec<T>, dense: &mut DeviceDense<T>) -> Result<()> {
    let (one, y) = (T::from_f64(1.0), x.device().zeros::<T>(0)?);
    a.spmv(one, &y, one, &mut *x)?;
    a.spmv_transposed(one, &y, one, &mut *x)?;
    let b = x.device().zeros_dense::<T>(DenseLayout::column_major(0, 0))?;
    a.spmm(one, &b, one, &mut *dense)?;
    a.spmm_transposed(one, &b, one, &mut *dense)?;
    a.spmm_reduce(Reduce::Sum, Weights::Values, &b, &mut *dense, None)?;
    a.spmm_plan(0, &SpmmOptions::default())?.multiply(one, &b, one, &mut *dense)?;
    a.update_values(&y)?;
    a.scale_rows(&y)?;
    a.scale_cols(&y)?;
    let plan = SpgemmPlan::new(a, a)?;
    plan.compute(a, a, &mut a.multiply(a)?)?;
    let _ = (plan.nnz(), plan.multiply(a, a)?, a.multiply_with(a, &SpgemmOptions::default().mask(a))?);
    let _ = (a.diagonal()?, a.download()?.into_csr()?, a.describe());
    let _ = (a.triple_product(a, a)?, a.transpose_multiply(a)?);
    let (rows, cols, values) = a.to_triplets()?;
    let b_of = x.device().csr_from_triplets(0, 0, &rows, &cols, &values)?;
    let _ = (a.transpose()?.canonical()?, a.add(one, one, &b_of)?, a.hadamard(&b_of)?, a.kronecker(&b_of)?);
    let _ = (a.lower_triangle(0)?, a.upper_triangle(0)?, a.slice_rows(0..0)?, a.slice_cols(0..0)?);
    let _ = (a.convert(Format::Csr)?, a.permute(&[], &[])?, a.drop_zeros()?, a.drop_small(one)?);
    let _ = (a.cluster_rows()?, a.reverse_cuthill_mckee()?, a.permute_by(None, None)?);
    b.gemm(one, &b, one, &mut *dense)?;
    let options = gemm_autotune(b.view(), b.view(), &dense.view_mut())?;
    gemm_with(&options, one, &b, &b, one, &mut *dense)?;
    let _ = gemm_choice(&GemmOptions::default(), b.view(), b.view(), &dense.view_mut())?;
    dense.assign(b.transpose())
}

fn training<T: Scalar>(x: &mut DeviceVec<T>, dense: &mut DeviceDense<T>) -> Result<()> {
    let (device, y) = (x.device().clone(), x.device().zeros::<T>(0)?);
    let (step, dropout) = (StepCounter::new(&device)?, Dropout::new(0.0, 0)?);
    dropout.apply(&step, &mut *x)?;
    dropout.apply_from(&step, &y, &mut *x)?;
    learning::map_backward(Map::Relu, &y, &mut *x)?;
    Adam::new(&device, 0, 0.0)?.betas(0.0, 0.0)?.epsilon(0.0)?.weight_decay(0.0)?.update(&step, &y, &mut *x)?;
    let (labels, logits) = (Labels::new(&device, 0, &[])?, learning::glorot_uniform::<T>(&device, 0, (0, 0))?);
    let mut number = device.scalar(T::default())?;
    learning::cross_entropy(&logits, &labels, &mut number)?;
    learning::accuracy(&logits, &labels, &mut number)?;
    learning::cross_entropy_backward(&logits, &labels, &mut *dense)
}

fn graphs<T: Scalar>(a: &DeviceMatrix<T>, one: T, c: &mut DeviceDense<T>) -> Result<()> {
    let (graph, device) = (a.adjacency()?, a.device());
    let zeros = || device.zeros_dense::<T>((0, 0));
    let b = zeros()?;
    graph.sddmm(one, &b, &b, one, &mut *c)?;
    graph.sddmm_weighted(one, &b, &b, &b, one, &mut *c)?;
    graph.sddmm_backward(&b, &b, &b, None, None)?;
    graph.spmm(one, &b, &b, one, &mut *c)?;
    graph.spmm_transposed(one, &b, &b, one, &mut *c)?;
    graph.spmm_backward(&b, &b, &b, None, None)?;
    graph.extremum_backward(None, &device.zeros_dense::<u32>((0, 0))?, &b, &b, None, None)?;
    graph.mean_backward(None, &b, &b, None, None)?;
    graph.edge_softmax(&b, &mut *c)?;
    graph.edge_softmax_backward(&b, &b, &mut *c)?;
    let inputs = AttentionInputs { row_scores: b.view(), col_scores: b.view(), features: b.view() };
    graph.attention(&Attention::default(), inputs, &mut *c, &mut zeros()?)?;
    let (mut of_rows, mut of_cols) = (zeros()?, zeros()?);
    let (row_scores, col_scores) = (of_rows.view_mut(), of_cols.view_mut());
    let gradients = AttentionGradients { row_scores, col_scores, features: c.view_mut() };
    graph.attention_backward(&Attention::default(), inputs, &b, &b, &b, gradients)
}

fn halves<H: Half>(device: &Device) -> Result<()> {
    let graph = device.upload(&CsrMatrix::<f32>::try_from(&CooMatrix::new(0, 0)?)?)?.adjacency()?;
    let (mut half, mut dense) = (device.upload_half::<H>((0, 0), &[])?, device.zeros_dense((0, 0))?);
    half.cast_from(&dense)?;
    half.cast_to(&mut dense)?;
    let mut result = device.zeros_half((0, 0))?;
    graph.spmm_half(Reduce::Sum, None, &half, &mut result)?;
    graph.spmm_half_transposed(Reduce::Sum, None, &half, &mut result)?;
    half.to_vec().map(|_| ())
}

fn solvers<T: Scalar>(a: &DeviceMatrix<T>, x: &mut DeviceVec<T>) -> Result<()> {
    let b = x.device().zeros::<T>(0)?;
    Cg::new(a).preconditioner(Jacobi::new(a)?).solve(&b, x)?;
    BlockCg::new(a).preconditioner(Jacobi::new(a)?).solve(b.matrix((0, 0))?, x.matrix_mut((0, 0))?)?;
    let mut amg = Amg::options().build(a)?;
    amg.update_values(a)?;
    let _ = (amg.describe(), amg.solve(&b, x, Tolerance::relative(1.0))?);
    amg.apply((&b).into(), (&mut *x).into())?;
    let chebyshev = Chebyshev::with_eigenvalues(a, Chebyshev::new(a, 1)?.degree(), (1.0, 2.0))?;
    let _ = chebyshev.eigenvalues();
    chebyshev.apply((&b).into(), (&mut *x).into())?;
    let mut blocks = BlockJacobi::from_pattern(a, 1)?;
    blocks.update_values(a)?;
    blocks.apply((&b).into(), (&mut *x).into())?;
    BlockJacobi::new(a, blocks.block_offsets().len() as u32)?;
    let fsai = Fsai::with_power(a, 1)?;
    let _ = fsai.factor();
    fsai.apply((&b).into(), (&mut *x).into())?;
    let mut ilu = Ilu::symmetric(a)?;
    ilu.update_values(a)?;
    let _ = (ilu.factors()?, ilu.levels(), Ilu::fixed_point(a, 1)?.with_sweeps(1)?, Ilu::symmetric_fixed_point(a, 1)?);
    let mut solver = Solver::new(a).preconditioner(Ilu::new(a)?).keep_last();
    solver.solve(&b, x)?;
    let triangle = TriangularSolver::new(a, Triangle::Lower, Diagonal::Unit)?;
    triangle.solve_dense(b.matrix((0, 0))?, x.matrix_mut((0, 0))?)?;
    TriangularSolver::transposed(a, Triangle::Lower, Diagonal::Unit)?;
    TriangularSweeps::new(a, Triangle::Lower, Diagonal::Unit, 1)?.solve(&b, &mut *x)?;
    a.solve_triangular(Triangle::Lower, Diagonal::Unit, &b, x)
}

fn over_ranks<T: Scalar>(communicator: &Communicator, whole: &CsrMatrix<T>, one: T) -> Result<()> {
    let a = DistributedMatrix::from_whole(communicator, whole)?;
    let a = DistributedMatrix::from_rows(communicator, whole, a.columns())?;
    let mut x = DistributedVec::from_whole(communicator, a.rows(), &[])?;
    let mut y = DistributedVec::from_local(communicator, a.rows(), &[])?;
    a.spmv(one, &mut x, one, &mut y)?;
    x.fill(one)?;
    x.scale(one)?;
    x.assign(&y)?;
    x.axpy(one, &y)?;
    x.axpby(one, &y, one)?;
    let _ = (x.dot(&y)?, x.sum()?, x.norm2()?, x.gather()?, a.describe());
    let mut b = DistributedDense::from_whole(communicator, a.rows(), 0, &[])?;
    a.spmm(one, &mut b, one, &mut DistributedDense::zeros(communicator, a.rows(), 0)?)?;
    b.gather()?;
    DistributedCg::new(&a).preconditioner(a.jacobi()?).solve(&y, &mut x)?;
    let amg = DistributedAmg::new(&a)?;
    let _ = amg.describe();
    DistributedCg::new(&a).preconditioner(&amg).solve(&y, &mut x)?;
    #[cfg(feature = "io")]
    DistributedMatrix::<T>::read_matrix_market(communicator, "")?;
    Ok(())
}
