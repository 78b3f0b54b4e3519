/*
 * fuzz_template.c - a chat template of any bytes, and behind the last 0xff a conversation: a text whose
 * spans lie in it, in order and apart, or a sentence.
 */
#include "lib/chat/chat_inner.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static const char talk[] = "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", "
                           "\"content\": \"a\\nb\"}, {\"role\": \"assistant\", \"content\": \"\\u00e9\"}]}";

static void require(int good)
{
    if (!good)
        abort();
}

static void render(const struct sn_chat *c, const char *line, size_t len)
{
    struct sn_chat_work w = {0};
    struct sn_err err = {0};
    size_t last = 0;
    enum sn_status st = sn_chat_render(c, &w, line, len, &err);
    require(st == SN_OK || (st == SN_EINPUT && err.text[0]));
    for (int i = 0; st == SN_OK && i < w.counts.n; i++) {
        const struct sn_text_span *s = &w.counts.list[i];
        require(s->from >= last && s->to > s->from && s->to <= w.text.len);
        last = s->to;
    }
    sn_chat_work_fini(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char path[32];
    struct sn_chat *c = NULL;
    struct sn_err err = {0};
    const uint8_t *cut = memrchr(bytes, 0xff, len);
    size_t file = cut ? (size_t)(cut - bytes) : len;
    int fd = memfd_create("template", MFD_CLOEXEC);
    require(fd >= 0 && write(fd, bytes, file) == (ssize_t)file);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct sn_chat_want want = {.tokenizer = "/none/t", .template_file = path, .date = "2026-11-27"};
    enum sn_status st = sn_chat_load(&c, &want, &err);
    (void)close(fd);
    if (st != SN_OK) {
        require(st == SN_EINPUT && err.text[0]);
        return 0;
    }
    c->most = (size_t)32 << 20;
    sn_template_limit(c->template, 100000);
    render(c, talk, sizeof(talk) - 1);
    if (cut)
        render(c, (const char *)cut + 1, len - file - 1);
    sn_chat_destroy(c);
    return 0;
}
