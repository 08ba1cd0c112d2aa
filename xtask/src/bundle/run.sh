#!/bin/sh
# Runs the tests and measurements of this folder on a machine that has an NVIDIA driver and none of the sources.
#
#   ./run.sh tests      every test that runs on a device, on the GPU too; fails without a GPU
#   ./run.sh sanitize   the GPU tests under compute-sanitizer (from the CUDA toolkit): memcheck, racecheck
#   ./run.sh lanes      SpMV times for every number of lanes a row, f32 and f64
#   ./run.sh all        all of these
set -eu
cd "$(dirname "$0")"

tests() {
    for test in tests/*; do
        WARPSPARSE_REQUIRE_GPU=1 "$test"
    done
}

sanitize() {
    for tool in memcheck racecheck; do
        for test in tests/*; do
            echo "== $tool $test"
            # API errors are part of the tests: one asks for more memory than there is.
            WARPSPARSE_REQUIRE_GPU=1 compute-sanitizer --tool $tool --error-exitcode 9 --report-api-errors no \
                "$test" --test-threads 1 ::cuda
        done
    done
}

lanes() {
    for matrix in gen:poisson2d:2048 gen:stencil27:100 data/bcsstk16.mtx.gz gen:rmat:20:16; do
        for dtype in f32 f64; do
            ./warpsparse spmv $matrix --device cuda --dtype $dtype --lanes all
        done
    done
}

case "${1:-}" in
tests | sanitize | lanes) "$1" ;;
all) ./warpsparse info; tests; sanitize; lanes ;;
*) sed -n '2,8s/^# \{0,1\}//p' run.sh; exit 2 ;;
esac
