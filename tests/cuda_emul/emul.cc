/*
 * emul.cc - fibres, barriers and grids; see emul.h.
 *
 * A fibre is entered once through ucontext and afterwards by the compiler's own longjmp, which
 * makes no system call and stores three words. Fibres live as long as the program: each runs one
 * block's body after another.
 */
#include "tests/cuda_emul/emul.h"

#include <numeric>

#include <sys/mman.h>
#include <ucontext.h>

enum { MOST = SN_BLOCK_MOST, WARPS = MOST / 32, STACK = 256 * 1024 };

struct sn_emul_3 threadIdx, blockIdx, blockDim, gridDim;
long sn_emul_launches;
int sn_emul_order = -1;

struct barrier {
    unsigned arrived, turn;
};

struct fibre {
    void *at[5];
    bool entered, done;
    const struct barrier *waits; /* NULL: for none; it goes on when that one's turn is another */
    unsigned turn;
};

static struct fibre fibre[MOST];
static void *scheduler[5];
static ucontext_t entry, main_context;
static unsigned char *stacks, *shared_memory;
static int current, threads, live;
static bool moved; /* something happened in this round */
static struct barrier block_barrier, warp_barrier[WARPS], group_barrier[WARPS];
static unsigned char slots[WARPS][32 * 64] __attribute__((aligned(64)));
static struct sn_emul_body *work;
size_t sn_emul_shared_most;
static struct {
    void *at;
    long block; /* for which it was filled */
} variable[16];
static int variables;
static size_t dynamic_bytes, named_bytes, static_bytes; /* static: named, up to whole KiB before
                                                           dynamic ones (SN_DYNAMIC_SHARED) */
static long blocks;

unsigned char *sn_emul_shared(void)
{
    return shared_memory;
}
void *sn_emul_slots(void)
{
    return slots[current / 32];
}
int sn_emul_lane(void)
{
    return current % 32;
}
uint32_t sn_emul_barriers(void)
{
    return block_barrier.turn;
}

void sn_emul_bounds(int most, int)
{
    if (threads <= most)
        return;
    fprintf(stderr, "emul: a block of %d threads, of a kernel whose bounds allow %d\n", threads,
            most);
    abort();
}

static void add_static(void *at, size_t bytes)
{
    bool asks = dynamic_bytes > SN_SHARED_PLAIN / 2; /* as sn_launch() does */
    size_t asked = asks ? sn_emul_shared_most : (size_t)SN_SHARED_PLAIN;
    named_bytes += bytes;
    static_bytes = dynamic_bytes ? (named_bytes + 1023) / 1024 * 1024 : named_bytes;
    if (static_bytes + dynamic_bytes > asked || static_bytes > SN_SHARED_PLAIN ||
        variables == sizeof(variable) / sizeof(variable[0])) {
        fprintf(stderr, "emul: %zu bytes of static and %zu of dynamic shared memory, %zu allowed\n",
                static_bytes, dynamic_bytes, asked);
        abort();
    }
    variable[variables++] = {at, 0};
}

void sn_emul_static(void *at, size_t bytes)
{
    int i = 0;
    while (i < variables && variable[i].at != at)
        i++;
    if (i == variables)
        add_static(at, bytes);
    if (variable[i].block != blocks)
        memset(at, 0xff, bytes);
    variable[i].block = blocks;
}

static void set_thread(int i)
{
    current = i;
    threadIdx.x = (unsigned)i % blockDim.x;
    threadIdx.y = (unsigned)i / blockDim.x % blockDim.y;
    threadIdx.z = 0;
}

static void yield(void)
{
    int me = current;
    if (__builtin_setjmp(fibre[me].at) == 0)
        __builtin_longjmp(scheduler, 1);
    set_thread(me);
}

static void wait_for(struct barrier *b, unsigned count)
{
    unsigned turn = b->turn;
    moved = true;
    if (++b->arrived >= count) {
        b->arrived = 0;
        b->turn++;
        return;
    }
    fibre[current].waits = b;
    fibre[current].turn = turn;
    yield();
    moved = true;
}

void __syncthreads(void)
{
    wait_for(&block_barrier, (unsigned)threads); /* every thread: one that left is an error here */
}
void sn_emul_warp_barrier(unsigned mask)
{
    int whole = threads - current / 32 * 32 < 32 ? threads - current / 32 * 32 : 32;
    unsigned there = whole == 32 ? mask : mask & ((1u << whole) - 1);
    if (!(there >> (current % 32) & 1)) {
        fprintf(stderr, "emul: lane %d is not in the mask of its own exchange\n", current % 32);
        abort();
    }
    wait_for(&warp_barrier[current / 32], (unsigned)__builtin_popcount(there));
}
void sn_emul_group_barrier(int n)
{
    wait_for(&group_barrier[current / n], (unsigned)n);
}

static void fibre_main(void)
{
    for (;;) {
        work->run();
        fibre[current].done = true;
        live--;
        moved = true;
        int me = current;
        if (__builtin_setjmp(fibre[me].at) == 0)
            __builtin_longjmp(scheduler, 1);
        set_thread(me);
    }
}

static void enter(int i)
{
    fibre[i].entered = true;
    (void)getcontext(&entry);
    entry.uc_stack.ss_sp = stacks + (size_t)i * STACK;
    /* They do not all begin at the same sets of the caches. */
    entry.uc_stack.ss_size = STACK - (size_t)(i % 64) * 17 * 64;
    entry.uc_link = NULL;
    makecontext(&entry, fibre_main, 0);
    (void)swapcontext(&main_context, &entry);
}

/* The threads of a round run in steps of this, which has no factor in common with their number. */
static uint32_t stride(int order, uint32_t round)
{
    uint32_t step = (2u * ((uint32_t)order * 2654435761u + round * 40503u) + 1) % 1024;
    while (step == 0 || (threads % 2 == 0 && step % 2 == 0) ||
           (threads % 3 == 0 && step % 3 == 0) || (threads % 5 == 0 && step % 5 == 0) ||
           (threads % 7 == 0 && step % 7 == 0))
        step++;
    return step;
}

static int in_order(int i, int order, uint32_t step)
{
    return order == 0   ? i
           : order == 1 ? threads - 1 - i
                        : (int)((uint64_t)i * step % (uint32_t)threads);
}

static void run_block(int order)
{
    live = threads;
    memset(&block_barrier, 0, sizeof(block_barrier));
    memset(warp_barrier, 0, sizeof(warp_barrier));
    memset(group_barrier, 0, sizeof(group_barrier));
    for (int i = 0; i < threads; i++)
        fibre[i].done = false, fibre[i].waits = NULL;
    for (volatile uint32_t round = 0; live > 0; round = round + 1) {
        volatile uint32_t step = stride(order, round);
        moved = false;
        for (volatile int n = 0; n < threads; n = n + 1) {
            volatile int i = in_order(n, order, step);
            if (fibre[i].done || (fibre[i].waits && fibre[i].waits->turn == fibre[i].turn))
                continue;
            fibre[i].waits = NULL;
            set_thread(i);
            if (__builtin_setjmp(scheduler) == 0) {
                if (fibre[i].entered)
                    __builtin_longjmp(fibre[i].at, 1);
                enter(i);
            }
        }
        if (!moved && live > 0) {
            fprintf(stderr,
                    "emul: %d of %d threads wait at a barrier that the others never reach\n", live,
                    threads);
            abort();
        }
    }
    sn_emul_products_end();
    sn_emul_copies_end();
}

/* Which block is the i-th of n. */
static uint64_t block_in_order(uint64_t i, uint64_t n)
{
    if (sn_emul_order == 0)
        return i;
    if (sn_emul_order == 1)
        return n - 1 - i;
    uint64_t step = (uint64_t)sn_emul_order * 2654435761u % n;
    while (std::gcd(step, n) != 1)
        step++;
    return i * step % n;
}

static void begin(void)
{
    stacks = (unsigned char *)mmap(NULL, (size_t)MOST * STACK, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    shared_memory = (unsigned char *)mmap(NULL, SN_EMUL_SHARED, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sn_emul_order < 0)
        sn_emul_order = getenv("SN_EMUL_ORDER") ? atoi(getenv("SN_EMUL_ORDER")) : 0;
}

void sn_emul_grid(struct sn_shape g, struct sn_emul_body *body)
{
    uint64_t n = (uint64_t)g.x * g.y * g.z;
    if (!stacks)
        begin();
    sn_emul_launches++;
    work = body;
    threads = (int)(g.bx * g.by);
    variables = 0;
    named_bytes = static_bytes = 0;
    dynamic_bytes = g.shared;
    blockDim = {g.bx, g.by, 1};
    gridDim = {g.x, g.y, g.z};
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = block_in_order(i, n);
        blockIdx = {(unsigned)(at % g.x), (unsigned)(at / g.x % g.y), (unsigned)(at / g.x / g.y)};
        blocks++;
        memset(shared_memory, 0xff, g.shared + 4096);
        run_block(sn_emul_order);
        for (size_t b = g.shared; b < g.shared + 4096; b++)
            if (shared_memory[b] != 0xff) {
                fprintf(stderr, "emul: shared memory is written beyond its %zu bytes\n", g.shared);
                abort();
            }
    }
}

/* --- the runtime ----------------------------------------------------------------------------- */

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *f, const void *)
{
    f->maxThreadsPerBlock = SN_BLOCK_MOST;
    return cudaSuccess;
}
cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t)
{
    memset(p, value, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemset2DAsync(void *p, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t)
{
    for (size_t r = 0; r < height; r++)
        memset((char *)p + r * pitch, value, width);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int, cudaStream_t)
{
    memcpy(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, int, cudaStream_t)
{
    for (size_t r = 0; r < height; r++)
        memcpy((char *)to + r * to_pitch, (const char *)from + r * from_pitch, width);
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int)
{
    static const int v[] = {9, 0, 4, 227 * 1024, 50 << 20};
    *value = v[what];
    return cudaSuccess;
}
const char *cudaGetErrorString(cudaError_t)
{
    return "an emulated error";
}
