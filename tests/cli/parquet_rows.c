/*
 * parquet_rows.c - rows of a Parquet file as lines of JSON: FILE COLUMN...
 */
#include "lib/base/input.h"
#include "lib/texts/parquet.h"

#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct sn_parquet *p = NULL;
    struct sn_parquet_want want = {.needed = 1};
    struct sn_bytes lines = {0};
    struct sn_err err = {0};
    for (int i = 2; i < argc && i < 10; i++)
        want.name[want.n++] = argv[i];
    int fd = argc > 2 ? sn_input_open(argv[1], NULL) : -1;
    if (fd < 0)
        return 2;
    enum sn_status st = sn_parquet_open(&p, fd, argv[1], &want, &err);
    for (size_t n = 1; st == SN_OK && n > 0;) {
        lines.len = 0;
        st = sn_parquet_read(p, &lines, 1000, &err);
        n = lines.len;
        (void)fwrite(lines.p, 1, n, stdout);
    }
    if (st != SN_OK)
        (void)fprintf(stderr, "%s\n", err.text);
    sn_parquet_close(p);
    sn_bytes_fini(&lines);
    (void)close(fd);
    return st == SN_OK ? 0 : sn_exit_code(st);
}
