/*
 * answer.h - sennit-train --answer: what follows the prompts of a file, as JSON lines on stdout.
 *
 * One JSON object a line: {"prompt": P}, P a text or an array of token numbers; "until": a text or an array of texts, before the first
 * of which the answer ends; "tokens": how many at most (default: --tokens); "id": any value, given back.
 * Other members are refused. The answer is {"text": T, "tokens": N, "left_out": L, "end": E}, or, where nobody
 * knows what tokens stand for, "ids" in place of the text; L tokens of the prompt's begin do not fit into the
 * model's window; E is until, stop (--stop) or tokens.
 */
#ifndef SN_TRAIN_ANSWER_H
#define SN_TRAIN_ANSWER_H

#include "bin/train/generate.h"

/* Collective: rank 0 reads and prints. All requests are looked at before the first is answered; request n, from
 * 0, draws with the seed and n. */
enum sn_status sn_train_answer(struct sn_trainer *t, const struct sn_config *c,
                               struct sn_comm *comm, const struct sn_train_generate *g,
                               struct sn_err *err);

#endif
