/*
 * fuzz_history.c - whatever the files of a run hold, its history can be told, in printable ASCII.
 *
 * The first byte chooses which file the rest is: journal, record of an attempt, metrics, saves.
 */
#include "lib/base/mem.h"
#include "slurm/history/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void require(int good)
{
    if (!good)
        abort();
}

static void printable(const char *text, size_t room)
{
    require(memchr(text, '\0', room) != NULL);
    for (; *text; text++)
        require(*text >= 0x20 && *text < 0x7f);
}
#define PRINTABLE(member) printable(member, sizeof(member))

static void check_attempt(const struct sn_history_attempt *a)
{
    PRINTABLE(a->job);
    PRINTABLE(a->nodes);
    PRINTABLE(a->spares);
    PRINTABLE(a->layout);
    PRINTABLE(a->notices);
    PRINTABLE(a->suspect.kind);
    PRINTABLE(a->suspect.host);
    PRINTABLE(a->suspect.axis);
    PRINTABLE(a->suspect.operation);
    PRINTABLE(a->cause);
    PRINTABLE(a->host);
    PRINTABLE(a->says);
    PRINTABLE(a->record);
    PRINTABLE(a->action);
    PRINTABLE(a->why);
    require(a->number >= 1 && a->exit_code >= -1 && a->rank >= -1 && a->lost >= -1);
    require(a->began >= 0 && a->ended >= 0);
}

static void check(const struct sn_history *h)
{
    PRINTABLE(h->run_file);
    PRINTABLE(h->scheduler);
    PRINTABLE(h->host);
    PRINTABLE(h->version);
    PRINTABLE(h->job);
    PRINTABLE(h->state_why);
    for (int i = 0; i < h->n_attempts; i++) {
        check_attempt(&h->attempt[i]);
        require(i == 0 || h->attempt[i - 1].number < h->attempt[i].number);
    }
    for (int i = 0; i < h->n_bad; i++) {
        PRINTABLE(h->bad[i].host);
        PRINTABLE(h->bad[i].why);
    }
    require(h->step >= -1 && h->damaged >= 0 && !isinf(h->loss));
    require(sn_run_state_name(h->state) != NULL && h->state_why[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct sn_history h;
    struct sn_evidence e = {.still = -1};
    struct sn_err err;
    char kind = len ? (char)bytes[0] : 'j';
    char *text = sn_strndup(len ? (const char *)bytes + 1 : "", len ? len - 1 : 0);
    size_t n = len ? len - 1 : 0;
    if (!text)
        return 0;
    sn_history_init(&h);
    if (kind == 'a')
        (void)sn_history_take_record(&h, 3, text, n, &err);
    else if (kind == 'm')
        sn_history_take_metrics(&h, text, n);
    else if (kind == 's')
        sn_history_take_saves(&h, text, n);
    else
        (void)sn_history_take_journal(&h, &e, text, n, &err);
    sn_history_conclude(&h);
    sn_history_judge(&h, &e);
    check(&h);
    sn_history_fini(&h);
    sn_free(text);
    return 0;
}
