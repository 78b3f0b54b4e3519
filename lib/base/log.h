/*
 * log.h - what goes to stderr. Results go to stdout by printf in bin/.
 */
#ifndef SN_LOG_H
#define SN_LOG_H

enum sn_log_level { SN_LOG_ERROR, SN_LOG_WARN, SN_LOG_INFO, SN_LOG_DEBUG };

/* One line, fit for a terminal (plain.h). The level comes from SN_LOG=error|warn|info|debug, info by default. */
void sn_log(enum sn_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Each line of `text`, blank ones left out; NULL is allowed. */
void sn_log_lines(enum sn_log_level level, const char *text);
void sn_log_set_level(enum sn_log_level level);

#endif
