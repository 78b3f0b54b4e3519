#include "slurm/topology/topology.h"

#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/config/files.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_SWITCHES = 1 << 16, DEEPEST = 16 };

struct leaf_of {
    char *host;
    int at; /* switch */
};

struct node_switch {
    char *name;   /* of an address: the path down to it */
    size_t label; /* where its own name begins */
    int above;    /* -1: top */
    char *path;
};

struct sn_topology {
    struct node_switch *sw;
    struct leaf_of *host; /* sorted by name once complete */
    int *slot; /* by a switch's name: its index and 1, 0 where none is; at most half full */
    int n_sw, room_sw, n_hosts, room_hosts, n_slots;
};

/* What is being read. */
struct reader {
    struct sn_topology *t;
    const char *path;
    int line;
    struct sn_err *err;
};

/* ---- addresses ------------------------------------------------------------------------------- */

/* Levels above the node. */
static int depth_of(const char *pattern)
{
    int n = 0;
    for (const char *c = pattern; *c; c++)
        n += *c == '.';
    return n;
}

enum sn_status sn_topology_path(char path[SN_TOPOLOGY_PATH], const char *address,
                                const char *pattern, struct sn_err *err)
{
    int fields = pattern ? depth_of(pattern) : 0;
    const char *end = address;
    if (fields == 0 || !*address) {
        path[0] = '\0';
        return SN_OK;
    }
    for (int i = 0; i < fields; i++) {
        end = strchr(end + (i > 0), '.');
        if (!end)
            return sn_fail(err, SN_EINPUT,
                           "SLURM_TOPOLOGY_ADDR: '%.60s' has fewer fields than its pattern '%.60s'",
                           address, pattern);
    }
    if (end - address >= SN_TOPOLOGY_PATH)
        return sn_fail(err, SN_EINPUT, "SLURM_TOPOLOGY_ADDR: '%.60s...' is longer than %d", address,
                       SN_TOPOLOGY_PATH - 1);
    (void)snprintf(path, SN_TOPOLOGY_PATH, "%.*s", (int)(end - address), address);
    return SN_OK;
}

/* ---- building -------------------------------------------------------------------------------- */

static enum sn_status no_memory(const struct reader *r)
{
    return sn_fail(r->err, SN_ENOMEM, "%s: no memory for the switches", r->path);
}

/* Where the switch of a name is, or would be. */
static int *slot_of(const struct sn_topology *t, const char *name)
{
    size_t mask = (size_t)t->n_slots - 1;
    size_t i = sn_hash64(name, strlen(name)) & mask;
    while (t->slot[i] && strcmp(t->sw[t->slot[i] - 1].name, name) != 0)
        i = (i + 1) & mask;
    return &t->slot[i];
}

/* Room for the slot of one more switch. */
static bool grow_slots(struct sn_topology *t)
{
    if (2 * t->n_sw < t->n_slots)
        return true;
    int n = t->n_slots ? 2 * t->n_slots : 64;
    int *slot = sn_alloc_n((size_t)n, sizeof(*slot));
    if (!slot)
        return false;
    sn_free(t->slot);
    t->slot = slot;
    t->n_slots = n;
    for (int i = 0; i < t->n_sw; i++)
        *slot_of(t, t->sw[i].name) = i + 1;
    return true;
}

/* A new switch under no other; `slot` is where its name belongs. */
static enum sn_status add_switch(struct reader *r, const char *name, int *slot)
{
    struct sn_topology *t = r->t;
    if (t->n_sw == MOST_SWITCHES)
        return sn_fail(r->err, SN_EINPUT, "%s:%d: more than %d switches", r->path, r->line,
                       MOST_SWITCHES);
    if (!sn_grow((void **)&t->sw, t->n_sw, &t->room_sw, sizeof(*t->sw)))
        return no_memory(r);
    char *copy = sn_strdup(name);
    if (!copy)
        return no_memory(r);
    t->sw[t->n_sw] = (struct node_switch){.name = copy, .above = -1};
    *slot = ++t->n_sw;
    return SN_OK;
}

/* The switch of a name, made where it is new. */
static enum sn_status get_switch(struct reader *r, const char *name, int *at)
{
    if (!grow_slots(r->t))
        return no_memory(r);
    int *slot = slot_of(r->t, name);
    if (!*slot)
        SN_TRY(add_switch(r, name, slot));
    *at = *slot - 1;
    return SN_OK;
}

static enum sn_status add_host(struct reader *r, const char *host, int at)
{
    struct sn_topology *t = r->t;
    if (!sn_grow((void **)&t->host, t->n_hosts, &t->room_hosts, sizeof(*t->host)))
        return no_memory(r);
    char *copy = sn_strdup(host);
    if (!copy)
        return no_memory(r);
    t->host[t->n_hosts++] = (struct leaf_of){copy, at};
    return SN_OK;
}

static enum sn_status put_below(struct reader *r, int below, int above)
{
    struct node_switch *s = &r->t->sw[below];
    if (s->above >= 0 && s->above != above)
        return sn_fail(r->err, SN_EINPUT,
                       "%s:%d: switch %s is under %s and under %s; a tree is wanted", r->path,
                       r->line, s->name, r->t->sw[s->above].name, r->t->sw[above].name);
    s->above = above;
    return SN_OK;
}

/* Under switch `at`: the switches of a list. */
static enum sn_status add_switches(struct reader *r, int at, const char *list)
{
    struct sn_hostlist h = {0};
    enum sn_status st = sn_hostlist_parse(&h, list, "Switches", r->err);
    for (int i = 0; st == SN_OK && i < h.n; i++) {
        int below;
        st = get_switch(r, sn_hostlist_name(&h, i), &below);
        if (st == SN_OK)
            st = put_below(r, below, at);
    }
    sn_hostlist_fini(&h);
    return st;
}

static enum sn_status add_hosts(struct reader *r, int at, const char *list)
{
    struct sn_hostlist h = {0};
    enum sn_status st = sn_hostlist_parse(&h, list, "Nodes", r->err);
    for (int i = 0; st == SN_OK && i < h.n; i++)
        st = add_host(r, sn_hostlist_name(&h, i), at);
    sn_hostlist_fini(&h);
    return st;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* The value of NAME= in a line of such words; NULL if it has none. Ends it with a NUL in `room`. */
static const char *value(const char *line, const char *name, char *room, size_t size)
{
    size_t len = strlen(name);
    for (const char *c = line; *c;) {
        c += strspn(c, " \t");
        size_t word = strcspn(c, " \t");
        if (strncasecmp(c, name, len) == 0 && c[len] == '=' && word - len - 1 < size) {
            (void)snprintf(room, size, "%.*s", (int)(word - len - 1), c + len + 1);
            return room;
        }
        c += word;
    }
    return NULL;
}

/* `scontrol show topology` lists the nodes of upper switches too:
 * theirs are those of the leaves. */
static enum sn_status read_switch(struct reader *r, const char *line, const char *name)
{
    size_t size = strlen(line) + 1;
    char *room = sn_alloc(size);
    int at;
    if (!room)
        return no_memory(r);
    enum sn_status st = get_switch(r, name, &at);
    const char *list = st == SN_OK ? value(line, "Switches", room, size) : NULL;
    if (list && *list)
        st = add_switches(r, at, list);
    else if (st == SN_OK && (list = value(line, "Nodes", room, size)) && *list)
        st = add_hosts(r, at, list);
    sn_free(room);
    return st;
}

/* The switch at the end of a path. */
static enum sn_status get_level(struct reader *r, const char *path, int above, int *at)
{
    SN_TRY(get_switch(r, path, at));
    const char *label = strrchr(path, '.');
    r->t->sw[*at].label = label ? (size_t)(label + 1 - path) : 0;
    r->t->sw[*at].above = above;
    return SN_OK;
}

/* "core.s0.n3": each switch is named by the whole path down to it. */
static enum sn_status read_address(struct reader *r, char *line)
{
    char *node = strrchr(line, '.');
    int above = -1, at;
    bool has_empty = *line == '.' || strstr(line, ".."); /* a switch without a name */
    if (!node || !node[1] || has_empty || strcspn(line, " \t=") != strlen(line))
        return sn_fail(r->err, SN_EINPUT,
                       "%s:%d: '%.60s' is no SwitchName= line and no address such as core.s0.n3",
                       r->path, r->line, line);
    for (char *dot = line; dot; above = at) {
        dot = strchr(dot + (above >= 0), '.');
        if (dot == node || !dot)
            break;
        *dot = '\0';
        SN_TRY(get_level(r, line, above, &at));
        *dot = '.';
    }
    *node = '\0';
    SN_TRY(get_level(r, line, above, &at));
    return add_host(r, node + 1, at);
}

static enum sn_status read_line(struct reader *r, char *line)
{
    char name[SN_HOST_NAME];
    line[strcspn(line, "#\r")] = '\0';
    line += strspn(line, " \t");
    for (size_t n = strlen(line); n > 0 && strchr(" \t", line[n - 1]); n--)
        line[n - 1] = '\0';
    if (!*line)
        return SN_OK;
    if (value(line, "SwitchName", name, sizeof(name)) ||
        value(line, "BlockName", name, sizeof(name)))
        return *name
                   ? read_switch(r, line, name)
                   : sn_fail(r->err, SN_EINPUT, "%s:%d: a switch without a name", r->path, r->line);
    if (strncasecmp(line, "BlockSizes", 10) == 0)
        return SN_OK; /* how blocks are grouped for scheduling */
    return read_address(r, line);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int by_host(const void *a, const void *b)
{
    return strcmp(((const struct leaf_of *)a)->host, ((const struct leaf_of *)b)->host);
}

/* Names from the top. */
static enum sn_status name_path(struct reader *r, int at)
{
    struct node_switch *s = &r->t->sw[at];
    char path[SN_TOPOLOGY_PATH];
    int chain[DEEPEST], n = 0;
    size_t len = 0;
    for (int i = at; i >= 0; i = r->t->sw[i].above) {
        if (n == DEEPEST)
            return sn_fail(r->err, SN_EINPUT, "%s: switch %s has more than %d switches above it",
                           r->path, s->name, DEEPEST - 1);
        chain[n++] = i;
    }
    while (n-- > 0) {
        const struct node_switch *x = &r->t->sw[chain[n]];
        int wrote =
            snprintf(path + len, sizeof(path) - len, "%s%s", len ? "." : "", x->name + x->label);
        if (len + (size_t)wrote >= sizeof(path))
            return sn_fail(r->err, SN_EINPUT, "%s: the path of switch %s is longer than %d",
                           r->path, s->name, SN_TOPOLOGY_PATH - 1);
        for (char *c = path + len + (len > 0); *c; c++)
            *c = *c == '.' ? '-' : *c; /* a dot parts levels */
        len += (size_t)wrote;
    }
    s->path = sn_strdup(path);
    return s->path ? SN_OK : no_memory(r);
}

static enum sn_status finish(struct reader *r)
{
    struct sn_topology *t = r->t;
    if (t->n_hosts == 0)
        return sn_fail(r->err, SN_EINPUT,
                       "%s: no host in it; want topology.conf, or an address a line", r->path);
    for (int i = 0; i < t->n_sw; i++)
        SN_TRY(name_path(r, i));
    qsort(t->host, (size_t)t->n_hosts, sizeof(t->host[0]), by_host);
    for (int i = 1; i < t->n_hosts; i++)
        if (strcmp(t->host[i - 1].host, t->host[i].host) == 0 && t->host[i - 1].at != t->host[i].at)
            return sn_fail(
                r->err, SN_EINPUT, "%s: host %s is under %s and under %s; one leaf is wanted",
                r->path, t->host[i].host, t->sw[t->host[i - 1].at].path, t->sw[t->host[i].at].path);
    return SN_OK;
}

enum sn_status sn_topology_parse(struct sn_topology **out, const char *text, const char *path,
                                 struct sn_err *err)
{
    struct reader r = {.t = sn_alloc(sizeof(*r.t)), .path = path, .err = err};
    char *copy = sn_strdup(text);
    enum sn_status st = r.t && copy ? SN_OK : no_memory(&r);
    for (char *line = copy; st == SN_OK && line;) {
        char *next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        r.line++;
        st = read_line(&r, line);
        line = next;
    }
    if (st == SN_OK)
        st = finish(&r);
    sn_free(copy);
    if (st == SN_OK)
        *out = r.t;
    else
        sn_topology_destroy(r.t);
    return st;
}

enum sn_status sn_topology_load(struct sn_topology **out, const char *path, struct sn_err *err)
{
    char *text;
    size_t len;
    struct stat id;
    SN_TRY(sn_file_read(&text, &len, &id, path, err));
    enum sn_status st = sn_topology_parse(out, text, path, err);
    sn_free(text);
    return st;
}

void sn_topology_destroy(struct sn_topology *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->n_sw; i++) {
        sn_free(t->sw[i].name);
        sn_free(t->sw[i].path);
    }
    for (int i = 0; i < t->n_hosts; i++)
        sn_free(t->host[i].host);
    sn_free(t->sw);
    sn_free(t->host);
    sn_free(t->slot);
    sn_free(t);
}

const char *sn_topology_find(const struct sn_topology *t, const char *host)
{
    struct leaf_of want = {.host = (char *)(uintptr_t)host};
    const struct leaf_of *h =
        bsearch(&want, t->host, (size_t)t->n_hosts, sizeof(t->host[0]), by_host);
    return h ? t->sw[h->at].path : NULL;
}
