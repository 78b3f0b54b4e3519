/*
 * tokenize_part.h - one input file into a part; for tokenize.c and train_tokenizer.c alone.
 */
#ifndef SN_TOKENIZE_PART_H
#define SN_TOKENIZE_PART_H

#include "lib/texts/encoders.h"
#include "lib/texts/texts.h"
#include "lib/texts/tokenize.h"

struct sn_part {
    const struct sn_tokenize *want;
    const struct sn_texts_file *file;
    struct sn_encoders *encoders;
    struct sn_data_writer *writer; /* NULL: the encoders make no tokens */
    int64_t bytes, skipped; /* of this part */
    int64_t may_skip;       /* documents, still */
};
/* Read it all, into p->writer, which is open. */
enum sn_status sn_part_write(struct sn_part *p, struct sn_err *err);

#endif
