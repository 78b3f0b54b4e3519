/*
 * replay.c - main() of a fuzz target without a fuzzer: runs every file of its corpus once.
 *
 * fuzz_NAME reads tests/fuzz/corpus/NAME/, one test point per file, and the empty input. A crash or
 * a sanitizer's report ends the program, and tools/run then names it; the last line printed is the
 * file before the culprit.
 */
#include "tests/lib/tap.h"

#include <dirent.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The whole file in memory, exactly as long as the file, so that a sanitizer sees any overrun. */
static uint8_t *read_all(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    (void)fseek(f, 0, SEEK_END);
    long end = ftell(f);
    (void)rewind(f);
    uint8_t *data = end < 0 ? NULL : malloc(end ? (size_t)end : 1);
    *size = data ? fread(data, 1, (size_t)end, f) : 0;
    (void)fclose(f);
    return data;
}

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/');
    name = name ? name + 1 : argv[0];
    char folder[512];
    if (argc > 1)
        (void)snprintf(folder, sizeof(folder), "%s", argv[1]);
    else
        (void)snprintf(folder, sizeof(folder), "tests/fuzz/corpus/%s",
                       strncmp(name, "fuzz_", 5) == 0 ? name + 5 : name);
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* what was printed survives a crash */

    tap_ok(LLVMFuzzerTestOneInput((const uint8_t *)"", 0) == 0, "%s: the empty input", name);
    struct dirent **entries = NULL;
    int n = scandir(folder, &entries, visible, alphasort);
    tap_ok(n > 0, "%s: %s holds inputs", name, folder);
    for (int i = 0; i < n; i++) {
        char path[1024];
        size_t size = 0;
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        uint8_t *data = read_all(path, &size);
        tap_ok(data && LLVMFuzzerTestOneInput(data, size) == 0, "%s: %s", name, entries[i]->d_name);
        free(data);
        free(entries[i]);
    }
    free(entries);
    return tap_done();
}
