/*
 * wgmma.cc - products of warpgroups as late as they may be, and who wrote what to shared memory;
 * see wgmma.h.
 */
#include "tests/cuda_emul/wgmma.h"
#include "tests/cuda_emul/canonical.h"

#include <algorithm>
#include <map>
#include <vector>

enum { WORD = 4, WORDS = SN_EMUL_SHARED / WORD, GROUP = 128, GROUPS = SN_BLOCK_MOST / GROUP };
static const uint32_t POISON = 0x7fc0dead; /* a NaN */

/* Sums on which products are pending: what they were; in the thread's own memory is poison. */
struct sums {
    float (*c)[4];
    std::vector<float> value;
    size_t products;
};

/* Where the elements of a tile lie, from the begin of shared memory: [row][16 deep]. */
typedef const uint32_t (*places)[16];

struct pending {
    struct sn_emul_product product;
    int group;
    places a, b; /* a: NULL where A is in registers */
};

static struct thread {
    bool fenced;
    int groups;
    size_t issued;
    std::vector<struct pending> pending;
    std::vector<struct sums> sums;
    std::vector<uint32_t> written; /* words that it did not publish yet */
} thread[SN_BLOCK_MOST];

/* The products of each warpgroup, as the first of its threads named them. */
struct named {
    uint64_t a, b;
};
static std::vector<struct named> named[GROUPS];

/* Of each word of shared memory: who wrote it (its thread + 1), whether it was published, and at
 * which barrier that was. */
static struct word {
    uint16_t writer;
    bool published;
    uint32_t turn;
} word[WORDS];
static bool used; /* any of this in this block */

static int me(void)
{
    return (int)(threadIdx.y * blockDim.x + threadIdx.x);
}

static void fault(const char *what)
{
    fprintf(stderr, "emul: thread %d: %s\n", me(), what);
    abort();
}

/* --- who wrote what -------------------------------------------------------------------------- */

void sn_emul_wrote(const void *to, size_t bytes)
{
    size_t at = (size_t)((const unsigned char *)to - sn_emul_shared());
    if (at >= SN_EMUL_SHARED)
        return;
    used = true;
    for (size_t w = at / WORD; w * WORD < at + bytes && w < WORDS; w++) {
        word[w] = {(uint16_t)(me() + 1), false, 0};
        thread[me()].written.push_back((uint32_t)w);
    }
}

void sn_emul_publish(void)
{
    for (uint32_t w : thread[me()].written)
        if (word[w].writer == me() + 1)
            word[w] = {word[w].writer, true, sn_emul_barriers()};
    thread[me()].written.clear();
}

static void is_published(uint32_t at)
{
    const struct word *w = &word[at / WORD];
    if (at >= SN_EMUL_SHARED)
        fault("a product reads beyond shared memory");
    if (w->writer && !w->published)
        fault("a product reads shared memory that was written and not published since "
              "(fence.proxy.async)");
    if (w->writer && w->writer != me() + 1 && w->turn == sn_emul_barriers())
        fault("a product reads what another thread wrote, without a barrier between them");
}

/* Two rows of a tile, of which two elements share a word. */
static void are_published(places row, bool turned)
{
    for (int i = 0; i < 16; i++)
        is_published(turned ? row[0][i] : row[i / 8][i % 8 * 2]);
}

extern "C" {
#define SN_WRITES(name, bytes)                                                                     \
    void name(void *p)                                                                             \
    {                                                                                              \
        sn_emul_wrote(p, bytes);                                                                   \
    }
#define SN_READS(name)                                                                             \
    void name(void *)                                                                              \
    {                                                                                              \
    }
SN_WRITES(__tsan_write1, 1)
SN_WRITES(__tsan_write2, 2)
SN_WRITES(__tsan_write4, 4)
SN_WRITES(__tsan_write8, 8)
SN_WRITES(__tsan_write16, 16)
SN_WRITES(__tsan_unaligned_write2, 2)
SN_WRITES(__tsan_unaligned_write4, 4)
SN_WRITES(__tsan_unaligned_write8, 8)
SN_WRITES(__tsan_unaligned_write16, 16)
void __tsan_write_range(void *p, long bytes)
{
    sn_emul_wrote(p, (size_t)bytes);
}
SN_READS(__tsan_read1)
SN_READS(__tsan_read2)
SN_READS(__tsan_read4)
SN_READS(__tsan_read8)
SN_READS(__tsan_read16)
SN_READS(__tsan_unaligned_read2)
SN_READS(__tsan_unaligned_read4)
SN_READS(__tsan_unaligned_read8)
SN_READS(__tsan_unaligned_read16)
SN_READS(__tsan_func_entry)
SN_READS(__tsan_func_exit)
void __tsan_read_range(void *, long)
{
}
void __tsan_vptr_update(void *, void *)
{
}
void __tsan_init(void)
{
}
}

/* --- products -------------------------------------------------------------------------------- */

/* Element (row, 16-deep column) of a tile whose rows are not depth; or of one whose rows are. */
static inline uint64_t address(uint64_t d, int row, int depth, bool turned)
{
    uint64_t start = (d & 0x3fff) << 4, far = (d >> 16 & 0x3fff) << 4,
             rows8 = (d >> 32 & 0x3fff) << 4;
    uint64_t at = turned ? start + (uint64_t)(row / 64) * far + (uint64_t)(row % 64) * 2 +
                               (uint64_t)(depth / 8) * rows8 + (uint64_t)(depth % 8) * 128
                         : start + (uint64_t)(row / 8) * rows8 + (uint64_t)(row % 8) * 128 +
                               (uint64_t)depth * 2;
    return at ^ (at >> 7 & 7) << 4;
}

/* `rows` are those of A or columns of B; a descriptor is read both ways when it is first named. */
static places places_of(uint64_t d, int rows, bool turned)
{
    static std::map<std::pair<uint64_t, int>, std::vector<uint32_t>> known;
    std::vector<uint32_t> &at = known[{d, 2 * rows + turned}];
    if (!at.empty())
        return (places)at.data();
    const char *why = sn_emul_descriptor_fault(d, turned, rows);
    if (why)
        fault(why);
    struct sn_emul_tile t = sn_emul_tile_of(d, turned);
    for (int row = 0; row < rows; row++)
        for (int deep = 0; deep < 16; deep++) {
            at.push_back((uint32_t)address(d, row, deep, turned));
            if (at.back() != sn_emul_canonical(t, row, deep))
                fault("two readings of a descriptor differ");
        }
    return (places)at.data();
}

/* The two rows of A, and the two columns of fragment n of B, that this thread has: the first. */
static int row_of_a(void)
{
    return me() / 32 % 4 * 16 + sn_emul_lane() / 4;
}
static int column_of_b(int n)
{
    return n * 8 + sn_emul_lane() % 4 * 2;
}

void sn_emul_product_fence(void)
{
    thread[me()].fenced = true;
    sn_emul_group_barrier(GROUP); /* all of a warpgroup, or none */
}

static struct sums *sums_of(struct thread *t, float (*c)[4], int n)
{
    for (struct sums &s : t->sums)
        if (s.c == c)
            return &s;
    t->sums.push_back({c, std::vector<float>(&c[0][0], &c[0][0] + 4 * n), 0});
    for (int i = 0; i < 4 * n; i++)
        memcpy(&c[i / 4][i % 4], &POISON, sizeof(POISON));
    return &t->sums.back();
}

void sn_emul_product_issue(const struct sn_emul_product *p)
{
    struct thread *t = &thread[me()];
    std::vector<struct named> *all = &named[me() / GROUP];
    used = true;
    if (p->n > 32)
        fault("a product of more than 256 columns");
    if (!t->fenced)
        fault("a product without a fence (wgmma.fence) since the last wait");
    if (t->issued == all->size())
        all->push_back({p->a, p->b});
    if ((*all)[t->issued].a != p->a || (*all)[t->issued].b != p->b)
        fault("threads of one warpgroup name different operands of a product");
    t->issued++;
    places a = p->in_registers ? nullptr : places_of(p->a, 64, p->a_turned),
           b = places_of(p->b, 8 * p->n, p->b_turned);
    for (int i = 0; i < 32 && a; i++)
        is_published(a[row_of_a() + i / 16 * 8][i % 16]);
    for (int n = 0; n < p->n; n++)
        are_published(b + column_of_b(n), p->b_turned);
    sums_of(t, p->c, p->n)->products++;
    t->pending.push_back({*p, t->groups, a, b});
}

void sn_emul_product_commit(void)
{
    thread[me()].groups++;
}

static inline float number_at(const struct sn_emul_product *p, uint32_t at)
{
    uint16_t bits;
    memcpy(&bits, sn_emul_shared() + at, sizeof(bits));
    return p->wide[bits];
}

static void add(const struct pending *q, std::vector<float> &c)
{
    enum { MOST = 64 };
    const struct sn_emul_product *p = &q->product;
    float x[2][16], y[16][MOST], sum[2][MOST];
    int columns = 2 * p->n;
    for (int i = 0; i < 32; i++)
        x[i / 16][i % 16] =
            q->a ? number_at(p, q->a[row_of_a() + i / 16 * 8][i % 16]) : p->x[i / 16][i % 16];
    for (int m = 0; m < columns; m++) {
        const uint32_t *column = q->b[column_of_b(m / 2) + m % 2];
        for (int k = 0; k < 16; k++)
            y[k][m] = number_at(p, column[k]);
    }
    for (int row = 0; row < 2; row++) {
        for (int m = 0; m < columns; m++)
            sum[row][m] = p->anew ? 0.0f : c[(size_t)(m / 2 * 4 + row * 2 + m % 2)];
        for (int k = 0; k < 16; k++)
            for (int m = 0; m < columns; m++)
                sum[row][m] += x[row][k] * y[k][m];
        for (int m = 0; m < columns; m++)
            c[(size_t)(m / 2 * 4 + row * 2 + m % 2)] = sum[row][m];
    }
}

static void put_back(const struct sums *s)
{
    for (size_t i = 0; i < s->value.size(); i++) {
        if (memcmp(&s->c[i / 4][i % 4], &POISON, sizeof(POISON)) != 0)
            fault("sums were written while a product on them was pending");
        s->c[i / 4][i % 4] = s->value[i];
    }
}

void sn_emul_product_wait(int most)
{
    struct thread *t = &thread[me()];
    std::vector<struct pending> later;
    std::vector<struct sums> kept;
    sn_emul_warp_barrier(0xffffffffu);
    for (const struct pending &p : t->pending) {
        if (p.group >= t->groups - most) {
            later.push_back(p);
            continue;
        }
        struct sums *s = sums_of(t, p.product.c, p.product.n);
        add(&p, s->value);
        s->products--;
    }
    for (const struct sums &s : t->sums)
        if (s.products)
            kept.push_back(s);
        else
            put_back(&s);
    t->pending = later;
    t->sums = kept;
    t->fenced = false;
    sn_emul_warp_barrier(0xffffffffu);
}

void sn_emul_products_end(void)
{
    if (!used)
        return;
    for (struct thread &t : thread) {
        if (!t.pending.empty()) {
            fprintf(stderr, "emul: a block ends with products that nobody waited for\n");
            abort();
        }
        t.groups = 0;
        t.issued = 0;
        t.fenced = false;
        t.written.clear();
    }
    for (std::vector<struct named> &n : named)
        n.clear();
    memset((void *)word, 0, sizeof(word));
    used = false;
}
