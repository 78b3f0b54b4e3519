/*
 * fake_measure.c - what needs no queue on the device of host memory: what is measured (clocks say
 * when a stream has come to a stamp, choices are made up), and memory of this process that it
 * page-locks.
 */
#include "tests/lib/fake_device_inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int fake_device_make_clocks(struct sn_device *d, int n)
{
    d->n_clocks = n > d->n_clocks ? n : d->n_clocks;
    return n <= CLOCKS ? 0 : fake_device_fail(d, "%d clocks are too many", n);
}

int fake_device_stamp(struct sn_device *d, int stream, int clock)
{
    if (clock < 0 || clock >= d->n_clocks)
        return fake_device_fail(d, "there is no clock %d", clock);
    d->clock[clock] = 0;
    return fake_device_enqueue(d, &(struct item){.kind = STAMP, .stream = stream, .event = clock});
}

void fake_device_stamped(struct sn_device *d, int clock)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    d->clock[clock] = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int fake_device_between(struct sn_device *d, int first, int second, double *seconds)
{
    if (fake_device_not_now(d, "reading a clock") != 0)
        return -1;
    if (d->clock[first] == 0 || d->clock[second] == 0)
        return fake_device_fail(d, "clock %d or %d has not been stamped yet", first, second);
    *seconds = d->clock[second] - d->clock[first];
    return 0;
}

/* What it would choose, if it had a choice. */
int fake_device_choice(const struct sn_device *d, int i, char line[SN_DEVICE_CHOICE])
{
    (void)snprintf(line, SN_DEVICE_CHOICE, "fake 1 : way %d of %d", i, d->counts.kernels > 0);
    return d->tunes && i < 3 ? 0 : 1;
}

int fake_device_choose(struct sn_device *d, const char *line)
{
    if (strncmp(line, "fake ", 5) != 0)
        return fake_device_fail(d, "'%.40s' is no choice of a fake device", line);
    return strncmp(line, "fake 1 :", 8) == 0 ? 0 : 1;
}

/* --- memory of this process ------------------------------------------------------------------- */

int fake_device_pin(struct sn_device *d, void *p, size_t bytes)
{
    if (fake_device_not_now(d, "page-locking") != 0)
        return -1;
    if (fake_device_is_here(d, p, bytes))
        return fake_device_fail(d, "page-locking memory of the device");
    if (d->habits.refuses_pin) { /* no failure of the device */
        (void)snprintf(d->why, sizeof(d->why), "page-locking memory: it may not");
        return -1;
    }
    d->counts.pins++;
    return 0;
}

void fake_device_unpin(struct sn_device *d, void *p)
{
    (void)p;
    fake_device_wait();
    if (d->counts.pins-- <= 0)
        (void)fake_device_fail(d, "nothing of this is page-locked");
}

int fake_device_host_alloc(struct sn_device *d, size_t bytes, void **out)
{
    if (fake_device_not_now(d, "page-locking") != 0)
        return -1;
    *out = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!*out)
        abort();
    memset(*out, 0, bytes);
    return 0;
}

void fake_device_host_free(struct sn_device *d, void *p)
{
    (void)d;
    free(p);
}
