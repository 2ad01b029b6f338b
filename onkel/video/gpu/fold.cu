// The default rule, the twin of cpu/fold.py and cpu/light.py. Set when it is compiled: SLOTS, CHANNELS, FLOATS (the frames' type),
// and from cpu/light.py SAMPLES, REACH, DARKEST, LIGHTEST, MILD.
#if FLOATS
typedef float pixel;
#define ROUNDING 0.f
#else
typedef unsigned char pixel;
#define ROUNDING 0.5f
#endif

// per camera: control = {theta, frames since the start or the last change of light, pixels in objects before that change, whether
// it lasts}; counts = {lonely, settled, explained}
extern "C" __global__ __launch_bounds__(256)
void fold_step(const pixel* frame, pixel* points, float* coef, const unsigned char* unrest,
               const unsigned char* previous, const float* control, float* scores, unsigned char* raw, long long padded,
               long long total, float steep, float scale, float shrink, float cap, float slow, float shades, float boost, float rho,
               float near_k, float move, float kappa, float floor_, int turn, long long blocks, int learn)
{
    long long p = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (p >= total) return;
    int camera = (int)(p / padded);
    float theta = control[4 * camera];
    float shade = shades * slow;
    slow = fminf(cap, fmaxf(slow, boost / fmaxf(1.f, control[4 * camera + 1])));
    shade = fminf(cap, fmaxf(shade, slow));
    float x[CHANNELS], f = 0.f, best = -1.f, weak = 3e38f;
    int nearest = 0, weakest = 0;
    for (int c = 0; c < CHANNELS; c++) x[c] = frame[p * CHANNELS + c];
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        float a = coef[s * total + p], d = 0.f;
        for (int c = 0; c < CHANNELS; c++) { float t = points[(s * CHANNELS + c) * total + p] - x[c]; d += t * t; }
        float k = exp2f(fmaxf(d * steep, -120.f));
        f += a * k;
        if (a < weak) { weak = a; weakest = s; }
        if (a > 0.f && k >= best) { best = k; nearest = s; }
    }
    float shown = scale * f;
    scores[p] = shown;
    raw[p] = shown * (1.f + kappa * unrest[p]) < theta ? 255 : 0;
    if (!learn) return;
    bool calm = previous[p] == 0;
    float a = fmaxf(fminf(rho - scale * shrink * f, calm ? cap : previous[p] == 254 ? shade : slow), 0.f) / (scale * shrink);
    if (best > near_k) {
        coef[nearest * total + p] += a;
        if (calm) for (int c = 0; c < CHANNELS; c++) {
            pixel* q = points + (nearest * CHANNELS + c) * total + p;
            *q = (pixel)(*q + move * (x[c] - *q) + ROUNDING);
        }
    } else if (a > 0.f) {
        if (a >= weak) {
            coef[weakest * total + p] = a;
            for (int c = 0; c < CHANNELS; c++) points[(weakest * CHANNELS + c) * total + p] = (pixel)x[c];
        } else coef[weakest * total + p] -= a;
    }
    long long block = (p % padded) / 64;
    if (block >= blocks * turn / 64 && block < blocks * (turn + 1) / 64)
        for (int s = 0; s < SLOTS; s++) if (coef[s * total + p] < floor_) coef[s * total + p] = 0.f;
}

__device__ float bright(const pixel* v) { float t = 8.f; for (int c = 0; c < CHANNELS; c++) t += v[c]; return t; }
__device__ float middle(float* v, int n)
{
    for (int i = 1; i < n; i++) { float t = v[i]; int j = i; while (j > 0 && v[j - 1] > t) { v[j] = v[j - 1]; j--; } v[j] = t; }
    return v[n / 2];
}

// `tiles` has room for two maps per camera; in a wide frame they do not fit in shared memory
extern "C" __global__ void light_map(const pixel* frame, const pixel* reference, float* gain, float* tiles, int* alarms,
                                     int* explained, int* known, int* counts, int height, int width, int rows, int cols,
                                     long long padded)
{
    int camera = blockIdx.x, n = rows * cols;
    float v[SAMPLES * SAMPLES], *across = (tiles += 2 * camera * n) + n;
    frame += camera * padded * CHANNELS; reference += camera * padded * CHANNELS; gain += camera * n;
    if (threadIdx.x < 3) counts[3 * camera + threadIdx.x] = 0;
    for (int t = threadIdx.x; t < n; t += blockDim.x) {
        alarms[camera * n + t] = explained[camera * n + t] = known[camera * n + t] = 0;
        int i = t / cols, j = t % cols, k = 0;
        for (int a = 0; a < SAMPLES; a++) for (int b = 0; b < SAMPLES; b++) {
            long long y = (long long)(2 * SAMPLES * i + 2 * a + 1) * height / (2 * SAMPLES * rows);
            long long p = y * width + (long long)(2 * SAMPLES * j + 2 * b + 1) * width / (2 * SAMPLES * cols);
            v[k++] = bright(frame + p * CHANNELS) / bright(reference + p * CHANNELS);
        }
        tiles[t] = middle(v, k);
    }
    __syncthreads();
    for (int t = threadIdx.x; t < n; t += blockDim.x) {
        int i = t / cols, j = t % cols, k = 0;
        for (int b = max(0, j - REACH); b < min(cols, j + REACH + 1); b++) v[k++] = tiles[i * cols + b];
        across[t] = middle(v, k);
    }
    __syncthreads();
    for (int t = threadIdx.x; t < n; t += blockDim.x) {
        int i = t / cols, j = t % cols, k = 0;
        for (int a = max(0, i - REACH); a < min(rows, i + REACH + 1); a++) v[k++] = across[a * cols + j];
        float g = middle(v, k);
        gain[t] = g > DARKEST && g < LIGHTEST ? g : 1.f;
    }
}

// how far a pixel is from the reference once its colour is divided by g
__device__ float unlike(const pixel* now, const pixel* then, float g)
{
    float d = 0.f;
    for (int c = 0; c < CHANNELS; c++) { float t = (now[c] + 4.f) / g - 4.f - then[c]; d += t * t; }
    return d;
}
__device__ float limit(float theta, float rho, float twice_variance) { return twice_variance * -logf(fminf(theta / rho, 0.99f)); }

extern "C" __global__ void explain(const pixel* frame, const pixel* reference, const unsigned char* previous,
                                   const float* gain, const float* control, unsigned char* raw, int* alarms, int* explained,
                                   int* known, int height, int width, int rows, int cols, long long padded,
                                   float twice_variance, float rho)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, camera = blockIdx.z;
    if (x >= width) return;
    long long p = camera * padded + (long long)y * width + x;
    if (raw[p] == 0 && previous[p] == 0) return;
    int tile = camera * rows * cols + (int)((long long)y * rows / height) * cols + (int)((long long)x * cols / width);
    if (previous[p]) atomicAdd(known + tile, 1);
    if (raw[p] == 0) return;
    atomicAdd(alarms + tile, 1);
    gain += camera * rows * cols;
    float v = fminf(fmaxf((y + 0.5f) * rows / height - 0.5f, 0.f), rows - 1.f);
    float u = fminf(fmaxf((x + 0.5f) * cols / width - 0.5f, 0.f), cols - 1.f);
    int i = min((int)v, rows - 2), j = min((int)u, cols - 2);
    v -= i; u -= j;
    float g = (1 - v) * ((1 - u) * gain[i * cols + j] + u * gain[i * cols + j + 1])
            + v * ((1 - u) * gain[(i + 1) * cols + j] + u * gain[(i + 1) * cols + j + 1]);
    if (unlike(frame + p * CHANNELS, reference + p * CHANNELS, g) < limit(control[4 * camera], rho, twice_variance)) {
        atomicAdd(explained + tile, 1);
        raw[p] = 128;
    }
}

extern "C" __global__ void accept(const pixel* frame, pixel* points, float* coef, unsigned char* raw,
                                  const float* gain, const int* alarms, const int* explained, const int* known, int* counts,
                                  int height, int width, int rows, int cols, long long padded, long long total, float steep,
                                  float near_k, float coefficient, int learn)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, camera = blockIdx.z;
    if (x >= width) return;
    long long p = camera * padded + (long long)y * width + x;
    if (raw[p] != 128) return;
    int first = camera * rows * cols, i = (int)((long long)y * rows / height), j = (int)((long long)x * cols / width);
    int a = 0, e = 0, k = 0;
    for (int r = max(0, i - REACH); r < min(rows, i + REACH + 1); r++)
        for (int q = max(0, j - REACH); q < min(cols, j + REACH + 1); q++) {
            int t = first + r * cols + q;
            a += alarms[t]; e += explained[t]; k += known[t];
        }
    bool mild = fabsf(gain[first + i * cols + j] - 1.f) < MILD;
    if (!(2 * e > a && (mild || 2 * k < a))) { raw[p] = 255; return; }
    atomicAdd(counts + 3 * camera + 2, 1);
    if (!learn) return;
    float best = -1.f, weak = 3e38f;
    int nearest = 0, weakest = 0;
    for (int s = 0; s < SLOTS; s++) {
        float c0 = coef[s * total + p], d = 0.f;
        if (c0 < weak) { weak = c0; weakest = s; }
        if (c0 <= 0.f) continue;
        for (int c = 0; c < CHANNELS; c++) {
            float t = (float)points[(s * CHANNELS + c) * total + p] - frame[p * CHANNELS + c];
            d += t * t;
        }
        float k = exp2f(fmaxf(d * steep, -120.f));
        if (k > best) { best = k; nearest = s; }
    }
    int s = best > near_k ? nearest : weakest;
    coef[s * total + p] = fmaxf(coef[s * total + p], coefficient);
    for (int c = 0; c < CHANNELS; c++) points[(s * CHANNELS + c) * total + p] = frame[p * CHANNELS + c];
}

extern "C" __global__ void settle(const pixel* frame, const unsigned char* raw, unsigned char* out, unsigned char* unrest,
                                  unsigned char* previous, pixel* reference, const float* control, int* counts, int height,
                                  int width, long long padded, float twice_variance, float rho, int light, int lonely, int median,
                                  int learn)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, camera = blockIdx.z;
    __shared__ int lone_count, settled_count;
    if (threadIdx.x == 0) lone_count = settled_count = 0;
    __syncthreads();
    if (x < width) {
        const unsigned char* mine = raw + camera * padded;
        int count = 0;
        for (int dy = -2; dy <= 2; dy++) for (int dx = -2; dx <= 2; dx++)
            count += mine[(long long)min(max(y + dy, 0), height - 1) * width + min(max(x + dx, 0), width - 1)] == 255;
        long long p = camera * padded + (long long)y * width + x;
        int r = raw[p], settled = count > 12, lone = r == 255 && count <= lonely;
        out[p] = median ? (settled ? 255 : 0) : (r == 255 ? 255 : 0);
        if (learn) {
            int u = unrest[p];
            unrest[p] = (unsigned char)(lone || r == 128 ? u + ((270 - u) >> 4) : u - ((u + 15) >> 4));
            const pixel* now = frame + p * CHANNELS;
            pixel* then = reference + p * CHANNELS;
            if (settled) {
                float g = bright(now) / bright(then), most = light ? limit(control[4 * camera], rho, twice_variance) : 0.f;
                previous[p] = g > DARKEST && g < LIGHTEST && unlike(now, then, g) < most ? 254 : 255;
            } else {
                previous[p] = 0;
                for (int c = 0; c < CHANNELS; c++) then[c] = now[c];
            }
        }
        if (lone) atomicAdd(&lone_count, 1);
        if (settled) atomicAdd(&settled_count, 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        if (lone_count) atomicAdd(counts + 3 * camera, lone_count);
        if (settled_count) atomicAdd(counts + 3 * camera + 1, settled_count);
    }
}

extern "C" __global__ void finish(float* control, const int* counts, int cameras, float pixels, float nu, float low, float high,
                                  int adapt, float light_share, float lost_share, float calm)
{
    int camera = blockIdx.x * blockDim.x + threadIdx.x;
    if (camera >= cameras) return;
    const int* n = counts + 3 * camera;
    float* theta = control + 4 * camera;
    float *frames = theta + 1, *usual = theta + 2, *disturbed = theta + 3;
    *frames += 1.f;
    if (n[2] > light_share * pixels || n[1] > lost_share * pixels) *frames = 0.f, *disturbed = 1.f;
    else if (*disturbed == 0.f) *usual = n[1];
    else if (n[1] <= 1.5f * *usual + 0.005f * pixels) *frames = fmaxf(*frames, calm), *disturbed = 0.f;
    else if (*frames > calm) *disturbed = 0.f;
    if (adapt) *theta = fminf(fmaxf(*theta * powf(nu / fmaxf(n[0] / pixels, 1e-5f), 0.02f), low), high);
}
