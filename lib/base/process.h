/*
 * process.h - a question about another process of this host.
 */
#ifndef SN_PROCESS_H
#define SN_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* Does it exist and can it still do something? One that has ended and was not waited for cannot. */
bool sn_process_is_alive(int64_t pid);
/* Is it held by SIGSTOP or a debugger? False where that cannot be known. */
bool sn_process_is_stopped(int64_t pid);

/* Seconds that the threads of this process, all together, have been ready to run and were not let:
 * others had the processors. 0 where the kernel does not count that. */
double sn_process_waited(void);

#endif
