/*
 * chat.h - conversations as texts: a line of JSON with messages, by a chat template or by a text for each
 * role, and which bytes of it are of turns that count.
 *
 * A line holds `messages`, of {role, content} and what else the template reads, or `conversations`, of
 * {from, value} (ShareGPT); `tools`, `documents` and `chat_template_kwargs` go to the template. As
 * transformers does it: members of a message that are null are not there; reasoning has all its names.
 *
 * Which bytes are whose: what is in the template's own {% generation %}, where it has these and
 * assistants alone count. Else a turn is what the template makes of the messages up to it, behind what it
 * makes of those before it (with its generation prompt, for an assistant); if that is not how the whole
 * begins, the line is refused. Blanks at the end of such a turn do not count.
 */
#ifndef SN_CHAT_CHAT_H
#define SN_CHAT_CHAT_H

#include "lib/chat/template.h"

struct sn_chat_want {
    const char
        *tokenizer; /* its file; the template and tokenizer_config.json are looked for beside it */
    const char *template_file; /* in place of its own; NULL: none */
    char *const *roles;        /* NAME=TEXT with {} for the content: no template then */
    int n_roles;
    const char *train_on;   /* roles, by commas; NULL: assistant */
    char *const *arguments; /* NAME=VALUE: variables of the template; JSON, or else a text */
    int n_arguments;
    const char *date;  /* YYYY-MM-DD, which stands for today; NULL: none */
    const char *field; /* the member of a line; NULL: messages, or else conversations */
};

struct sn_chat; /* never changes once it is loaded */

/* SN_EINPUT names the file or the option. Caller destroys. */
enum sn_status sn_chat_load(struct sn_chat **out, const struct sn_chat_want *want,
                            struct sn_err *err);
void sn_chat_destroy(struct sn_chat *c); /* NULL is allowed */
/* Of all that decides what texts become. */
uint64_t sn_chat_hash(const struct sn_chat *c);
/* eos_token of tokenizer_config.json; NULL: it has none. */
const char *sn_chat_end_token(const struct sn_chat *c);
/* The template's text, where there is one. */
struct sn_chat_value sn_chat_template_text(const struct sn_chat *c);

/* What a thread needs to render. Zeroed: empty. */
struct sn_chat_work {
    struct sn_pool pool, rendering;           /* of a line, and of one rendering of it */
    struct sn_chat_value variables, messages; /* of the pool */
    struct sn_bytes text, part;               /* text: the last conversation's */
    struct sn_text_spans counts;              /* bytes of it */
    struct sn_text_spans marks;
};
void sn_chat_work_fini(struct sn_chat_work *w);
/* Of a line into the work. SN_EINPUT says what is wrong with it. */
enum sn_status sn_chat_render(const struct sn_chat *c, struct sn_chat_work *w, const char *line,
                              size_t len, struct sn_err *err);

#endif
