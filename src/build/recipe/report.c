// SPDX-License-Identifier: Apache-2.0
#include "build/recipe/report.h"

#include "base/parse.h"

#include <string.h>

void report_init(struct report *o, void (*on_log)(const char *line, size_t len, void *arg),
                 void *arg)
{
	*o = (struct report){.packages = json_array(),
	                     .languages = json_object(),
	                     .contents = json_object(),
	                     .on_log = on_log,
	                     .arg = arg};
}

void report_done(struct report *o)
{
	json_decref(o->packages);
	json_decref(o->languages);
	json_decref(o->contents);
	o->packages = o->languages = o->contents = NULL;
}

/* What follows the prefix, or NULL. */
static const char *behind(const char *line, const char *prefix)
{
	size_t len = strlen(prefix);

	return strncmp(line, prefix, len) == 0 ? line + len : NULL;
}

static void keep(char *to, size_t size, const char *text)
{
	size_t len = MIN(strlen(text), size - 1);

	memcpy(to, text, len);
	to[len] = '\0';
}

/* Cuts a line at its tabs in place; returns how many fields there are, at most max. */
static size_t split(char *line, char **fields, size_t max)
{
	size_t n = 0;

	for (char *p = line; p && n < max;) {
		fields[n++] = p;
		p = strchr(p, '\t');
		if (p)
			*p++ = '\0';
	}
	return n;
}

static void add_package(struct report *o, char *text)
{
	char *f[4];

	if (json_array_size(o->packages) >= REPORT_PACKAGES_MAX || split(text, f, 4) != 4)
		return;
	json_array_append_new(o->packages, json_pack("{ssssssss}", "kind", f[0], "name", f[1],
	                                             "version", f[2], "licence", f[3]));
}

static void add_language(struct report *o, char *text)
{
	char *f[2];

	if (json_object_size(o->languages) < 16 && split(text, f, 2) == 2)
		(void)json_object_set_new(o->languages, f[0], json_string(f[1]));
}

static void add_registry(struct report *o, char *text)
{
	const struct {
		const char *kind;
		char *at;
	} rows[] = {{"npm", o->registries.npm},
	            {"pip", o->registries.pip},
	            {"pip-files", o->registries.pip_files}};
	char *f[2];

	if (split(text, f, 2) != 2)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strcmp(rows[i].kind, f[0]) == 0)
			keep(rows[i].at, sizeof(o->registries.npm), f[1]);
}

static bool is_hash(const char *s)
{
	return strlen(s) == 64 && strspn(s, "0123456789abcdef") == 64;
}

static void add_content(struct report *o, char *text)
{
	char *f[2];

	if (json_object_size(o->contents) < REPORT_CONTENTS_MAX && split(text, f, 2) == 2 &&
	    strlen(f[0]) < 8 && is_hash(f[1]))
		(void)json_object_set_new(o->contents, f[0], json_string(f[1]));
}

static bool take_answer(struct report *o, char *line)
{
	char *const text = line; /* fields are cut out of it */
	const char *found;

	if ((found = behind(text, "cloche:state ")) && is_hash(found))
		keep(o->state, sizeof(o->state), found);
	else if ((found = behind(text, "cloche:date ")))
		return parse_u64(found, INT32_MAX, &o->date) == 0;
	else if ((found = behind(text, "cloche:package\t")))
		add_package(o, text + (found - text));
	else if ((found = behind(text, "cloche:language\t")))
		add_language(o, text + (found - text));
	else if ((found = behind(text, "cloche:content\t")))
		add_content(o, text + (found - text));
	else if ((found = behind(text, "cloche:registry\t")))
		add_registry(o, text + (found - text));
	else
		return false;
	return true;
}

/* "43.5000" as 435; more than all is all. */
static unsigned parse_percent(const char *s, size_t len)
{
	unsigned value = 0, decimals = 0;
	bool is_behind = false;

	for (size_t i = 0; i < len && decimals == 0; i++) {
		if (s[i] == '.')
			is_behind = true;
		else if (s[i] < '0' || s[i] > '9' || value > 1000)
			return 0;
		else
			value = value * 10 + (unsigned)(s[i] - '0'), decimals += is_behind;
	}
	return MIN(decimals ? value : value * 10, 1000U);
}

/* "WHAT:PERCENT:TEXT" */
static bool take_status(struct report *o, const char *line)
{
	const char *fetch = behind(line, "dlstatus:");
	const char *rest = fetch ? fetch : behind(line, "pmstatus:");
	const char *percent = rest ? strchr(rest, ':') : NULL;
	const char *text = percent ? strchr(percent + 1, ':') : NULL;
	unsigned permille;

	if (!text)
		return false;
	permille = parse_percent(percent + 1, (size_t)(text - percent - 1));
	if (fetch)
		o->bytes_done = o->bytes_total / 1000 * permille;
	else
		o->permille = permille;
	keep(o->doing, sizeof(o->doing), text + 1);
	return true;
}

/* "43.0 MB": apt counts in thousands. */
static uint64_t parse_amount(const char *s)
{
	static const char units[] = "kMG";
	uint64_t tenths = 0, factor = 1;
	bool is_behind = false;

	for (; (*s >= '0' && *s <= '9') || *s == '.' || *s == ','; s++) {
		if (*s == '.')
			is_behind = true;
		else if (*s != ',' && tenths < UINT32_MAX)
			tenths = tenths * 10 + (uint64_t)(*s - '0');
	}
	if (!is_behind)
		tenths *= 10;
	if (*s == ' ')
		s++;
	for (const char *u = units; *s && *u; u++) {
		factor *= 1000;
		if (*u == *s)
			return tenths * factor / 10;
	}
	return tenths / 10;
}

static void look_at_log(struct report *o, const char *line)
{
	const char *need = behind(line, "Need to get ");

	if (need) { /* "0 B/11.0 MB": some of it is there already */
		o->bytes_total = parse_amount(need);
		o->bytes_done = 0;
	}
	if (behind(line, "pmerror:")) /* what a package's own script failed with */
		keep(o->error, sizeof(o->error), line + strlen("pmerror:"));
	else if (behind(line, "E: Sub-process "))
		return; /* only says that there was one before */
	else if (behind(line, "E: "))
		keep(o->error, sizeof(o->error), line + 3);
	else if (behind(line, "ERROR: "))
		keep(o->error, sizeof(o->error), line + 7);
	if (line[0] != '\0')
		keep(o->last, sizeof(o->last), line);
}

/* Bytes that are not text become '?', so that the line can be shown and stored. */
static void make_text(char *line, size_t len)
{
	bool is_valid = utf8_is_valid(line, len);

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)line[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f || (!is_valid && c >= 0x80))
			line[i] = '?';
	}
}

static void end_line(struct report *o)
{
	if (o->len > 0 && o->line[o->len - 1] == '\r')
		o->len--;
	make_text(o->line, o->len);
	o->line[o->len] = '\0';
	if (!take_status(o, o->line) && !take_answer(o, o->line)) {
		look_at_log(o, o->line);
		if (o->on_log)
			o->on_log(o->line, o->len, o->arg);
	}
	o->len = 0;
}

void report_feed(struct report *o, const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (data[i] == '\n')
			end_line(o);
		else if (o->len < sizeof(o->line) - 1)
			o->line[o->len++] = data[i];
	}
}

void report_end(struct report *o)
{
	if (o->len > 0)
		end_line(o);
}
