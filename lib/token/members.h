/*
 * members.h - members of JSON objects into places, by a table: what has no row is refused by name.
 */
#ifndef SN_TOKEN_MEMBERS_H
#define SN_TOKEN_MEMBERS_H

#include "lib/base/err.h"
#include "lib/base/json.h"
#include "lib/token/bytes.h"

enum sn_member_type {
    SN_MEMBER_BOOL,    /* bool */
    SN_MEMBER_INTEGER, /* int64_t */
    SN_MEMBER_TEXT,    /* struct sn_bytes, which begins empty */
    SN_MEMBER_ANY,     /* struct sn_json */
    SN_MEMBER_NOTHING  /* what changes no token: to is NULL */
};
struct sn_member {
    const char *name;
    enum sn_member_type type;
    void *to; /* untouched where the member is missing, or null (but for ANY) */
};
/* `where` names the object in sentences. */
enum sn_status sn_members_read(struct sn_json object, const char *where,
                               const struct sn_member *fields, int n, struct sn_err *err);
/* A text, which must be valid UTF-8. SN_EINPUT, SN_ENOMEM. */
enum sn_status sn_members_text(struct sn_json v, const char *where, struct sn_bytes *out,
                               struct sn_err *err);
/* Which of the names its member "type" is. SN_EINPUT says what it is and that it is not known. */
enum sn_status sn_members_type(struct sn_json object, const char *where, const char *const *names,
                               int n, int *which, struct sn_err *err);

/* Base64 with its padding: bytes into `out`, of at least len / 4 * 3 + 3; -1: it is none. */
int64_t sn_base64(const char *p, size_t len, char *out);

#endif
