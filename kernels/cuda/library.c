/*
 * library.c - see library.h.
 */
#include "kernels/cuda/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Below the root of a toolkit: installers, then distributions; and below the root of a Python: of
 * itself and of packages that Debian's users add. Wheels of CUDA 12 have a folder each, those of
 * CUDA 13 one for most. */
static const char *const in_toolkit[] = {"lib64", "targets/*/lib", "lib", NULL};
static const char *const in_python[] = {"lib/python3*/site-packages/nvidia/*/lib",
                                        "lib64/python3*/site-packages/nvidia/*/lib",
                                        "local/lib/python3*/dist-packages/nvidia/*/lib",
                                        "lib/python3*/dist-packages/nvidia/*/lib", NULL};

struct search {
    struct sn_library *l;
    const char *file;
    int folders; /* listed so far */
    int is_over; /* a file was there */
};

static void explain(struct sn_library *l, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void explain(struct sn_library *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(l->why, sizeof(l->why), fmt, ap);
    va_end(ap);
}

static void keep_path(struct sn_library *l, const char *otherwise)
{
    struct link_map *map = NULL;
    int rc = dlinfo(l->handle, RTLD_DI_LINKMAP, (void *)&map);
    (void)snprintf(l->path, sizeof(l->path), "%s",
                   rc == 0 && map && map->l_name[0] ? map->l_name : otherwise);
}

/* A library with a runtime of CUDA in it must not be unmapped: drivers call it at the end. */
static void try_open(struct search *s, const char *name)
{
    s->l->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (s->l->handle) {
        keep_path(s->l, name);
        s->is_over = 1;
        return;
    }
    const char *reason = dlerror();
    explain(s->l, "%s does not open: %.250s", s->file,
            reason ? reason : "the loader gives no reason");
}

/* glibc names the file that it does not find: another one is something that this one needs. */
static int is_missing(const struct sn_library *l, const char *file)
{
    char words[128];
    (void)snprintf(words, sizeof(words), "open: %s: cannot open shared object file: No such file",
                   file);
    return strstr(l->why, words) != NULL;
}

/* `pattern`: of folders. */
static void try_folders(struct search *s, const char *pattern)
{
    glob_t found;
    if (s->is_over || glob(pattern, GLOB_ONLYDIR, NULL, &found) != 0)
        return;
    for (size_t i = found.gl_pathc; i > 0 && !s->is_over; i--) { /* the newest is the last */
        char path[PATH_MAX];
        (void)snprintf(path, sizeof(path), "%s/%s", found.gl_pathv[i - 1], s->file);
        s->folders++;
        if (access(path, F_OK) != 0)
            continue;
        s->is_over = 1;
        try_open(s, path);
    }
    globfree(&found);
}

static void try_root(struct search *s, const char *root, const char *const *below)
{
    char pattern[PATH_MAX];
    for (int i = 0; root && root[0] && below[i]; i++) {
        (void)snprintf(pattern, sizeof(pattern), "%.3000s/%s", root, below[i]);
        try_folders(s, pattern);
    }
}

/* DIR/bin/python3 belongs to the tree DIR. */
static void try_python(struct search *s, const char *python)
{
    char root[PATH_MAX];
    (void)snprintf(root, sizeof(root), "%.3000s", python);
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(root, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
    try_root(s, root, in_python);
}

/* The first python3 of PATH; as it is called, which is the tree of a virtual environment, and as it
 * is named in the end. */
static void try_pythons(struct search *s)
{
    const char *at = getenv("PATH");
    char python[PATH_MAX], real[PATH_MAX];
    while (at && *at) {
        size_t n = strcspn(at, ":");
        (void)snprintf(python, sizeof(python), "%.*s/python3", n < 3000 ? (int)n : 0, at);
        if (access(python, X_OK) == 0) {
            try_python(s, python);
            if (realpath(python, real))
                try_python(s, real);
            return;
        }
        at += n + (at[n] == ':');
    }
}

int sn_library_open(struct sn_library *l, const char *file)
{
    struct search s = {.l = l, .file = file};
    char home[PATH_MAX] = "";
    char by_loader[sizeof(l->why)];
    *l = (struct sn_library){0};
    try_open(&s, file);
    if (s.is_over || !is_missing(l, file))
        return l->handle ? 0 : -1;
    memcpy(by_loader, l->why, sizeof(by_loader));
    if (getenv("HOME"))
        (void)snprintf(home, sizeof(home), "%.3000s/.local", getenv("HOME"));
    try_root(&s, getenv("CUDA_HOME"), in_toolkit);
    try_root(&s, "/usr/local/cuda", in_toolkit);
    try_root(&s, "/usr/local/cuda-*", in_toolkit);
    try_root(&s, getenv("VIRTUAL_ENV"), in_python);
    try_root(&s, getenv("CONDA_PREFIX"), in_python);
    try_pythons(&s);
    try_root(&s, home, in_python);
    if (!s.is_over)
        explain(l,
                "%.200s; nor is it in %d folders of toolkits and Python's packages; name its "
                "folder in LD_LIBRARY_PATH",
                by_loader, s.folders);
    return l->handle ? 0 : -1;
}

int sn_library_find(struct sn_library *l, void *to, const char *name)
{
    void *symbol = dlsym(l->handle, name);
    if (!symbol) {
        explain(l, "%.250s has no %s; it is another version than was built for", l->path, name);
        return -1;
    }
    memcpy(to, &symbol, sizeof(symbol)); /* as POSIX asks: no cast of a data pointer */
    return 0;
}

int sn_library_fill(struct sn_library *l, const char *file, const char *const *names, size_t n,
                    void *to)
{
    char *at = to;
    if (sn_library_open(l, file) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        void *unused;
        if (sn_library_find(l, &unused, names[i]) != 0)
            return -1;
    }
    for (size_t i = 0; i < n; i++)
        (void)sn_library_find(l, at + i * sizeof(void *), names[i]); /* it has it */
    return 0;
}
