// Numbers, and what the formulas of losses and kernels are made of; code.py writes those formulas behind this.

typedef REAL real;
typedef long long wide;

#define ALL 0xffffffffu
#define CHUNK 8                                      // comings and goings that a thread takes to its examples at a time
#define FREE 0xffffffffu                             // the rank of a slot without a point
#define INF __longlong_as_double(0x7ff0000000000000LL)

enum { ON, FOLD, STOP };
enum { GO = 1, DONE, FOUND };                              // barriers among the first three warps

__device__ __forceinline__ double clip(double v, double low, double high) { v = v > low ? v : low; return v < high ? v : high; }
__device__ __forceinline__ double sign(double v) { return v > 0.0 ? 1.0 : v < 0.0 ? -1.0 : 0.0; }
__device__ double sigmoid(double x)
{
    if (x >= 0.0) return 1.0 / (1.0 + exp(-x));
    const double e = exp(x);
    return e / (1.0 + e);
}

__device__ double logistic_root(double margin, double k, double cap)
{
    double low = 0.0, high = cap, s = cap * sigmoid(-margin);
    if (s <= 0.0 || k == 0.0) return s;
    s = s < high ? s : high;
    for (int i = 0; i < 100; i++) {
        const double p = sigmoid(-(margin + s * k)), gap = s - cap * p;
        if (gap > 0.0) high = s; else low = s;
        double next = s - gap / (1.0 + cap * k * p * (1.0 - p));
        if (!(low < next && next < high)) next = 0.5 * (low + high);
        if (fabs(next - s) <= 2e-16 * fabs(s)) return next;
        s = next;
    }
    return s;
}

__device__ __forceinline__ real power(real base, real degree)
{
    real v = base, power = base;
    for (int left = (int)degree - 1; left > 0;) {
        if (left & 1) v *= power;
        left >>= 1;
        if (left > 0) power *= power;
    }
    return v;
}
