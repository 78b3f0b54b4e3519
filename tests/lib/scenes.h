/*
 * scenes.h - plays the scenes of a test, each on a stage of its own (stage.h).
 *
 * A function of this header, since tap.h counts in each test by itself.
 */
#ifndef TESTS_LIB_SCENES_H
#define TESTS_LIB_SCENES_H

#include "tests/lib/stage.h"
#include "tests/lib/tap.h"

struct scene {
    void (*play)(struct stage *s);
    const char *hosts; /* of the job */
};

static int scenes_play(const struct scene *scene, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct stage s;
        if (!tap_ok(stage_open(&s, scene[i].hosts), "scene %zu", i + 1))
            break;
        scene[i].play(&s);
        stage_close(&s);
    }
    return tap_done();
}

#endif
