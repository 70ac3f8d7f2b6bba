// SPDX-License-Identifier: Apache-2.0
/*
 * Prints the settings in force as a file: each under its section, with its meaning and value.
 * Settings with their default value are commented out, so that the output can be used as a first
 * file.
 */
#include "base/text/decimal.h"
#include "base/units.h"
#include "daemon/config/quantity.h"
#include "daemon/config/setting.h"

#include <inttypes.h>
#include <string.h>

struct scale {
	uint64_t factor;
	const char *unit;
};

/* In the largest unit that gives a whole number. */
static void print_scaled(FILE *out, uint64_t value, const struct scale *scales, size_t n)
{
	size_t i = 0;

	while (i + 1 < n && (value == 0 || value % scales[i].factor))
		i++;
	(void)fprintf(out, "\"%" PRIu64 "%s\"", value / scales[i].factor, scales[i].unit);
}

static void print_size(FILE *out, uint64_t bytes)
{
	static const struct scale scales[] = {
		{TIB, "TiB"}, {GIB, "GiB"}, {MIB, "MiB"}, {KIB, "KiB"}, {1, ""}};

	print_scaled(out, bytes, scales, ARRAY_SIZE(scales));
}

static void print_duration(FILE *out, uint64_t ms)
{
	static const struct scale scales[] = {
		{DAY_MS, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};

	print_scaled(out, ms, scales, ARRAY_SIZE(scales));
}

static void print_string(FILE *out, const char *text)
{
	(void)fputc('"', out);
	for (const char *p = text ? text : ""; *p; p++)
		if (*p == '"' || *p == '\\')
			(void)fprintf(out, "\\%c", *p);
		else if ((unsigned char)*p < ' ' || *p == 0x7f)
			(void)fprintf(out, "\\u%04x", (unsigned)(unsigned char)*p);
		else
			(void)fputc(*p, out);
	(void)fputc('"', out);
}

static void print_list(FILE *out, char *const *items)
{
	(void)fputc('[', out);
	for (char *const *p = items; p && *p; p++) {
		(void)fputs(p == items ? "" : ", ", out);
		print_string(out, *p);
	}
	(void)fputc(']', out);
}

static void print_money(FILE *out, uint64_t nano)
{
	char text[DECIMAL_SIZE];

	decimal_format(nano, text);
	print_string(out, text);
}

static void print_value(FILE *out, const struct config *c, const struct setting *key)
{
	static const char *const levels[] = {"debug", "info", "warn", "error"};
	const void *at = (const char *)c + key->offset;

	switch (key->kind) {
	case SETTING_STRING:
		print_string(out, *(char *const *)at);
		return;
	case SETTING_LIST:
		print_list(out, *(char *const *const *)at);
		return;
	case SETTING_BOOL:
		(void)fputs(*(const bool *)at ? "true" : "false", out);
		return;
	case SETTING_COUNT:
		(void)fprintf(out, "%" PRIu32, *(const uint32_t *)at);
		return;
	case SETTING_COUNT64:
		(void)fprintf(out, "%" PRIu64, *(const uint64_t *)at);
		return;
	case SETTING_SIZE:
		print_size(out, *(const uint64_t *)at);
		return;
	case SETTING_DURATION:
		print_duration(out, *(const uint64_t *)at);
		return;
	case SETTING_CPUS:
		(void)fprintf(out, "%g", *(const uint32_t *)at / 1000.0);
		return;
	case SETTING_LEVEL:
		print_string(out, levels[*(const enum log_level *)at]);
		return;
	case SETTING_MONEY:
		print_money(out, *(const uint64_t *)at);
		return;
	}
}

/* Unlimited quotas and unset texts: a file can say that only by leaving them out. */
static bool is_absent(const struct config *c, const struct setting *key)
{
	const void *at = (const char *)c + key->offset;

	switch (key->kind) {
	case SETTING_COUNT64:
	case SETTING_SIZE:
	case SETTING_MONEY:
		return *(const uint64_t *)at == UINT64_MAX;
	case SETTING_CPUS:
		return *(const uint32_t *)at == 0;
	case SETTING_STRING:
		return !*(char *const *)at || !**(char *const *)at;
	case SETTING_LIST:
	case SETTING_BOOL:
	case SETTING_COUNT:
	case SETTING_DURATION:
	case SETTING_LEVEL:
		return false;
	}
	return false;
}

char *setting_text(const struct config *c, const struct setting *key)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return xstrdup("");
	if (!is_absent(c, key))
		print_value(out, c, key);
	(void)fclose(out);
	return text;
}

static void print_setting(FILE *out, const struct config *c, const struct config *usual,
                          const struct setting *key)
{
	auto_free char *value = setting_text(c, key), *without = setting_text(usual, key);

	(void)fprintf(out, "# %s%s\n", key->help, key->is_fixed ? " (needs a restart)" : "");
	(void)fprintf(out, "%s%s = %s\n", strcmp(value, without) == 0 ? "#" : "", key->name, value);
}

static bool is_first_of_section(const struct setting *key)
{
	for (const struct setting *k = settings; k < key; k++)
		if (k->section && strcmp(k->section, key->section) == 0)
			return false;
	return true;
}

int config_print_file(const struct config *c, FILE *out, struct err *err)
{
	struct config usual;
	int r;

	config_init(&usual);
	r = config_check(&usual, err); /* it derives some from others */
	for (size_t i = 0; r == 0 && i < n_settings; i++) {
		if (!settings[i].section || !is_first_of_section(&settings[i]))
			continue;
		if (*settings[i].section)
			(void)fprintf(out, "\n[%s]\n", settings[i].section);
		for (size_t k = i; k < n_settings; k++)
			if (settings[k].section &&
			    strcmp(settings[k].section, settings[i].section) == 0)
				print_setting(out, c, &usual, &settings[k]);
	}
	config_done(&usual);
	return r;
}
