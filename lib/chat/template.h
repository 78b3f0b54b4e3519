/*
 * template.h - chat templates: the part of Jinja 3.1 that they use, as transformers runs it
 * (trim_blocks, lstrip_blocks, loop controls, {% generation %}, tojson without HTML).
 *
 * What it does: for with a condition and else, if, set (of several, of a namespace, of a block), macro,
 * break, continue, generation; expressions, slices, the filters, tests and methods that filters.c and
 * methods.c list. What it does not is refused by name: what the text says when it is parsed, filters,
 * tests and methods when they are reached, as Jinja does. Nothing here knows models.
 */
#ifndef SN_CHAT_TEMPLATE_H
#define SN_CHAT_TEMPLATE_H

#include "lib/chat/value.h"

struct sn_template;

/* SN_EINPUT names the line. `name` stands for the file in sentences. Caller destroys. */
enum sn_status sn_template_parse(struct sn_template **out, const char *text, size_t len,
                                 const char *name, struct sn_err *err);
void sn_template_destroy(struct sn_template *t); /* NULL is allowed */
/* Has it {% generation %}? */
bool sn_template_has_marks(const struct sn_template *t);

/* The variable that stands for today, a text YYYY-MM-DD; no template can name it. */
#define SN_TODAY "today "

/* Append what the template makes of variables (a MAP of the pool), and where its {% generation %} are.
 * SN_EINPUT: the template refuses them (raise_exception), or asks for what there is not, such as
 * today's date, unless the variable SN_TODAY stands for it. What was appended stays. */
enum sn_status sn_template_render(const struct sn_template *t, struct sn_pool *p,
                                  struct sn_chat_value variables, struct sn_bytes *out,
                                  struct sn_text_spans *marks, struct sn_err *err);

/* How many nodes a rendering may pass; it is a bound on time. */
void sn_template_limit(struct sn_template *t, int64_t steps);

#endif
