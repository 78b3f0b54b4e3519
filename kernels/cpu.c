/*
 * cpu.c - picks the CPU backend for this processor, and describes it: the best instruction set, or
 * the one that SN_ISA in the environment names.
 */
#include "kernels/codec.h"
#include "kernels/isa.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Weak references (kernels/isa) take nothing out of an archive: these do. The Makefile says which
 * sets of bf16 products were compiled: SN_BF16_ISAS(X) is X(avx512bf16) X(amx). */
#define DECLARE(isa) extern const struct sn_ops sn_cpu_table_##isa;
#define ADDRESS(isa) &sn_cpu_table_##isa,
SN_BF16_ISAS(DECLARE)
static const struct sn_ops *const linked[] __attribute__((used)) = {SN_BF16_ISAS(ADDRESS) NULL};

/* A set's name is its table's without "cpu/". */
static const char *name_of(const struct sn_isa *isa)
{
    return isa->ops->name + strlen("cpu/");
}

static int best(const struct sn_isa *list, int n)
{
    while (n > 1 && list[n - 1].only_named)
        n--;
    return n - 1;
}

/* The one of n that SN_ISA names, or -1; without SN_ISA the best. */
static int wanted(const struct sn_isa *list, int n)
{
    const char *name = getenv("SN_ISA");
    for (int i = 0; name && i < n; i++)
        if (strcmp(name, name_of(&list[i])) == 0)
            return i;
    return name ? -1 : best(list, n);
}

/* A name that is not here leaves the best: whoever starts a program asks sn_ops_cpu_check(). */
static struct sn_isa chosen(const char **lacks)
{
    struct sn_isa list[SN_ISA_MOST];
    int n = sn_isa_list(list, lacks), i = wanted(list, n);
    if (i >= 0 && i < best(list, n))
        *lacks = NULL; /* less than the best is what was asked for */
    return list[i < 0 ? best(list, n) : i];
}

bool sn_ops_cpu_check(char *why, size_t size)
{
    struct sn_isa list[SN_ISA_MOST];
    const char *lacks;
    int n = sn_isa_list(list, &lacks);
    if (wanted(list, n) >= 0)
        return true;
    int at = snprintf(why, size, "SN_ISA: '%.40s' is no instruction set of this processor; it has",
                      getenv("SN_ISA"));
    for (int i = 0; i < n && at >= 0 && (size_t)at < size; i++)
        at += snprintf(why + at, size - (size_t)at, "%s %s", i ? "," : "", name_of(&list[i]));
    return false;
}

const struct sn_ops *sn_ops_cpu(void)
{
    const char *lacks;
    return chosen(&lacks).ops;
}

int sn_cpu_level(void)
{
    const char *lacks;
    return chosen(&lacks).codecs;
}

const char *sn_ops_cpu_describe(const char **warning)
{
    return chosen(warning).says;
}

const char *sn_ops_arithmetic(const struct sn_ops *ops, enum sn_dtype t, char text[SN_OPS_TEXT])
{
    bool own = ops->multiplies && ops->multiplies(t);
    const char *says = own ? ", multiplies %s and sums in fp32" : ", computes in fp32 and keeps %s";
    text[0] = '\0';
    if (t != SN_F32)
        (void)snprintf(text, SN_OPS_TEXT, says, sn_dtype_name(t));
    return text;
}
