#!/usr/bin/env python3
"""The tables of the two README.md, this folder's and the project's, as Markdown, from the report of `warpsparse-bench all`:

    python3 docs/performance/readme_tables.py docs/performance/report.json.xz
"""

import json
import lzma
import math
import sys

NAMES = {
    "poisson2d:2048": "5-point stencil, 2048²",
    "poisson3d:160": "7-point stencil, 160³",
    "stencil27:100": "27-point stencil, 100³",
    "fem3:200000": "3-dof FEM band, 600 000 rows",
    "uniform:1048576:16": "uniform random, 16 a row",
    "rmat:20:16": "R-MAT, scale 20, longest row 39 669",
    "rmat:17:8": "R-MAT, scale 17, longest row 6142",
    "uniform:4267:472": "uniform random, 4267 rows of 472",
    "fem3:10000": "FEM band, 30 000 unknowns, 1.25 M entries",
    "poisson2d:256": "5-point stencil, 256²",
}
OPERATIONS = {
    "spmv": "sparse matrix times vector",
    "spmm": "sparse times dense",
    "graphs": "sparse times dense, stand-ins for published graphs",
    "gemm": "dense times dense",
    "cg": "conjugate gradients",
}
DTYPES = ("f32", "f64")


def table(header, rows):
    print("| " + " | ".join(header) + " |")
    print("|" + "|".join(":--" if place == 0 else "--:" for place in range(len(header))) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def short(figure):
    return f"{figure:.2f}" if figure < 9.995 else f"{figure:.1f}" if figure < 99.95 else f"{figure:.0f}"


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def median(timed):
    return timed["time_us"]["median"]


def label(result):
    # The n of a dense product is one of its sizes.
    columns = f", n = {result['n']}" if "n" in result and "m" not in result else ""
    name = result.get("name") or result["operation"]
    return NAMES.get(name, name) + columns


def baselines(kind, result):
    """Name, ratio and ratio of host call times of each other library."""
    if kind == "cg":
        rungs = {rung["rung"]: rung for rung in result["rungs"] if "time_us" in rung}
        if {"automatic", "captured in a graph"} <= set(rungs):
            ratio = median(rungs["captured in a graph"]) / median(rungs["automatic"])
            yield "cuSPARSE and cuBLAS in a graph, wall time", ratio, ratio
        return
    for baseline in result["baselines"]:
        calls = ", host call time" if baseline["clock"] == "calls" else ""
        yield baseline["name"] + calls, baseline["ratio"], baseline["call_ratio"]


class Report:
    def __init__(self, report):
        self.report = report
        self.results = {}
        for section in report["sections"]:
            if section["report"]:
                kind = section["report"]["schema"].rsplit(".", 1)[1]
                self.results.setdefault(kind, []).extend(section["report"]["results"])

    def of(self, kind, dtype=None):
        """Each case once, though two sections may have measured it."""
        seen = {}
        for result in self.results.get(kind, []):
            if dtype in (None, result.get("dtype")):
                seen.setdefault((result.get("dtype"), label(result)), result)
        return list(seen.values())

    def duels(self):
        duels = {}
        for kind, operation in OPERATIONS.items():
            for dtype in DTYPES:
                for result in self.of(kind, dtype):
                    for name, ratio, calls in baselines(kind, result):
                        duels.setdefault((operation, dtype, name), []).append((ratio, calls, label(result)))
        return duels


def headline(report):
    duels = report.duels()
    lost = [(ratio, where, key) for key, cases in duels.items() for ratio, _, where in cases if ratio < 1.0]
    print(f"Slower than another library in {len(lost)} of {sum(map(len, duels.values()))} cases", end="")
    print(":\n" if lost else ".\n")
    for ratio, where, (operation, dtype, name) in sorted(lost):
        print(f"- {ratio:.3f} {operation}, `{dtype}`, {where}, against {name}")
    print()
    rows = []
    for (operation, dtype, name), cases in duels.items():
        slower = sum(ratio < 1.0 for ratio, _, _ in cases)
        on = f"{slower} of {len(cases)}"
        speedup, lowest = mean([ratio for ratio, _, _ in cases]), min(cases)[0]
        calls = mean([calls for _, calls, _ in cases])
        cells = [f"{speedup:.2f}", f"{lowest:.2f}", f"**{on}**" if slower else on, f"{calls:.2f}"]
        rows.append([f"{operation}, `{dtype}`", name] + cells)
    table(["operation", "against", "speedup", "lowest", "slower on", "by host call time"], rows)


def baseline_of(result, name):
    return next((baseline for baseline in result["baselines"] if baseline["name"] == name), None) if result else None


def spmv(report, library):
    by_dtype = {dtype: {result["name"]: result for result in report.of("spmv", dtype)} for dtype in DTYPES}
    names = [result["name"] for result in report.of("spmv", "f32")]
    rows = []
    for name in names:
        row = [NAMES.get(name, name)]
        for dtype in DTYPES:
            result = by_dtype[dtype].get(name)
            baseline = baseline_of(result, library)
            formats = {it["format"]: it["ratio"] for it in baseline["formats"]} if baseline else {}
            row += [f"{result['chosen']['gb_per_s']:.0f}" if result else "–", f"{baseline['ratio']:.2f}" if baseline else "–"]
            row += [f"{formats[it]:.2f}" if it in formats else "–" for it in ("CSR", "COO")]
        rows.append(row)
    of_dtype = lambda dtype: [f"{dtype}, GB/s", "speedup", "over its CSR", "over its COO"]
    table(["matrix"] + of_dtype("f32") + of_dtype("f64"), rows)


def spmm(report, library):
    for dtype in DTYPES:
        results = report.of("spmm", dtype)
        widths = sorted({result["n"] for result in results})
        names = list(dict.fromkeys(result["name"] for result in results))
        ratios = {}
        for result in results:
            baseline = baseline_of(result, library)
            if baseline:
                ratios[result["name"], result["n"]] = f"{baseline['ratio']:.2f}"
        rows = [[NAMES.get(name, name)] + [ratios.get((name, width), "–") for width in widths] for name in names]
        if rows:
            table([f"speedup, {dtype}"] + [str(width) for width in widths], rows)


def gemm(report, library):
    by_dtype = {dtype: {result["name"]: result for result in report.of("gemm", dtype)} for dtype in DTYPES}
    rows = []
    for name in by_dtype["f32"]:
        row = [name]
        for dtype in DTYPES:
            result = by_dtype[dtype].get(name)
            baseline = baseline_of(result, library)
            row.append(f"{result['kernels'][-1]['tflop_per_s']:.1f}" if result else "–")
            row += [f"{baseline[key]:.3f}" if baseline else "–" for key in ("ratio", "call_ratio")]
        rows.append(row)
    of_dtype = lambda dtype: [f"{dtype}, TFLOP/s", "speedup", "by host call time"]
    table(["shape"] + of_dtype("f32") + of_dtype("f64"), rows)


def cg(report):
    rows = []
    for result in report.of("cg"):
        us = {rung["rung"]: short(median(rung)) for rung in result["rungs"] if "time_us" in rung}
        ours = us.get("automatic", us.get("CPU", "–"))
        cells = [ours, us.get("captured in a graph", "–"), us.get("sample style", "–")]
        rows.append([NAMES.get(result["name"], result["name"]), result["dtype"]] + cells)
    table(["system", "", "ours", "libraries, in a graph", "as the sample"], rows)


def clock(report):
    time = lambda us: "–" if us is None else f"{us:.2f}"
    rows = []
    for result in report.of("clock"):
        ours, theirs = result["ours"], result["cublas"]
        ratios = [median(theirs) / median(ours)]
        if ours["ncu_us"] and theirs["ncu_us"]:
            ratios.append(theirs["ncu_us"] / ours["ncu_us"])
        cells = [time(median(ours)), time(ours["ncu_us"]), time(median(theirs)), time(theirs["ncu_us"])]
        ratios = [f"{ratio:.3f}" for ratio in ratios] + ["–"] * (2 - len(ratios))
        rows.append([result["name"]] + cells + ratios)
    table(["shape", "ours, µs", "by ncu", "cuBLAS, µs", "by ncu", "ratio", "by ncu"], rows)


def first_use(report):
    for result in report.of("first-use"):
        if result["operation"] == "spmv":
            cold, warm = result["cold"], result["warm"]
            own = cold["operation_us"]["median"] / 1e3
            driver = (cold["driver_us"]["median"] + cold["device_us"]["median"]) / 1e3
            print(f"First `spmv`: {median(cold) / 1e3:.0f} ms cold, {median(warm) / 1e3:.0f} ms warm; ", end="")
            print(f"{own:.1f} ms ours, {driver:.0f} ms the driver's start and context", end="")
            print(f"; from PTX {median(result['ptx']) / 1e3:.0f} ms.\n" if result["ptx"] else ".\n")


def main():
    [path] = sys.argv[1:] or ["docs/performance/report.json.xz"]
    with (lzma.open if path.endswith(".xz") else open)(path, "rt", encoding="utf-8") as file:
        raw = json.load(file)
    report = Report(raw)
    machine = raw["machine"]
    driver = (raw["gpu"] or {}).get("driver", "no driver")
    print(f"{machine['model']}, driver {driver}, {raw['date']}, commit {raw['commit']}; ", end="")
    print(f"a copy moves {machine['copy_gb_per_s']:.0f} GB/s.\n")
    of = lambda kind: {baseline["name"] for result in report.of(kind) for baseline in result["baselines"]}
    # On a GPU NVIDIA's libraries.
    sparse = "cuSPARSE" if "cuSPARSE" in of("spmv") | of("spmm") else "sprs"
    sections = [
        ("Against other libraries", lambda: headline(report)),
        (f"Sparse matrix times vector, against {sparse}", lambda: spmv(report, sparse)),
        (f"Sparse times dense, against {sparse}", lambda: spmm(report, sparse)),
        ("Dense times dense, against cuBLAS", lambda: gemm(report, "cuBLAS")),
        ("Conjugate gradients, µs an iteration", lambda: cg(report)),
        ("The clock checked by NVIDIA's profiler", lambda: clock(report)),
        ("First use", lambda: first_use(report)),
    ]
    for title, section in sections:
        print(f"## {title}\n")
        section()


if __name__ == "__main__":
    main()
