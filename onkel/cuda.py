"""The hot loop in CUDA C; onkel.gpu compiles and feeds it.

``scan`` looks to the right: the scores of the whole block stand in shared memory, and a point that comes or goes corrects those
of the examples still to come.  An example that changes nothing then costs one decision and no pass over the budget.  One thread
block is one learner: warp 0 decides, each thread keeps the scores of EACH examples, warp 1 finds who goes next.  Who goes does
not depend on who comes, so its kernel values are on their way before the decision falls.
"""

CODE = r"""
typedef REAL real;
typedef long long wide;

#define ALL 0xffffffffu
#define GROUP 128                                    // slots whose smallest magnitude is kept together
#define FREE 0xffffffffu                             // the rank of a slot without a point
#define INF __longlong_as_double(0x7ff0000000000000LL)

enum { HINGE, NOVELTY, SQUARE, EPSILON, HUBER, LOGISTIC, STRUCTURED, SOFTMAX };
enum { RBF, POLYNOMIAL, LINEAR };
enum { IMPLICIT, LAM, C, NU, OFFSET, SMALLEST, BUDGET, ETA, ETA_ROW, KERNEL, RULES };
enum { N, USED, HEAD, SCALE, THETA, FAILED, NUMBERS };
enum { DONE, FOLD, INSERT };
enum { Y, WEIGHT, ETA_NOW, SHRINK, SELF, PACE };          // what the decision asks of each example

__device__ __forceinline__ real transform(const double* kernel, real v)
{
    int kind = (int)kernel[0];
    if (kind == LINEAR) return v;
    real g = (real)kernel[1];
    if (kind == RBF) return EXP(g * v);
    v = g * v + (real)kernel[2];
    real power = v;
    for (int left = (int)kernel[3] - 1; left > 0;) {
        if (left & 1) v *= power;
        left >>= 1;
        if (left > 0) power *= power;
    }
    return v;
}

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
    if ((int)kernel[0] == RBF) {
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

// --- losses of one score ---------------------------------------------------------------------------------------------------------

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

__device__ double value(int loss, double f, double y, double theta)
{
    const double d = fabs(y - f);
    switch (loss) {
        case HINGE: return fmax(0.0, theta - y * f);
        case NOVELTY: return fmax(0.0, theta - f);
        case SQUARE: return 0.5 * (y - f) * (y - f);
        case EPSILON: return fmax(0.0, d - theta);
        case HUBER: return d >= theta ? d - 0.5 * theta : 0.5 * d * d / theta;
        default: return fmax(0.0, -(y * f)) + log1p(exp(-fabs(y * f)));
    }
}

__device__ bool mistake(int loss, double f, double y, double theta)
{
    switch (loss) {
        case HINGE: case LOGISTIC: return y * f <= 0.0;
        case NOVELTY: return f < theta;
        case SQUARE: return false;
        default: return fabs(y - f) > theta;
    }
}

__device__ double slope(int loss, double f, double y, double theta)     // of an explicit step: at the kink of the hinge it moves
{
    switch (loss) {
        case HINGE: return y * f <= theta ? -y : 0.0;
        case NOVELTY: return f < theta ? -1.0 : 0.0;
        case SQUARE: return f - y;
        case EPSILON: return fabs(y - f) > theta ? -sign(y - f) : 0.0;
        case HUBER: return clip((f - y) / theta, -1.0, 1.0);
        default: return -y * sigmoid(-y * f);
    }
}

__device__ bool violated(int loss, double f, double y, double theta)
{
    switch (loss) {
        case HINGE: return y * f <= theta;
        case NOVELTY: return f < theta;
        case EPSILON: case HUBER: return fabs(y - f) > theta;
        default: return false;
    }
}

__device__ double prox(int loss, double z, double y, double theta, double cap, double k)
{
    switch (loss) {
        case HINGE: return k > 0.0 ? y * clip((theta - y * z) / k, 0.0, cap) : 0.0;
        case NOVELTY: return k > 0.0 ? clip((theta - z) / k, 0.0, cap) : 0.0;
        case SQUARE: return cap * (y - z) / (1.0 + cap * k);
        case EPSILON: return k > 0.0 ? sign(y - z) * clip((fabs(y - z) - theta) / k, 0.0, cap) : 0.0;
        case HUBER: return clip(cap * (y - z) / (theta + cap * k), -cap, cap);
        default: return y * logistic_root(y * z, k, cap);
    }
}

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

// The bits of a number as an unsigned one of the same order; the sign of zero does not count.
__device__ __forceinline__ unsigned long long ordered(double v)
{
    const unsigned long long bits = (unsigned long long)__double_as_longlong(v + 0.0);
    return bits >> 63 ? ~bits : bits | 1ull << 63;
}

// Of the lanes with a candidate (label >= 0) the label of the largest value, the lowest label on ties; -1 where there is none.
__device__ __forceinline__ int label_of_largest(double v, int label)
{
    const unsigned long long down = label < 0 ? ~0ull : ~ordered(v);
    const unsigned high = (unsigned)(down >> 32), low = (unsigned)down, top = lowest(high), next = lowest(high == top ? low : FREE);
    return (int)lowest(label >= 0 && high == top && low == next ? (unsigned)label : FREE);
}

// Who goes next: the smallest magnitude, the oldest on ties.
struct Weak { real mag; unsigned rank; int slot; };

__device__ __forceinline__ void weaker(Weak& best, real mag, unsigned rank, int slot)
{
    if (slot >= 0 && (best.slot < 0 || mag < best.mag || (mag == best.mag && rank < best.rank))) best = {mag, rank, slot};
}

__device__ __forceinline__ Weak weakest_of_warp(Weak k)
{
    const unsigned long long bits = k.slot < 0 ? ~0ull : ordered((double)k.mag);
    const unsigned high = (unsigned)(bits >> 32), low = (unsigned)bits, top = lowest(high), next = lowest(high == top ? low : FREE);
    const bool tied = k.slot >= 0 && high == top && low == next;
    const unsigned rank = lowest(tied ? k.rank : FREE), found = __ballot_sync(ALL, tied && k.rank == rank);
    const int who = found ? __ffs(found) - 1 : 0;
    return {__shfl_sync(ALL, k.mag, who), rank, __shfl_sync(ALL, k.slot, who)};
}

__device__ void search_group(int g, int n, const real* mag, const unsigned* rank, Weak* groups)
{
    const int lane = threadIdx.x & 31;
    Weak k = {0, 0, -1};
    for (int i = g * GROUP + lane; i < n && i < (g + 1) * GROUP; i += 32) weaker(k, mag[i], rank[i], i);
    k = weakest_of_warp(k);
    if (lane == 0) groups[g] = k;
}

// What all warps have to know of the next one to go, and of the last decision.
struct Board { Weak next; int next_source, order, t, slot, gone, n, head, touched; double factor; };

__device__ void announce(Board* board, bool smallest, double budget, int room, int m, const Weak* groups, const int* source,
                         const real* coef, double* next_coef)
{
    const int lane = threadIdx.x & 31;
    Weak k = {0, 0, -1};
    if (board->n >= budget) {
        if (smallest) {
            for (int g = lane; g < (room + GROUP - 1) / GROUP; g += 32) weaker(k, groups[g].mag, groups[g].rank, groups[g].slot);
            k = weakest_of_warp(k);
        } else k.slot = board->head;
        for (int z = lane; z < m; z += 32) next_coef[z] = coef[(wide)z * room + k.slot];
    }
    if (lane == 0) { board->next = k; board->next_source = k.slot >= 0 ? source[k.slot] : -1; }
}

// What the lane that has the label holds for it.
__device__ __forceinline__ double of_label(const double (&v)[PER], int label)
{
    double found = 0.0;
    #pragma unroll
    for (int k = 0; k < PER; k++) {
        const double here = __shfl_sync(ALL, v[k], label & 31);
        if (label >> 5 == k) found = here;
    }
    return found;
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
scan(int rows, int room, int m, wide first, wide n_examples, const real* __restrict__ Ks, const real* __restrict__ inners,
     const real* __restrict__ starts, const real* __restrict__ xn, const double* __restrict__ ys,
     const double* __restrict__ weights, const double* __restrict__ etas, const double* __restrict__ rules,
     const double* __restrict__ kernels, const double* __restrict__ cost, const double* __restrict__ kappa, int flat, int related,
     double* nums, real* coefs, real* mags, unsigned* ranks, int* sources, real* kxxs, double* scratch, int in_shared,
     unsigned first_rank, double* out_scores, double* out_loss, unsigned char* out_wrong, double* out_theta, int* out_size)
{
    extern __shared__ double pool[];
    const int l = blockIdx.x, r = threadIdx.x, lane = r & 31, warp = r >> 5, warps = blockDim.x >> 5;
    double* rule = pool;
    double* num = nums + (wide)l * (NUMBERS + m);
    if (num[FAILED] != 0.0) return;
    if (r < RULES) rule[r] = rules[(wide)l * RULES + r];
    __syncthreads();
    const real* K = Ks + (wide)l * room * rows;
    const real* inner = inners + (wide)rule[KERNEL] * rows * rows;
    const double* kernel = kernels + 4 * (int)rule[KERNEL];
    const int loss = THE_LOSS, eta_row = (int)rule[ETA_ROW], groups_count = (room + GROUP - 1) / GROUP;
    const bool implicit = rule[IMPLICIT] != 0.0, smallest = rule[SMALLEST] != 0.0, offset = rule[OFFSET] != 0.0;
    const double lam = rule[LAM], budget = rule[BUDGET];
    real* coef = coefs + (wide)l * m * room;
    real* kxx_of = kxxs + (wide)l * room;

    // shared memory, the large parts only where there is room for them
    double *fresh = rule + RULES, *old = fresh + m, *next_coef = old + m, *pace = next_coef + m;
    double* top = pace + PACE * rows;
    Board* board = (Board*)top;
    top += (sizeof(Board) + 7) / 8;
    Weak* groups = (Weak*)top;
    top += (groups_count * sizeof(Weak) + 7) / 8;
    int* touched = (int*)top;                                         // labels whose scores the last decision changes
    top += (m + 1) / 2;
    double* score = scratch + (wide)l * m * rows;
    if (in_shared & 1) { score = top; top += m * rows; }
    real* mag = mags + (wide)l * room;
    unsigned* rank = ranks + (wide)l * room;
    int* source = sources + (wide)l * room;
    if (in_shared & 2) {
        mag = (real*)top; rank = (unsigned*)(mag + room); source = (int*)(rank + room);
        for (int i = r; i < room; i += blockDim.x) { mag[i] = mags[(wide)l * room + i]; rank[i] = ranks[(wide)l * room + i]; }
    }
    for (int i = r; i < rows; i += blockDim.x) {
        const double eta = eta_row < 0 ? rule[ETA] : etas[eta_row * n_examples + first + i];
        pace[Y * rows + i] = ys[first + i];
        pace[WEIGHT * rows + i] = weights[first + i];
        pace[ETA_NOW * rows + i] = eta;
        pace[SHRINK * rows + i] = implicit ? 1.0 / (1.0 + eta * lam) : 1.0 - eta * lam;
        pace[SELF * rows + i] = (int)kernel[0] == RBF ? 1.0 : (double)transform(kernel, xn[i]);
    }
    for (int i = r; i < room; i += blockDim.x) source[i] = -1;
    for (int i = r; i < m * rows; i += blockDim.x) score[i] = starts[(wide)l * m * rows + i];
    if (r == 0) { board->n = (int)num[N]; board->head = (int)num[HEAD]; }
    __syncthreads();
    if (smallest) for (int g = warp; g < groups_count; g += warps) search_group(g, board->n, mag, rank, groups);
    __syncthreads();
    if (warp == 1) announce(board, smallest, budget, room, m, groups, source, coef, next_coef);

    // warp 0 carries the state: all lanes the same, but for the labels, of which each lane has PER
    double a[PER], b[PER], move = 0.0;
    #pragma unroll
    for (int k = 0; k < PER; k++) b[k] = lane + 32 * k < m ? num[NUMBERS + lane + 32 * k] : 0.0;
    double scale = num[SCALE], theta = num[THETA];
    int n = (int)num[N], used = (int)num[USED], head = (int)num[HEAD], t = 0;
    int guess = 0;                                                    // which example may come next
    bool waiting = false;
    double kxx = 1.0;
    __syncthreads();

    for (;;) {
        const int next = board->next.slot, next_source = board->next_source;
        const real* leaving = next_source < 0 ? K + (wide)next * rows : inner + (wide)next_source * rows;
        real going[EACH], coming[EACH];
        #pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int q = r + e * THREADS;
            going[e] = q < rows && next >= 0 ? leaving[q] : (real)0;
            coming[e] = q < rows && guess < rows ? inner[(wide)guess * rows + q] : (real)0;
        }

        if (warp == 0) {
            int order = DONE;
            while (t < rows && order == DONE) {
                const wide at = l * n_examples + first + t;
                if (!waiting) {
                    const double y = pace[Y * rows + t], weight = pace[WEIGHT * rows + t], eta = pace[ETA_NOW * rows + t];
                    const double c = rule[C] * weight, shrink = pace[SHRINK * rows + t];
                    const double cap = shrink * eta * c, extra = implicit && offset ? 1.0 / shrink : 0.0;
                    double violation = 0.0, cost_now, f[PER], s[PER];
                    bool wrong = false;
                    kxx = pace[SELF * rows + t];
                    bool fine = isfinite(kxx) && isfinite(eta);
                    #pragma unroll
                    for (int k = 0; k < PER; k++) {
                        const int z = lane + 32 * k;
                        f[k] = z < m ? scale * score[(wide)z * rows + t] : 0.0;
                        if (related && z < m) {
                            f[k] = 0.0;
                            for (int w = 0; w < m; w++) f[k] += kappa[z * m + w] * (scale * score[(wide)w * rows + t]);
                        }
                        s[k] = f[k] + b[k];
                        fine = fine && isfinite(s[k]);
                    }
                    if (loss < STRUCTURED) {
                        const double past = __shfl_sync(ALL, f[0], 0), bias = __shfl_sync(ALL, b[0], 0), now = past + bias;
                        cost_now = value(loss, now, y, theta);
                        wrong = mistake(loss, now, y, theta);
                        violation = violated(loss, now, y, theta) ? 1.0 : 0.0;
                        move = implicit ? prox(loss, shrink * past + bias, y, theta, cap, kxx + extra)
                                        : -eta * (slope(loss, now, y, theta) * c);
                        a[0] = lane == 0 ? move : 0.0;
                    } else {
                        const int label = (int)y;
                        const double own = of_label(s, label);
                        double best = 0.0, total = 0.0;
                        int rival = -1;
                        #pragma unroll
                        for (int k = 0; k < PER; k++) {
                            const int z = lane + 32 * k;
                            const bool other = z < m && z != label;
                            const double apart = flat || !other ? 1.0 : cost[label * m + z];
                            const double reach = loss == SOFTMAX ? s[k] : theta * apart + s[k];
                            wrong = wrong || (other && s[k] >= own);
                            if ((other || (loss == SOFTMAX && z < m)) && (rival < 0 || reach > best)) { best = reach; rival = z; }
                        }
                        wrong = __any_sync(ALL, wrong);
                        rival = label_of_largest(best, rival);
                        if (loss == SOFTMAX) {
                            best = of_label(s, rival);
                            #pragma unroll
                            for (int k = 0; k < PER; k++) { a[k] = lane + 32 * k < m ? exp(s[k] - best) : 0.0; total += a[k]; }
                            for (int o = 16; o; o >>= 1) total += __shfl_xor_sync(ALL, total, o);
                            cost_now = best + log(total) - own;
                            move = 0.0;
                            #pragma unroll
                            for (int k = 0; k < PER; k++) {
                                a[k] = lane + 32 * k < m ? -eta * ((a[k] / total - (lane + 32 * k == label ? 1.0 : 0.0)) * c) : 0.0;
                                move = fmax(move, fabs(a[k]));
                            }
                            for (int o = 16; o; o >>= 1) move = fmax(move, __shfl_xor_sync(ALL, move, o));
                        } else {
                            const double worst = flat || rival < 0 ? 1.0 : cost[label * m + rival];
                            const double gap = rival >= 0 ? theta * worst + of_label(s, rival) - own : 0.0;
                            cost_now = fmax(0.0, gap);
                            move = 0.0;
                            if (rival >= 0 && implicit) {
                                #pragma unroll
                                for (int k = 0; k < PER; k++) s[k] = shrink * f[k] + b[k];
                                const double* near = kappa + label * m;
                                const double apart = related ? near[label] + kappa[rival * m + rival] - 2.0 * near[rival] : 2.0;
                                const double D = kxx * apart + 2.0 * extra;
                                const double open = theta * worst + of_label(s, rival) - of_label(s, label);
                                if (D > 0.0) move = clip(open / D, 0.0, cap);
                            } else if (gap > 0.0) {
                                move = eta * c;
                                violation = worst;
                            }
                            #pragma unroll
                            for (int k = 0; k < PER; k++)
                                a[k] = lane + 32 * k == label ? move : lane + 32 * k == rival ? -move : 0.0;
                        }
                    }
                    waiting = move != 0.0;
                    if (!__all_sync(ALL, fine && fabs(move) < LARGEST)) {     // the host raises
                        if (lane == 0) num[FAILED] = (double)(first + t + 1);
                        waiting = false;
                        break;
                    }
                    #pragma unroll
                    for (int k = 0; k < PER; k++) if (lane + 32 * k < m) out_scores[at * m + lane + 32 * k] = f[k] + b[k];
                    if (lane == 0) { out_loss[at] = cost_now; out_wrong[at] = wrong; }

                    // from here on the state changes
                    if (!isnan(rule[NU])) {
                        double pull = rule[NU] - violation;
                        if (loss == EPSILON || loss == HUBER) pull = -pull;
                        theta = fmax(theta + eta * weight * pull, loss == HUBER ? 1e-12 : 0.0);
                    }
                    #pragma unroll
                    for (int k = 0; k < PER; k++) if (offset) b[k] += implicit ? a[k] / shrink : a[k];
                    scale *= shrink;
                    if (!(1e-9 < fabs(scale) && fabs(scale) < 1e9)) {
                        if (lane == 0) board->factor = scale;
                        scale = 1.0;
                        order = FOLD;
                    }
                }
                if (waiting && order != FOLD) {                       // make room for the new term and store it
                    waiting = false;
                    const double size = fabs(move / scale);
                    int slot, gone = -1;
                    if (n >= budget) gone = board->next.slot;
                    if (gone >= 0 && smallest && size * (1.0 + 8.0 * EPS) < (double)board->next.mag) slot = -1;
                    else {
                        if (gone >= 0) {
                            if (!smallest) for (int z = lane; z < m; z += 32) coef[(wide)z * room + gone] = 0;
                            n--;
                            if (!smallest) {
                                if (lane == 0) { mag[gone] = 0; rank[gone] = FREE; }
                                head = head + 1 < room ? head + 1 : 0;
                            }
                        }
                        slot = smallest ? (gone >= 0 ? gone : n) : head + n < room ? head + n : head + n - room;
                        n++;
                        used = used > slot + 1 ? used : slot + 1;
                        int many = 0;
                        #pragma unroll
                        for (int k = 0; k < PER; k++) {
                            const int z = lane + 32 * k;
                            const real rounded = (real)(a[k] / scale);
                            const double lost = gone >= 0 && z < m ? next_coef[z] : 0.0;
                            const bool changes = z < m && (rounded != 0 || lost != 0.0);
                            const unsigned mask = __ballot_sync(ALL, changes);
                            if (z < m) { coef[(wide)z * room + slot] = rounded; fresh[z] = rounded; old[z] = lost; }
                            if (changes) touched[many + __popc(mask & ((1u << lane) - 1))] = z;
                            many += __popc(mask);
                        }
                        if (lane == 0) {
                            board->touched = many;
                            mag[slot] = (real)size;
                            rank[slot] = first_rank + (unsigned)t;
                            source[slot] = t;
                            kxx_of[slot] = (real)kxx;
                            board->t = t; board->slot = slot; board->gone = gone; board->n = n; board->head = head;
                        }
                        order = INSERT;
                    }
                }
                if (!waiting) {
                    if (lane == 0) {
                        out_size[at] = n;
                        if (!isnan(rule[NU])) out_theta[at] = theta;
                    }
                    t++;
                }
            }
            if (lane == 0) board->order = order;
        }
        __syncthreads();
        const int order = board->order;
        if (order == DONE) break;
        if (order == FOLD) {                                          // write the lazy decay into the coefficients
            const double factor = board->factor;
            for (int i = r; i < m * room; i += blockDim.x) {
                const double folded = factor * coef[i];
                coef[i] = fabs(folded) >= TINY ? (real)folded : (real)0;
            }
            for (int i = r; i < room; i += blockDim.x) mag[i] = (real)fabs(factor * mag[i]);
            for (int i = r; i < m * rows; i += blockDim.x) score[i] *= factor;
            __syncthreads();
            if (smallest) for (int g = warp; g < groups_count; g += warps) search_group(g, board->n, mag, rank, groups);
            __syncthreads();
            if (warp == 1) announce(board, smallest, budget, room, m, groups, source, coef, next_coef);
        } else {                                                      // those to come see who came and who went
            const int now = board->t, gone = board->gone;
            if (warp == 1) {
                if (smallest) search_group(board->slot / GROUP, board->n, mag, rank, groups);
                __syncwarp();
                announce(board, smallest, budget, room, m, groups, source, coef, next_coef);
            }
            const int many = board->touched;
            #pragma unroll
            for (int e = 0; e < EACH; e++) {
                const int q = r + e * THREADS;
                if (q <= now || q >= rows) continue;
                const double came = now == guess ? coming[e] : inner[(wide)now * rows + q], went = gone < 0 ? (real)0 : going[e];
                for (int k = 0; k < many; k++) {
                    const int z = touched[k];
                    score[(wide)z * rows + q] += fresh[z] * came - old[z] * went;
                }
            }
            guess = now + 1;
        }
        __syncthreads();
    }

    if (r == 0) { num[N] = n; num[USED] = used; num[HEAD] = head; num[SCALE] = scale; num[THETA] = theta; }
    #pragma unroll
    for (int k = 0; k < PER; k++) if (warp == 0 && lane + 32 * k < m) num[NUMBERS + lane + 32 * k] = b[k];
    if (in_shared & 2)
        for (int i = r; i < room; i += blockDim.x) {
            mags[(wide)l * room + i] = mag[i];
            ranks[(wide)l * room + i] = rank[i];
            sources[(wide)l * room + i] = source[i];
        }
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
"""
