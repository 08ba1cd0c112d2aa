#!/usr/bin/env python3
"""Compares `warpsparse multiply` and `warpsparse transpose` with SciPy.

    products.py COMMAND DEVICE MATRIX...

COMMAND is the program `warpsparse`, DEVICE what its --device takes, and each MATRIX a Matrix Market file. Squares are computed of square matrices, and A A^T
and A^T A of all; products of rectangular and degenerate matrices are added. Patterns must be equal, explicit zeros and cancellations included, and values
within n * eps of the sum of the products' magnitudes. Needs SciPy. Exit status 1 if anything differs.
"""

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


class Comparison:
    def __init__(self, command, device, folder):
        self.command, self.device, self.folder = command, device, pathlib.Path(folder)
        self.count, self.failures = 0, []

    def run(self, operation, *matrices, dtype):
        files = []
        for number, matrix in enumerate(matrices):
            files.append(self.folder / f"{number}.mtx")
            scipy.io.mmwrite(files[-1], sp.coo_array(matrix), symmetry="general", precision=17)
        out = self.folder / "out.mtx"
        arguments = [self.command, operation, *files, "--out", out, "--force", "--device", self.device, "--dtype", dtype]
        subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return canonical(scipy.io.mmread(out))

    def verdict(self, name, problem):
        self.count += 1
        if problem:
            self.failures.append(f"{name}: {problem}")
        print(f"{name}: {problem or 'equal'}", flush=True)

    def multiply(self, name, a, b):
        for dtype, number in (("f32", np.float32), ("f64", np.float64)):
            a_rounded, b_rounded = (canonical(m.astype(number)) for m in (a, b))
            found = self.run("multiply", a_rounded, b_rounded, dtype=dtype)
            expected_pattern = canonical(pattern(a_rounded) @ pattern(b_rounded))
            if not same_pattern(found, expected_pattern):
                self.verdict(f"{name} {dtype}", f"{found.nnz} entries, not {expected_pattern.nnz}, or elsewhere")
                continue
            # Entries that SciPy leaves out because they cancel are 0 here.
            exact = a_rounded @ b_rounded + 0 * expected_pattern
            bound = abs(a_rounded) @ abs(b_rounded)
            terms = expected_pattern.max() if expected_pattern.nnz else 0
            error = abs(found - exact)
            limit = (terms + 1) * np.finfo(number).eps * bound
            excess = (error - limit).max() if error.nnz else 0
            self.verdict(f"{name} {dtype}", f"an error too large by {excess}" if excess > 0 else None)

    def transpose(self, name, a):
        found, expected = self.run("transpose", a, dtype="f64"), canonical(a.T)
        equal = same_pattern(found, expected) and np.array_equal(found.data, expected.data)
        self.verdict(f"transpose of {name}", None if equal else "another matrix")


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


def main():
    command, device, *files = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(command, device, folder)
        for file in files:
            name, a = pathlib.Path(file).name, canonical(scipy.io.mmread(file))
            transpose = canonical(a.T)
            if a.shape[0] == a.shape[1]:
                comparison.multiply(f"{name} squared", a, a)
                comparison.multiply(f"{name} transposed squared", transpose, transpose)
            comparison.multiply(f"{name} A A^T", a, transpose)
            comparison.transpose(name, a)
        for name, a, b in degenerate(np.random.default_rng(1)):
            comparison.multiply(name, a, b)
            comparison.transpose(name, a)
    print(f"{comparison.count - len(comparison.failures)} of {comparison.count} right")
    sys.exit(bool(comparison.failures))


main()
