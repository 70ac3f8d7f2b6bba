// SPDX-License-Identifier: Apache-2.0
/*
 * The format of a call is our own text, so it says which fields a line has: it is read pair by
 * pair, and each value is made of its own arguments. What is in a value cannot become a field,
 * since values are never searched. A value that is one bare %d or %u is a number; all others are
 * strings. A line that is too long loses the end of a string, or whole fields, and stays JSON.
 */
#include "base/log.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LINE_MAX_BYTES  2304
#define VALUE_MAX_BYTES 1024
#define NAME_MAX_BYTES  64
#define NUMBER_SIZE     32
#define ESCAPED_SIZE    8
#define END_BYTES       3 /* of a line, for the quote, brace and newline that end it */

static struct {
	const char *program;
	enum log_level least;
	int is_tty; /* -1: not looked yet */
} config = {.program = "cloche", .least = LOG_INFO, .is_tty = -1};

/* Of one thread, since what is behind it belongs to that thread's loop. */
static _Thread_local struct {
	log_sink_fn fn;
	void *arg;
} sink;

void log_set_sink(log_sink_fn fn, void *arg)
{
	sink.fn = fn;
	sink.arg = arg;
}

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_init(const char *program, enum log_level least)
{
	config.program = program;
	config.least = least;
	config.is_tty = isatty(STDERR_FILENO);
}

struct line {
	char text[LINE_MAX_BYTES];
	size_t len;
	bool is_full;
};

/* All of it, or nothing, and nothing more either. */
static bool put(struct line *line, const char *text, size_t n)
{
	line->is_full |= line->len + n + END_BYTES > sizeof(line->text);
	if (line->is_full)
		return false;
	memcpy(line->text + line->len, text, n);
	line->len += n;
	return true;
}

static void put_end(struct line *line, char c)
{
	line->text[line->len++] = c;
}

/* So that it stays one line and one JSON string. */
static void put_escaped(struct line *line, const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p && !line->is_full; p++) {
		char escaped[ESCAPED_SIZE] = {(char)*p};

		if (*p == '"' || *p == '\\')
			(void)snprintf(escaped, sizeof(escaped), "\\%c", *p);
		else if (*p < 0x20 || *p >= 0x7f)
			(void)snprintf(escaped, sizeof(escaped), "\\u%04x", *p);
		(void)put(line, escaped, strlen(escaped));
	}
}

struct reader {
	const char *at; /* in the format */
	va_list args;
};

struct value {
	char text[VALUE_MAX_BYTES];
	size_t len;
	bool is_number;
};

static void add(struct value *v, const char *text, size_t n)
{
	n = MIN(n, sizeof(v->text) - 1 - v->len);
	memcpy(v->text + v->len, text, n);
	v->len += n;
	v->text[v->len] = '\0';
}

static void add_text(struct reader *r, struct value *v, size_t most)
{
	const char *text = va_arg(r->args, const char *);

	text = text ? text : "(null)";
	add(v, text, strnlen(text, most));
}

enum length { LENGTH_INT, LENGTH_LONG, LENGTH_LONG_LONG, LENGTH_SIZE };

static enum length read_length(struct reader *r)
{
	enum length length = LENGTH_INT;

	for (; *r->at == 'l'; r->at++)
		length = length == LENGTH_INT ? LENGTH_LONG : LENGTH_LONG_LONG;
	if (*r->at != 'z')
		return length;
	r->at++;
	return LENGTH_SIZE;
}

static void add_signed(struct reader *r, struct value *v, enum length length)
{
	char digits[NUMBER_SIZE];
	intmax_t number;

	if (length == LENGTH_LONG)
		number = va_arg(r->args, long);
	else if (length == LENGTH_LONG_LONG)
		number = va_arg(r->args, long long);
	else
		number = length == LENGTH_SIZE ? va_arg(r->args, ssize_t) : va_arg(r->args, int);
	(void)snprintf(digits, sizeof(digits), "%jd", number);
	add(v, digits, strlen(digits));
}

static void add_unsigned(struct reader *r, struct value *v, enum length length, bool is_hex)
{
	char digits[NUMBER_SIZE];
	uintmax_t number;

	if (length == LENGTH_LONG)
		number = va_arg(r->args, unsigned long);
	else if (length == LENGTH_LONG_LONG)
		number = va_arg(r->args, unsigned long long);
	else
		number =
			length == LENGTH_SIZE ? va_arg(r->args, size_t) : va_arg(r->args, unsigned);
	(void)snprintf(digits, sizeof(digits), is_hex ? "%jx" : "%ju", number);
	add(v, digits, strlen(digits));
}

/* Whether it is a number. log.h says which conversions there are. */
static bool read_conversion(struct reader *r, struct value *v)
{
	size_t most = SIZE_MAX;
	enum length length;
	char letter, kind;

	r->at++;
	if (*r->at == '.')
		for (most = 0, r->at++; *r->at >= '0' && *r->at <= '9'; r->at++)
			most = most * 10 + (size_t)(*r->at - '0');
	length = read_length(r);
	kind = *r->at++;
	if (kind == 's') {
		add_text(r, v, most);
	} else if (kind == 'c') {
		letter = (char)va_arg(r->args, int);
		add(v, &letter, 1);
	} else if (kind == 'd') {
		add_signed(r, v, length);
	} else {
		add_unsigned(r, v, length, kind == 'x');
	}
	return kind == 'd' || kind == 'u';
}

static void read_value(struct reader *r, struct value *v)
{
	bool is_quoted = *r->at == '\'';
	const char end = is_quoted ? '\'' : ' ';

	*v = (struct value){.is_number = !is_quoted};
	r->at += is_quoted;
	while (*r->at && *r->at != end) {
		if (*r->at == '%') {
			v->is_number &= v->len == 0;
			v->is_number &= read_conversion(r, v);
		} else {
			v->is_number = false;
			add(v, r->at++, 1);
		}
	}
	r->at += is_quoted && *r->at;
}

static void put_field(struct line *line, const char *name, size_t name_len, const struct value *v)
{
	char begin[NAME_MAX_BYTES + NUMBER_SIZE + 8];
	int n = snprintf(begin, sizeof(begin), ",\"%.*s\":%s",
	                 (int)MIN(name_len, (size_t)NAME_MAX_BYTES), name,
	                 v->is_number ? v->text : "\"");

	if (!put(line, begin, MIN((size_t)n, sizeof(begin) - 1)) || v->is_number)
		return;
	put_escaped(line, v->text);
	put_end(line, '"');
}

static void put_fields(struct line *line, struct reader *r)
{
	struct value v;

	while (*r->at) {
		const char *name = r->at;
		size_t name_len = strcspn(name, "=");

		r->at += name_len + (name[name_len] == '=');
		read_value(r, &v);
		put_field(line, name, name_len, &v);
		r->at += *r->at == ' ';
	}
}

static void begin_json(struct line *line, enum log_level level, const char *event, uint64_t now_us)
{
	time_t seconds = (time_t)(now_us / 1000000);
	struct tm tm;

	(void)gmtime_r(&seconds, &tm);
	line->len = (size_t)snprintf(
		line->text, sizeof(line->text),
		"{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%06dZ\",\"level\":\"%s\","
		"\"program\":\"%.*s\",\"event\":\"%.*s\"",
		tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		(int)(now_us % 1000000), level_names[level], NAME_MAX_BYTES, config.program,
		NAME_MAX_BYTES, event);
}

static void begin_text(struct line *line, enum log_level level, const char *event, uint64_t now_us)
{
	time_t seconds = (time_t)(now_us / 1000000);
	struct tm tm;

	(void)gmtime_r(&seconds, &tm);
	line->len = (size_t)snprintf(line->text, sizeof(line->text),
	                             "%02d:%02d:%02d.%03d %-5s %.*s %.*s ", tm.tm_hour, tm.tm_min,
	                             tm.tm_sec, (int)(now_us / 1000 % 1000), level_names[level],
	                             NAME_MAX_BYTES, config.program, NAME_MAX_BYTES, event);
}

/* One that is too long for a line is cut. */
static printf_like(4, 0) void write_text(enum log_level level, const char *event, uint64_t now_us,
                                         const char *fmt, va_list args)
{
	struct line line = {0};
	struct value whole;

	begin_text(&line, level, event, now_us);
	(void)vsnprintf(whole.text, sizeof(whole.text), fmt, args);
	put_escaped(&line, whole.text);
	put_end(&line, '\n');
	(void)!write(STDERR_FILENO, line.text, line.len);
}

static void write_json(enum log_level level, const char *event, uint64_t now_us, struct reader *r)
{
	struct line line = {0};

	begin_json(&line, level, event, now_us);
	put_fields(&line, r);
	put_end(&line, '}');
	if (sink.fn)
		sink.fn(level, now_us, line.text, line.len, sink.arg);
	put_end(&line, '\n');
	if (config.is_tty <= 0)
		(void)!write(STDERR_FILENO, line.text, line.len);
}

void log_write(enum log_level level, const char *event, const char *fmt, ...)
{
	struct reader r = {.at = fmt};
	uint64_t now_us;
	va_list args;

	if (level < config.least)
		return;
	now_us = clock_wall_us();
	va_start(args, fmt);
	va_copy(r.args, args);
	if (config.is_tty > 0)
		write_text(level, event, now_us, fmt, args);
	if (config.is_tty <= 0 || sink.fn)
		write_json(level, event, now_us, &r);
	va_end(r.args);
	va_end(args);
}
