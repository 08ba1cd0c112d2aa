#!/bin/sh
# Runs the tests and measurements of this folder on a machine that has an NVIDIA driver and none of the sources.
#
#   ./run.sh tests      every test that runs on a device, on the GPU too; fails without a GPU
#   ./run.sh sanitize [TOOL [TEST...]]   the GPU tests under compute-sanitizer (from the CUDA toolkit), by default all of them
#                       under memcheck and racecheck, six tests a process: prints a line for each process, and keeps the logs in
#                       sanitized/. PROCESSES run at once (5), each for MINUTES at most (10) and, if LAUNCHES is set, over as many launches
#   ./run.sh planted    kernels with planted bugs, alone and under each tool of compute-sanitizer: prints a table of what
#                       is found, and writes all output to planted.log
#   ./run.sh lanes      SpMV times for every number of lanes a row, f32 and f64
#   ./run.sh bench      SpMV over many matrices against cuSPARSE, if the CUDA toolkit is there: bench.json, bench.html; in
#                       every format: formats.json, formats.md; SpMM: spmm.json, spmm.md; dense products beside
#                       cuBLAS, then a ladder of kernels for them: gemm.json, gemm_ladder.json, gemm.md; and
#                       conjugate gradients beside both libraries: cg.json, cg.md
#   ./run.sh graphs     a ladder of SpMM kernels on stand-ins for 13 published graphs against cuSPARSE: graphs.json, graphs.md
#   ./run.sh report     every benchmark in one run of nine minutes, on one page: report.html, report.json
#   ./run.sh examples   the examples of the library on the GPU; their pictures: heat.png, pagerank.svg, gcn.svg
#   ./run.sh all        all of these
set -eu
cd "$(dirname "$0")"

tests() {
    export LD_LIBRARY_PATH="/usr/local/cuda/lib64:${LD_LIBRARY_PATH:-}"
    for test in tests/*; do
        WARPSPARSE_REQUIRE_GPU=1 "$test"
    done
    # From PTX, as on GPUs for which there is no machine code.
    WARPSPARSE_PTX=1 WARPSPARSE_REQUIRE_GPU=1 tests/spmv_formats ::cuda
    WARPSPARSE_PTX=1 WARPSPARSE_REQUIRE_GPU=1 tests/cudarc ::cuda
}

sanitize() {
    rm -rf sanitized
    mkdir sanitized
    tools=${1:-memcheck racecheck}
    [ $# -eq 0 ] || shift
    [ $# -gt 0 ] || set -- tests/*
    for tool in $tools; do
        for test; do
            names "$test" $(unsanitized "$tool") ::cuda | split -l 6 -a 3 - "sanitized/$tool.$(basename "$test")."
        done
    done
    ls sanitized | xargs -P "${PROCESSES:-5}" -n 1 "$0" sanitize_some
}

# The tests whose names are in the file sanitized/TOOL.TEST.PART, in a process of their own.
sanitize_some() {
    list=sanitized/$1 tool=${1%%.*} test=${1#*.}
    test=tests/${test%.*}
    status=0
    # API errors are part of the tests: one asks for more memory than there is. Each launch takes long here, so property tests try
    # fewer cases.
    PROPTEST_CASES=4 WARPSPARSE_REQUIRE_GPU=1 timeout -k 5 "${MINUTES:-10}m" compute-sanitizer --tool "$tool" --error-exitcode 9 \
        --report-api-errors no ${LAUNCHES:+--launch-count "$LAUNCHES"} "$test" --test-threads 1 --exact \
        $(names "$test" | grep -vxFf "$list" | sed 's/^/--skip /') >"$list.log" 2>&1 || status=$?
    echo "status $status, $(grep -c ' \.\.\. ok$' "$list.log") of $(wc -l <"$list") tests passed, $(grep -o 'SUMMARY: .*' "$list.log" | head -n 1): $1"
    [ "$status" = 0 ]
}

# The names of a program's tests.
names() {
    program=$1
    shift
    "$program" --list "$@" | sed -n 's/: test$//p'
}

# What is left out of the runs above. Each kernel and each code path is in other tests, too.
unsanitized() {
    # The tools wait for each launch, so that no queue can be held back; repeated a hundred times, the same launches
    # find nothing new; the emulator, which others are compared with, would take its time.
    skipped="times_have_no_host same_input_same_bits emulated_bits a_stopped_solution_waits"
    # racecheck loses track of launches from several threads, and makes kernels that wait wait for minutes.
    if [ $1 = racecheck ]; then
        skipped="$skipped threads_share_a_queue sorts_of_several_threads errors_that_cudarc_keeps unified_memory reductions_take_turns callbacks_stop"
        # 2^27 rows take it longer than all other tests together.
        skipped="$skipped more_rows_than"
    fi
    for name in $skipped; do echo "--skip $name"; done
}

planted() {
    command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not in the PATH" >&2; exit 1; }
    bugs=$(./planted list)
    : >planted.log
    echo "| bug | plain run | memcheck | racecheck | initcheck | synccheck |"
    echo "|---|---|---|---|---|---|"
    for bug in $bugs; do
        record ./planted "$bug"
        case $status in
        0) row="ok" ;;
        3) row="error" ;;
        4) cat planted.last >&2; exit 1 ;;
        *) row="status $status" ;;
        esac
        if hung; then row="hang"; fi
        for tool in memcheck racecheck initcheck synccheck; do
            record compute-sanitizer --tool $tool --print-limit 3 ./planted "$bug"
            row="$row | $(first_problem)"
        done
        echo "| \`$bug\` | $row |"
    done
    rm planted.last
}

# Runs a command for a minute at most: $status is its exit status, and its output is in planted.last and planted.log.
record() {
    status=0
    timeout -k 5 60 "$@" >planted.last 2>&1 || status=$?
    { echo "== $*"; cat planted.last; echo "== status $status"; } >>planted.log
}

hung() {
    [ "$status" = 124 ] || [ "$status" = 137 ] || grep -q '^the kernel is still running' planted.last
}

# The first thing that compute-sanitizer reports in planted.last, in short; errors of API calls count only if there is
# nothing else, since they are what a fault looks like from outside.
first_problem() {
    problem=$(awk '
        !/^========= [^ ]/ { next }
        /COMPUTE-SANITIZER|SUMMARY|Target application|process didn.t terminate/ { next }
        /^========= Program hit / { if (api == "") api = $4; next }
        found == "" { found = substr($0, 11) }
        END { print found != "" ? found : api }
    ' planted.last | sed -e 's/^Error: //; s/^Warning: //; s/^Barrier error detected\. //' \
        -e 's/ between .*//; s/ at .*//; s/\.* *$//; s/|/ /g')
    if hung; then problem="${problem:+$problem; }hang"; fi
    echo "${problem:-–}"
}

lanes() {
    for matrix in gen:poisson2d:2048 gen:stencil27:100 data/bcsstk16.mtx.xz gen:rmat:20:16; do
        for dtype in f32 f64; do
            ./warpsparse spmv $matrix --device cuda --dtype $dtype --lanes all
        done
    done
}

bench() {
    export LD_LIBRARY_PATH="/usr/local/cuda/lib64:${LD_LIBRARY_PATH:-}"
    ./warpsparse-bench spmv --device cuda --json bench.json --html bench.html
    ./warpsparse-bench formats --device cuda --json formats.json >formats.md
    ./warpsparse-bench spmm --device cuda --json spmm.json >spmm.md
    ./warpsparse-bench gemm --device cuda --json gemm.json >gemm.md
    ./warpsparse-bench gemm --ladder --device cuda --json gemm_ladder.json >>gemm.md
    ./warpsparse-bench cg --device cuda --json cg.json >cg.md
    cat formats.md spmm.md gemm.md cg.md
}

report() {
    export LD_LIBRARY_PATH="/usr/local/cuda/lib64:${LD_LIBRARY_PATH:-}"
    # Nsight Compute, by which the clock is checked, may be among other versions.
    PATH="$PATH:/usr/local/cuda/bin" ./warpsparse-bench all --device cuda --html report.html --json report.json
}

graphs() {
    export LD_LIBRARY_PATH="/usr/local/cuda/lib64:${LD_LIBRARY_PATH:-}"
    ./warpsparse-bench graphs --device cuda --json graphs.json >graphs.md
    cat graphs.md
}

examples() {
    examples/heat cuda 256 heat.png
    examples/pagerank cuda data/NotreDame_www.mtx.xz pagerank.svg
    examples/gcn cuda data/cora.mtx.gz gcn.svg
    examples/interop cuda
    examples/own-kernel cuda
}

case "${1:-}" in
tests | sanitize | sanitize_some | planted | lanes | bench | graphs | report | examples) "$@" ;;
all) ./warpsparse info; tests; examples; report; sanitize; lanes; bench; graphs; planted ;;
*) sed -n '2,19s/^# \{0,1\}//p' run.sh; exit 2 ;;
esac
