/*
 * test_meaning.c - programs of many layouts compute what one rank does.
 */
#include "tests/lib/layouts.h"
#include "tests/lib/meaning_test.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

/* Every third line of the matrix, with a job for each rank; in another order every eighth; with ALL=1 (make check-equiv)
 * all. (Lines marked fast train in test_layouts.c, too.) */
static void the_whole_matrix_is_proven(bool overlaps)
{
    struct sn_err err = {0};
    struct layouts_line line;
    int more = 1, proven = 0, gaps = 0, lines = 0;
    FILE *f = fopen("tests/equiv/layouts", "r");
    while (f && (more = layouts_next(f, &line, &err)) > 0) {
        struct verify_world w;
        int at = lines++;
        if (!getenv("ALL") && (overlaps ? at % 8 != 1 : at % 3 != 0))
            continue;
        if (overlaps)
            layouts_overlap(&line.config);
        if (sn_meaning_gap(&line.config)) {
            gaps++;
            continue;
        }
        bool good = verify_world_compile(&w, &line.config) && meaning_of(&w, false, &err) == SN_OK;
        if (!good)
            tap_ok(false, "%s is proven: %s", line.name, err.text);
        proven += good;
        verify_world_fini(&w);
    }
    tap_ok(f && more == 0 && proven > 50, "%d layouts%s are proven, %d not looked into %s", proven,
           overlaps ? " in another order" : "", gaps, err.text);
    if (f)
        (void)fclose(f);
}

/* What travels as streams of codecs is summed and handed on like what does not. */
static void what_is_compressed_is_proven(void)
{
    struct sn_err err = {0};
    struct layouts_line line;
    char kind[LAYOUTS_KIND];
    int more = 1, proven = 0, gaps = 0;
    FILE *f = fopen("tests/equiv/compress", "r");
    while (f && (more = layouts_next_coded(f, kind, &line, &err)) > 0) {
        struct verify_world w;
        if (sn_meaning_gap(&line.config)) {
            gaps++;
            continue;
        }
        bool good = verify_world_compile(&w, &line.config) && meaning_of(&w, false, &err) == SN_OK;
        if (!good)
            tap_ok(false, "%s %s is proven: %s", kind, line.name, err.text);
        proven += good;
        verify_world_fini(&w);
    }
    tap_ok(f && more == 0 && proven > 20,
           "%d layouts with codecs are proven, %d not looked into %s", proven, gaps, err.text);
    if (f)
        (void)fclose(f);
}

int main(void)
{
    what_is_compressed_is_proven();
    the_whole_matrix_is_proven(false);
    the_whole_matrix_is_proven(true);
    return tap_done();
}
