/*
 * find_library.c - what kernels/cuda/library.c finds: find_library FILE FUNCTION. Prints the path,
 * or says why not and exits with 1.
 */
#include "kernels/cuda/library.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    struct sn_library l;
    void *f[1];
    const char *names[] = {argc == 3 ? argv[2] : ""};
    if (argc != 3) {
        (void)fputs("usage: find_library FILE FUNCTION\n", stderr);
        return 2;
    }
    if (sn_library_fill(&l, argv[1], names, 1, f) != 0) {
        (void)fprintf(stderr, "%s\n", l.why);
        return 1;
    }
    (void)puts(l.path);
    return 0;
}
