// Times of CUB's device-wide scans and radix sorts, to compare with warpsparse's.
//
//     nvcc -O3 -std=c++17 -arch=native -o sort sort.cu && ./sort
//
// Prints `operation,type,n,microseconds`: the median of 30 launches of a CUDA graph, each between two events. Temporary memory is allocated
// beforehand. Sorts start from the same random keys each time and write to other arrays, so that every launch does the same work.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cub/cub.cuh>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t status = (call);                                                               \
        if (status != cudaSuccess) {                                                               \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status));   \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

constexpr int LAUNCHES = 30;

// Random bits: splitmix64 of the index.
template <typename T>
__global__ void fill(T *values, size_t n) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
        uint64_t z = (i + 1) * 0x9e3779b97f4a7c15ull;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        values[i] = T((z ^ (z >> 31)) >> (64 - 8 * (sizeof(T) < 8 ? sizeof(T) : 8)));
    }
}

template <typename T>
struct Array {
    T *at = nullptr;
    explicit Array(size_t n) { CHECK(cudaMalloc(&at, n * sizeof(T))); }
    Array(const Array &) = delete;
    ~Array() { cudaFree(at); }
};

// `operation(temporary, bytes, stream)` is a call of CUB.
template <typename Operation>
void time_of(const char *name, const char *type, size_t n, Operation operation) {
    size_t bytes = 0;
    CHECK(operation(nullptr, bytes, nullptr));
    Array<char> temporary(std::max<size_t>(bytes, 1));
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    // Loads the kernels, which a capture must not.
    CHECK(operation(temporary.at, bytes, stream));
    CHECK(cudaStreamSynchronize(stream));
    cudaGraph_t graph;
    cudaGraphExec_t launch;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(operation(temporary.at, bytes, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&launch, graph, 0));
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    std::vector<float> times;
    for (int i = 0; i < LAUNCHES + 3; ++i) {
        CHECK(cudaEventRecord(begin, stream));
        CHECK(cudaGraphLaunch(launch, stream));
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaEventSynchronize(end));
        float milliseconds = 0;
        CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
        if (i >= 3) times.push_back(1000 * milliseconds);
    }
    std::sort(times.begin(), times.end());
    std::printf("%s,%s,%zu,%.2f\n", name, type, n, (times[LAUNCHES / 2 - 1] + times[LAUNCHES / 2]) / 2);
    std::fflush(stdout);
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaGraphExecDestroy(launch));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

template <typename T>
void scans(const char *type, size_t n) {
    Array<T> x(n), y(n);
    fill<<<1024, 256>>>(x.at, n);
    CHECK(cudaDeviceSynchronize());
    time_of("exclusive_scan", type, n, [&](void *temporary, size_t &bytes, cudaStream_t stream) {
        return cub::DeviceScan::ExclusiveSum(temporary, bytes, x.at, y.at, n, stream);
    });
    time_of("copy", type, n, [&](void *, size_t &bytes, cudaStream_t stream) {
        bytes = 1;
        return stream == nullptr ? cudaSuccess
                                 : cudaMemcpyAsync(y.at, x.at, n * sizeof(T), cudaMemcpyDeviceToDevice, stream);
    });
}

template <typename K>
void keys(const char *type, size_t n) {
    Array<K> x(n), y(n);
    fill<<<1024, 256>>>(x.at, n);
    CHECK(cudaDeviceSynchronize());
    time_of("sort", type, n, [&](void *temporary, size_t &bytes, cudaStream_t stream) {
        return cub::DeviceRadixSort::SortKeys(temporary, bytes, x.at, y.at, n, 0, int(8 * sizeof(K)), stream);
    });
}

template <typename K, typename V>
void pairs(const char *type, size_t n) {
    Array<K> x(n), y(n);
    Array<V> v(n), w(n);
    fill<<<1024, 256>>>(x.at, n);
    fill<<<1024, 256>>>(v.at, n);
    CHECK(cudaDeviceSynchronize());
    time_of("sort_pairs", type, n, [&](void *temporary, size_t &bytes, cudaStream_t stream) {
        return cub::DeviceRadixSort::SortPairs(temporary, bytes, x.at, y.at, v.at, w.at, n, 0, int(8 * sizeof(K)), stream);
    });
}

int main() {
    std::printf("operation,type,n,microseconds\n");
    for (int power = 20; power <= 28; ++power) {
        size_t n = size_t(1) << power;
        scans<uint32_t>("u32", n);
        scans<uint64_t>("u64", n);
        scans<float>("f32", n);
        scans<double>("f64", n);
        keys<uint32_t>("u32", n);
        keys<uint64_t>("u64", n);
        pairs<uint32_t, uint32_t>("u32_u32", n);
        pairs<uint32_t, uint64_t>("u32_u64", n);
        pairs<uint64_t, uint32_t>("u64_u32", n);
        pairs<uint64_t, uint64_t>("u64_u64", n);
    }
}
