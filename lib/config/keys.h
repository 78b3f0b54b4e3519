/*
 * keys.h - the one table of all keys of the run file.
 *
 * A row feeds the parser, the bounds checks, the defaults, --help-keys, docs/RUNFILE.md and the
 * run's hash. A key whose feature is not built yet has a row that says so.
 */
#ifndef SN_KEYS_H
#define SN_KEYS_H

#include "lib/config/config.h"
#include "lib/config/yaml.h"

enum sn_key_type {
    SN_KEY_MAP,     /* a section */
    SN_KEY_INCLUDE, /* preset, file, config: pulls in other keys */
    SN_KEY_INT,     /* int */
    SN_KEY_LONG,    /* int64_t or uint64_t, 0 .. 2^63-1 at most */
    SN_KEY_FLOAT,   /* double */
    SN_KEY_BOOL,    /* bool */
    SN_KEY_TEXT,    /* char[SN_NAME_MAX] */
    SN_KEY_PATH,    /* char[SN_PATH_MAX] */
    SN_KEY_ENUM,    /* int-sized enum: the index in names */
    SN_KEY_BYTES,   /* int64_t */
    SN_KEY_WORDS,   /* struct sn_words */
    SN_KEY_INTS,    /* struct sn_ints; n 0 is the word */
    SN_KEY_FLOATS,  /* struct sn_floats */
    SN_KEY_RANKING, /* struct sn_ranking: all of names, each once, in an order of choice */
    SN_KEY_SETS,    /* struct sn_data_sets; names: of a set's members, the first a must */
    SN_KEY_PHASES   /* struct sn_data_phases; the same */
};

/* How lists lie in the sections of struct sn_config (asserted in keys.c). */
struct sn_words {
    int n;
    char word[SN_FREEZE_MAX][SN_NAME_MAX];
};
struct sn_ints {
    int n;
    int v[SN_SPLIT_MAX];
};
struct sn_ranking {
    int n;
    int name[SN_NORDER_AXES]; /* indices in the row's names */
};

/* The value of a key that has no place in struct sn_config, while it is checked. */
union sn_scratch {
    int i;
    int64_t l;
    double f;
    bool b;
    char text[SN_PATH_MAX];
    struct sn_words words;
    struct sn_ints ints;
    struct sn_floats floats;
    struct sn_ranking ranking;
    struct sn_data_sets sets;
    struct sn_data_phases phases;
};

#define SN_NOWHERE ((size_t)-1)

/* A word of a mapping, and the key whose value it is; of a list a row with NULL ends. */
struct sn_key_member {
    const char *word, *key;
};

struct sn_key {
    const char *name; /* dotted */
    enum sn_key_type type;
    size_t offset; /* in struct sn_config; SN_NOWHERE: checked, not kept */
    const char *sentence;
    const char *unit; /* NULL: a bare number */
    long double min,
        max; /* of numbers, also in a list; long double holds every int64_t and double */
    const char *short_for;    /* of a section: a scalar in its place is the value of this key */
    const char *word;         /* this word stands for a number, such as auto: */
    int word_is;              /* 0, of an INT also another one outside its range */
    const char *const *names; /* of an enum, NULL-terminated */
    unsigned later;           /* bit i: names[i] is not built yet */
    unsigned optional;        /* of a ranking: bit i: names[i] may be left out */
    const struct sn_key_member *members; /* of a mapping in its place: other keys' values */
    const char *value;                   /* default as YAML; NULL: derived or required */
    const char *derived;                 /* default in words, when other keys decide it (rules.c) */
    const char *only;                    /* the feature is not built yet: the one value accepted */
    bool not_built;                      /* no value is accepted at all */
    bool null_ok;                        /* null means the default */
    bool decides;                        /* part of sn_config_hash */
    bool is_quiet; /* where it has its default no text names it, nor does a hash count it */
    bool is_free;  /* of a model: how it is trained, not what its weights compute; FLOAT or ENUM */
};

enum { SN_KEYS_MAX = 272 };

extern const struct sn_key sn_keys[];
extern const int sn_n_keys;

/* Row of the first `len` characters of a dotted name; -1: no such key. */
int sn_key_find(const char *name, size_t len);
/* Is `k` directly in `section` ("" is the root)? Gives its last word. */
bool sn_key_in(const struct sn_key *k, const char *section, const char **word);
/* The place of a key's value; NULL for a key that is not kept. */
void *sn_key_at(const struct sn_key *k, struct sn_config *c);
const void *sn_key_get(const struct sn_key *k, const struct sn_config *c);

enum { SN_WANT_SIZE = 256, SN_VALUE_SIZE = 4 * sizeof(struct sn_words) };

/* What the key takes, in words: "a whole number in 1..10000 layers"; returns buf. */
const char *sn_key_want(const struct sn_key *k, char buf[SN_WANT_SIZE]);
/* Does the configuration's text (sn_config_format) name the key? Not where it has no effect. */
bool sn_key_is_said(const struct sn_key *k, const struct sn_config *c);
/* "1..10000 layers"; "" for what has no range. */
const char *sn_key_range(const struct sn_key *k, char buf[SN_WANT_SIZE]);
/* The names of an enum that are built, comma-separated; returns buf. */
const char *sn_key_names(const struct sn_key *k, char buf[SN_WANT_SIZE]);

/* Check a node against its row and write the value to *at (of the row's type). */
enum sn_status sn_key_parse(const struct sn_key *k, const struct sn_yaml_node *n, void *at,
                            struct sn_err *err);
/* The default of a row that has one. */
enum sn_status sn_key_parse_default(const struct sn_key *k, void *at);
/* The value as YAML, read back by sn_key_parse without loss; returns buf. */
const char *sn_key_format(const struct sn_key *k, const void *at, char buf[SN_VALUE_SIZE]);

#endif
