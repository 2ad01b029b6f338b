// Around the loop: kernel values, what a warp or a block does together, stored points.

// From products x.z to kernel values; in blockIdx.y the learners (or kernels) side by side.  Distances of points that are close
// to each other but far from the origin lose their digits in |x|^2 + |z|^2 - 2 x.z and are taken again, from differences.
extern "C" __global__ void finish(real* out, const real* in, wide in_stride, const real* X, const real* xn, const real* Z,
                                  const real* zn, int z_stride, const double* kernels, const int* which, int rows, int points,
                                  int d, int same)
{
    const int l = blockIdx.y, lane = threadIdx.x & 31;
    const wide total = (wide)rows * points, here = (wide)blockIdx.x * blockDim.x + threadIdx.x;
    const wide at = here < total ? here : total - 1;
    const int i = (int)(at / rows), t = (int)(at - (wide)i * rows);
    const double* kernel = kernels + 4 * which[l];
    Z += (wide)l * z_stride * d;
    zn += (wide)l * z_stride;
    real v = in[l * in_stride + at];
    if (of_distance(kernel)) {
        const real both = xn[t] + zn[i];
        v = both - (v + v);
        unsigned lost = __ballot_sync(ALL, v < (real)SHARE * both && !(same && i == t));
        v = v > 0 ? v : 0;
        while (lost) {
            const int who = __ffs(lost) - 1, p = __shfl_sync(ALL, i, who), q = __shfl_sync(ALL, t, who);
            lost &= lost - 1;
            real sum = 0;
            for (int c = lane; c < d; c += 32) {
                const real gap = X[(wide)q * d + c] - Z[(wide)p * d + c];
                sum += gap * gap;
            }
            for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(ALL, sum, o);
            if (lane == who) v = sum;
        }
    }
    if (here < total) out[l * total + at] = transform(kernel, v);
}

// Labels compete in the type of the kernel values; only Softmax needs more.
#if SOFTMAX
typedef double digit;
#else
typedef real digit;
#endif

// --- extremes of a warp ---------------------------------------------------------------------------------------------------------

__device__ __forceinline__ unsigned lowest(unsigned v)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(ALL, v);
#else
    for (int o = 16; o; o >>= 1) v = min(v, __shfl_xor_sync(ALL, v, o));
    return v;
#endif
}

// Of the lanes with a candidate (label >= 0) the label of the largest value, the lowest label on ties; -1 where there is none.
// Compared are the bits, as unsigned numbers that fall as the values rise; the sign of zero does not count.
__device__ __forceinline__ int label_of_largest(float v, int label)
{
    const unsigned bits = __float_as_uint(v + 0.f), down = label < 0 ? ~0u : bits >> 31 ? bits : ~(bits | 1u << 31);
    const unsigned top = lowest(down), first = __ballot_sync(ALL, label >= 0 && down == top);
    if (PER == 1) return first ? __ffs(first) - 1 : -1;
    return (int)lowest(label >= 0 && down == top ? (unsigned)label : FREE);
}
__device__ __forceinline__ int label_of_largest(double v, int label)
{
    const unsigned long long bits = (unsigned long long)__double_as_longlong(v + 0.0);
    const unsigned long long down = label < 0 ? ~0ull : bits >> 63 ? bits : ~(bits | 1ull << 63);
    const unsigned high = (unsigned)(down >> 32), low = (unsigned)down, top = lowest(high);
    const unsigned next = lowest(high == top ? low : FREE);
    return (int)lowest(label >= 0 && high == top && low == next ? (unsigned)label : FREE);
}

// The lanes that hold the least of numbers that are not negative.
__device__ __forceinline__ unsigned holders_of_least(float v)
{
    const unsigned bits = __float_as_uint(v);
    return __ballot_sync(ALL, bits == lowest(bits));
}
__device__ __forceinline__ unsigned holders_of_least(double v)
{
    const unsigned long long bits = (unsigned long long)__double_as_longlong(v);
    const unsigned high = (unsigned)(bits >> 32), low = (unsigned)bits, top = lowest(high), next = lowest(high == top ? low : FREE);
    return __ballot_sync(ALL, high == top && low == next);
}

// Slots 0 .. n by magnitude, the oldest first among equals: a bitonic network over the next power of two.
__device__ void sort_slots(int* order, int n, const real* mag, const unsigned* rank)
{
    int size = 1;
    while (size < n) size *= 2;
    for (int i = threadIdx.x; i < size; i += blockDim.x) order[i] = i;
    __syncthreads();
    for (int k = 2; k <= size; k *= 2)
        for (int j = k / 2; j; j /= 2) {
            for (int p = threadIdx.x; p < size / 2; p += blockDim.x) {
                const int i = 2 * p - (p & (j - 1)), up = (i & k) == 0, a = order[up ? i : i + j], b = order[up ? i + j : i];
                if (b < n && (a >= n || mag[b] < mag[a] || (mag[b] == mag[a] && rank[b] < rank[a]))) {
                    order[up ? i : i + j] = b;
                    order[up ? i + j : i] = a;
                }
            }
            __syncthreads();
        }
}

// What the lane that has the label holds for it.
__device__ __forceinline__ digit of_label(const digit (&v)[PER], int label)
{
    digit found = 0;
    #pragma unroll
    for (int k = 0; k < PER; k++) {
        const digit here = __shfl_sync(ALL, v[k], label & 31);
        if (label >> 5 == k) found = here;
    }
    return found;
}

struct __align__(2 * sizeof(real)) Pair { real came, went; };        // coefficients that came and went, of one label
// What the decision asks of each example: gain is 1 / (k(x, x) + what an offset adds), or zero.
struct Pace { double y, weight, eta, shrink, grow, self, cap; digit slack, shrunk; };
// What the first warp has decided, what the second has found, and how their last window ended.
struct Board {
    double size, factor;
    int t, gone, order, n, head, used, events, poison;
    real mag;
    unsigned changed[PER];
};

__device__ __forceinline__ void arrive(int barrier)
{
    __syncwarp();
    asm volatile("bar.arrive %0, %1;" :: "r"(barrier), "r"(barrier == GO ? 96 : 64) : "memory");
}
__device__ __forceinline__ void await(int barrier)
{
    __syncwarp();
    asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(barrier == GO ? 96 : 64) : "memory");
}

// The parts of shared memory, each from a multiple of 16 bytes on, as group.py counts them.
template <typename T> __device__ __forceinline__ T* take(char*& top, wide many)
{
    T* part = (T*)top;
    top += (many * sizeof(T) + 15) / 16 * 16;
    return part;
}

// The points that were stored go to their slots.
extern "C" __global__ void settle(const int* sources, const real* X, const real* xn, real* points, real* norms, int room, int d)
{
    const wide slot = (wide)blockIdx.y * room + blockIdx.x;
    const int from = sources[slot];
    if (from < 0) return;
    for (int c = threadIdx.x; c < d; c += blockDim.x) points[slot * d + c] = X[(wide)from * d + c];
    if (threadIdx.x == 0) norms[slot] = xn[from];
}
