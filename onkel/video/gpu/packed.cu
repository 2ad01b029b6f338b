// The paper's rules for `uint8` frames. Set when it is compiled: SLOTS, CHANNELS.
// A slot is a colour and a coefficient of 12 bits. Sectors of 32 bytes, the unit of memory traffic, hold PER slots of ONE pixel:
// state[sector][pixel][8 words]. A pixel that learns then writes one sector, whichever slot it takes.
#if CHANNELS == 3
#define PER 7   // words 0..6: a colour and the upper 8 bits of its coefficient; word 7: the lower 4 bits of all seven
#else
#define PER 10  // words 0..4: two coefficients each; words 5..7: a colour in every byte
#endif
#define SECTORS ((SLOTS + PER - 1) / PER)
#define TOP 4095u
#define ONE 0x3f800000u    // the float 1; a coefficient u goes into the digits behind it: 1 + u / 4096, no conversion needed
#define WHOLE 0x4b000000u  // the float 2^23; added to an integer below 2^23 it makes the float 2^23 + that integer
typedef unsigned long long wide;

struct Sector { unsigned w[8]; };

__device__ __forceinline__ Sector load(const unsigned* at)
{
    Sector v;
    *(uint4*)v.w = ((const uint4*)at)[0];
    *(uint4*)(v.w + 4) = ((const uint4*)at)[1];
    return v;
}

__device__ __forceinline__ unsigned moved(unsigned v, int left) { return left >= 0 ? v << left : v >> -left; }

__device__ __forceinline__ unsigned colour(const Sector& v, int j)
{
    return CHANNELS == 3 ? v.w[j] & 0xffffff : v.w[5 + (j >> 2)] >> 8 * (j & 3) & 255;
}

__device__ __forceinline__ unsigned behind_one(const Sector& v, int j)   // bits of the float 1 + u / 4096
{
    if (CHANNELS == 3) return ONE | v.w[j] >> 9 & 0x7f8000 | moved(v.w[7], 11 - 4 * j) & 0x7800;
    return ONE | (j & 1 ? v.w[j >> 1] >> 5 : v.w[j >> 1] << 11) & 0x7ff800;
}

// `last` is word 7 of the sector as it stands
__device__ __forceinline__ void store(unsigned* at, int j, unsigned x, unsigned u, unsigned last)
{
    if (CHANNELS == 3) {
        at[j] = x | u >> 4 << 24;
        at[7] = last & ~(15u << 4 * j) | (u & 15) << 4 * j;
    } else {
        ((unsigned short*)at)[j] = (unsigned short)u;
        ((unsigned char*)at)[20 + j] = (unsigned char)x;
    }
}

__device__ __forceinline__ float exp2_fast(float z) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(z)); return y; }

// pixels first .. first + count of `total`; unit is the worth of a coefficient of 4096
extern "C" __global__ __launch_bounds__(256)
void exact_step(const unsigned char* __restrict__ frame, unsigned* __restrict__ state, float* __restrict__ scores,
                unsigned char* __restrict__ mask, wide first, wide count, wide total, float steep, float unit, float shrunk_unit,
                float grow, float cap, float rho, float threshold, int implicit, int learn)
{
    wide p = blockIdx.x * (wide)blockDim.x + threadIdx.x;
    if (p >= count) return;
    p += first;
    unsigned x = frame[CHANNELS * p], key = ~0u, last = 0;
    if (CHANNELS == 3) x |= frame[CHANNELS * p + 1] << 8 | frame[CHANNELS * p + 2] << 16;
    const float no_distance = -8388608.f * steep;
    float sum = 0.f;
#pragma unroll 4
    for (int k = 0; k < SECTORS; k++) {
        const Sector v = load(state + (k * total + p) * 8);
        const unsigned before = key;
#pragma unroll
        for (int j = 0; j < PER; j++) if (k * PER + j < SLOTS) {
            const unsigned c = behind_one(v, j), gap = __vabsdiffu4(colour(v, j), x), d = __dp4a(gap, gap, WHOLE);
            sum = fmaf(__uint_as_float(c) - 1.f, exp2_fast(fmaf(__uint_as_float(d), steep, no_distance)), sum);
            key = min(key, c | k * PER + j);   // its lowest 11 bits are free
        }
        last = key != before ? v.w[7] : last;
    }
    mask[p] = unit * sum < threshold ? 255 : 0;
    if (scores) scores[p] = unit * sum;
    if (!learn) return;
    const float a = implicit ? fminf(fmaxf(rho - shrunk_unit * sum, 0.f), cap) : (unit * sum < rho ? cap : 0.f);
    const unsigned u = min(__float2uint_rn(a * grow), TOP), s = key & 255, k = s / PER;
    if (u > 0 && u >= (key >> 11 & TOP)) store(state + (k * total + p) * 8, s - k * PER, x, u, last);
}

extern "C" __global__ void rescale(unsigned* state, wide sectors, float factor)
{
    wide i = blockIdx.x * (wide)blockDim.x + threadIdx.x;
    if (i >= sectors) return;
    Sector v = load(state + 8 * i);
    for (int j = 0; j < PER; j++) {
        const unsigned u = __float2uint_rn(4096.f * (__uint_as_float(behind_one(v, j)) - 1.f) * factor);
        store(v.w, j, colour(v, j), u, v.w[7]);
    }
    ((uint4*)state)[2 * i] = *(uint4*)v.w;
    ((uint4*)state)[2 * i + 1] = *(uint4*)(v.w + 4);
}

extern "C" __global__ void strongest(const unsigned* state, unsigned char* out, wide total)
{
    wide p = blockIdx.x * (wide)blockDim.x + threadIdx.x;
    if (p >= total) return;
    unsigned most = 0, best = 0;
    for (int k = 0; k < SECTORS; k++) {
        const Sector v = load(state + (k * total + p) * 8);
#pragma unroll
        for (int j = 0; j < PER; j++)
            if (k * PER + j < SLOTS && behind_one(v, j) > most) { most = behind_one(v, j); best = colour(v, j); }
    }
    for (int c = 0; c < CHANNELS; c++) out[CHANNELS * p + c] = (unsigned char)(best >> 8 * c);
}
