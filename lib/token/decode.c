/*
 * decode.c - from tokens to text: steps that each make a list of texts of another, as tokenizers'
 * decoders/ (0.23) do.
 */
#include "lib/base/mem.h"
#include "lib/token/tokenizer_inner.h"

void sn_decoders_fini(struct sn_decoders *d)
{
    for (int i = 0; i < d->n; i++) {
        sn_bytes_fini(&d->list[i].text);
        sn_bytes_fini(&d->list[i].content);
    }
    sn_free(d->list);
    *d = (struct sn_decoders){0};
}

struct sn_decoder *sn_decoders_add(struct sn_decoders *d)
{
    if (!sn_grow((void **)&d->list, d->n, &d->cap, sizeof(*d->list)))
        return NULL;
    d->list[d->n] = (struct sn_decoder){0};
    return &d->list[d->n++];
}

/* --- lists of texts --------------------------------------------------------------------------- */

struct texts {
    struct sn_bytes bytes;
    struct sn_ids ends; /* of each text; sizes stay below 2 GiB */
    bool good;
};

struct text {
    const char *p;
    size_t len;
};

static struct text get(const struct texts *t, size_t i)
{
    size_t from = i > 0 ? (size_t)t->ends.p[i - 1] : 0;
    return (struct text){t->bytes.p ? t->bytes.p + from : "", (size_t)t->ends.p[i] - from};
}

static void add(struct texts *t, const char *p, size_t len)
{
    t->good = t->good && t->bytes.len + len < INT32_MAX && sn_bytes_add(&t->bytes, p, len);
}

static void end(struct texts *t)
{
    t->good = t->good && sn_ids_push(&t->ends, (int32_t)t->bytes.len);
}

static bool has_at(const char *p, size_t left, const struct sn_bytes *what)
{
    return what->len > 0 && left >= what->len && memcmp(p, what->p, what->len) == 0;
}

/* A text with every `what` replaced. */
static void add_replaced(struct texts *t, struct text in, const char *what, size_t n,
                         const char *with, size_t with_len)
{
    const char *p = in.p, *stop = in.p + in.len, *hit;
    while (n > 0 && (hit = memmem(p, (size_t)(stop - p), what, n))) {
        add(t, p, (size_t)(hit - p));
        add(t, with, with_len);
        p = hit + n;
    }
    add(t, p, (size_t)(stop - p));
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* Valid UTF-8 of any bytes: U+FFFD for each longest part of a character that is cut off or wrong, as
 * String::from_utf8_lossy of Rust (Unicode 15, 3.9, U+FFFD substitution of maximal subparts). */
static size_t bad_part(const unsigned char *p, size_t len)
{
    static const char fill[] = "\x80\x80\x80";
    char whole[4];
    size_t n = 1;
    while (n < len && n < 4) { /* is it the beginning of some character? */
        memcpy(whole, p, n);
        memcpy(whole + n, p + n, 1);
        size_t want = sn_utf8_length(p[0]);
        if (p[0] < 0xc2 || p[0] > 0xf4 || n >= want)
            break;
        memcpy(whole + n + 1, fill, 3 - n);
        if (sn_utf8_check(whole, want) != want)
            break;
        n++;
    }
    return n;
}

static void add_lossy(struct texts *t, const char *p, size_t len)
{
    while (len > 0) {
        size_t good = sn_utf8_check(p, len);
        add(t, p, good);
        p += good;
        len -= good;
        if (len > 0) {
            size_t n = bad_part((const unsigned char *)p, len);
            add(t, "\xef\xbf\xbd", 3);
            p += n;
            len -= n;
        }
    }
}

static bool put_token_bytes(struct sn_bytes *raw, struct text in)
{
    size_t before = raw->len;
    for (size_t i = 0, used; i < in.len; i += used) {
        int byte = sn_char_byte(sn_utf8_get(in.p + i, &used));
        char c = (char)byte;
        if (byte < 0) { /* no byte-level text: as it is */
            raw->len = before;
            return sn_bytes_add(raw, in.p, in.len);
        }
        if (!sn_bytes_add(raw, &c, 1))
            return false;
    }
    return true;
}

static void join_bytes(const struct texts *in, struct texts *out)
{
    struct sn_bytes raw = {0};
    for (size_t i = 0; i < in->ends.len && out->good; i++)
        out->good = put_token_bytes(&raw, get(in, i));
    if (raw.len > 0)
        add_lossy(out, raw.p, raw.len);
    end(out);
    sn_bytes_fini(&raw);
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool is_byte(struct text t, char *byte)
{
    if (t.len != 6 || memcmp(t.p, "<0x", 3) != 0 || t.p[5] != '>')
        return false;
    int high = hex(t.p[3]), low = hex(t.p[4]);
    *byte = (char)(high * 16 + low);
    return high >= 0 && low >= 0;
}

/* Bytes that are beside each other are one text, or each is U+FFFD. */
static void end_bytes(struct texts *out, struct sn_bytes *raw)
{
    if (raw->len == 0)
        return;
    if (sn_utf8_check(raw->p, raw->len) == raw->len) {
        add(out, raw->p, raw->len);
        end(out);
    } else {
        for (size_t i = 0; i < raw->len; i++) {
            add(out, "\xef\xbf\xbd", 3);
            end(out);
        }
    }
    raw->len = 0;
}

static void join_fallback(const struct texts *in, struct texts *out)
{
    struct sn_bytes raw = {0};
    char byte;
    for (size_t i = 0; i < in->ends.len; i++) {
        struct text t = get(in, i);
        if (is_byte(t, &byte)) {
            out->good = out->good && sn_bytes_add(&raw, &byte, 1);
            continue;
        }
        end_bytes(out, &raw);
        add(out, t.p, t.len);
        end(out);
    }
    end_bytes(out, &raw);
    sn_bytes_fini(&raw);
}

/* --- other steps ------------------------------------------------------------------------------ */

/* Rows: what is written otherwise behind words. */
static void add_clean(struct texts *t, struct text in)
{
    static const char *const rows[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                          {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                          {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                          {" 've", "'ve"}, {" 're", "'re"}};
    struct texts two[2] = {{.good = true}, {.good = true}};
    add(&two[0], in.p, in.len);
    int now = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++, now = !now) {
        two[!now].bytes.len = 0;
        add_replaced(&two[!now],
                     (struct text){two[now].bytes.p ? two[now].bytes.p : "", two[now].bytes.len},
                     rows[i][0], strlen(rows[i][0]), rows[i][1], strlen(rows[i][1]));
    }
    t->good = t->good && two[0].good && two[1].good;
    add(t, two[now].bytes.p, two[now].bytes.len);
    sn_bytes_fini(&two[0].bytes);
    sn_bytes_fini(&two[1].bytes);
}

static void wordpiece(const struct sn_decoder *d, struct text in, bool is_first, struct texts *out)
{
    struct texts one = {.good = true};
    bool continues = d->text.len == 0 || has_at(in.p, in.len, &d->text);
    if (!is_first && !continues)
        add(&one, " ", 1);
    if (!is_first && continues)
        add(&one, in.p + d->text.len, in.len - d->text.len);
    else
        add(&one, in.p, in.len);
    struct text whole = {one.bytes.p ? one.bytes.p : "", one.bytes.len};
    if (d->cleanup)
        add_clean(out, whole);
    else
        add(out, whole.p, whole.len);
    out->good = out->good && one.good;
    sn_bytes_fini(&one.bytes);
}

static void meta(const struct sn_decoder *d, struct text in, bool is_first, struct texts *out)
{
    bool drops = is_first && d->drops_first;
    add_replaced(out, in, d->text.p, d->text.len, " ", drops ? 0 : 1);
}

static void strip(const struct sn_decoder *d, struct text in, struct texts *out)
{
    size_t n = d->text.len;
    for (int64_t i = 0; i < d->start && has_at(in.p, in.len, &d->text); i++) {
        in.p += n;
        in.len -= n;
    }
    for (int64_t i = 0; i < d->stop && in.len >= n && has_at(in.p + in.len - n, n, &d->text); i++)
        in.len -= n;
    add(out, in.p, in.len);
}

static void each(const struct sn_decoder *d, const struct texts *in, struct texts *out)
{
    size_t n = in->ends.len;
    for (size_t i = 0; i < n && out->good; i++) {
        struct text t = get(in, i);
        if (d->kind == SN_DECODE_META)
            meta(d, t, i == 0, out);
        else if (d->kind == SN_DECODE_WORDPIECE)
            wordpiece(d, t, i == 0, out);
        else if (d->kind == SN_DECODE_STRIP)
            strip(d, t, out);
        else if (d->kind == SN_DECODE_BPE)
            add_replaced(out, t, d->text.p, d->text.len, " ", i + 1 < n);
        else if (d->kind == SN_DECODE_REPLACE)
            add_replaced(out, t, d->text.p, d->text.len, d->content.p, d->content.len);
        else
            add(out, t.p, t.len);
        if (d->kind != SN_DECODE_FUSE)
            end(out);
    }
    if (d->kind == SN_DECODE_FUSE)
        end(out);
}

static void step(const struct sn_decoder *d, const struct texts *in, struct texts *out)
{
    out->bytes.len = out->ends.len = 0;
    out->good = in->good;
    if (d->kind == SN_DECODE_BYTES)
        join_bytes(in, out);
    else if (d->kind == SN_DECODE_FALLBACK)
        join_fallback(in, out);
    else
        each(d, in, out);
}

/* --- all -------------------------------------------------------------------------------------- */

/* By its text, as tokenizers has it: two ids may have one. */
static bool is_special(const struct sn_tokenizer *t, const char *p, size_t len)
{
    for (int i = 0; i < t->added.n; i++) {
        const struct sn_added *a = &t->added.list[i];
        if (a->special && a->text.len == len && memcmp(a->text.p, p, len) == 0)
            return true;
    }
    return false;
}

static void collect(const struct sn_tokenizer *t, const int32_t *ids, size_t n, bool skip,
                    struct texts *out)
{
    for (size_t i = 0; i < n && out->good; i++) {
        const struct sn_added *a = sn_added_find(&t->added, ids[i]);
        size_t len;
        const char *p = sn_vocab_text(&t->model.vocab, ids[i], &len);
        if (a && a->special && skip)
            continue;
        if (a) { /* byte-level normalizers are refused, so its text decodes to itself */
            const struct sn_bytes *text =
                a->normalized && a->normal.len > 0 ? &a->normal : &a->text;
            p = text->p;
            len = text->len;
        }
        if (!p || (skip && is_special(t, p, len)))
            continue;
        if (t->decoders.joins_by_blanks && out->ends.len > 0)
            add(out, " ", 1);
        add(out, p, len);
        end(out);
    }
}

enum sn_status sn_decode(const struct sn_tokenizer *t, const int32_t *ids, size_t n, bool skip,
                         struct sn_bytes *out, struct sn_err *err)
{
    struct texts two[2] = {{.good = true}, {.good = true}};
    int now = 0;
    collect(t, ids, n, skip, &two[now]);
    for (int i = 0; i < t->decoders.n; i++, now = !now)
        step(&t->decoders.list[i], &two[now], &two[!now]);
    bool good = two[now].good && sn_bytes_add(out, two[now].bytes.p, two[now].bytes.len);
    for (int i = 0; i < 2; i++) {
        sn_bytes_fini(&two[i].bytes);
        sn_ids_fini(&two[i].ends);
    }
    return good ? SN_OK : sn_fail(err, SN_ENOMEM, "no memory for a decoded text");
}
