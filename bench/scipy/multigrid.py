#!/usr/bin/env python3
"""Compares multigrid of `warpsparse solve` with PyAMG's smoothed aggregation and SciPy's spsolve.

    multigrid.py COMMAND [DEVICE [GENERATOR...]]

COMMAND is the program `warpsparse`, DEVICE what its --device takes (cpu), and each GENERATOR one of its generators of symmetric positive definite matrices, without `gen:`.
Prints a Markdown table: iterations of conjugate gradients to 1e-8 for b = 1, operator complexities, and how far the solution to 1e-9 is from the reference,
relative to it in the 2-norm: spsolve's up to 70 000 unknowns, PyAMG's to 1e-9 above. PyAMG has the settings of `Amg`: symmetric strength of 0.08 that is halved on each level,
prolongators smoothed by 4/3 with the matrix without weak entries ("all entries": with them, PyAMG's default), V(1,1) with Jacobi's iteration damped by 1.6 over the spectral radius, at most 256 rows solved directly, and for elasticity the same motions of a rigid body;
its aggregates are its own, `standard`. Exit status 1 if `warpsparse` takes more than 1.25 times the iterations of the former anywhere, or a distance is above 1e-7. Needs SciPy and PyAMG.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import pyamg
import scipy.io
import scipy.sparse as sp
import scipy.sparse.linalg as linalg

GENERATORS = [
    "aniso2d:64:0.01",
    "aniso2d:64:0.001",
    "poisson3d:32",
    "poisson3d:64",
    "poisson3d:80",
    "poisson2d:256",
    "poisson2d:1024",
    "aniso2d:512:0.01",
    "aniso2d:512:0.001",
    "elasticity3d:8",
    "elasticity3d:12",
    "elasticity3d:20",
]

DIRECT = 70_000


def motions(n):
    """The motions of a rigid body with nodes at the points of a cube."""
    z, y, x = (axis.ravel() - (n - 1) / 2 for axis in np.meshgrid(*[np.arange(n)] * 3, indexing="ij"))
    vectors = np.zeros((n**3, 3, 6))
    vectors[:, [0, 1, 2], [0, 1, 2]] = 1
    for place, (a, b, along_a, along_b) in enumerate([(0, 1, x, y), (1, 2, y, z), (2, 0, z, x)], 3):
        vectors[:, a, place], vectors[:, b, place] = -along_b, along_a
    return vectors.reshape(3 * n**3, 6)


def hierarchy(a, generator, is_filtered):
    name, size, *_ = generator.split(":")
    near_null = None
    if name == "elasticity3d":
        a, near_null = a.tobsr((3, 3)), motions(int(size))
    smoother = ("jacobi", {"omega": 1.6, "iterations": 1})
    return pyamg.smoothed_aggregation_solver(
        a,
        B=near_null,
        symmetry="symmetric",
        strength=[("symmetric", {"theta": 0.08 * 0.5**level}) for level in range(30)],
        aggregate="standard",
        smooth=("jacobi", {"omega": 4 / 3, "filter_entries": is_filtered}),
        presmoother=smoother,
        postsmoother=smoother,
        improve_candidates=None,
        max_levels=30,
        max_coarse=256,
        coarse_solver="pinv",
    )


def conjugate_gradients(a, b, preconditioner, tolerance):
    iterations = 0

    def count(_):
        nonlocal iterations
        iterations += 1

    x, failure = linalg.cg(a, b, rtol=tolerance, M=preconditioner, callback=count, maxiter=1000)
    assert failure == 0, "PyAMG does not converge"
    return x, iterations


def compare(command, device, generator):
    """A row of the table, and whether it is as it should be."""
    with tempfile.TemporaryDirectory() as folder:
        matrix, solution = pathlib.Path(folder) / "a.mtx", pathlib.Path(folder) / "x.mtx"

        def solve(tolerance, *more):
            arguments = ["solve", f"gen:{generator}", "--precond", "amg", "--method", "cg", "--tol", str(tolerance), "--json", *more]
            process = subprocess.run([command, *arguments, "--device", device], check=True, capture_output=True, text=True)
            return json.loads(process.stdout)

        report = solve(1e-8)
        solve(1e-9, "--x-out", solution)
        x = np.asarray(scipy.io.mmread(solution)).ravel()
        subprocess.run([command, "convert", f"gen:{generator}", matrix], check=True, capture_output=True)
        a = sp.csr_matrix(scipy.io.mmread(matrix))
    b = np.ones(a.shape[0])
    others, cells = [], []
    for is_filtered in (True, False):
        levels = hierarchy(a, generator, is_filtered)
        preconditioner = levels.aspreconditioner(cycle="V")
        others.append(conjugate_gradients(a, b, preconditioner, 1e-8)[1])
        cells.append(f"{others[-1]} ({levels.operator_complexity():.2f})")
    if a.shape[0] <= DIRECT:
        reference, expected = "spsolve", linalg.spsolve(a.tocsc(), b, permc_spec="MMD_AT_PLUS_A")
    else:
        reference, expected = "PyAMG", conjugate_gradients(a, b, preconditioner, 1e-9)[0]
    distance = np.linalg.norm(x - expected) / np.linalg.norm(expected)
    iterations, complexity = report["iterations"], report["setup"]["operator_complexity"]
    unknowns = f"{a.shape[0]:,}".replace(",", " ")
    row = [generator, unknowns, f"{iterations} ({complexity:.2f})", *cells, f"{distance:.1e}", reference]
    return row, iterations <= 1.25 * others[0] and distance <= 1e-7


def main():
    command, device, *generators = (sys.argv[1:] + ["cpu"])[: max(2, len(sys.argv) - 1)]
    print("| system | unknowns | iterations (complexity) | PyAMG | all entries | distance | from |\n|:--|--:|--:|--:|--:|--:|:--|")
    failures = 0
    for generator in generators or GENERATORS:
        row, is_right = compare(command, device, generator)
        failures += not is_right
        print(f"| {' | '.join(map(str, row))} |{'' if is_right else ' too far'}", flush=True)
    sys.exit(bool(failures))


main()
