// The hot loop in CUDA C, behind values.cu; group.py feeds it.
//
// ``scan`` looks to the right: the scores of the whole block stand in shared memory, and a point that comes or goes corrects those
// of the examples still to come.  One thread block is one learner.  Its first warp decides, lanes being labels, over a window of up
// to 32 examples without a barrier of the whole block.  Meanwhile the second warp keeps the books and finds who goes next, and the
// third corrects the scores of the window, lanes being examples.  What came and went in a window reaches the examples after it all
// at once: the next window's first, the rest, by the other warps, while the first three are already there.
//
// Who goes is found without a search: the points that stood there at the start of the block were sorted, and leave in that order;
// those of the block itself compete with the first of them through the least of each group of 32.
//
// One function of 350 lines: its arrays live in the registers of three warps that work hand in hand, and calls would spill them.

// INSIDE says which arrays stand in shared memory, FLAT and RELATED what the labels are; ALL_... is 1 or 0 where the learners are
// alike in something, else -1.
extern "C" __global__ void __launch_bounds__(THREADS, THREADS > 256 ? 1 : 2)
scan(int rows, int room, int m, int window, wide first, wide n_examples, const real* __restrict__ Ks,
     const real* __restrict__ inners, const real* __restrict__ starts, const real* __restrict__ xn, const double* __restrict__ ys,
     const double* __restrict__ weights, const double* __restrict__ etas, const double* __restrict__ rules,
     const double* __restrict__ kernels, const double* __restrict__ cost, const double* __restrict__ kappa, double* nums,
     real* coefs, real* mags, unsigned* ranks, int* sources, real* kxxs, double* scratch, int* orders, unsigned first_rank,
     double* out_scores, double* out_loss, unsigned char* out_wrong, double* out_theta, int* out_size)
{
    extern __shared__ __align__(16) char pool[];
    const int l = blockIdx.x, r = threadIdx.x, lane = r & 31, warp = r >> 5, warps = blockDim.x >> 5;
    double* num = nums + (wide)l * (NUMBERS + m);
    if (num[FAILED] != 0.0) return;
    const int deep = (window + CHUNK - 1) / CHUNK * CHUNK, groups = (rows + 31) / 32, pitch = rows + 1;

    char* top = pool;
    Pair* pairs = take<Pair>(top, 2 * m * deep);                     // [which of two windows][label][event]
    const real** rows_of_gone = take<const real*>(top, 2 * deep);
    double* rule = take<double>(top, RULES);
    Pace* pace = take<Pace>(top, rows);
    Board* board = take<Board>(top, 1);
    real* near = take<real>(top, 32 * deep);                         // kernel values within the window
    real* coming = take<real>(top, 32 * deep);                       // and between its events and the next one
    real* going = take<real>(top, 32 * deep);
    real* leaving = take<real>(top, 2 * 32);                         // of who goes next: kernel values with the window
    real* lost = take<real>(top, 2 * m);                             // and coefficients; in turn for one event and the next
    real* young = take<real>(top, 32 * groups);                      // magnitudes of those that came since the sorting
    int* slot_of = take<int>(top, rows);
    int* times = take<int>(top, 2 * deep);                           // examples of the events
    unsigned* touches = take<unsigned>(top, 2 * m);                  // events that touch a label, a bit each
    double* score = INSIDE & 1 ? take<double>(top, (wide)m * pitch) : scratch + (wide)l * m * pitch;
    real* mag = INSIDE & 2 ? take<real>(top, room) : mags + (wide)l * room;
    unsigned* rank = INSIDE & 2 ? take<unsigned>(top, room) : ranks + (wide)l * room;
    int* order = INSIDE & 2 ? (int*)top : orders + (wide)l * 2 * room;
    int* source = sources + (wide)l * room;

    if (r < RULES) rule[r] = rules[(wide)l * RULES + r];
    __syncthreads();
    const real* K = Ks + (wide)l * room * rows;
    const real* inner = inners + (wide)rule[KERNEL] * rows * rows;
    const double* kernel = kernels + 4 * (int)rule[KERNEL];
    const int eta_row = (int)rule[ETA_ROW], budget = (int)rule[BUDGET];
    const double lam = rule[LAM], nu = rule[NU], cost_of_loss = rule[C];
    const bool flat = FLAT, related = RELATED;
    const bool implicit = ALL_IMPLICIT < 0 ? rule[IMPLICIT] != 0.0 : ALL_IMPLICIT;
    const bool smallest = ALL_SMALLEST < 0 ? rule[SMALLEST] != 0.0 : ALL_SMALLEST;
    const bool offset = ALL_OFFSET < 0 ? rule[OFFSET] != 0.0 : ALL_OFFSET;
    const bool moving = ALL_MOVING < 0 ? !isnan(nu) : ALL_MOVING;
    const real none = (real)INF;
    real* coef = coefs + (wide)l * m * room;
    real* kxx_of = kxxs + (wide)l * room;
    double* out_here = out_scores + (l * n_examples + first) * m + lane;

    if (r == 0) { board->poison = rows; board->n = (int)num[N]; board->head = (int)num[HEAD]; board->used = (int)num[USED]; }
    __syncthreads();
    for (int i = r; i < rows; i += blockDim.x) {
        const double eta = eta_row < 0 ? rule[ETA] : etas[eta_row * n_examples + first + i], weight = weights[first + i];
        const double shrink = implicit ? 1.0 / (1.0 + eta * lam) : 1.0 - eta * lam;
        const double self = with_itself(kernel, xn[i]);
        const double k = self + (implicit && offset ? 1.0 / shrink : 0.0), gain = k > 0.0 ? 1.0 / k : 0.0;
        const digit slack = (digit)(ONE_SCORE ? gain : 0.5 * gain);
        double y = ys[first + i];
        if (!ONE_SCORE) y = __hiloint2double(0, (int)y);     // a whole number, to be read without conversion
        pace[i] = {y, weight, eta, shrink, 1.0 / shrink, self, shrink * eta * (cost_of_loss * weight), slack, (digit)shrink};
        if (!(isfinite(self) && isfinite(eta))) atomicMin(&board->poison, i);
    }
    if (INSIDE & 2)
        for (int i = r; i < room; i += blockDim.x) { mag[i] = mags[(wide)l * room + i]; rank[i] = ranks[(wide)l * room + i]; }
    for (int i = r; i < room; i += blockDim.x) source[i] = -1;
    for (int i = r; i < 32 * groups; i += blockDim.x) young[i] = none;
    for (int i = r; i < m * rows; i += blockDim.x) score[(wide)(i / rows) * pitch + i % rows] = starts[(wide)l * m * rows + i];

    // the first warp has the function: all lanes the same, but for the labels, of which each lane has PER
    double a[PER], b[PER], move = 0.0, scale = num[SCALE], theta = num[THETA], thin = 1.0 / scale;
    int n = board->n, t = 0;
    bool waiting = false;
    #pragma unroll
    for (int k = 0; k < PER; k++) b[k] = lane + 32 * k < m ? num[NUMBERS + lane + 32 * k] : 0.0;
    double loss_here = 0.0, theta_here = 0.0;                         // what the trace says of example base + lane
    int size_here = 0;
    bool wrong_here = false;
    // the second has the budget; each lane the least magnitude of a group of 32 examples, and whose it is
    int head = board->head, used = board->used, olds = n, gone_olds = 0, first_old = head, least_at = 0, youngest = 0;
    real least = none, youngest_mag = none;                           // and of all groups together
    __syncthreads();
    const bool tight = n + rows > budget;                             // someone may have to go
    if (smallest && tight) sort_slots(order, n, mag, rank);

    // what the windows leave for later: the marks of slots without a point, and of those that the block filled
    auto write_down = [&]() {
        for (int i = r; i < room && !smallest; i += blockDim.x)
            if ((i < board->head ? i + room : i) - board->head >= board->n) {
                for (int z = 0; z < m; z++) coef[(wide)z * room + i] = 0;
                mag[i] = 0;
                rank[i] = FREE;
            }
        __syncthreads();
        for (int i = r; i < rows; i += blockDim.x)
            if (young[i] != none) {
                const int slot = slot_of[i];
                mag[slot] = young[i];
                rank[slot] = first_rank + (unsigned)i;
                source[slot] = i;
                kxx_of[slot] = (real)pace[i].self;
            }
        __syncthreads();
    };

    int base = 0, end = min(window, rows);                            // the window
    int now = 0, before = 0;                                          // which half of the events is its own; how many the last had
    for (int i = r; i < end * 32; i += blockDim.x) near[i] = inner[(wide)(i >> 5) * rows + min(i & 31, rows - 1)];
    __syncthreads();

    for (;;) {
        Pair* pair = pairs + now * m * deep;
        const real** row_of_gone = rows_of_gone + now * deep;
        int* time = times + now * deep;
        unsigned* touched = touches + now * m;

        // what came and went reaches the examples behind a window; the rows past the last event are of no weight
        auto tell = [&](int half, int events, int q, int by) {
            const Pair* pair = pairs + half * m * deep;
            for (; q < rows; q += by)
                for (int e = 0; e < events; e += CHUNK) {
                    real came[CHUNK], went[CHUNK];
                    #pragma unroll
                    for (int i = 0; i < CHUNK; i++) {
                        const int x = min(e + i, events - 1);
                        came[i] = inner[(wide)times[half * deep + x] * rows + q];
                        went[i] = __ldg(rows_of_gone[half * deep + x] + q);
                    }
                    for (int z = 0; z < m; z++) {
                        if (!(touches[half * m + z] >> e & ((1 << CHUNK) - 1))) continue;
                        real sum = 0;
                        #pragma unroll
                        for (int i = 0; i < CHUNK; i++) {
                            const Pair p = pair[z * deep + e + i];
                            sum = fma(p.came, came[i], fma(-p.went, went[i], sum));
                        }
                        score[(wide)z * pitch + q] += (double)sum;
                    }
                }
        };
        if (warp == 0) {
            const int from = t;
            int events = 0, verdict = ON, last = -2;
            bool pending = false, found = false;                      // the books of the last event are not yet done; the next are
            real came[PER];
            while (t < end) {
                if (!waiting) {
                    const Pace p = pace[t];
                    const double shrink = p.shrink, extra = implicit && offset ? p.grow : 0.0;
                    double violation = 0.0, cost_now, f[PER];
                    digit s[PER], bias[PER], plain[PER];
                    bool wrong = false, fine = t < board->poison;
                    if (pending && (related || t != last + 1)) { await(DONE); pending = false; }
                    const real* gone = leaving + 32 * (events - 1 & 1);
                    #pragma unroll
                    for (int k = 0; k < PER; k++) {
                        const int z = lane + 32 * k;
                        double v = z < m ? score[z * pitch + t] : 0.0;
                        if (pending && z < m) {                       // the example right behind the last event sees to itself
                            const real went = lost[(events - 1 & 1) * m + z];
                            v += (double)(came[k] * near[(last - base) * 32 + t - base] - went * gone[t - base]);
                        }
                        f[k] = scale * v;
                        if (related && z < m) {
                            f[k] = 0.0;
                            for (int w = 0; w < m; w++) f[k] += kappa[z * m + w] * (scale * score[w * pitch + t]);
                        }
                        plain[k] = (digit)f[k];
                        bias[k] = (digit)b[k];
                        s[k] = (digit)(f[k] + b[k]);
                        fine = fine && isfinite(s[k]);
                    }
#if ONE_SCORE
                    {
                        const double past = __shfl_sync(ALL, f[0], 0), own = __shfl_sync(ALL, b[0], 0), score_now = past + own;
                        cost_now = value(score_now, p.y, theta);
                        wrong = mistake(score_now, p.y, theta);
                        violation = violated(score_now, p.y, theta) ? 1.0 : 0.0;
                        move = implicit ? prox(shrink * past + own, p.y, theta, p.cap, p.self + extra, (double)p.slack)
                                        : -p.eta * (slope(score_now, p.y, theta) * (cost_of_loss * p.weight));
                        a[0] = lane == 0 ? move : 0.0;
                    }
#else
                    {
                        const int label = __double2loint(p.y);
                        const digit own = of_label(s, label), margin = (digit)theta;
                        digit best = 0;
                        int rival = -1;
                        #pragma unroll
                        for (int k = 0; k < PER; k++) {
                            const int z = lane + 32 * k;
                            const bool other = z < m && z != label, even = flat || !other || SOFTMAX;
                            const digit reach = even ? s[k] : margin * (digit)cost[label * m + z] + s[k];
                            wrong = wrong || (other && s[k] >= own);
                            if ((other || (SOFTMAX && z < m)) && (rival < 0 || reach > best)) { best = reach; rival = z; }
                        }
                        wrong = __any_sync(ALL, wrong);
                        rival = label_of_largest(best, rival);
                        if (SOFTMAX) {
                            const double c = cost_of_loss * p.weight;
                            double total = 0.0;
                            best = of_label(s, rival);
                            #pragma unroll
                            for (int k = 0; k < PER; k++) { a[k] = lane + 32 * k < m ? exp(s[k] - best) : 0.0; total += a[k]; }
                            for (int o = 16; o; o >>= 1) total += __shfl_xor_sync(ALL, total, o);
                            cost_now = best + log(total) - own;
                            move = 0.0;
                            #pragma unroll
                            for (int k = 0; k < PER; k++) {
                                const int z = lane + 32 * k;
                                a[k] = z < m ? -p.eta * ((a[k] / total - (z == label ? 1.0 : 0.0)) * c) : 0.0;
                                move = fmax(move, fabs(a[k]));
                            }
                            for (int o = 16; o; o >>= 1) move = fmax(move, __shfl_xor_sync(ALL, move, o));
                        } else {
                            const digit worst = flat || rival < 0 ? (digit)1 : (digit)cost[label * m + rival];
                            const digit ahead = of_label(plain, rival) - of_label(plain, label);   // the rival, but for offsets
                            const digit apart = offset ? of_label(bias, rival) - of_label(bias, label) : (digit)0;
                            const digit gap = rival >= 0 ? margin * worst + (ahead + apart) : (digit)0;
                            cost_now = gap > 0 ? (double)gap : 0.0;
                            move = 0.0;
                            if (rival >= 0 && implicit) {
                                digit slack = p.slack;
                                if (related) {
                                    const double* close = kappa + label * m;
                                    const double unlike = close[label] + kappa[rival * m + rival] - 2.0 * close[rival];
                                    const double D = p.self * unlike + 2.0 * extra;
                                    slack = D > 0.0 ? (digit)(1.0 / D) : (digit)0;
                                }
                                const digit step = (margin * worst + (p.shrunk * ahead + apart)) * slack;
                                if (step > 0) move = fmin((double)step, p.cap);
                            } else if (gap > 0) {
                                move = p.eta * (cost_of_loss * p.weight);
                                violation = (double)worst;
                            }
                            #pragma unroll
                            for (int k = 0; k < PER; k++)
                                a[k] = lane + 32 * k == label ? move : lane + 32 * k == rival ? -move : 0.0;
                        }
                    }
#endif
                    waiting = move != 0.0;
                    if (!__all_sync(ALL, fine && fabs(move) < LARGEST)) {     // the host raises
                        if (lane == 0) num[FAILED] = (double)(first + t + 1);
                        waiting = false;
                        verdict = STOP;
                        break;
                    }
                    #pragma unroll
                    for (int k = 0; k < PER; k++) if (lane + 32 * k < m) out_here[t * m + 32 * k] = f[k] + b[k];
                    if (lane == t - base) { loss_here = cost_now; wrong_here = wrong; }

                    // from here on the state changes
                    if (moving) {
                        double pull = nu - violation;
                        if (TUBE) pull = -pull;
                        theta = fmax(theta + p.eta * p.weight * pull, LOWEST);
                    }
                    #pragma unroll
                    for (int k = 0; k < PER; k++) if (offset) b[k] += implicit ? a[k] * p.grow : a[k];
                    scale *= shrink;
                    thin *= p.grow;
                    if (!(1e-9 < fabs(scale) && fabs(scale) < 1e9)) {
                        if (lane == 0) board->factor = scale;
                        scale = thin = 1.0;
                        verdict = FOLD;
                        if (waiting) break;
                    }
                }
                if (waiting) {                                        // a new term, where the second warp has made room
                    waiting = false;
                    if (!found) { await(FOUND); found = true; }
                    const double size = fabs(move * thin);
                    if (!board->gone || !smallest || !(size * (1.0 + 8.0 * EPS) < (double)board->mag)) {
                        if (pending) await(DONE);
                        n += !board->gone;
                        #pragma unroll
                        for (int k = 0; k < PER; k++) {
                            const int z = lane + 32 * k;
                            came[k] = (real)(a[k] * thin);
                            const Pair both = {came[k], z < m ? lost[(events & 1) * m + z] : (real)0};
                            const unsigned changed = __ballot_sync(ALL, z < m && (both.came != 0 || both.went != 0));
                            if (z < m) pair[z * deep + events] = both;
                            if (lane == 0) board->changed[k] = changed;
                        }
                        if (lane == 0) { board->t = t; board->size = size; }
                        arrive(GO);
                        pending = true;
                        found = false;
                        last = t;
                        events++;
                    }
                }
                if (lane == t - base) { size_here = n; theta_here = theta; }
                t++;
                if (verdict == FOLD) break;
            }
            if (pending) await(DONE);
            if (!found) await(FOUND);
            if (lane == 0) { board->t = -1; board->order = verdict; board->n = n; board->events = events; }
            arrive(GO);
            if (base + lane >= from && base + lane < t) {
                const wide at = l * n_examples + first + base + lane;
                out_loss[at] = loss_here;
                out_wrong[at] = wrong_here;
                out_size[at] = size_here;
                if (moving) out_theta[at] = theta_here;
            }
        } else if (warp == 1) {
            // one that may go: its slot or -1, its example in this block or -1, and, as lanes, kernel values and coefficients
            struct Candidate { int slot, example; real mag, leaves, loses[PER]; const real* row; };
            Candidate next = {-1}, old = {-1}, older = {-1};          // the first two of the sorted ones are fetched ahead
            int place = 0, events = 0;
            auto key_of = [&](real size) { return smallest || size == none ? size : (real)0; };   // the oldest go in order anyway
            auto fetch = [&](Candidate& c, int slot, int example, const real* row) {
                c.slot = slot;
                c.example = example;
                c.row = row;
                c.leaves = base + lane < rows ? __ldg(row + base + lane) : (real)0;
                #pragma unroll
                for (int k = 0; k < PER; k++) c.loses[k] = lane + 32 * k < m ? coef[(lane + 32 * k) * room + slot] : (real)0;
            };
            auto fetch_old = [&](Candidate& c, int i) {
                c.slot = -1;
                c.mag = 0;
                if (i >= olds) return;
                const int slot = smallest ? order[i] : first_old + i < room ? first_old + i : first_old + i - room;
                if (smallest) c.mag = mag[slot];
                const unsigned came_as = rank[slot];                  // it came in this block if the slots were sorted since
                fetch(c, slot, -1, came_as < first_rank ? K + (wide)slot * rows : inner + (wide)(came_as - first_rank) * rows);
            };
            auto seek = [&]() {
                next.slot = -1;
                if (n >= budget) {
                    if (old.slot >= 0 && old.mag <= youngest_mag) next = old;    // among equals the old ones are older
                    else {
                        fetch(next, slot_of[youngest], youngest, inner + (wide)youngest * rows);
                        next.mag = youngest_mag;
                    }
                }
                place = smallest ? (next.slot >= 0 ? next.slot : n) : head + n < room ? head + n : head + n - room;
            };
            auto announce = [&]() {
                const int turn = events & 1;
                const bool goes = next.slot >= 0;
                leaving[32 * turn + lane] = goes ? next.leaves : (real)0;
                #pragma unroll
                for (int k = 0; k < PER; k++)
                    if (lane + 32 * k < m) lost[turn * m + lane + 32 * k] = goes ? next.loses[k] : (real)0;
                if (lane == 0) { board->gone = goes; board->mag = next.mag; }
                arrive(FOUND);
            };
            if (tight) { fetch_old(old, gone_olds); fetch_old(older, gone_olds + 1); }
            seek();
            announce();
            for (;;) {
                await(GO);
                const int came_at = board->t, slot = place;
                if (came_at < 0) break;
                const real size = (real)board->size, key = key_of(size);
                const bool from_young = next.slot >= 0 && next.example >= 0;
                #pragma unroll
                for (int k = 0; k < PER; k++)
                    if (lane + 32 * k < m) coef[(lane + 32 * k) * room + slot] = pair[(lane + 32 * k) * deep + events].came;
                if (lane == 0) {
                    if (from_young) young[next.example] = none;
                    young[came_at] = size;
                    slot_of[came_at] = slot;
                    time[events] = came_at;
                    row_of_gone[events] = next.slot >= 0 ? next.row : inner;
                }
                __syncwarp();
                if (next.slot >= 0) {
                    n--;
                    if (!smallest) head = head + 1 < room ? head + 1 : 0;
                    if (!from_young) { gone_olds++; old = older; fetch_old(older, gone_olds + 1); }
                }
                if (from_young) {
                    const int group = next.example >> 5;
                    const real v = key_of(young[32 * group + lane]);
                    const int who = __ffs(holders_of_least(v)) - 1;
                    const real small = __shfl_sync(ALL, v, who);
                    if (lane == group) { least = small; least_at = 32 * group + who; }
                }
                if (lane == came_at >> 5 && key < least) { least = key; least_at = came_at; }
                if (from_young) {
                    const int where = __ffs(holders_of_least(least)) - 1;
                    youngest_mag = __shfl_sync(ALL, least, where);
                    youngest = __shfl_sync(ALL, least_at, where);
                } else if (key < youngest_mag) { youngest_mag = key; youngest = came_at; }
                n++;
                used = used > slot + 1 ? used : slot + 1;
                events++;
                seek();
                announce();
            }
            if (lane == 0) { board->head = head; board->used = used; }
        } else if (warp == 2) {
            unsigned touch[PER];
            #pragma unroll
            for (int k = 0; k < PER; k++) touch[k] = 0;
            int e = 0;
            for (;; e++) {
                await(GO);
                const int came_at = board->t;
                if (came_at < 0) break;
                const real came = near[(came_at - base) * 32 + lane], went = leaving[32 * (e & 1) + lane];
                #pragma unroll
                for (int k = 0; k < PER; k++) {
                    unsigned changed = board->changed[k];
                    touch[k] |= (changed >> lane & 1) << e;
                    if (base + lane > came_at + !related && base + lane < end)   // those to come see who came and who went
                        for (; changed; changed &= changed - 1) {
                            const int z = 32 * k + __ffs(changed) - 1;
                            const Pair both = pair[z * deep + e];
                            score[z * pitch + base + lane] += (double)(both.came * came - both.went * went);
                        }
                }
                arrive(DONE);
            }
            #pragma unroll
            for (int k = 0; k < PER; k++) {
                const int z = lane + 32 * k;
                if (z >= m) break;
                touched[z] = touch[k];
                for (int x = e; x % CHUNK; x++) pair[z * deep + x] = {0, 0};
            }
        } else tell(now ^ 1, before, end + r - 96, blockDim.x - 96);
        __syncthreads();
        const int events = board->events, verdict = board->order;
        if (verdict == STOP) break;
        if (verdict == FOLD) {                                        // write the lazy decay into the coefficients
            tell(now, events, end + r, blockDim.x);
            write_down();
            const double factor = board->factor;
            for (int i = r; i < m * room; i += blockDim.x) {
                const double folded = factor * coef[i];
                coef[i] = fabs(folded) >= TINY ? (real)folded : (real)0;
            }
            for (int i = r; i < room; i += blockDim.x) mag[i] = (real)fabs(factor * mag[i]);
            for (int i = r; i < m * pitch; i += blockDim.x) score[i] *= factor;
            for (int i = r; i < 32 * groups; i += blockDim.x) young[i] = none;
            __syncthreads();
            if (smallest) sort_slots(order, board->n, mag, rank);
            olds = n; gone_olds = 0; first_old = head; least = youngest_mag = none; before = 0;
            __syncthreads();
            continue;
        }
        if (end >= rows) break;
        base = end;
        end = min(base + window, rows);
        for (int i = r; i < events * 32; i += blockDim.x) {
            const int e = i >> 5, q = min(base + (i & 31), rows - 1);
            coming[i] = inner[(wide)time[e] * rows + q];
            going[i] = __ldg(row_of_gone[e] + q);
        }
        for (int i = r; i < (end - base) * 32; i += blockDim.x)
            near[i] = inner[(wide)(base + (i >> 5)) * rows + min(base + (i & 31), rows - 1)];
        __syncthreads();
        if (base + lane < end)
            for (int z = warp; z < m; z += warps) {
                if (!touched[z]) continue;
                real sum = 0;
                #pragma unroll 8
                for (int e = 0; e < events; e++) {
                    const Pair p = pair[z * deep + e];
                    sum = fma(p.came, coming[e * 32 + lane], fma(-p.went, going[e * 32 + lane], sum));
                }
                score[(wide)z * pitch + base + lane] += (double)sum;
            }
        __syncthreads();
        now ^= 1;
        before = events;
    }

    write_down();
    if (r == 0) { num[N] = n; num[USED] = board->used; num[HEAD] = board->head; num[SCALE] = scale; num[THETA] = theta; }
    #pragma unroll
    for (int k = 0; k < PER; k++) if (warp == 0 && lane + 32 * k < m) num[NUMBERS + lane + 32 * k] = b[k];
    if (INSIDE & 2)
        for (int i = r; i < room; i += blockDim.x) {
            mags[(wide)l * room + i] = mag[i];
            ranks[(wide)l * room + i] = rank[i];
        }
}
