/*
 * aliases.h - keys as other trainers and config.json call them, and as they are called here.
 *
 * A run file takes none of them; who writes one is told the key that is meant.
 */
#ifndef SN_ALIASES_H
#define SN_ALIASES_H

struct sn_alias {
    const char *word; /* without its section */
    const char *key;  /* of the run file, with it */
};

extern const struct sn_alias sn_aliases[];
extern const int sn_n_aliases;

/* The key that a word stands for elsewhere; NULL: none. */
const char *sn_alias_find(const char *word);

#endif
