// SPDX-License-Identifier: Apache-2.0
/*
 * Theory of operation: the tree is read by tables (base/json/json.h), so that whatever is wrong is
 * told by the path of its field: the file's settings first, then each case over a copy of them.
 * Claims have their field's name from what they are about and how they hold it: output,
 * output_contains, …
 */
#include "cli/eval/eval_suite.h"

#include "base/text/decimal.h"
#include "cli/session/script_language.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define NAME_LEN_MAX  40
#define REPEAT_MAX    1000
#define TURNS_MAX     100
#define CASES_MAX     1000
#define TIMEOUT_MS    120000
#define TURNS_DEFAULT 10

static const char *const subjects[] = {
	[EVAL_OUTPUT] = "output",
	[EVAL_STDOUT] = "stdout",
	[EVAL_STDERR] = "stderr",
	[EVAL_FILE] = "file",
};
static const char *const relations[] = {
	[EVAL_EQUALS] = "",
	[EVAL_CONTAINS] = "_contains",
	[EVAL_LACKS] = "_lacks",
	[EVAL_MATCHES] = "_matches",
};
static_assert(ARRAY_SIZE(subjects) == EVAL_SUBJECT_COUNT, "a subject has no name");
static_assert(ARRAY_SIZE(relations) == EVAL_RELATION_COUNT, "a relation has no name");

#define N_CLAIM_FIELDS (EVAL_SUBJECT_COUNT * EVAL_RELATION_COUNT)
#define CLAIM_NAME     24

const char *eval_subject_name(enum eval_subject subject)
{
	return subjects[subject];
}

static void case_done(struct eval_case *c)
{
	for (size_t i = 0; i < c->n_claims; i++)
		regex_free(c->claims[i].regex);
	for (size_t i = 0; i < c->env.n; i++)
		free(unconst(c->env.items[i]));
	free(c->claims);
	opt_list_done(&c->env);
	opt_list_done(&c->settings.packages);
	opt_list_done(&c->settings.allow);
}

void eval_suite_free(struct eval_suite *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_cases; i++)
		case_done(&s->cases[i]);
	free(s->cases);
	json_decref(s->tree);
	free(s->path);
	free(s);
}

static void list_add(struct opt_list *list, const char *item)
{
	list->items = xrealloc(list->items, (list->n + 1) * sizeof(*list->items));
	list->items[list->n++] = item;
}

/* A list of strings in place of what was there. */
static int read_list(const char *prefix, const char *name, const json_t *array,
                     struct opt_list *ret, struct err *err)
{
	size_t i;
	json_t *item;

	if (!array)
		return 0;
	opt_list_done(ret);
	*ret = (struct opt_list){0};
	json_array_foreach((json_t *)unconst(array), i, item)
	{
		char path[80];

		(void)snprintf(path, sizeof(path), "%s%s[%zu]", prefix, name, i);
		if (!json_is_string(item))
			return err_field(err, path, "must be a string");
		list_add(ret, json_string_value(item));
	}
	return 0;
}

/* "30s", or a number of seconds. */
static int read_time(const char *prefix, const char *name, const json_t *value, uint64_t *ret_ms,
                     struct err *err)
{
	char path[80];

	(void)snprintf(path, sizeof(path), "%s%s", prefix, name);
	if (!value)
		return 0;
	if (json_is_integer(value) && json_integer_value(value) > 0 &&
	    json_integer_value(value) < UINT32_MAX)
		*ret_ms = (uint64_t)json_integer_value(value) * 1000;
	else if (!json_is_string(value) || opts_parse_ms(json_string_value(value), ret_ms) < 0 ||
	         *ret_ms == 0)
		return err_field(err, path, "must be a time such as \"30s\" or \"5m\"");
	return 0;
}

/* An amount such as 0.05 or "0.000001". */
static int read_amount(const char *prefix, const char *name, const json_t *value,
                       uint64_t *ret_nano, struct err *err)
{
	char path[80], text[40];

	(void)snprintf(path, sizeof(path), "%s%s", prefix, name);
	if (!value)
		return 0;
	if (json_is_number(value))
		(void)snprintf(text, sizeof(text), "%.9f", json_number_value(value));
	else
		(void)snprintf(text, sizeof(text), "%s",
		               json_is_string(value) ? json_string_value(value) : "");
	if (decimal_parse(text, ret_nano) < 0)
		return err_field(err, path, "must be an amount such as 0.05");
	return 0;
}

#define N_SETTINGS 13

struct raw_settings {
	json_t *packages, *allow, *timeout, *memory;
};

/* The rows of what a file and a case have in common. */
static void settings_rows(struct eval_settings *s, struct raw_settings *raw,
                          struct json_field rows[N_SETTINGS])
{
	const struct json_field all[N_SETTINGS] = {
		{"template", JSON_FIELD_STRING, &s->template, .min = 1},
		{"image", JSON_FIELD_STRING, &s->image, .min = 1},
		{"snapshot", JSON_FIELD_STRING, &s->snapshot, .min = 1},
		{"network", JSON_FIELD_STRING, &s->network, .min = 1},
		{"language", JSON_FIELD_STRING, &s->language},
		{"system", JSON_FIELD_STRING, &s->instructions},
		{"packages", JSON_FIELD_ARRAY, &raw->packages, .max = 64},
		{"allow", JSON_FIELD_ARRAY, &raw->allow, .max = 64},
		{"memory", JSON_FIELD_ANY, &raw->memory},
		{"timeout", JSON_FIELD_ANY, &raw->timeout},
		{"repeat", JSON_FIELD_U64, &s->repeat, .min = 1, .max = REPEAT_MAX},
		{"max_turns", JSON_FIELD_U64, &s->max_turns, .min = 1, .max = TURNS_MAX},
		{"threshold", JSON_FIELD_DOUBLE, &s->threshold, .min = 0, .max = 1},
	};

	memcpy(rows, all, sizeof(all));
}

static int finish_settings(struct eval_settings *s, const struct raw_settings *raw,
                           const char *prefix, struct err *err)
{
	const char *memory = json_string_value(raw->memory);
	char path[80];
	int r = read_list(prefix, "packages", raw->packages, &s->packages, err);

	if (r == 0)
		r = read_list(prefix, "allow", raw->allow, &s->allow, err);
	if (r == 0)
		r = read_time(prefix, "timeout", raw->timeout, &s->timeout_ms, err);
	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "%smemory", prefix);
	if (raw->memory && (!memory || opts_parse_mib(memory, &s->memory_mib) < 0))
		return err_field(err, path, "must be a size such as \"512m\" or \"2g\"");
	(void)snprintf(path, sizeof(path), "%slanguage", prefix);
	if (s->language && !language_by_name(s->language))
		return err_field(err, path, "'%s' is not one of " LANGUAGE_NAMES, s->language);
	s->language = language_full_name(s->language);
	return 0;
}

static int add_claim(struct eval_case *c, struct eval_claim claim, const char *path,
                     const json_t *value, struct err *err)
{
	const char *why;

	claim.value = json_string_value(value);
	if (!claim.value)
		return err_field(err, path, "must be a string, or an array of strings");
	if (claim.relation == EVAL_MATCHES &&
	    regex_new(claim.value, /* ignores_case= */ false, &claim.regex, &why) < 0)
		return err_field(err, path, "the expression %s", why);
	c->claims = xrealloc(c->claims, (c->n_claims + 1) * sizeof(*c->claims));
	c->claims[c->n_claims++] = claim;
	return 0;
}

/* A string, or several that must all hold. */
static int add_claims(struct eval_case *c, struct eval_claim claim, const char *path,
                      const json_t *value, struct err *err)
{
	size_t i;
	json_t *item;

	if (!json_is_array(value) || claim.relation == EVAL_EQUALS)
		return add_claim(c, claim, path, value, err);
	json_array_foreach((json_t *)unconst(value), i, item)
	{
		int r = add_claim(c, claim, path, item, err);

		if (r < 0)
			return r;
	}
	return 0;
}

static int add_file_claims(struct eval_case *c, struct eval_claim claim, const char *path,
                           const json_t *files, struct err *err)
{
	const char *name;
	json_t *value;

	if (!json_is_object(files))
		return err_field(err, path, "must be a section with a path on each line");
	json_object_foreach ((json_t *)unconst(files), name, value) {
		int r;

		claim.path = name;
		r = add_claims(c, claim, path, value, err);
		if (r < 0)
			return err_prefix(err, "'%.60s'", name);
	}
	return 0;
}

static int read_claims(struct eval_case *c, const char *prefix, json_t *const *values,
                       struct err *err)
{
	for (unsigned i = 0; i < N_CLAIM_FIELDS; i++) {
		struct eval_claim claim = {.subject = i / EVAL_RELATION_COUNT,
		                           .relation = i % EVAL_RELATION_COUNT};
		char path[96];
		int r = 0;

		(void)snprintf(path, sizeof(path), "%s%s%s", prefix, subjects[claim.subject],
		               relations[claim.relation]);
		if (values[i])
			r = claim.subject == EVAL_FILE
			            ? add_file_claims(c, claim, path, values[i], err)
			            : add_claims(c, claim, path, values[i], err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The environment as NAME=VALUE, which is how options give it. */
static int read_env(struct eval_case *c, const char *prefix, const json_t *env, struct err *err)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)unconst(env), name, value) {
		char path[120];

		(void)snprintf(path, sizeof(path), "%senv.%s", prefix, name);
		if (!json_is_string(value))
			return err_field(err, path, "must be a string");
		list_add(&c->env, xasprintf("%s=%s", name, json_string_value(value)));
	}
	return 0;
}

static int check_files(const char *prefix, const json_t *files, struct err *err)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)unconst(files), name, value) {
		char path[120];

		(void)snprintf(path, sizeof(path), "%sfiles.%s", prefix, name);
		if (!json_is_string(value))
			return err_field(err, path, "must be the text of the file");
	}
	return 0;
}

/* Says what to do, and only once. */
static int check_work(const struct eval_case *c, const char *prefix, struct err *err)
{
	int n = !!c->prompt + !!c->code + !!c->command;
	char path[80];

	(void)snprintf(path, sizeof(path), "%.*s", (int)strlen(prefix) - 1, prefix);
	if (n == 1)
		return 0;
	(void)err_field(err, path,
	                n == 0 ? "has nothing to run" : "has more than one thing to run");
	return err_hint(err, "it needs one of prompt, code and command");
}

/* A case that says what its sandbox starts from has nothing of its file's. */
static void drop_origin(struct eval_settings *s, const json_t *tree)
{
	if (json_object_get(tree, "template") || json_object_get(tree, "image") ||
	    json_object_get(tree, "snapshot"))
		s->template = s->image = s->snapshot = NULL;
}

static int read_case(struct eval_case *c, const char *prefix, const json_t *tree, struct err *err)
{
	char names[N_CLAIM_FIELDS][CLAIM_NAME];
	json_t *claims[N_CLAIM_FIELDS] = {0};
	json_t *env = NULL, *max_time = NULL, *max_cost = NULL;
	struct raw_settings raw = {0};
	struct json_field rows[N_SETTINGS + N_CLAIM_FIELDS + 16];
	const struct json_field own[] = {
		{"prompt", JSON_FIELD_STRING, &c->prompt, .min = 1, .max = SCRIPT_MAX},
		{"code", JSON_FIELD_STRING, &c->code, .min = 1, .max = SCRIPT_MAX},
		{"command", JSON_FIELD_STRING, &c->command, .min = 1},
		{"check", JSON_FIELD_STRING, &c->check, .min = 1},
		{"files", JSON_FIELD_OBJECT, &c->files},
		{"env", JSON_FIELD_OBJECT, &env},
		{"exit_code", JSON_FIELD_U64, &c->exit_code, .ret_given = &c->has_exit_code,
	         .max = 255},
		{"max_time", JSON_FIELD_ANY, &max_time},
		{"max_cost", JSON_FIELD_ANY, &max_cost},
		{"max_calls", JSON_FIELD_U64, &c->max_calls, .max = TURNS_MAX},
	};
	size_t n = N_SETTINGS;
	int r;

	drop_origin(&c->settings, tree);
	settings_rows(&c->settings, &raw, rows);
	memcpy(rows + n, own, sizeof(own));
	n += ARRAY_SIZE(own);
	for (size_t i = 0; i < N_CLAIM_FIELDS; i++) {
		(void)snprintf(names[i], CLAIM_NAME, "%s%s", subjects[i / EVAL_RELATION_COUNT],
		               relations[i % EVAL_RELATION_COUNT]);
		rows[n++] = (struct json_field){names[i], JSON_FIELD_ANY, &claims[i]};
	}
	r = json_read(tree, prefix, rows, n, err);
	if (r == 0)
		r = finish_settings(&c->settings, &raw, prefix, err);
	if (r == 0)
		r = check_work(c, prefix, err);
	if (r == 0)
		r = read_env(c, prefix, env, err);
	if (r == 0)
		r = check_files(prefix, c->files, err);
	if (r == 0)
		r = read_time(prefix, "max_time", max_time, &c->max_time_ms, err);
	if (r == 0)
		r = read_amount(prefix, "max_cost", max_cost, &c->max_cost_nano, err);
	return r < 0 ? r : read_claims(c, prefix, claims, err);
}

static bool is_name(const char *name)
{
	size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	                          "0123456789_-");

	return len > 0 && len <= NAME_LEN_MAX && !name[len];
}

static void copy_list(struct opt_list *list)
{
	struct opt_list copy = {0};

	for (size_t i = 0; i < list->n; i++)
		list_add(&copy, list->items[i]);
	*list = copy;
}

static int read_cases(struct eval_suite *s, const struct eval_settings *all, const json_t *cases,
                      struct err *err)
{
	const char *name;
	json_t *tree;

	if (json_object_size(cases) == 0 || json_object_size(cases) > CASES_MAX)
		return err_field(err, "case", "must have from 1 to %d cases", CASES_MAX);
	s->cases = xnew0n(struct eval_case, json_object_size(cases));
	json_object_foreach ((json_t *)unconst(cases), name, tree) {
		struct eval_case *c = &s->cases[s->n_cases++];
		char prefix[NAME_LEN_MAX + 8];
		int r;

		if (!is_name(name))
			return err_field(err, "case",
			                 "'%.60s' is no name: letters, digits, - and "
			                 "_, up to %d",
			                 name, NAME_LEN_MAX);
		*c = (struct eval_case){.name = name,
		                        .settings = *all,
		                        .max_time_ms = UINT64_MAX,
		                        .max_cost_nano = UINT64_MAX,
		                        .max_calls = UINT64_MAX};
		copy_list(&c->settings.packages);
		copy_list(&c->settings.allow);
		(void)snprintf(prefix, sizeof(prefix), "case.%s.", name);
		r = read_case(c, prefix, tree, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_model(struct eval_model *m, const json_t *tree, struct err *err)
{
	json_t *input = NULL, *output = NULL;
	const struct json_field rows[] = {
		{"api", JSON_FIELD_STRING, &m->api, .required = true},
		{"base_url", JSON_FIELD_STRING, &m->base_url, .min = 1},
		{"name", JSON_FIELD_STRING, &m->name, .required = true, .min = 1},
		{"key_env", JSON_FIELD_STRING, &m->key_env, .min = 1},
		{"temperature", JSON_FIELD_DOUBLE, &m->temperature,
	         .ret_given = &m->has_temperature, .max = 2},
		{"max_tokens", JSON_FIELD_U64, &m->max_tokens, .min = 1, .max = 1000000},
		{"input_price", JSON_FIELD_ANY, &input},
		{"output_price", JSON_FIELD_ANY, &output},
	};
	int r = json_read(tree, "model.", rows, ARRAY_SIZE(rows), err);

	if (r == 0 && strcmp(m->api, "openai") != 0 && strcmp(m->api, "anthropic") != 0)
		r = err_field(err, "model.api", "'%.40s' is neither openai nor anthropic", m->api);
	if (r == 0)
		r = read_amount("model.", "input_price", input, &m->input_nano, err);
	return r < 0 ? r : read_amount("model.", "output_price", output, &m->output_nano, err);
}

static int check_models(const struct eval_suite *s, struct err *err)
{
	for (size_t i = 0; i < s->n_cases; i++) {
		char path[80];

		if (!s->cases[i].prompt || s->model.api)
			continue;
		(void)snprintf(path, sizeof(path), "case.%s.prompt", s->cases[i].name);
		(void)err_field(err, path, "there is no model to ask");
		return err_hint(err, "say which in a section [model] with api and name");
	}
	return 0;
}

static void override(struct eval_suite *s, const struct eval_overrides *instead)
{
	if (instead->base_url)
		s->model.base_url = instead->base_url;
	if (instead->model)
		s->model.name = instead->model;
	for (size_t i = 0; i < s->n_cases; i++) {
		struct eval_settings *settings = &s->cases[i].settings;

		if (instead->repeat)
			settings->repeat = instead->repeat;
		if (instead->threshold >= 0)
			settings->threshold = instead->threshold;
	}
}

static int read_suite(struct eval_suite *s, struct eval_settings *all, struct err *err)
{
	json_t *cases = NULL, *model = NULL;
	struct raw_settings raw = {0};
	struct json_field rows[N_SETTINGS + 2];
	int r;

	settings_rows(all, &raw, rows);
	rows[N_SETTINGS] = (struct json_field){"case", JSON_FIELD_OBJECT, &cases, .required = true};
	rows[N_SETTINGS + 1] = (struct json_field){"model", JSON_FIELD_OBJECT, &model};
	r = json_read(s->tree, "", rows, ARRAY_SIZE(rows), err);
	if (r == 0)
		r = finish_settings(all, &raw, "", err);
	if (r == 0 && model)
		r = read_model(&s->model, model, err);
	if (r == 0)
		r = read_cases(s, all, cases, err);
	return r < 0 ? r : check_models(s, err);
}

int eval_suite_new(const char *path, json_t *tree, const struct eval_overrides *instead,
                   struct eval_suite **ret, struct err *err)
{
	auto_call(eval_suite_freep) struct eval_suite *s = xnew0(struct eval_suite);
	struct eval_settings all = {
		.timeout_ms = TIMEOUT_MS, .repeat = 1, .max_turns = TURNS_DEFAULT, .threshold = 1};
	int r;

	s->path = xstrdup(path);
	s->tree = tree;
	r = read_suite(s, &all, err);
	opt_list_done(&all.packages);
	opt_list_done(&all.allow);
	if (r < 0)
		return err_prefix(err, "%s", path);
	override(s, instead);
	*ret = take_ptr(s);
	return 0;
}
