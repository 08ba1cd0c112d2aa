#!/usr/bin/env python3
"""Times the iterative methods of cupyx.scipy.sparse.linalg on the systems of `warpsparse-bench solvers`.

    cupyx_solvers.py [--repeat N] [--method NAME,...] [SYSTEM...]

A SYSTEM is convdiff2d:N:PECLET, convdiff3d:N:PECLET or a Matrix Market file, for instance one that `warpsparse convert` has written. Prints a Markdown table like that of the
benchmark, in float64: the time of an iteration is the difference between solutions of 60 and of 180 iterations without a tolerance, over the 120; that of a whole solution goes to a
relative residual of 1e-8, in at most 2000 iterations. Times are wall times until the device is idle, medians after a warm-up. Right-hand sides are random, but not those of the
benchmark. Methods that the installed version lacks are named and skipped. Needs CuPy and SciPy.
"""

import argparse
import inspect
import statistics
import sys
import time

import cupy as cp
import cupyx.scipy.sparse as gpu_sparse
import cupyx.scipy.sparse.linalg as linalg
import numpy as np
import scipy.io
import scipy.sparse as sp

SYSTEMS = ["convdiff2d:256:10", "convdiff3d:44:10", "convdiff3d:64:10", "convdiff2d:2048:10"]
METHODS = ["cg", "cgs", "bicgstab", "gmres", "minres", "lsmr"]
ITERATIONS = (60, 180)
TOLERANCE = 1e-8
MAX_ITERATIONS = 2000


def convection(dimensions, n, peclet):
    """Upwind differences: 1 + peclet from the neighbours before a point, 1 from those after it."""
    line = sp.diags([-(1 + peclet), 2 + peclet, -1], [-1, 0, 1], shape=(n, n), format="csr")
    total = line
    for _ in range(dimensions - 1):
        total = sp.kronsum(line, total, format="csr")
    return total


def system(text):
    kind, *numbers = text.split(":")
    if kind in ("convdiff2d", "convdiff3d"):
        return convection(int(kind[-2]), int(numbers[0]), float(numbers[1]))
    return sp.csr_matrix(scipy.io.mmread(text))


class Solver:
    def __init__(self, name, a, b):
        self.function, self.name, self.a, self.b = getattr(linalg, name), name, a, b
        self.parameters = inspect.signature(self.function).parameters

    def solve(self, tolerance, iterations, callback=None):
        options = {"maxiter": iterations}
        if self.name == "lsmr":
            options |= {"atol": 0.0, "btol": tolerance, "conlim": 0.0}
        else:
            options["rtol" if "rtol" in self.parameters else "tol"] = tolerance
        if self.name == "gmres":
            options["restart"] = 30
        if callback and "callback" in self.parameters:
            options["callback"] = callback
            if "callback_type" in self.parameters:
                options["callback_type"] = "pr_norm"
        return self.function(self.a, self.b, **options)

    def seconds(self, repeats, tolerance, iterations):
        times = []
        for _ in range(repeats + 1):
            cp.cuda.Device().synchronize()
            begin = time.perf_counter()
            result = self.solve(tolerance, iterations)
            cp.cuda.Device().synchronize()
            times.append(time.perf_counter() - begin)
        return statistics.median(times[1:]), result[0]

    def iterations(self):
        """Of a whole solution, in a run of its own that is not timed."""
        if self.name == "lsmr":
            return int(self.solve(TOLERANCE, MAX_ITERATIONS)[2])
        if "callback" not in self.parameters:
            return None
        count = 0

        def callback(_):
            nonlocal count
            count += 1

        self.solve(TOLERANCE, MAX_ITERATIONS, callback)
        return count

    def row(self, repeats):
        few, many = (self.seconds(repeats, 0.0, iterations)[0] for iterations in ITERATIONS)
        iteration = (many - few) / (ITERATIONS[1] - ITERATIONS[0])
        whole, x = self.seconds(repeats, TOLERANCE, MAX_ITERATIONS)
        residual = float(cp.linalg.norm(self.b - self.a @ x) / cp.linalg.norm(self.b))
        count = self.iterations()
        solution = f"{1e3 * whole:.2f}" if residual <= 1.02 * TOLERANCE else "-"
        return [f"{1e6 * iteration:.1f}", "-" if count is None else str(count), solution, f"{residual:.1e}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--method", default=",".join(METHODS))
    parser.add_argument("systems", nargs="*", default=SYSTEMS)
    options = parser.parse_args()
    names = []
    for name in options.method.split(","):
        if hasattr(linalg, name):
            names.append(name)
        else:
            print(f"skipped {name}: CuPy {cp.__version__} does not have it", file=sys.stderr)
    print(f"{cp.cuda.runtime.getDeviceProperties(0)['name'].decode()}, CuPy {cp.__version__}\n")
    print("| system | unknowns | method | iteration, us | iterations | solution, ms | residual |")
    print("|:--|--:|:--|--:|--:|--:|--:|")
    for text in options.systems:
        matrix = system(text)
        a = gpu_sparse.csr_matrix(matrix)
        b = cp.asarray(np.random.default_rng(1).uniform(-1, 1, matrix.shape[0]))
        is_symmetric = abs(matrix - matrix.T).max() == 0
        for name in names:
            if name in ("cg", "minres") and not is_symmetric:
                continue
            label = "gmres(30)" if name == "gmres" else name
            try:
                row = Solver(name, a, b).row(options.repeat)
            except Exception as error:  # A method that fails on one system does not end the others.
                print(f"skipped {text}, {label}: {error}", file=sys.stderr)
                continue
            print(f"| {text} | {matrix.shape[0]} | {label} | {' | '.join(row)} |", flush=True)


main()
