// The paper's rules for `float32` frames. Set when it is compiled: SLOTS, CHANNELS.
typedef unsigned long long wide;

// state[slot][channels, then the coefficient][pixel]; the arguments of packed.cu
extern "C" __global__ void exact_step(const float* frame, float* state, float* scores, unsigned char* mask, wide first, wide count,
                                      wide total, float steep, float unit, float shrunk_unit, float grow, float cap, float rho,
                                      float threshold, int implicit, int learn)
{
    wide p = blockIdx.x * (wide)blockDim.x + threadIdx.x;
    if (p >= count) return;
    p += first;
    state += p;
    float x[CHANNELS], sum = 0.f, least = 3e38f;
    int weakest = 0;
    for (int c = 0; c < CHANNELS; c++) x[c] = frame[CHANNELS * p + c];
#pragma unroll 4
    for (int s = 0; s < SLOTS; s++) {
        const float* slot = state + s * (CHANNELS + 1) * total;
        float a = slot[CHANNELS * total], d = 0.f;
        for (int c = 0; c < CHANNELS; c++) { float t = slot[c * total] - x[c]; d += t * t; }
        sum += a * exp2f(fmaxf(d * steep, -120.f));
        if (a < least) { least = a; weakest = s; }
    }
    mask[p] = unit * sum < threshold ? 255 : 0;
    if (scores) scores[p] = unit * sum;
    float a = grow * (implicit ? fminf(fmaxf(rho - shrunk_unit * sum, 0.f), cap) : (unit * sum < rho ? cap : 0.f));
    if (!learn || a <= 0.f || a < least) return;
    float* slot = state + weakest * (CHANNELS + 1) * total;
    slot[CHANNELS * total] = a;
    for (int c = 0; c < CHANNELS; c++) slot[c * total] = x[c];
}
