/*
 * chat_inner.h - what a chat is made of; for chat.c, which loads it, and conversation.c.
 */
#ifndef SN_CHAT_INNER_H
#define SN_CHAT_INNER_H

#include "lib/chat/chat.h"

enum { SN_CHAT_ROLES = 16 };

struct sn_chat_role {
    struct sn_chat_value name, before, behind; /* of the content */
};
struct sn_chat {
    struct sn_pool pool;
    struct sn_bytes files[2];     /* tokenizer_config.json, the template */
    struct sn_template *template; /* NULL: roles */
    struct sn_chat_value template_text;
    struct sn_chat_value variables; /* MAP: special tokens, arguments, today */
    struct sn_chat_value train_on;  /* LIST of names */
    struct sn_chat_role roles[SN_CHAT_ROLES];
    int n_roles;
    bool by_marks; /* what counts is what the template marks */
    const char *field, *end_token;
    uint64_t hash;
    size_t most; /* bytes of memory that a line's work may take */
};

#endif
