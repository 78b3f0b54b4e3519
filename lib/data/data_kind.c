#include "lib/data/data_kind.h"

#include <string.h>

/* Packed by a program whose opposite writes to standard output. Each begins with at least three
 * bytes that no usual text or token file begins with. */
static const struct {
    const char *magic;
    size_t n;
    const char *what, *unpack;
} packed[] = {
    {"\x1f\x8b\x08", 3, "packed with gzip", "zcat"},
    {"\x28\xb5\x2f\xfd", 4, "packed with zstd", "zstdcat"},
    {"\xfd\x37zXZ\x00", 6, "packed with xz", "xzcat"},
    {"BZh", 3, "packed with bzip2", "bzcat"},
    {"\x04\x22\x4d\x18", 4, "packed with lz4", "lz4cat"},
    {"PK\x03\x04", 4, "a zip archive", "unzip -p"},
};

/* What has to be taken apart by somebody who knows its fields. */
static const struct {
    const char *magic;
    size_t n;
    const char *what, *instead;
} other[] = {
    {"PAR1", 4, "a parquet file",
     "'sennit-data tokenize' reads it; or write it as JSON lines (in Python: "
     "pandas.read_parquet(FILE).to_json(OUT, orient='records', lines=True))"},
    {"ARROW1", 6, "an arrow file",
     "write it as JSON lines (in Python: pandas.read_feather(FILE).to_json(OUT, orient='records', "
     "lines=True))"},
    {"\x93NUMPY", 6, "a numpy file", "write the array with tofile, which has no header"},
    {"\x89HDF\r\n", 6, "an HDF5 file", "write what is in it to a file of text or of numbers"},
    {"%PDF-", 5, "a PDF", "take its text out first (pdftotext)"},
    {"MMIDIDX", 7, "the index of token files", "name its prefix in data.train: it is built"},
};

static bool begins(const unsigned char *bytes, size_t n, const char *magic, size_t len)
{
    return n >= len && memcmp(bytes, magic, len) == 0;
}

/* bzip2 has a digit and pi behind its letters, which words that begin with BZh have not. */
static bool is_packed(size_t kind, const unsigned char *bytes, size_t n)
{
    if (!begins(bytes, n, packed[kind].magic, packed[kind].n))
        return false;
    return packed[kind].magic[0] != 'B' || (n >= 10 && memcmp(bytes + 4, "1AY&SY", 6) == 0);
}

/* A line that is a whole object: {"key": ...}. */
static bool is_object(const unsigned char *line, size_t n)
{
    size_t at = 1, end = n;
    if (n < 5 || line[0] != '{')
        return false;
    while (at < n && line[at] == ' ')
        at++;
    while (end > 1 && (line[end - 1] == '\r' || line[end - 1] == ' '))
        end--;
    return line[at] == '"' && line[end - 1] == '}' && memchr(line + at, ':', end - at);
}

/* The first line, and the second if there is one here: text may begin with one brace. */
static bool is_json_lines(const unsigned char *bytes, size_t n)
{
    const unsigned char *end = memchr(bytes, '\n', n);
    if (!end)
        return is_object(bytes, n);
    size_t left = n - (size_t)(end + 1 - bytes);
    return is_object(bytes, (size_t)(end - bytes)) && (left == 0 || end[1] == '{');
}

static enum sn_status check_text(const char *name, const unsigned char *bytes, size_t n,
                                 struct sn_err *err)
{
    if (begins(bytes, n, "\xff\xfe", 2) || begins(bytes, n, "\xfe\xff", 2))
        return sn_fail(err, SN_EINPUT,
                       "%s: this is UTF-16, of which every second byte says nothing; want UTF-8 "
                       "(iconv -f utf-16 -t utf-8), or --raw to take its bytes as they are",
                       name);
    if (is_json_lines(bytes, n))
        return sn_fail(err, SN_EINPUT,
                       "%s: these are JSON lines, whose braces and keys would be learnt too; take "
                       "the text out (jq -r .text FILE | sennit-data build --text - ...), or say "
                       "--raw to take the bytes as they are",
                       name);
    return SN_OK;
}

enum sn_status sn_data_kind_check(const char *name, const unsigned char *bytes, size_t n,
                                  bool is_text, struct sn_err *err)
{
    for (size_t i = 0; i < sizeof(packed) / sizeof(packed[0]); i++)
        if (is_packed(i, bytes, n))
            return sn_fail(err, SN_EINPUT,
                           "%s: this is %s; unpack it on the way (%s FILE | sennit-data build %s - "
                           "...), or say --raw to take its bytes as they are",
                           name, packed[i].what, packed[i].unpack, is_text ? "--text" : "--tokens");
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
        if (begins(bytes, n, other[i].magic, other[i].n))
            return sn_fail(err, SN_EINPUT,
                           "%s: this is %s; %s, or say --raw to take its bytes as they are", name,
                           other[i].what, other[i].instead);
    return is_text ? check_text(name, bytes, n, err) : SN_OK;
}
