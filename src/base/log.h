// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A log line is an event and its fields: log_info("sandbox.ready", "id=%s ready_us=%" PRIu64, id,
 * us). On a terminal it is text; elsewhere one JSON object a line, to stderr, with a member for
 * each field beside time, level, program and event, which no field is called. The format has pairs
 * alone, with a blank between them: NAME=VALUE, or NAME='VALUE' where the value may have blanks.
 * Its conversions are %s, %.Ns, %c, %d, %u and %x, with l, ll or z before the last three. Untrusted
 * text goes in single quotes ('%s'). All control bytes are escaped here, so that no guest or client
 * can forge a line. Never log a secret.
 */
#include "base/auto.h"

#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_init(const char *program,
              enum log_level least); /* program is borrowed: "gateway", "broker", … */
void log_write(enum log_level level, const char *event, const char *fmt, ...) printf_like(3, 4);

/* From now on fn gets each line that this thread logs, too, as JSON without its newline and
 * whatever stderr is; it must not log. NULL: no more. */
typedef void (*log_sink_fn)(enum log_level level, uint64_t at_us, const char *line, size_t len,
                            void *arg);
void log_set_sink(log_sink_fn fn, void *arg);

#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
