/*
 * sennit_convert.c - sennit-convert, alone or as the beginning of one of several ranks.
 */
#include "bin/convert.h"

int main(int argc, char **argv)
{
    return sn_ranks_are_launched() ? sn_ranks_exec("convert", argv)
                                   : sn_convert_main(argc, argv, NULL);
}
