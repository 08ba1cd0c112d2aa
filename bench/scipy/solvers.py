#!/usr/bin/env python3
"""Compares methods and preconditioners of `warpsparse solve` with SciPy's direct solver.

    solvers.py COMMAND [DEVICE [FILE...]]

COMMAND is the program `warpsparse`, DEVICE what its --device takes (cpu), and each FILE a square matrix, .mtx, .mtx.gz or .mtx.xz, that is solved with the default options.
Prints a Markdown table. Right-hand sides are the sums of the rows, so that ones are a solution; the tolerance is 1e-8. The residual is computed by NumPy from x, relative to b,
and so is that of spsolve, which tells what f64 allows; the distance is that of the two solutions, relative in the 2-norm. Exit status 1 if a residual is above 1.01e-8. Needs
SciPy.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import scipy.io
import scipy.sparse as sp
import scipy.sparse.linalg as linalg

CONVECTION = [["bicgstab"], ["bicgstabl"], ["idr"], ["gmres"]]
PRECONDITIONERS = [
    ["jacobi"],
    ["chebyshev"],
    ["chebyshev", "--degree", "8"],
    ["fsai"],
    ["fsai", "--power", "2"],
    ["fsai", "--power", "3"],
    ["ilu"],
    ["amg"],
]

# A system, and options of `solve` to try.
CASES = [
    *[(f"gen:convdiff2d:512:{number}", [["--precond", "ilu", "--method", *method] for method in CONVECTION]) for number in ("0.1", "10", "1000")],
    ("gen:helmholtz2d:128:10", [[], ["--method", "minres", "--precond", "none"], ["--method", "gmres", "--precond", "ilu"]]),
    ("gen:stokes2d:32", [[], ["--method", "minres", "--precond", "none"], ["--method", "gmres", "--restart", "200", "--precond", "none"]]),
    ("gen:poisson2d:256", [["--method", "cg", "--precond", *preconditioner] for preconditioner in PRECONDITIONERS]),
]


class Case:
    """A matrix, its right-hand side and SciPy's solution."""

    def __init__(self, command, source, folder):
        self.command, self.source, self.folder = command, source, folder
        path = folder / "a.mtx"
        subprocess.run([command, "convert", source, path], check=True, capture_output=True)
        self.a = sp.csr_matrix(scipy.io.mmread(path))
        self.b = self.a @ np.ones(self.a.shape[0])
        self.expected = linalg.spsolve(self.a.tocsc(), self.b)

    def residual(self, x):
        return np.linalg.norm(self.b - self.a @ x) / np.linalg.norm(self.b)

    def row(self, device, options):
        """A row of the table, and whether it is as it should be."""
        solution = self.folder / "x.mtx"
        solution.unlink(missing_ok=True)
        arguments = ["solve", self.source, "--tol", "1e-8", "--rhs", "sums", "--device", device, "--json", "--x-out", solution, *options]
        process = subprocess.run([self.command, *arguments], capture_output=True, text=True)
        if process.returncode not in (0, 3):
            raise RuntimeError(process.stderr)
        report, x = json.loads(process.stdout), np.asarray(scipy.io.mmread(solution)).ravel()
        residual, distance = self.residual(x), np.linalg.norm(x - self.expected) / np.linalg.norm(self.expected)
        tried = "; ".join(f"{attempt['method']}, {attempt['preconditioner']}" for attempt in report["tried"])
        name = pathlib.Path(self.source).name.removeprefix("gen:")
        asked = " ".join(options) or "default"
        row = [name, f"{self.a.shape[0]:,}".replace(",", " "), asked, tried, report["iterations"], f"{residual:.1e}"]
        return [*row, f"{self.residual(self.expected):.1e}", f"{distance:.1e}"], residual <= 1.01e-8


def main():
    command, device, *files = (sys.argv[1:] + ["cpu"])[: max(2, len(sys.argv) - 1)]
    print("| system | unknowns | options | tried | iterations | residual | SciPy's | distance |\n|:--|--:|:--|:--|--:|--:|--:|--:|")
    failures = 0
    for source, tries in [*[(file, [[]]) for file in files], *CASES]:
        with tempfile.TemporaryDirectory() as folder:
            case = Case(command, source, pathlib.Path(folder))
            for options in tries:
                row, is_right = case.row(device, options)
                failures += not is_right
                print(f"| {' | '.join(map(str, row))} |{'' if is_right else ' too large'}", flush=True)
    sys.exit(bool(failures))


main()
