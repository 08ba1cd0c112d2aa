#!/usr/bin/env python3
"""Compares `warpsparse multiply` and `warpsparse transpose` with SciPy.

    products.py COMMAND DEVICE MATRIX...

COMMAND is the program `warpsparse`, DEVICE what its --device takes, and each MATRIX a Matrix Market file. Squares are computed of square matrices, and A A^T
and A^T A of all; products of rectangular and degenerate matrices are added. Patterns must be equal, explicit zeros and cancellations included, and values
within n * eps of the sum of the products' magnitudes. Several comparisons run at once. Needs SciPy. Exit status 1 if anything differs.
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import scipy.io
import scipy.sparse as sp


def pattern(matrix):
    """The matrix with 1 at each entry, explicit zeros included, as floats that sum without cancellation."""
    ones = sp.csr_array((np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)
    ones.sort_indices()
    return ones


def canonical(matrix):
    matrix = sp.csr_array(matrix).astype(np.float64)
    matrix.sum_duplicates()
    return matrix


def same_pattern(found, expected):
    return np.array_equal(found.indptr, expected.indptr) and np.array_equal(found.indices, expected.indices)


def run(command, device, operation, *matrices, dtype):
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder) / f"{number}.mtx" for number in range(len(matrices))]
        for file, matrix in zip(files, matrices):
            scipy.io.mmwrite(file, sp.coo_array(matrix), symmetry="general", precision=17)
        out = pathlib.Path(folder) / "out.mtx"
        arguments = [command, operation, *files, "--out", out, "--force", "--device", device, "--dtype", dtype]
        subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return canonical(scipy.io.mmread(out))


def multiply(command, device, a, b, dtype):
    """What is wrong with a product, or None."""
    number = {"f32": np.float32, "f64": np.float64}[dtype]
    a, b = (canonical(matrix.astype(number)) for matrix in (a, b))
    found = run(command, device, "multiply", a, b, dtype=dtype)
    expected_pattern = canonical(pattern(a) @ pattern(b))
    if not same_pattern(found, expected_pattern):
        return f"{found.nnz} entries, not {expected_pattern.nnz}, or elsewhere"
    # Entries that SciPy leaves out because they cancel are 0 here.
    exact = a @ b + 0 * expected_pattern
    terms = expected_pattern.max() if expected_pattern.nnz else 0
    error = abs(found - exact)
    # Each product and each addition rounds once: relative to its size, or to the smallest subnormal number where it underflows.
    rounding = np.finfo(number)
    limit = (terms + 1) * (rounding.eps * (abs(a) @ abs(b)) + float(rounding.smallest_subnormal) * expected_pattern)
    excess = (error - limit).max() if error.nnz else 0
    return f"an error too large by {excess}" if excess > 0 else None


def transpose(command, device, a):
    found, expected = run(command, device, "transpose", a, dtype="f64"), canonical(a.T)
    return None if same_pattern(found, expected) and np.array_equal(found.data, expected.data) else "another matrix"


def degenerate(random):
    """Names, and pairs of matrices to multiply."""
    sparse = lambda rows, columns, entries: canonical(
        sp.coo_array(
            (random.standard_normal(entries), (random.integers(0, rows, entries), random.integers(0, columns, entries))),
            shape=(rows, columns),
        )
    )
    yield "rectangular", sparse(300, 7000, 9000), sparse(7000, 50, 20000)
    yield "wide times tall", sparse(3, 100000, 50000), sparse(100000, 2, 50000)
    yield "mostly empty rows", sparse(50000, 50000, 300), sparse(50000, 50000, 300)
    yield "no entries", sparse(40, 30, 0), sparse(30, 20, 0)
    n = 30000
    row = canonical(sp.coo_array((random.standard_normal(n), (np.zeros(n, int), np.arange(n))), shape=(n, n)))
    column = canonical(row.T)
    yield "a full row times a full column", row, column
    yield "a full column times a few entries", column, sparse(n, n, 40)
    zeros = sparse(500, 500, 4000)
    zeros.data[::3] = 0
    yield "explicit zeros", zeros, zeros
    cancelling = canonical(sp.coo_array((np.array([1.0, 1.0, 1.0]), ([0, 0, 1], [0, 1, 1])), shape=(2, 2)))
    opposite = canonical(sp.coo_array((np.array([2.0, -2.0]), ([0, 1], [0, 0])), shape=(2, 2)))
    yield "a cancellation", cancelling, opposite


def comparisons(files):
    """Names, functions and their arguments after the command and the device."""
    for file in files:
        name, a = pathlib.Path(file).name, canonical(scipy.io.mmread(file))
        transposed = canonical(a.T)
        pairs = [(f"{name} A A^T", a, transposed), (f"{name} A^T A", transposed, a)]
        if a.shape[0] == a.shape[1]:
            pairs += [(f"{name} squared", a, a), (f"{name} transposed squared", transposed, transposed)]
        yield from ((f"{pair} {dtype}", multiply, (b, c, dtype)) for pair, b, c in pairs for dtype in ("f32", "f64"))
        yield f"transpose of {name}", transpose, (a,)
    for name, a, b in degenerate(np.random.default_rng(1)):
        yield from ((f"{name} {dtype}", multiply, (a, b, dtype)) for dtype in ("f32", "f64"))
        yield f"transpose of the first of {name}", transpose, (a,)


def main():
    command, device, *files = sys.argv[1:]
    failures = 0
    with concurrent.futures.ProcessPoolExecutor(max(1, os.cpu_count() // 2)) as processes:
        running = {processes.submit(function, command, device, *rest): name for name, function, rest in comparisons(files)}
        for comparison in concurrent.futures.as_completed(running):
            problem = comparison.result()
            failures += bool(problem)
            print(f"{running[comparison]}: {problem or 'equal'}", flush=True)
    print(f"{len(running) - failures} of {len(running)} right")
    sys.exit(bool(failures))


main()
