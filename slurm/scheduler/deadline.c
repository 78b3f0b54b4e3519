#include "slurm/scheduler/deadline.h"

enum { LEAST = 5, MOST = 300, PARTS = 8, DOUBLINGS = 4 };

double sn_deadline_pause(int64_t left, int silent)
{
    double pause = left < 0 ? MOST : (double)left / PARTS;
    pause = pause < LEAST ? LEAST : pause > MOST ? MOST : pause;
    return pause * (double)(1 << (silent < DOUBLINGS ? silent : DOUBLINGS));
}

bool sn_deadline_take(struct sn_deadline *d, int64_t answer, double now, int64_t wall)
{
    bool moved = answer > 0 && answer != d->end;
    if (moved)
        d->end = answer;
    d->silent = answer > 0 ? 0 : d->silent + (d->silent < DOUBLINGS);
    int64_t left = d->end > wall ? d->end - wall : 0;
    d->next = now + sn_deadline_pause(d->end ? left : -1, d->silent);
    return moved;
}
