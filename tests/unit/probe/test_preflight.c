/*
 * test_preflight.c - who fails a preflight and who does not; the probes of one rank.
 */
#include "lib/base/mem.h"
#include "lib/probe/preflight.h"
#include "tests/lib/fake_device.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 24 };

struct job {
    struct sn_preflight p;
    struct sn_preflight_rank rank[MOST];
};

/* `nodes` nodes n0, n1 ... of `per_node` ranks, all well; partners as in a run. */
static void make(struct job *j, int nodes, int per_node)
{
    struct sn_err err;
    *j = (struct job){.p = {.n = nodes * per_node}};
    j->p.rank = j->rank;
    for (int i = 0; i < j->p.n; i++) {
        struct sn_preflight_rank *r = &j->rank[i];
        *r = (struct sn_preflight_rank){
            .rank = i, .gemm = 100e9 + 1e9 * (i % 3), .memory = 20e9, .storage_write = 0};
        (void)snprintf(r->host, sizeof(r->host), "n%d", i / per_node);
        for (int k = 0; k < SN_PREFLIGHT_ROUNDS; k++) {
            int unit = sn_preflight_partner(nodes, i / per_node, k);
            r->partner[k] = unit < 0 ? -1 : unit * per_node + i % per_node;
            r->link[k] = unit < 0 ? 0 : 2e9;
        }
        if (i % per_node == 0)
            r->storage_write = r->storage_read = 1e8;
    }
    (void)sn_preflight_number(&j->p, &err);
}

/* "2 3" */
static const char *failing(struct job *j, char *text, size_t room)
{
    struct sn_err err;
    size_t at = 0;
    text[0] = '\0';
    if (sn_preflight_judge(&j->p, &err) != SN_OK)
        return "no memory";
    for (int i = 0; i < j->p.n; i++)
        if (!j->rank[i].pass)
            at += (size_t)snprintf(text + at, room - at, "%s%d", at ? " " : "", i);
    return text;
}

static void expect(struct job *j, const char *ranks, const char *why, const char *what)
{
    char got[200];
    tap_text(failing(j, got, sizeof(got)), ranks, what);
    int first = atoi(ranks);
    if (*why)
        tap_ok(strstr(j->rank[first].why, why) != NULL, "%s: '%s'", what, j->rank[first].why);
    tap_ok(j->p.pass == (*ranks == '\0'), "%s: the verdict", what);
}

static void everybody_meets_two_different_partners(void)
{
    for (int n = 2; n < 40; n++) {
        bool good = true;
        for (int u = 0; u < n; u++) {
            int met[SN_PREFLIGHT_ROUNDS], m = 0;
            for (int k = 0; k < SN_PREFLIGHT_ROUNDS; k++) {
                int v = sn_preflight_partner(n, u, k);
                good = good && (v < 0 || (v < n && v != u && sn_preflight_partner(n, v, k) == u));
                if (v >= 0)
                    met[m++] = v;
            }
            good = good && m == (n == 2 ? 1 : 2) && (m == 1 || met[0] != met[1]);
        }
        tap_ok(good, "%d units: pairs are mutual, each unit has %d", n, n == 2 ? 1 : 2);
    }
    tap_ok(sn_preflight_partner(1, 0, 0) == -1 && sn_preflight_partner(0, 0, 0) == -1 &&
               sn_preflight_partner(4, 1, 7) == -1,
           "nobody has a partner alone, or in a round that is none");
}

static void nodes_are_numbered_by_their_first_rank(void)
{
    static const char *const host[] = {"b", "a", "b", "c", "a", "a"};
    static const int node[] = {0, 1, 0, 2, 1, 1}, local[] = {0, 0, 1, 0, 1, 2};
    struct job j = {.p = {.n = 6}};
    struct sn_err err;
    bool good = true;
    j.p.rank = j.rank;
    for (int i = 0; i < 6; i++) {
        j.rank[i].rank = i;
        (void)snprintf(j.rank[i].host, 64, "%s", host[i]);
    }
    tap_ok(sn_preflight_number(&j.p, &err) == SN_OK, "six ranks on three hosts");
    for (int i = 0; i < 6; i++)
        good = good && j.rank[i].node == node[i] && j.rank[i].local == local[i];
    tap_ok(good, "whatever the order of the hosts' names");
}

static void what_is_slow_alone_fails(void)
{
    struct job j;
    make(&j, 4, 2);
    expect(&j, "", "", "all are well");
    j.rank[5].gemm = 60e9;
    expect(&j, "5", "multiplies at 60 GFLOP/s, 60 % of the median", "a slow processor");
    tap_ok(j.p.slow == 1 << SN_FLIGHT_PRODUCT, "it is slow only: measure that again");
    j.rank[5].gemm = 75e9;
    expect(&j, "", "", "three quarters of the median are enough");
    j.rank[2].memory = 9e9;
    expect(&j, "2", "copies memory at 9 GB/s, 45 %", "slow memory");
    tap_ok(j.p.slow == 1 << SN_FLIGHT_MEMORY, "measure memory again");
    make(&j, 4, 2);
    for (int i = 0; i < 8; i++)
        j.rank[i].gemm = 3e9;
    expect(&j, "", "", "what is slow everywhere is nobody's fault");
    for (int i = 0; i < 8; i++)
        j.rank[i].gemm = 0;
    expect(&j, "", "", "what was not measured is not judged");
}

static void a_slow_link_is_its_node_s_and_not_its_partners(void)
{
    struct job j;
    for (int nodes = 3; nodes <= 7; nodes++) {
        make(&j, nodes, 3);
        for (int i = 0; i < j.p.n; i++)
            for (int k = 0; k < SN_PREFLIGHT_ROUNDS; k++)
                if (j.rank[i].partner[k] >= 0 &&
                    (j.rank[i].node == 2 || j.rank[j.rank[i].partner[k]].node == 2))
                    j.rank[i].link[k] = 0.4e9;
        expect(&j, "6 7 8", "its node exchanges messages at 0.4 GB/s, 20 %", "node n2 of some");
    }
    make(&j, 4, 3);
    j.rank[4].link[0] = j.rank[4].link[1] = 1.0e9;
    expect(&j, "", "", "one rank that is half as fast as its node is noise");
    j.rank[4].link[0] = j.rank[4].link[1] = 0.5e9;
    expect(&j, "4", "25 % of the median of all ranks", "a quarter is not");
    make(&j, 1, 6);
    j.rank[3].link[0] = j.rank[3].link[1] = 1;
    expect(&j, "", "", "ranks of one node have no network");
}

static void who_has_to_share_processors_is_not_judged_by_its_speed(void)
{
    struct job j;
    make(&j, 4, 2);
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < SN_FLIGHT_KINDS; k++)
            j.rank[i].waited[k] = 0.5;
    j.rank[3].gemm = 5e9;
    j.rank[3].memory = j.rank[3].link[0] = j.rank[3].link[1] = 1e9;
    j.rank[2].link[0] = j.rank[2].link[1] = 1e8;
    expect(&j, "", "", "all share: rates tell nothing of nodes");
    j.rank[2].link[0] = j.rank[2].link[1] = j.rank[3].link[0] = j.rank[3].link[1] = 1e6;
    expect(&j, "2 3", "its node exchanges messages at 0.001 GB/s, 0 %", "unless all hope is lost");
    make(&j, 4, 2);
    j.rank[3].waited[SN_FLIGHT_MESSAGE] = 0.2;
    j.rank[3].link[0] = j.rank[3].link[1] = 1e8;
    expect(&j, "", "", "one that was disturbed while it exchanged messages");
    for (int k = 0; k < 2; k++)
        j.rank[j.rank[3].partner[k]].link[k] = 1e8;
    j.rank[5].link[0] = j.rank[5].link[1] = 1e8;
    expect(&j, "", "", "nor its partners");
    j.rank[4].link[0] = j.rank[4].link[1] = 1e8;
    expect(&j, "4", "its node exchanges messages", "a node of which one rank was not disturbed");
    make(&j, 4, 2);
    j.rank[6].waited[SN_FLIGHT_PRODUCT] = 0.45;
    expect(&j, "6", "waited 45 % of the time for its processors: something else runs there",
           "company on one node");
    tap_ok(j.p.slow == 1 << SN_FLIGHT_PRODUCT, "it may have been for a moment: measure again");
    for (int i = 0; i < 4; i++)
        j.rank[i].waited[SN_FLIGHT_PRODUCT] = 0.1;
    expect(&j, "", "", "where half of the ranks wait, one that waits more is no sign");
    make(&j, 2, 2);
    j.rank[1].waited[SN_FLIGHT_PRODUCT] = 0.9;
    expect(&j, "", "", "of two nodes it cannot be said");
}

static void wrong_data_fails_whatever_the_speed(void)
{
    struct job j;
    make(&j, 4, 2);
    j.rank[1].wrong = SN_WRONG_PRODUCT;
    expect(&j, "1", "a product of matrices was wrong", "wrong product");
    j.rank[5].gemm = 1;
    expect(&j, "1 5", "", "wrong product, and a slow one");
    tap_ok(j.p.slow == 0, "measuring again does not help");
    make(&j, 4, 2);
    j.rank[7].wrong = SN_WRONG_MEMORY;
    expect(&j, "7", "memory did not keep", "wrong memory");
    make(&j, 4, 2);
    j.rank[4].wrong = SN_WRONG_STORAGE;
    expect(&j, "4", "read back otherwise", "wrong file");
    make(&j, 4, 2);
    j.rank[6].lost = 1;
    expect(&j, "6", "did not answer within 30 s", "a lost rank");
    j.rank[6].gemm = 1;
    expect(&j, "6", "did not answer", "the first reason stays");
}

static void an_altered_message_is_blamed_on_the_side_with_more_of_them(void)
{
    struct job j;
    make(&j, 4, 1); /* n2 sends wrong bits: its two partners see it */
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < SN_PREFLIGHT_ROUNDS; k++)
            if (j.rank[i].partner[k] == 2) {
                j.rank[i].wrong |= SN_WRONG_MESSAGE;
                j.rank[i].wrong_rounds |= 1 << k;
            }
    expect(&j, "2", "were altered", "wrong messages from one node");
    make(&j, 2, 1);
    j.rank[0].wrong = SN_WRONG_MESSAGE;
    j.rank[0].wrong_rounds = 1;
    expect(&j, "0 1", "between it and rank 1 (n1)", "of two nodes either may be at fault");
}

static void storage_that_fails_everywhere_is_no_node_s_fault(void)
{
    struct job j;
    make(&j, 3, 2);
    j.rank[2].wrong = SN_FAILED_STORAGE;
    j.rank[2].error = EROFS;
    j.rank[2].storage_write = 0;
    expect(&j, "2", "checkpoint.dir: Read-only file system", "on one node");
    tap_ok(j.p.storage_error == 0, "on one node: it is the node's");
    for (int i = 0; i < 6; i += 2) {
        j.rank[i].wrong = SN_FAILED_STORAGE;
        j.rank[i].error = ENOSPC;
        j.rank[i].storage_write = 0;
    }
    expect(&j, "", "", "on every node");
    tap_ok(j.p.storage_error == ENOSPC, "on every node: the file system's");
}

static void the_report_names_hosts_once(void)
{
    struct job j;
    struct sn_str text = {0}, json = {0};
    char got[64];
    make(&j, 3, 2);
    j.rank[3].memory = 1e9;
    (void)failing(&j, got, sizeof(got));
    sn_preflight_text(&text, &j.p);
    sn_preflight_json(&json, &j.p);
    tap_ok(strstr(text.p, "5 of 6 ranks on 3 nodes pass") != NULL, "the table's verdict");
    tap_ok(strstr(json.p, "{\"pass\": false, ") == json.p, "the verdict comes first");
    tap_ok(strstr(json.p, "\"hosts\": [{\"host\": \"n0\", \"pass\": true, \"why\": \"\"}, "
                          "{\"host\": \"n1\", \"pass\": false, \"why\": \"copies memory") != NULL,
           "%.200s", json.p);
    sn_str_fini(&text);
    sn_str_fini(&json);
}

/* ---- probes ---------------------------------------------------------------------------------- */

static int broken_gemm(const struct sn_args *a, int threads)
{
    int rc = sn_ops_cpu()->run[SN_OP_GEMM](a, threads);
    ((float *)a->out[0].p)[12345] += 1;
    return rc;
}

static int broken_copy(const struct sn_args *a, int threads)
{
    int rc = sn_ops_cpu()->run[SN_OP_COPY](a, threads);
    ((unsigned char *)a->out[0].p)[4097] ^= 4;
    return rc;
}

static void probes_measure_and_see_one_wrong_bit(void)
{
    struct sn_err err = {0};
    struct sn_ops broken = *sn_ops_cpu();
    broken.run[SN_OP_GEMM] = broken_gemm;
    broken.run[SN_OP_COPY] = broken_copy;
    for (int threads = 1; threads <= 3; threads++) {
        struct sn_preflight_env env = {.ops = sn_ops_cpu(), .threads = threads};
        double gemm = 0, memory = 0;
        bool wrong = false;
        tap_ok(sn_probe_product(&gemm, &wrong, &env, 0.01, &err) == SN_OK && gemm > 1e6 && !wrong,
               "products with %d threads: %.3g GFLOP/s", threads, gemm * 1e-9);
        tap_ok(sn_probe_memory(&memory, &wrong, &env, 8 << 20, &err) == SN_OK && memory > 1e6 &&
                   !wrong,
               "copies with %d threads: %.3g GB/s", threads, memory * 1e-9);
        env.ops = &broken;
        tap_ok(sn_probe_product(&gemm, &wrong, &env, 0.01, &err) == SN_OK && wrong,
               "one wrong element of a product is seen");
        wrong = false;
        tap_ok(sn_probe_memory(&memory, &wrong, &env, 8 << 20, &err) == SN_OK && wrong,
               "one wrong bit of a copy is seen");
    }
}

/* A device's own products and copies: the processor has no part in them but to know the results. */
static void probes_of_a_device_see_one_wrong_bit(void)
{
    struct sn_err err = {0};
    struct sn_ops broken = *sn_ops_cpu();
    broken.run[SN_OP_GEMM] = broken_gemm;
    broken.run[SN_OP_COPY] = broken_copy;
    for (int is_broken = 0; is_broken < 2; is_broken++) {
        const struct sn_device_ops *ops = fake_device_ops(is_broken ? &broken : sn_ops_cpu());
        struct sn_accelerator a = {.ops = ops, .device = calloc(1, ops->size)};
        struct sn_device_options how = {0};
        struct sn_preflight_env env = {.ops = &broken, .accelerator = &a, .threads = 1};
        double gemm = 0, memory = 0;
        bool bad_gemm = false, bad_memory = false;
        tap_ok(a.device && ops->open(a.device, 0, &how) == 0, "a device opens");
        ops->describe(a.device, &a.info);
        bool ran = sn_probe_product(&gemm, &bad_gemm, &env, 0.01, &err) == SN_OK &&
                   sn_probe_memory(&memory, &bad_memory, &env, 8 << 20, &err) == SN_OK;
        tap_ok(ran && gemm > 1e6 && memory > 1e6, "it multiplies %.3g GFLOP/s, copies %.3g GB/s",
               gemm * 1e-9, memory * 1e-9);
        tap_ok(bad_gemm == is_broken && bad_memory == is_broken,
               is_broken ? "one wrong element and one wrong bit are seen" : "all is as it must be");
        struct sn_device_info left;
        ops->describe(a.device, &left);
        tap_ok(left.free_bytes == a.info.free_bytes, "its memory is given back");
        ops->close(a.device);
        free(a.device);
    }
}

static void storage_is_left_as_it_was(void)
{
    struct sn_preflight_rank r = {.rank = 3};
    struct sn_err err = {0};
    char folder[] = "/tmp/preflight-XXXXXX";
    if (!mkdtemp(folder)) {
        tap_ok(false, "mkdtemp");
        return;
    }
    tap_ok(sn_probe_storage(&r, folder, 1 << 20, &err) == SN_OK && r.wrong == 0 &&
               r.storage_write > 0 && r.storage_read > 0,
           "a MiB is written and read back");
    tap_ok(rmdir(folder) == 0, "and nothing is left");
    tap_ok(sn_probe_storage(&r, folder, 1 << 20, &err) == SN_OK && r.wrong == SN_FAILED_STORAGE &&
               r.error == ENOENT,
           "a folder that is not there is a failure with its reason");
}

static void a_pattern_is_not_its_neighbour(void)
{
    uint64_t p[64];
    sn_pattern_fill(p, 64, 5);
    tap_ok(sn_pattern_holds(p, 64, 5) && !sn_pattern_holds(p, 64, 6) &&
               !sn_pattern_holds(p + 1, 63, 5),
           "another seed and another place are seen");
    p[63] ^= UINT64_C(1) << 63;
    tap_ok(!sn_pattern_holds(p, 64, 5), "so is the last bit");
}

/* Ranks that notice at the same time who is lost write the same file. */
static void ranks_that_write_at_once_do_not_disturb_each_other(void)
{
    enum { RANKS = 4, TIMES = 300 };
    struct job j;
    struct sn_err err = {0};
    char folder[] = "/tmp/preflight-XXXXXX", path[64];
    make(&j, 2, 2);
    if (!mkdtemp(folder) || sn_preflight_judge(&j.p, &err) != SN_OK) {
        tap_ok(false, "mkdtemp, memory");
        return;
    }
    for (int rank = 0; rank < RANKS; rank++)
        if (fork() == 0) {
            int failed = 0;
            for (int i = 0; i < TIMES; i++)
                failed += sn_preflight_save(&j.p, folder, rank, &err) != SN_OK;
            _exit(failed > 0);
        }
    int bad = 0, status;
    for (int rank = 0; rank < RANKS; rank++)
        bad += wait(&status) < 0 || status != 0;
    tap_ok(bad == 0, "%d ranks write it %d times each, and %d of them fail", RANKS, TIMES, bad);
    struct sn_str want = {0};
    char got[8192] = "";
    (void)snprintf(path, sizeof(path), "%s/preflight.json", folder);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(got, 1, sizeof(got) - 1, f) : 0;
    sn_preflight_json(&want, &j.p);
    tap_ok(f && fclose(f) == 0 && n == want.len && memcmp(got, want.p, n) == 0, "it is whole");
    tap_ok(unlink(path) == 0 && rmdir(folder) == 0, "and nothing is left beside it");
    sn_str_fini(&want);
}

int main(void)
{
    everybody_meets_two_different_partners();
    nodes_are_numbered_by_their_first_rank();
    what_is_slow_alone_fails();
    a_slow_link_is_its_node_s_and_not_its_partners();
    who_has_to_share_processors_is_not_judged_by_its_speed();
    wrong_data_fails_whatever_the_speed();
    an_altered_message_is_blamed_on_the_side_with_more_of_them();
    storage_that_fails_everywhere_is_no_node_s_fault();
    the_report_names_hosts_once();
    probes_measure_and_see_one_wrong_bit();
    probes_of_a_device_see_one_wrong_bit();
    storage_is_left_as_it_was();
    a_pattern_is_not_its_neighbour();
    ranks_that_write_at_once_do_not_disturb_each_other();
    return tap_done();
}
