// SPDX-License-Identifier: Apache-2.0
#include "cli/term/opts.h"

#include "base/parse.h"
#include "base/text/nearest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HELP_COLUMN 28 /* where the explanations begin */

struct unit {
	const char *suffix;
	uint64_t factor, divisor;
};

static int parse_with_unit(const char *text, const struct unit *units, size_t n, uint64_t *ret)
{
	size_t digits = strspn(text, "0123456789");
	auto_free char *number = xstrndup(text, digits);
	uint64_t value;
	int r = parse_u64(number, UINT32_MAX, &value);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (strcasecmp(text + digits, units[i].suffix) == 0) {
			value *= units[i].factor; /* at most 2^32 times 2^22: no overflow */
			if (value % units[i].divisor)
				return -EINVAL;
			*ret = value / units[i].divisor;
			return 0;
		}
	return -EINVAL;
}

int opts_parse_mib(const char *text, uint64_t *ret)
{
	static const struct unit units[] = {
		{"", 1, 1},       {"k", 1, 1024},        {"kib", 1, 1024},
		{"m", 1, 1},      {"mib", 1, 1},         {"g", 1024, 1},
		{"gib", 1024, 1}, {"t", 1024 * 1024, 1}, {"tib", 1024 * 1024, 1},
	};

	return parse_with_unit(text, units, ARRAY_SIZE(units), ret);
}

int opts_parse_ms(const char *text, uint64_t *ret)
{
	static const struct unit units[] = {
		{"", 1000, 1}, {"ms", 1, 1}, {"s", 1000, 1}, {"m", 60000, 1}, {"h", 60 * 60000, 1},
	};

	return parse_with_unit(text, units, ARRAY_SIZE(units), ret);
}

/* "2", "0.5", "1.25": three decimals are as fine as a share of a CPU gets. */
int opts_parse_decimal(const char *text, double *ret)
{
	const char *dot = strchr(text, '.');
	auto_free char *whole = dot ? xstrndup(text, (size_t)(dot - text)) : xstrdup(text);
	uint64_t units, fraction = 0;
	double scale = 1;
	int r = parse_u64(whole, UINT32_MAX, &units);

	if (r < 0)
		return r;
	if (dot) {
		size_t digits = strspn(dot + 1, "0123456789");

		if (digits == 0 || digits > 3 || dot[1 + digits] != '\0')
			return -EINVAL;
		for (size_t i = 1; i <= digits; i++, scale *= 10)
			fraction = fraction * 10 + (uint64_t)(dot[i] - '0');
	}
	*ret = (double)units + (double)fraction / scale;
	return 0;
}

void opt_list_done(struct opt_list *list)
{
	free(list->items);
	*list = (struct opt_list){0};
}

static void opt_list_add(struct opt_list *list, const char *item)
{
	list->items = xrealloc(list->items, (list->n + 1) * sizeof(*list->items));
	list->items[list->n++] = item;
}

static int bad_value(const struct opt *o, const char *value, const char *wanted, struct err *err)
{
	return err_set(err, ERR_INVALID_FIELD, 0, "--%s: '%s' is not %s", o->name, value, wanted);
}

static int take_value(const struct opt *o, const char *value, struct err *err)
{
	switch (o->kind) {
	case OPT_FLAG:
		return err_set(err, ERR_INVALID_FIELD, 0, "--%s takes no value", o->name);
	case OPT_TEXT:
		*(const char **)o->ret = value;
		return 0;
	case OPT_LIST:
		opt_list_add(o->ret, value);
		return 0;
	case OPT_NUMBER:
		return parse_u64(value, INT64_MAX, o->ret) < 0
		               ? bad_value(o, value, "a whole number", err)
		               : 0;
	case OPT_DECIMAL:
		return opts_parse_decimal(value, o->ret) < 0
		               ? bad_value(o, value, "a number such as 2 or 0.5", err)
		               : 0;
	case OPT_MIB:
		return opts_parse_mib(value, o->ret) < 0
		               ? bad_value(o, value, "a size such as 512m or 2g", err)
		               : 0;
	case OPT_MS:
		return opts_parse_ms(value, o->ret) < 0
		               ? bad_value(o, value, "a time such as 500ms, 30s or 5m", err)
		               : 0;
	}
	return 0;
}

/* The command's rows, then the common ones: a walk over both tables as if they were one. */
struct rows {
	const struct opt *tables[2];
	size_t lengths[2];
};

static const struct opt *find_name(const struct rows *rows, const char *name, size_t len)
{
	for (size_t t = 0; t < 2; t++)
		for (size_t i = 0; i < rows->lengths[t]; i++) {
			const struct opt *o = &rows->tables[t][i];

			if (strlen(o->name) == len && memcmp(o->name, name, len) == 0)
				return o;
		}
	return NULL;
}

static const struct opt *find_letter(const struct rows *rows, char letter)
{
	for (size_t t = 0; t < 2; t++)
		for (size_t i = 0; i < rows->lengths[t]; i++)
			if (rows->tables[t][i].letter == letter)
				return &rows->tables[t][i];
	return NULL;
}

struct cursor {
	int argc;
	char **argv;
	int at;
};

/* The value is the next word. */
static int take_next(const struct opt *o, struct cursor *c, struct err *err)
{
	if (c->at + 1 >= c->argc)
		return err_set(err, ERR_INVALID_FIELD, 0, "--%s needs a value: %s", o->name,
		               o->value);
	return take_value(o, c->argv[++c->at], err);
}

static int refuse_long(const struct rows *rows, const char *name, size_t len, struct err *err)
{
	struct nearest near;

	nearest_init(&near, name, len);
	for (size_t t = 0; t < 2; t++)
		for (size_t i = 0; i < rows->lengths[t]; i++)
			nearest_try(&near, rows->tables[t][i].name);
	(void)err_set(err, ERR_INVALID_FIELD, 0, "unknown option '--%.*s'", (int)len, name);
	return near.best ? err_hint(err, "did you mean '--%s'?", near.best) : -EINVAL;
}

/* --name, --name=value, --name value */
static int parse_long(const struct rows *rows, struct cursor *c, struct err *err)
{
	const char *name = c->argv[c->at] + 2;
	const char *equals = strchrnul(name, '=');
	const struct opt *o = find_name(rows, name, (size_t)(equals - name));

	if (!o)
		return refuse_long(rows, name, (size_t)(equals - name), err);
	if (*equals)
		return take_value(o, equals + 1, err);
	if (o->kind != OPT_FLAG)
		return take_next(o, c, err);
	*(bool *)o->ret = true;
	return 0;
}

/* -x, -xy for flags, -xVALUE, -x VALUE */
static int parse_letters(const struct rows *rows, struct cursor *c, struct err *err)
{
	for (const char *p = c->argv[c->at] + 1; *p; p++) {
		const struct opt *o = find_letter(rows, *p);

		if (!o)
			return err_set(err, ERR_INVALID_FIELD, 0, "unknown option '-%c'", *p);
		if (o->kind != OPT_FLAG)
			return p[1] ? take_value(o, p + 1, err) : take_next(o, c, err);
		*(bool *)o->ret = true;
	}
	return 0;
}

static void print_row(const struct opt *o)
{
	char left[64];
	int len;

	len = snprintf(left, sizeof(left), "  %c%c%s --%s%s%s", o->letter ? '-' : ' ',
	               o->letter ? o->letter : ' ', o->letter ? "," : " ", o->name,
	               o->value ? " " : "", o->value ? o->value : "");
	if (len >= HELP_COLUMN)
		printf("%s\n%*s%s\n", left, HELP_COLUMN, "", o->help);
	else
		printf("%-*s%s\n", HELP_COLUMN, left, o->help);
}

static void print_synopsis(const struct manual *m)
{
	const char *line = m->synopsis;

	for (const char *label = "Usage:"; line; label = "      ") {
		const char *end = strchrnul(line, '\n');

		printf("%s cloche %s%s%.*s\n", label, m->name, end > line ? " " : "",
		       (int)(end - line), line);
		line = *end ? end + 1 : NULL;
	}
}

#define COMMON_ROWS 4

static void common_rows(struct opts_common *c, struct opt rows[COMMON_ROWS])
{
	/* clang-format off */
	const struct opt table[COMMON_ROWS] = {
		{0,   "json",     OPT_FLAG, &c->json,       NULL,   "print JSON instead of text for people"},
		{0,   "url",      OPT_TEXT, &c->url,        "URL",  "the daemon: http://, https:// or unix:/PATH (CLOCHE_URL)"},
		{0,   "key-file", OPT_TEXT, &c->key_file,   "FILE", "read the API key from FILE (CLOCHE_API_KEY)"},
		{'h', "help",     OPT_FLAG, &c->wants_help, NULL,   "show this help"},
	};
	/* clang-format on */

	memcpy(rows, table, sizeof(table));
}

static void print_help(const struct manual *m, const struct opt *common)
{
	print_synopsis(m);
	printf("\n%s\n\nOptions:\n", m->about);
	for (size_t i = 0; i < m->n_opts; i++)
		print_row(&m->opts[i]);
	for (size_t i = 0; i < COMMON_ROWS; i++)
		print_row(&common[i]);
	if (m->examples)
		printf("\nExamples:\n%s\n", m->examples);
}

static int check_count(const struct manual *m, size_t n, struct err *err)
{
	const char *line_end = strchrnul(m->synopsis, '\n');

	if (n >= m->min_words && n <= m->max_words)
		return 0;
	(void)err_set(err, ERR_INVALID_FIELD, 0, "%s: %s", m->name,
	              n < m->min_words ? "arguments are missing" : "there are too many arguments");
	return err_hint(err, "usage: cloche %s %.*s", m->name, (int)(line_end - m->synopsis),
	                m->synopsis);
}

int opts_parse(const struct manual *m, struct opts_common *common, int argc, char **argv,
               char ***ret_words, size_t *ret_n, struct err *err)
{
	struct opt common_table[COMMON_ROWS];
	struct rows rows = {{m->opts, common_table}, {m->n_opts, COMMON_ROWS}};
	struct cursor c = {argc, argv, 1};
	int n_words = 0;
	int r = 0;

	common_rows(common, common_table);
	for (; c.at < argc && r == 0; c.at++) {
		const char *word = argv[c.at];

		if (strcmp(word, "--") == 0) {
			common->has_dashes = n_words == 0;
			c.at++;
			break;
		}
		if (word[0] != '-' || word[1] == '\0') {
			if (m->words_end_options)
				break;
			argv[1 + n_words++] = argv[c.at];
			continue;
		}
		r = word[1] == '-' ? parse_long(&rows, &c, err) : parse_letters(&rows, &c, err);
	}
	if (common->wants_help) {
		print_help(m, common_table);
		return 1;
	}
	if (r < 0)
		return *err->hint ? r
		                  : err_hint(err, "cloche %s --help explains each option", m->name);
	for (; c.at < argc; c.at++)
		argv[1 + n_words++] = argv[c.at];
	*ret_words = argv + 1;
	*ret_n = (size_t)n_words;
	return check_count(m, *ret_n, err);
}
