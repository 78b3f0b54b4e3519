/*
 * alter_memory.c - doubles some floats in the largest block that a process has mapped, as a defect of
 * its memory would.
 *
 * usage: alter_memory PID
 *   The process should be stopped. Exit 0: done; 2: this user may not (yama, hidepid); 1: there is
 *   nothing to double.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALTERED = 8, WINDOW = 4096 };

struct block {
    uint64_t at, bytes;
};

/* Of those without a name that may be read and written. */
static struct block largest(const char *pid)
{
    struct block most = {0, 0};
    char path[64], line[512], mode[8];
    (void)snprintf(path, sizeof(path), "/proc/%s/maps", pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f)) {
        uint64_t from, to;
        int end = 0;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*s %*s %*s %n", &from, &to, mode, &end) ==
                3 &&
            strcmp(mode, "rw-p") == 0 && (end == 0 || line[end] == 0 || line[end] == '\n') &&
            to - from > most.bytes)
            most = (struct block){from, to - from};
    }
    if (f)
        (void)fclose(f);
    return most;
}

/* The first float from `at` on that looks like a weight. */
static int alter(FILE *mem, uint64_t at)
{
    float x[WINDOW];
    if (fseek(mem, (long)at, SEEK_SET) != 0 || fread(x, sizeof(float), WINDOW, mem) != WINDOW)
        return 0;
    for (int i = 0; i < WINDOW; i++) {
        if (!(fabsf(x[i]) > 1e-3f && fabsf(x[i]) < 1.0f))
            continue;
        x[i] *= 2;
        return fseek(mem, (long)(at + (uint64_t)i * sizeof(float)), SEEK_SET) == 0 &&
               fwrite(&x[i], sizeof(float), 1, mem) == 1 && fflush(mem) == 0;
    }
    return 0;
}

int main(int argc, char **argv)
{
    char path[64];
    int altered = 0;
    if (argc != 2)
        return 1;
    struct block b = largest(argv[1]);
    (void)snprintf(path, sizeof(path), "/proc/%s/mem", argv[1]);
    FILE *mem = b.bytes ? fopen(path, "r+b") : NULL;
    if (!mem)
        return 2;
    (void)setvbuf(mem, NULL, _IONBF, 0);
    for (uint64_t k = 0; k < ALTERED; k++)
        altered += alter(mem, b.at + (2 * k + 1) * b.bytes / (2 * ALTERED) / 64 * 64);
    (void)fclose(mem);
    printf("%d\n", altered);
    return altered > 0 ? 0 : 1;
}
