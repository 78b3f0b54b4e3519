/*
 * test_front.c - what less memory costs in time (sn_search_want.front), and searches that are given up.
 */
#include "lib/search/search.h"
#include "tests/lib/search_test.h"
#include "tests/lib/tap.h"

#include <math.h>
#include <string.h>

/* Each point of a front is what a search within that memory finds. */
static void front_is_what_less_memory_costs(void)
{
    struct sn_config c = small_run();
    struct sn_machine m = {0};
    struct sn_software soft;
    struct sn_err err = {0};
    struct sn_search s = {0}, one = {0};
    c.layout_named = 1u << SN_KEY_CONTEXT | 1u << SN_KEY_TENSOR_X;
    sn_software_default(&soft);
    bool good = sn_machine_parse(&m, machine_text, strlen(machine_text), "m.yaml", &err) == SN_OK;
    struct sn_search_want w = {.config = &c,
                               .machine = &m,
                               .software = &soft,
                               .ops = sn_ops_cpu(),
                               .threads = 1,
                               .ranks = 8,
                               .top = 3,
                               .limit = 1 << 30,
                               .front = true};
    good = good && sn_search_run(&s, &w, &err) == SN_OK;
    tap_ok(good && s.n_front >= 2 && s.n == 3 && !s.front_stopped &&
               s.front[0].plan.step_time == s.found[0].plan.step_time,
           "a front of %d layouts begins with the best of all %s", s.n_front, err.text);
    w.front = false;
    w.top = 1;
    for (int i = 1; good && i <= s.n_front && i < SN_SEARCH_FRONT; i++) {
        w.limit = s.front[i - 1].plan.memory.total / 5 * 4;
        good = sn_search_run(&one, &w, &err) == SN_OK;
        if (i == s.n_front)
            tap_ok(good && one.n == 0, "nothing fits a fifth less than the last of them");
        else
            tap_ok(good && one.n == 1 && s.front[i].plan.memory.total <= w.limit &&
                       fabs(one.found[0].plan.step_time / s.front[i].plan.step_time - 1) < 0.005,
                   "%.4g s within %lld bytes, %.4g s by a search of its own",
                   s.front[i].plan.step_time, (long long)w.limit,
                   one.n ? one.found[0].plan.step_time : 0.0);
        sn_search_fini(&one);
    }
    sn_search_fini(&s);
    w.limit = 1 << 30;
    w.most = 10;
    good = sn_search_run(&s, &w, &err) == SN_OK;
    tap_ok(good && s.too_many && s.n == 0 && s.bounded == 0 && s.valid > 10,
           "more layouts than wanted are not searched, but counted: %lld", (long long)s.valid);
    sn_search_fini(&s);
    sn_machine_fini(&m);
}

int main(void)
{
    front_is_what_less_memory_costs();
    return tap_done();
}
