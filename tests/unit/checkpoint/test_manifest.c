/* Manifests: text and back without a loss, and many writers' lists as one. */
#include "checkpoint/format/manifest.h"

#include "lib/base/mem.h"
#include "tests/lib/tap.h"

/* One writer's list: a slice of a matrix and, on the first, a vector. */
struct list {
    struct sn_manifest m;
    struct sn_manifest_shard shard;
    struct sn_manifest_tensor tensors[2];
    struct sn_manifest_piece pieces[2];
    uint64_t hashes[4];
};

static void make_list(struct list *l, int number, const char *file)
{
    *l = (struct list){.shard = {file, 90000 + number},
                       .hashes = {0x0123456789abcdef, 0, 0xffffffffffffffff, 7}};
    l->pieces[0] = (struct sn_manifest_piece){.box = {number * 100, 0, 100, 30},
                                              .dataset = "/model/w",
                                              .at_row = number * 100,
                                              .set_rows = 300,
                                              .set_cols = 30,
                                              .n_blocks = 2,
                                              .hashes = l->hashes};
    l->pieces[1] = (struct sn_manifest_piece){.box = {0, 0, 5, 1},
                                              .dataset = "/optim/exp_avg/v",
                                              .set_rows = 5,
                                              .set_cols = 1,
                                              .n_blocks = 1,
                                              .hashes = l->hashes + 3};
    l->tensors[1] = (struct sn_manifest_tensor){"model", "w", 300, 30, SN_BF16, 1, l->pieces};
    l->tensors[0] = (struct sn_manifest_tensor){"exp_avg", "v", 5, 1, SN_F32, 1, l->pieces + 1};
    l->m = (struct sn_manifest){
        .scalars = {100, 1L << 60, 99, 3, 1, 0.1f, {0}, 0.3f, 0x8123456789abcdef},
        .model_text = "model:\n  family: \"llama\"\n",
        .layout_text = "layout:\n\ttensor: 2\n",
        .config_hash = 0xfedcba9876543210,
        .block = 4096,
        .n_shards = 1,
        .shards = &l->shard,
        .n_tensors = number == 0 ? 2 : 1,
        .n_pieces = number == 0 ? 2 : 1,
        .tensors = number == 0 ? l->tensors : l->tensors + 1};
}

static void text_and_back_is_the_same(void)
{
    struct list l;
    struct sn_manifest back;
    struct sn_str text = {0}, again = {0};
    struct sn_err err = {.text = ""};
    make_list(&l, 0, "shard-00000.h5");
    sn_manifest_format(&text, &l.m);
    if (!tap_ok(sn_manifest_parse(&back, text.p, text.len, "m", &err) == SN_OK, "it parses %s",
                err.text))
        return;
    const struct sn_manifest_tensor *w = sn_manifest_find(&back, "model", "w");
    const struct sn_manifest_piece *p = w ? w->pieces : NULL;
    tap_ok(p && w->dtype == SN_BF16 && p->set_rows == 300 && p->n_blocks == 2 &&
               p->hashes[0] == l.hashes[0] && p->hashes[1] == 0 && back.block == 4096 &&
               back.schema == SN_MANIFEST_SCHEMA,
           "types, places and hashes are there");
    tap_ok(back.scalars.tokens == 1L << 60 && back.scalars.loss_scale == 0.1f &&
               back.scalars.adapter_scale == 0.3f && back.scalars.blend == 0x8123456789abcdefu &&
               back.config_hash == l.m.config_hash,
           "and the scalars");
    tap_text(back.model_text, l.m.model_text, "the model's text");
    tap_text(back.layout_text, l.m.layout_text, "the layout's text");
    tap_ok(!sn_manifest_find(&back, "model", "v"), "a tensor of another group is not found");
    sn_manifest_format(&again, &back);
    tap_text(again.p, text.p, "the text again");
    sn_str_fini(&text);
    sn_str_fini(&again);
    sn_manifest_fini(&back);
}

static void levels_of_codecs_are_optional(void)
{
    struct list l;
    struct sn_manifest back;
    struct sn_str text = {0};
    struct sn_err err = {.text = ""};
    make_list(&l, 0, "shard-00000.h5");
    sn_manifest_format(&text, &l.m);
    tap_ok(!strstr(text.p, "codec_level"), "nobody writes that no codec is milder");
    sn_str_fini(&text);
    l.m.scalars.codec_level[SN_CODED_TENSOR] = 2;
    sn_manifest_format(&text, &l.m);
    if (tap_ok(sn_manifest_parse(&back, text.p, text.len, "m", &err) == SN_OK, "one is read %s",
               err.text)) {
        tap_ok(memcmp(back.scalars.codec_level, l.m.scalars.codec_level,
                      sizeof(back.scalars.codec_level)) == 0,
               "as it was written");
        sn_manifest_fini(&back);
    }
    *(strstr(text.p, "0, 0, 2, 0, 0") + 6) = '3';
    tap_ok(sn_manifest_parse(&back, text.p, text.len, "m", &err) == SN_EIO, "no level is 3");
    tap_text(err.text,
             "m: 'codec_level' is not a list of 5 numbers from 0 to 2; the file is damaged",
             "says the sentence");
    sn_str_fini(&text);
}

static void the_master_is_optional(void)
{
    struct list l;
    struct sn_manifest back;
    struct sn_str text = {0};
    struct sn_err err = {.text = ""};
    make_list(&l, 0, "shard-00000.h5");
    sn_manifest_format(&text, &l.m);
    tap_ok(!strstr(text.p, "master") &&
               sn_manifest_parse(&back, text.p, text.len, "m", &err) == SN_OK &&
               back.master.bytes == 0,
           "without one nothing is said, and read as nothing");
    sn_manifest_fini(&back);
    sn_str_fini(&text);
    l.m.master = (struct sn_manifest_master){4711, 0xfedcba9876543210};
    sn_manifest_format(&text, &l.m);
    tap_ok(sn_manifest_parse(&back, text.p, text.len, "m", &err) == SN_OK &&
               back.master.bytes == 4711 && back.master.hash == 0xfedcba9876543210,
           "size and hash are read as they were written");
    sn_manifest_fini(&back);
    memcpy(strstr(text.p, "4711"), "   0", 4);
    tap_ok(sn_manifest_parse(&back, text.p, text.len, "m", &err) == SN_EIO, "no master is empty");
    tap_text(err.text, "m: a 'master' of 0 bytes is none", "says the sentence");
    memcpy(strstr(text.p, "   0, \"xxh3"), "-471", 4);
    tap_ok(sn_manifest_parse(&back, text.p, text.len, "m", &err) == SN_EIO &&
               strstr(err.text, "'bytes' is not a number"),
           "nor less than that: %s", err.text);
    sn_str_fini(&text);
}

static void lists_are_joined(void)
{
    struct list l[3];
    struct sn_manifest lists[3], m;
    struct sn_err err = {.text = ""};
    for (int single = 0; single < 2; single++) {
        static const char *const file[] = {"shard-00000.h5", "shard-00001.h5", "shard-00002.h5"};
        for (int i = 0; i < 3; i++) {
            make_list(&l[i], 2 - i, single ? "master.h5" : file[i]);
            lists[i] = l[i].m;
        }
        bool good = sn_manifest_merge(&m, lists, 3, "m", &err) == SN_OK;
        const struct sn_manifest_tensor *w = good ? sn_manifest_find(&m, "model", "w") : NULL;
        good = w && m.n_shards == (single ? 1 : 3) && m.n_tensors == 2 && w->n_pieces == 3;
        for (int k = 0; k < 3 && good; k++)
            good = w->pieces[k].box.row == 100 * k && w->pieces[k].shard == (single ? 0 : 2 - k);
        tap_ok(good && m.block == 4096 && sn_manifest_check_cover(&m, "m", &err) == SN_OK,
               "lists of %s are joined %s", single ? "one file" : "three shards", err.text);
        sn_manifest_fini(&m);
    }
}

static void lists_that_differ_are_refused(void)
{
    struct list l[2];
    struct sn_manifest lists[2], m;
    struct sn_err err = {.text = ""};
    make_list(&l[0], 0, "a.h5");
    make_list(&l[1], 1, "b.h5");
    l[1].tensors[1].dtype = SN_F16;
    lists[0] = l[0].m;
    lists[1] = l[1].m;
    tap_ok(sn_manifest_merge(&m, lists, 2, "m", &err) == SN_EFAIL, "another type");
    tap_text(err.text, "m: tensor model w is bf16 to one rank and fp16 to another", "is named");
    l[1].tensors[1].dtype = SN_BF16;
    lists[1].block = 8192;
    tap_ok(sn_manifest_merge(&m, lists, 2, "m", &err) == SN_EFAIL, "other blocks");
    tap_text(err.text, "m: one rank hashed blocks of 4096 bytes, another of 8192", "are named");
    lists[1].block = 4096;
    l[1].tensors[1].rows = 301;
    tap_ok(sn_manifest_merge(&m, lists, 2, "m", &err) == SN_EFAIL, "another shape");
    tap_text(err.text, "m: tensor model w is 300 x 30 to one rank and 301 x 30 to another",
             "is named");
}

static void no_memory_is_told(void)
{
    struct list l;
    struct sn_str text = {0};
    make_list(&l, 0, "shard-00000.h5");
    sn_manifest_format(&text, &l.m);
    enum sn_status st = SN_ENOMEM;
    int n = 0;
    while (st == SN_ENOMEM && n < 1000) {
        struct sn_manifest back = {0};
        struct sn_err err = {.text = ""};
        sn_mem_fail_at((uint64_t)++n);
        st = sn_manifest_parse(&back, text.p, text.len, "m", &err);
        sn_mem_fail_at(0);
        if (st == SN_OK ? !back.json : !strstr(err.text, "no memory"))
            st = SN_EFAIL;
        sn_manifest_fini(&back);
    }
    tap_ok(st == SN_OK && n > 20, "%d allocations fail, each is told", n - 1);
    sn_str_fini(&text);
}

int main(void)
{
    text_and_back_is_the_same();
    levels_of_codecs_are_optional();
    the_master_is_optional();
    lists_are_joined();
    lists_that_differ_are_refused();
    no_memory_is_told();
    return tap_done();
}
