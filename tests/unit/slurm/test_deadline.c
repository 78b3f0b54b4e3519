/*
 * test_deadline.c - when the end of a job's time is asked for again, and what an answer changes.
 */
#include "slurm/scheduler/deadline.h"
#include "tests/lib/tap.h"

static void the_nearer_the_oftener(void)
{
    static const struct {
        int64_t left;
        int silent;
        double want;
    } row[] = {{-1, 0, 300},   {86400, 0, 300}, {2400, 0, 300},   {2392, 0, 299}, {800, 0, 100},
               {41, 0, 5.125}, {40, 0, 5},      {0, 0, 5},        {800, 1, 200},  {800, 2, 400},
               {800, 4, 1600}, {800, 5, 1600},  {86400, 9, 4800}, {0, 4, 80},     {-1, 1, 600}};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
        tap_ok(sn_deadline_pause(row[i].left, row[i].silent) == row[i].want,
               "%lld s left, %d silences: %g s", (long long)row[i].left, row[i].silent,
               sn_deadline_pause(row[i].left, row[i].silent));
}

static void an_answer_moves_the_end(void)
{
    static const struct {
        const char *what;
        int64_t end, answer, want;
        int silent, want_silent;
        bool moved;
        double next;
    } row[] = {
        {"the same", 10800, 10800, 10800, 0, 0, false, 200},
        {"later", 10800, 20000, 20000, 3, 0, true, 400},
        {"sooner", 10800, 10040, 10040, 0, 0, true, 105},
        {"over", 10800, 9000, 9000, 0, 0, true, 105},
        {"the first", 0, 10800, 10800, 0, 0, true, 200},
        {"none", 10800, 0, 10800, 0, 1, false, 300},
        {"none again", 10800, 0, 10800, 4, 4, false, 1700},
        {"none, and none before", 0, 0, 0, 0, 1, false, 700},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct sn_deadline d = {.end = row[i].end, .silent = row[i].silent};
        bool moved = sn_deadline_take(&d, row[i].answer, 100, 10000);
        tap_ok(moved == row[i].moved && d.end == row[i].want && d.silent == row[i].want_silent &&
                   d.next == row[i].next,
               "%s: ends at %lld, next at %g", row[i].what, (long long)d.end, d.next);
    }
}

int main(void)
{
    the_nearer_the_oftener();
    an_answer_moves_the_end();
    return tap_done();
}
