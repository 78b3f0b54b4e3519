/*
 * test_mark.cc - a mark on the emulated device: its number is where the host reads it.
 */
#include "tests/cuda_emul/emul.h"

static int points, failed;

static void ok(bool good, const char *what)
{
    printf("%sok %d - %s\n", good ? "" : "not ", ++points, what);
    failed += !good;
}

int main(void)
{
    struct sn_cuda *cx = (struct sn_cuda *)calloc(1, sizeof(*cx));
    uint32_t room[3] = {1, 2, 3};
    int rc = sn_cuda_mark(cx, &room[1], 0xfedcba98u);
    ok(rc == 0 && room[1] == 0xfedcba98u, "the number is there, whole");
    ok(room[0] == 1 && room[2] == 3, "and nothing beside it");
    rc = sn_cuda_mark(cx, &room[1], 7);
    ok(rc == 0 && room[1] == 7, "the last one stands");
    free(cx);
    printf("1..%d\n", points);
    return failed != 0;
}
