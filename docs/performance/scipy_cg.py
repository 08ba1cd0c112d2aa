"""Compares `warpsparse solve` with SciPy's cg on 20 systems: python3 scipy_cg.py path/to/warpsparse path/to/bcsstk16.mtx.xz [device]

Prints a Markdown table: unknowns, iterations of both, the relative residual of our x as NumPy computes it, and how far our x is from SciPy's, relative
to it. Ends with an error if a residual is above the tolerance of 1e-10, or a distance above 1e-8.
"""

import lzma
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import scipy.io
import scipy.sparse as sp
import scipy.sparse.linalg as linalg

TOLERANCE = 1e-10


def stencil(dimensions, coefficient):
    """The Laplacian of a grid whose edges have random weights from 1 to `coefficient`."""
    random = np.random.default_rng(len(dimensions) + int(coefficient))
    n = int(np.prod(dimensions))
    index = np.arange(n).reshape(dimensions)
    rows, columns, weights = [], [], []
    for axis in range(len(dimensions)):
        below, above = (np.moveaxis(index, axis, 0)[part].ravel() for part in (slice(None, -1), slice(1, None)))
        rows.append(below)
        columns.append(above)
        weights.append(np.exp(random.uniform(0, np.log(coefficient), below.size)))
    edges = sp.coo_matrix((np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns))), (n, n)).tocsr()
    edges = edges + edges.T
    return sp.diags(np.asarray(edges.sum(axis=1)).ravel() + 1e-2) - edges


def scattered(n, per_row, shift, seed):
    """B B^T + shift I, B with random entries."""
    b = sp.random(n, n, per_row / n, random_state=seed, data_rvs=np.random.default_rng(seed).standard_normal)
    return b @ b.T + shift * sp.identity(n)


def banded(n, width, seed):
    random = np.random.default_rng(seed)
    diagonals = [random.uniform(-1, 1, n - k) for k in range(1, width + 1)]
    upper = sp.diags(diagonals, range(1, width + 1), shape=(n, n))
    both = upper + upper.T
    return both + sp.diags(np.asarray(abs(both).sum(axis=1)).ravel() + random.uniform(0.01, 100, n))


def systems(bcsstk16):
    yield "bcsstk16", sp.csr_matrix(scipy.io.mmread(lzma.open(bcsstk16)))
    for coefficient in (1.0001, 10, 1000):
        yield f"2-D grid, weights to {coefficient:g}", stencil((120, 131), coefficient)
        yield f"3-D grid, weights to {coefficient:g}", stencil((25, 26, 27), coefficient)
        yield f"path, weights to {coefficient:g}", stencil((3001,), coefficient)
    for n, per_row, shift in ((100, 3, 1), (1000, 3, 0.1), (5000, 4, 1), (20000, 3, 10)):
        yield f"scattered, {per_row} a row, {shift:g} I", scattered(n, per_row, shift, n)
    for n, width in ((50, 40), (2000, 1), (3000, 25), (30000, 5)):
        yield f"banded, {width}", banded(n, width, n)
    yield "one equation", sp.csr_matrix([[4.0]])
    yield "diagonal", sp.diags(np.linspace(1, 1e4, 777))


def main(command, bcsstk16, device="auto"):
    failures = 0
    print("| system | unknowns | iterations | SciPy's | residual | distance |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        for name, matrix in systems(bcsstk16):
            matrix = sp.csr_matrix(matrix)
            n = matrix.shape[0]
            b = np.random.default_rng(7).standard_normal(n)
            scipy.io.mmwrite(at("a.mtx"), matrix, symmetry="general", precision=17)
            scipy.io.mmwrite(at("b.mtx"), b.reshape(-1, 1), precision=17)
            options = f"--rhs {at('b.mtx')} --tol {TOLERANCE} --device {device} --x-out {at('x.mtx')} --json"
            ours = subprocess.run([command, "solve", at("a.mtx"), *options.split()], capture_output=True, text=True)
            if ours.returncode != 0:
                print(f"| {name} | {n} | failed: {ours.stderr.strip()} | | | |")
                failures += 1
                continue
            x = np.asarray(scipy.io.mmread(at("x.mtx"))).ravel()
            iterations = 0

            def count(_):
                nonlocal iterations
                iterations += 1

            inverse = sp.diags(1 / matrix.diagonal())
            theirs, info = linalg.cg(matrix, b, rtol=TOLERANCE, maxiter=100 * n, M=inverse, callback=count)
            residual = np.linalg.norm(b - matrix @ x) / np.linalg.norm(b)
            distance = np.linalg.norm(x - theirs) / np.linalg.norm(theirs)
            wrong = info != 0 or not residual <= 1.02 * TOLERANCE or not distance <= 1e-8
            failures += wrong
            mark = " **wrong**" if wrong else ""
            print(f"| {name} | {n} | {json.loads(ours.stdout)['iterations']} | {iterations} | {residual:.1e} | {distance:.1e}{mark} |")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
