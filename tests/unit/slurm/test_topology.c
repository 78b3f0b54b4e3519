/*
 * test_topology.c - addresses, topology.conf, and what is refused.
 */
#include "lib/base/mem.h"
#include "slurm/topology/topology.h"
#include "tests/lib/tap.h"

static void addresses(void)
{
    static const struct {
        const char *address, *pattern, *path;
    } row[] = {
        {"core.s0.n3", "switch.switch.node", "core.s0"},
        {"core.s0.n3.site.org", "switch.switch.node", "core.s0"},
        {"s[0-1].n3", "switch.node", "s[0-1]"},
        {"b0.n3", "block.node", "b0"},
        {"n3.site.org", "node", ""},
        {"n3", NULL, ""},
        {"", "switch.node", ""},
    };
    char path[SN_TOPOLOGY_PATH];
    struct sn_err err = {0};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        enum sn_status st = sn_topology_path(path, row[i].address, row[i].pattern, &err);
        tap_ok(st == SN_OK && strcmp(path, row[i].path) == 0, "'%s' is below '%s'", row[i].address,
               row[i].path);
    }
    tap_ok(sn_topology_path(path, "s0.n3", "switch.switch.node", &err) == SN_EINPUT &&
               strstr(err.text, "fewer fields"),
           "a short address is refused: %s", err.text);
}

static const char conf[] = "# two leaves\n"
                           "SwitchName=s0 Nodes=n[0-3]\n"
                           "SwitchName=s1 nodes=n[4-7] LinkSpeed=100\r\n"
                           "\n"
                           "SwitchName=core Switches=s[0-1]\n";
static const char shown[] = "SwitchName=core Level=1 LinkSpeed=1 Nodes=n[0-7] Switches=s[0-1]\n"
                            "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[0-3]\n"
                            "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[4-7]\n";
static const char lines[] = "core.s0.n0\ncore.s0.n3\ncore.s1.n7\n";

static void files(void)
{
    static const char *const text[] = {conf, shown, lines};
    static const char *const what[] = {"topology.conf", "scontrol show topology", "addresses"};
    for (int i = 0; i < 3; i++) {
        struct sn_topology *t = NULL;
        struct sn_err err = {0};
        bool good = sn_topology_parse(&t, text[i], "t", &err) == SN_OK;
        const char *a = good ? sn_topology_find(t, "n3") : NULL;
        const char *b = good ? sn_topology_find(t, "n7") : NULL;
        tap_ok(a && b && !strcmp(a, "core.s0") && !strcmp(b, "core.s1"), "%s: %s %s", what[i],
               a ? a : "?", err.text);
        tap_ok(good && !sn_topology_find(t, "n8"), "a host that is not there is not there");
        sn_topology_destroy(t);
    }
}

static void refused(void)
{
    static const char *const row[][2] = {
        {"", "no host in it"},
        {"SwitchName=s0 Nodes=n[0-\n", "Nodes"},
        {"SwitchName= Nodes=n0\n", "t:1: a switch without a name"},
        {"n0 n1\n", "no SwitchName= line"},
        {"core..n0\n", "no address such as"},
        {".n0\n", "no address such as"},
        {"SwitchName=a Nodes=n0\nSwitchName=b Nodes=n0\n", "host n0 is under"},
        {"SwitchName=a Switches=c\nSwitchName=b Switches=c\nSwitchName=c Nodes=n0\n",
         "switch c is under a and under b"},
        {"SwitchName=a Switches=b\nSwitchName=b Switches=a\nSwitchName=c Nodes=n0\n",
         "switches above it"},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct sn_topology *t = NULL;
        struct sn_err err = {0};
        enum sn_status st = sn_topology_parse(&t, row[i][0], "t", &err);
        tap_ok(st == SN_EINPUT && strstr(err.text, row[i][1]), "%s", err.text);
        if (st == SN_OK)
            sn_topology_destroy(t);
    }
}

static void no_memory_is_told(void)
{
    enum sn_status st = SN_ENOMEM;
    int told = 0;
    for (int n = 1; st == SN_ENOMEM && n < 200; n++, told++) {
        struct sn_topology *t = NULL;
        struct sn_err err = {0};
        sn_mem_fail_at((uint64_t)n);
        st = sn_topology_parse(&t, conf, "t", &err);
        sn_topology_destroy(t);
    }
    sn_mem_fail_at(0);
    tap_ok(st == SN_OK && told > 10, "%d failing allocations", told);
}

int main(void)
{
    addresses();
    files();
    refused();
    no_memory_is_told();
    return tap_done();
}
