/*
 * gemm.cu - GEMM through cuBLASLt.
 *
 * The library's matrices are columns first, so what it computes is C^T = op(B)^T op(A)^T: its first
 * operand is our B, its second our A, and a row-major matrix of r x c is a column-major one of c x
 * r. Sums are fp32 (or of TF32 products, if asked); the addend, or the old C, enters there too
 * (beta = 1), and so does a bias of C's type: C is rounded once. Split sums are reduced in fp32
 * through the workspace, never in C's type and never in place, so results do not vary from run to
 * run.
 *
 * What the library has no way for goes to our own product (product.cuh): an empty depth, addend and
 * accumulation at once, an addend or a bias of another type than C, and any shape it refuses.
 *
 * Epilogues: gemm_epilogue.cu decides whether the library or a kernel of our own does them.
 *
 * With attr.gemm.fp8 the operands are copies (gemm_fp8.cu): 8-bit codes on sm_89 and later where the
 * library takes them, else the same values in bf16.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/gemm_fp8.cuh"
#include "kernels/cuda/gemm_inner.cuh"
#include "kernels/cuda/ops.cuh"
#include "kernels/cuda/product.cuh"

#include <string.h>

enum { MOST_ALGORITHMS = 16 };

/* One GEMM as the library sees it. */
struct call {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t a, b, c, d; /* the library's: a is our B */
    const void *pa, *pb, *pc;
    void *pd;
    float alpha, beta;
};

static cudaDataType_t code_type(enum sn_fp8_format t)
{
    return t == SN_E5M2 ? CUDA_R_8F_E5M2 : CUDA_R_8F_E4M3;
}

/* Numbers of cublasLt.h from CUDA 12.9 on, which the header of CUDA 12.4 (sm_70) has not: how
 * factors of operands are laid out. */
enum { SCALE_MODE_A = 31, SCALE_MODE_B = 32, SCALE_LINES = 4, SCALE_BLOCKS = 5 };
enum { SCALE_VERSION = 120900 };

static cudaDataType_t data_type(enum sn_dtype t)
{
    return t == SN_BF16 ? CUDA_R_16BF : t == SN_F16 ? CUDA_R_16F : CUDA_R_32F;
}

static int failed(struct sn_cuda *cx, cublasStatus_t st)
{
    cx->fault.what = cublasLtGetStatusString(st);
    return cx->fault.code = 10000 + (int)st;
}

static cublasStatus_t layout(cublasLtMatrixLayoutOpaque_t *l, const struct sn_mat *m,
                             cudaDataType_t type)
{
    int64_t ld = m->rows > 1 ? m->ld : m->cols;
    return cublasLtMatrixLayoutInit(l, type, (uint64_t)m->cols, (uint64_t)m->rows, ld);
}

/* The largest power of two, up to 256, that divides an address and its rows' distance. */
static uint32_t alignment(const struct sn_mat *m)
{
    uintptr_t bits = (uintptr_t)m->p;
    uint32_t n = 1;
    if (m->rows > 1)
        bits |= (uintptr_t)m->ld * sn_dtype_size(m->dtype);
    while (n < 256 && bits % (2 * n) == 0)
        n *= 2;
    return n;
}

/* What is added with beta = 1: the addend, the old C, or nothing. */
static const struct sn_mat *added(const struct sn_args *a)
{
    return a->in[SN_GEMM_ADDEND].p ? &a->in[SN_GEMM_ADDEND] : &a->out[SN_GEMM_C];
}

static bool is_added(const struct sn_args *a)
{
    return a->in[SN_GEMM_ADDEND].p || a->acc[SN_GEMM_C] == SN_ADD;
}

/* What the activation reads: written with C, or read for its slope; absent with other epilogues. */
static const struct sn_mat *auxiliary(const struct sn_args *a)
{
    static const struct sn_mat none = {NULL, SN_F32, 0, 0, 0};
    return a->attr.gemm.epilogue == SN_EPILOGUE_ACT      ? &a->out[SN_GEMM_BESIDE]
           : a->attr.gemm.epilogue == SN_EPILOGUE_ACT_DX ? &a->in[SN_GEMM_SLOPE_OF]
                                                         : &none;
}

bool sn_gemm_is_for_library(const struct sn_args *a)
{
    const struct sn_mat *c = &a->out[SN_GEMM_C], *bias = &a->in[SN_GEMM_BIAS],
                        *addend = &a->in[SN_GEMM_ADDEND];
    int64_t k = a->attr.gemm.trans_a ? a->in[SN_GEMM_A].rows : a->in[SN_GEMM_A].cols;
    if (k == 0 || (addend->p && a->acc[SN_GEMM_C] == SN_ADD) ||
        (addend->p && addend->dtype != c->dtype))
        return false;
    if (bias->p && (bias->dtype != c->dtype || (uintptr_t)bias->p % 16 != 0))
        return false;
    if (a->attr.gemm.epilogue && (!sn_gemm_joins(a) || (uintptr_t)auxiliary(a)->p % 16 != 0))
        return false;
    if (a->attr.gemm.epilogue == SN_EPILOGUE_COLSUM &&
        (uintptr_t)a->out[SN_GEMM_BESIDE].p % 16 != 0)
        return false;
    return sn_is_small_float(a->in[SN_GEMM_A].dtype) &&
           a->in[SN_GEMM_A].dtype == a->in[SN_GEMM_B].dtype &&
           (c->dtype == a->in[SN_GEMM_A].dtype || c->dtype == SN_F32);
}

static cublasStatus_t set(struct call *g, cublasLtMatmulDescAttributes_t what, const void *value,
                          size_t bytes)
{
    return cublasLtMatmulDescSetAttribute(&g->desc, what, value, bytes);
}

/* Operands that are codes: their types, and their factors on the device.
 * The library's A is our B. */
static cublasStatus_t describe_codes(const struct sn_fp8_call *f, struct call *g,
                                     cudaDataType_t type[2])
{
    static const int mode[2] = {SCALE_MODE_B, SCALE_MODE_A};
    static const cublasLtMatmulDescAttributes_t factors[2] = {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
                                                              CUBLASLT_MATMUL_DESC_A_SCALE_POINTER};
    cublasStatus_t st = CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i < 2; i++) {
        const struct sn_fp8_parts *p = &f->parts[i];
        int32_t layout = p->rows == p->cols ? SCALE_BLOCKS : SCALE_LINES;
        st = st ? st : set(g, factors[i], &f->inverse[i], sizeof(f->inverse[i]));
        if (p->rows)
            st = st ? st : set(g, (cublasLtMatmulDescAttributes_t)mode[i], &layout, sizeof(layout));
        type[i] = code_type(p->format);
    }
    return st;
}

/* Bias, activation and sums of columns. Columns of the library's matrix are our rows: what it sums
 * over the depth of its B, our A, has as many elements as C has rows. */
static cublasStatus_t describe_epilogue(const struct sn_args *a, struct call *g)
{
    const struct sn_mat *x = auxiliary(a);
    const void *aux = x->p, *vector = a->in[SN_GEMM_BIAS].p;
    int64_t ld = x->ld;
    cublasLtEpilogue_t kind = vector ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    cublasStatus_t st = CUBLAS_STATUS_SUCCESS;
    if (a->attr.gemm.epilogue == SN_EPILOGUE_ACT && aux)
        kind = vector ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    else if (a->attr.gemm.epilogue == SN_EPILOGUE_ACT)
        kind = vector ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    else if (a->attr.gemm.epilogue == SN_EPILOGUE_ACT_DX)
        kind = CUBLASLT_EPILOGUE_DGELU;
    else if (a->attr.gemm.epilogue == SN_EPILOGUE_COLSUM) {
        kind = CUBLASLT_EPILOGUE_BGRADB;
        vector = a->out[SN_GEMM_BESIDE].p;
    }
    if (kind != CUBLASLT_EPILOGUE_DEFAULT)
        st = set(g, CUBLASLT_MATMUL_DESC_EPILOGUE, &kind, sizeof(kind));
    if (vector)
        st = st ? st : set(g, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector, sizeof(vector));
    if (aux) {
        st = st ? st : set(g, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux, sizeof(aux));
        st = st ? st : set(g, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof(ld));
    }
    return st;
}

/* `f`: what the operands are codes of; NULL: they are none. */
static cublasStatus_t describe(const struct sn_cuda *cx, const struct sn_args *a,
                               const struct sn_fp8_call *f, struct call *g)
{
    bool tf32 = cx->tf32 && cx->device.arch >= 80 && a->in[SN_GEMM_A].dtype == SN_F32;
    cublasOperation_t op_a = a->attr.gemm.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t op_b = a->attr.gemm.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasStatus_t st = cublasLtMatmulDescInit(
        &g->desc, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    g->pa = a->in[SN_GEMM_B].p;
    g->pb = a->in[SN_GEMM_A].p;
    g->pc = is_added(a) ? added(a)->p : a->out[SN_GEMM_C].p;
    g->pd = a->out[SN_GEMM_C].p;
    g->alpha = 1.0f;
    g->beta = is_added(a) ? 1.0f : 0.0f;
    st = st ? st : set(g, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof(op_a));
    st = st ? st : set(g, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof(op_b));
    st = st ? st : describe_epilogue(a, g);
    const struct sn_mat *c = &a->out[SN_GEMM_C];
    cudaDataType_t type[2] = {data_type(a->in[SN_GEMM_A].dtype), data_type(a->in[SN_GEMM_B].dtype)};
    if (f)
        st = st ? st : describe_codes(f, g, type);
    st = st ? st : layout(&g->a, &a->in[SN_GEMM_B], type[1]);
    st = st ? st : layout(&g->b, &a->in[SN_GEMM_A], type[0]);
    st = st ? st : layout(&g->c, is_added(a) ? added(a) : c, data_type(c->dtype));
    return st ? st : layout(&g->d, c, data_type(c->dtype));
}

/* --- plans ----------------------------------------------------------------------------------- */

/* All that a plan depends on. */
static void key_of(const struct sn_cuda *cx, const struct sn_args *a, uint64_t key[5])
{
    const struct sn_mat *c = &a->out[SN_GEMM_C], *x = is_added(a) ? added(a) : c,
                        *aux = auxiliary(a);
    uint64_t k = (uint64_t)(a->attr.gemm.trans_a ? a->in[SN_GEMM_A].rows : a->in[SN_GEMM_A].cols);
    uint64_t align = alignment(&a->in[SN_GEMM_A]) | (uint64_t)alignment(&a->in[SN_GEMM_B]) << 10 |
                     (uint64_t)alignment(x) << 20 | (uint64_t)alignment(c) << 30 |
                     (uint64_t)(aux->p ? alignment(aux) : 0) << 40;
    uint64_t flags = 1 | (uint64_t)a->attr.gemm.trans_a << 1 | (uint64_t)a->attr.gemm.trans_b << 2 |
                     (uint64_t)is_added(a) << 3 | (uint64_t)(a->in[SN_GEMM_BIAS].p != NULL) << 4 |
                     (uint64_t)cx->tf32 << 5 | (uint64_t)a->in[SN_GEMM_A].dtype << 6 |
                     (uint64_t)c->dtype << 10 | (uint64_t)a->attr.gemm.fp8 << 14 |
                     (uint64_t)a->attr.gemm.epilogue << 18 | (uint64_t)(aux->p != NULL) << 20;
    key[0] = (uint64_t)c->rows << 32 | (uint32_t)c->cols;
    key[1] = k << 32 | (uint32_t)a->in[SN_GEMM_A].ld;
    key[2] = (uint64_t)a->in[SN_GEMM_B].ld << 32 | (uint32_t)x->ld;
    key[3] = (uint64_t)c->ld << 32 | flags;
    key[4] = align;
}

static struct sn_cuda_plan *find(struct sn_cuda *cx, const uint64_t key[5])
{
    struct sn_cuda_plans *p = &cx->plans;
    for (int i = 0; i < p->n; i++)
        if (memcmp(p->plan[i].key, key, sizeof(p->plan[i].key)) == 0)
            return &p->plan[i];
    return NULL;
}

/* `algo` NULL: the epilogue is a kernel of its own. */
static void keep(struct sn_cuda *cx, const uint64_t key[5], const cublasLtMatmulAlgo_t *algo)
{
    struct sn_cuda_plan *p = find(cx, key);
    if (!p && cx->plans.n < SN_CUDA_PLANS)
        p = &cx->plans.plan[cx->plans.n++];
    if (!p)
        return;
    memset(p, 0, sizeof(*p));
    memcpy(p->key, key, sizeof(p->key));
    p->is_apart = algo == NULL;
    if (algo)
        p->algo = *algo;
}

const struct sn_cuda_plan *sn_gemm_plan(struct sn_cuda *cx, const struct sn_args *a)
{
    uint64_t key[5];
    key_of(cx, a, key);
    return find(cx, key);
}

void sn_gemm_keep_apart(struct sn_cuda *cx, const struct sn_args *a)
{
    uint64_t key[5];
    key_of(cx, a, key);
    keep(cx, key, NULL);
}

static cublasStatus_t ask(struct sn_cuda *cx, const struct sn_args *a, struct call *g, int most,
                          cublasLtMatmulHeuristicResult_t *found, int *n)
{
    cublasLtMatmulPreferenceOpaque_t pref;
    size_t workspace = SN_GEMM_WORKSPACE;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    uint32_t align[4] = {alignment(&a->in[SN_GEMM_B]), alignment(&a->in[SN_GEMM_A]),
                         alignment(is_added(a) ? added(a) : &a->out[SN_GEMM_C]),
                         alignment(&a->out[SN_GEMM_C])};
    static const cublasLtMatmulPreferenceAttributes_t which[4] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    cublasStatus_t st = cublasLtMatmulPreferenceInit(&pref);
    st = st ? st
            : cublasLtMatmulPreferenceSetAttribute(&pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                   &workspace, sizeof(workspace));
    st = st ? st
            : cublasLtMatmulPreferenceSetAttribute(
                  &pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof(schemes));
    for (int i = 0; i < 4; i++)
        st =
            st ? st
               : cublasLtMatmulPreferenceSetAttribute(&pref, which[i], &align[i], sizeof(align[i]));
    *n = 0;
    return st ? st
              : cublasLtMatmulAlgoGetHeuristic(cx->blas, &g->desc, &g->a, &g->b, &g->c, &g->d,
                                               &pref, most, found, n);
}

static cublasStatus_t multiply(struct sn_cuda *cx, const struct sn_args *a, struct call *g,
                               const cublasLtMatmulAlgo_t *algo)
{
    return cublasLtMatmul(cx->blas, &g->desc, &g->alpha, g->pa, &g->a, g->pb, &g->b, &g->beta,
                          g->pc, &g->c, g->pd, &g->d, algo, a->scratch, SN_GEMM_WORKSPACE,
                          cx->stream);
}

static int own(struct sn_cuda *cx, const struct sn_args *a, bool is_refused)
{
    struct sn_product p;
    sn_gemm_remember(cx, a, is_refused);
    memset(&p, 0, sizeof(p));
    p.a = a->in[SN_GEMM_A];
    p.b = a->in[SN_GEMM_B];
    p.bias = a->in[SN_GEMM_BIAS];
    p.addend = a->in[SN_GEMM_ADDEND];
    p.c = a->out[SN_GEMM_C];
    p.trans_a = a->attr.gemm.trans_a;
    p.trans_b = a->attr.gemm.trans_b;
    p.add = a->acc[SN_GEMM_C] == SN_ADD;
    return sn_product_run(cx, &p);
}

/* --- measuring ------------------------------------------------------------------------------- */

/* The milliseconds of three runs after one that warms up; 0 and a status when it fails. */
static cublasStatus_t time_of(struct sn_cuda *cx, const struct sn_args *a, struct call *g,
                              const cublasLtMatmulAlgo_t *algo, cudaEvent_t event[2], float *ms)
{
    cublasStatus_t st = multiply(cx, a, g, algo);
    (void)cudaEventRecord(event[0], cx->stream); /* a failure shows below */
    for (int i = 0; i < 3 && st == CUBLAS_STATUS_SUCCESS; i++)
        st = multiply(cx, a, g, algo);
    (void)cudaEventRecord(event[1], cx->stream);
    if (st == CUBLAS_STATUS_SUCCESS &&
        (cudaEventSynchronize(event[1]) != cudaSuccess ||
         cudaEventElapsedTime(ms, event[0], event[1]) != cudaSuccess))
        st = CUBLAS_STATUS_EXECUTION_FAILED;
    return st;
}

/* As sn_cuda_gemm_measure(). */
static int measure(struct sn_cuda *cx, const struct sn_args *a, const struct sn_fp8_call *f,
                   int most, float *ms)
{
    cublasLtMatmulHeuristicResult_t found[MOST_ALGORITHMS];
    cudaEvent_t event[2];
    struct call g;
    uint64_t key[5];
    int n = 0, best = -1;
    *ms = 0.0f;
    cublasStatus_t st = describe(cx, a, f, &g);
    st = st ? st : ask(cx, a, &g, most < MOST_ALGORITHMS ? most : MOST_ALGORITHMS, found, &n);
    if (st == CUBLAS_STATUS_NOT_SUPPORTED || (st == CUBLAS_STATUS_SUCCESS && n == 0))
        return 0;
    if (st != CUBLAS_STATUS_SUCCESS)
        return failed(cx, st);
    if (sn_launched(cx, cudaEventCreate(&event[0])))
        return cx->fault.code;
    if (sn_launched(cx, cudaEventCreate(&event[1]))) {
        (void)cudaEventDestroy(event[0]);
        return cx->fault.code;
    }
    for (int i = 0; i < n; i++) {
        float one = 0.0f;
        if (time_of(cx, a, &g, &found[i].algo, event, &one) != CUBLAS_STATUS_SUCCESS)
            continue;
        if (best < 0 || one < *ms) {
            best = i;
            *ms = one;
        }
    }
    (void)cudaEventDestroy(event[0]);
    (void)cudaEventDestroy(event[1]);
    *ms /= 3.0f;
    key_of(cx, a, key);
    if (best >= 0)
        keep(cx, key, &found[best].algo);
    return 0;
}

int sn_cuda_gemm_measure(struct sn_cuda *cx, const struct sn_args *a, int most, float *ms)
{
    *ms = 0.0f;
    if (!sn_gemm_is_for_library(a) || a->out[SN_GEMM_C].rows == 0 || a->out[SN_GEMM_C].cols == 0)
        return 0; /* nothing to choose from */
    return measure(cx, a, NULL, most, ms);
}

int sn_gemm_find_plan(struct sn_cuda *cx, const struct sn_args *a)
{
    float ms;
    return measure(cx, a, NULL, MOST_ALGORITHMS, &ms);
}

/* --- the operation --------------------------------------------------------------------------- */

/* By the library, unless it refuses. */
static int by_library(struct sn_cuda *cx, const struct sn_args *a, const struct sn_fp8_call *f,
                      bool *refused)
{
    struct call g;
    uint64_t key[5];
    *refused = false;
    cublasStatus_t st = describe(cx, a, f, &g);
    if (st != CUBLAS_STATUS_SUCCESS)
        return failed(cx, st);
    key_of(cx, a, key);
    const struct sn_cuda_plan *plan = find(cx, key);
    cublasLtMatmulHeuristicResult_t found;
    if (!plan && cx->tunes) {
        float ms;
        if (measure(cx, a, f, MOST_ALGORITHMS, &ms) != 0)
            return cx->fault.code;
        plan = find(cx, key);
    }
    if (!plan) {
        int n = 0;
        st = ask(cx, a, &g, 1, &found, &n);
        *refused = st == CUBLAS_STATUS_NOT_SUPPORTED || (st == CUBLAS_STATUS_SUCCESS && n == 0);
        if (*refused)
            return 0;
        if (st != CUBLAS_STATUS_SUCCESS)
            return failed(cx, st);
        keep(cx, key, &found.algo);
    }
    st = multiply(cx, a, &g, plan ? &plan->algo : &found.algo);
    return st == CUBLAS_STATUS_SUCCESS ? 0 : failed(cx, st);
}

int sn_gemm_by_library(struct sn_cuda *cx, const struct sn_args *a, bool *refused)
{
    return by_library(cx, a, NULL, refused);
}

static int product(struct sn_cuda *cx, const struct sn_args *a)
{
    bool refused = true, is_asked = sn_gemm_is_for_library(a);
    int rc = is_asked ? by_library(cx, a, NULL, &refused) : 0;
    return refused ? own(cx, a, is_asked) : rc;
}

/* What the library wants of 8-bit products: results of whole 16 by 16, at multiples of 16 bytes. It
 * has scales of parts on sm_90 alone. */
static bool takes_codes(const struct sn_cuda *cx, const struct sn_args *a,
                        const struct sn_fp8_call *f)
{
    const struct sn_mat *c = &a->out[SN_GEMM_C], *bias = &a->in[SN_GEMM_BIAS];
    if (f->parts[0].rows && (cx->device.arch != 90 || cublasLtGetVersion() < SCALE_VERSION))
        return false;
    return cx->device.arch >= 89 && sn_gemm_is_for_library(a) && c->rows % 16 == 0 &&
           c->cols % 16 == 0 && alignment(c) >= 16 && (!is_added(a) || alignment(added(a)) >= 16) &&
           (!bias->p || bias->dtype == SN_BF16);
}

static int in_8_bits(struct sn_cuda *cx, const struct sn_args *a)
{
    struct sn_fp8_call f;
    struct sn_args b = *a;
    bool refused = true;
    int rc = sn_fp8_begin(cx, a, &f);
    if (rc == 0 && takes_codes(cx, a, &f)) {
        for (int i = 0; i < 2; i++) {
            b.in[i].p = f.copy[i];
            b.in[i].dtype = SN_U8;
            b.in[i].rows = i == 0 ? a->out[SN_GEMM_C].rows : a->out[SN_GEMM_C].cols;
            b.in[i].cols = b.in[i].ld = f.depth;
        }
        b.attr.gemm.trans_a = false;
        b.attr.gemm.trans_b = true;
        rc = sn_fp8_codes(cx, a, &f);
        rc = rc ? rc : by_library(cx, &b, &f, &refused);
    }
    if (rc || !refused)
        return rc;
    rc = sn_fp8_values(cx, a, &f, &b);
    return rc ? rc : product(cx, &b);
}

SN_CUDA_OP(gemm)
{
    int64_t k = a->attr.gemm.trans_a ? a->in[SN_GEMM_A].rows : a->in[SN_GEMM_A].cols;
    if (a->attr.gemm.epilogue)
        return sn_gemm_with_epilogue(cx, a);
    if (a->out[SN_GEMM_C].rows == 0 || a->out[SN_GEMM_C].cols == 0)
        return 0;
    return a->attr.gemm.fp8 && k > 0 ? in_8_bits(cx, a) : product(cx, a);
}
