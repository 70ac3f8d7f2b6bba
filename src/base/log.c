// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LINE_MAX_BYTES 2048

static struct {
	const char *program;
	enum log_level least;
	int is_tty; /* -1: not looked yet */
} config = {.program = "cloche", .least = LOG_INFO, .is_tty = -1};

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_init(const char *program, enum log_level least)
{
	config.program = program;
	config.least = least;
	config.is_tty = isatty(STDERR_FILENO);
}

/* Copies text so that it stays one line and one JSON string. */
static size_t escape(char *out, size_t size, const char *text)
{
	size_t at = 0;

	for (const unsigned char *p = (const unsigned char *)text; *p && at + 8 < size; p++) {
		if (*p == '"' || *p == '\\') {
			out[at++] = '\\';
			out[at++] = (char)*p;
		} else if (*p < 0x20 || *p >= 0x7f) {
			at += (size_t)snprintf(out + at, size - at, "\\u%04x", *p);
		} else {
			out[at++] = (char)*p;
		}
	}
	out[at] = '\0';
	return at;
}

void log_write(enum log_level level, const char *event, const char *fmt, ...)
{
	char facts[LINE_MAX_BYTES / 2];
	char safe[LINE_MAX_BYTES];
	char line[LINE_MAX_BYTES + 256];
	uint64_t now = clock_wall_us();
	time_t seconds = (time_t)(now / 1000000);
	struct tm tm;
	va_list ap;
	int len;

	if (level < config.least)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(facts, sizeof(facts), fmt, ap);
	va_end(ap);
	(void)escape(safe, sizeof(safe), facts);
	(void)gmtime_r(&seconds, &tm);
	if (config.is_tty > 0)
		len = snprintf(line, sizeof(line), "%02d:%02d:%02d.%03d %-5s %s %s %s\n",
		               tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(now / 1000 % 1000),
		               level_names[level], config.program, event, safe);
	else
		len = snprintf(line, sizeof(line),
		               "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%06dZ\",\"level\":\"%s\","
		               "\"program\":\"%s\","
		               "\"event\":\"%s\",\"facts\":\"%s\"}\n",
		               tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
		               tm.tm_sec, (int)(now % 1000000), level_names[level], config.program,
		               event, safe);
	if (len > 0)
		(void)!write(STDERR_FILENO, line, MIN((size_t)len, sizeof(line) - 1));
}
