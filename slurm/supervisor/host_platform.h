/*
 * host_platform.h - the platform of a process (slurm/supervisor/platform.h): this host's clocks,
 * signals to this process, a launcher as its child, Slurm's programs.
 */
#ifndef SN_HOST_PLATFORM_H
#define SN_HOST_PLATFORM_H

#include "slurm/supervisor/platform.h"

struct sn_host_platform {
    struct sn_platform platform;
    int signals;           /* blocked, and read from this descriptor */
    bool interrupted;      /* SIGINT was seen: the next one means now */
    struct sn_child child; /* the launcher */
};
/* From here on SIGTERM, SIGHUP, SIGINT, SIGUSR1 and SIGUSR2 wait to be read. One for the life of a
 * process, which must not move. SN_EIO. */
enum sn_status sn_host_platform_open(struct sn_host_platform *out, struct sn_err *err);
void sn_host_platform_close(struct sn_host_platform *r); /* one that failed to open is allowed */

#endif
