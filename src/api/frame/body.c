// SPDX-License-Identifier: Apache-2.0
#include "api/frame/body.h"

#include "base/parse.h"
#include "base/units.h"
#include "build/image/image_reference.h"
#include "build/recipe/package.h"
#include "proto/start.h"
#include "sandbox/code/language.h"
#include "sandbox/lifecycle/results.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define UID_MAX        65534 /* of the 65536 ids inside; the last one stands for nobody */
#define PATH_BYTES_MAX (START_PATH_MAX - 1) /* with its NUL it is what the kernel takes */

int body_check_strings(const json_t *array, const char *field, uint64_t bytes_max, struct err *err)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < json_array_size(array); i++) {
		const json_t *item = json_array_get(array, i);

		if (!json_is_string(item) ||
		    strlen(json_string_value(item)) != json_string_length(item))
			return err_field(err, field, "item %zu must be a string without NUL", i);
		bytes += json_string_length(item) + 1;
	}
	if (bytes > bytes_max)
		return err_field(err, field, "has %" PRIu64 " bytes, %" PRIu64 " are allowed",
		                 bytes, bytes_max);
	return 0;
}

int body_check_env(const json_t *env, const char *field, struct err *err)
{
	const char *name;
	json_t *value;
	uint64_t bytes = 0;

	if (json_object_size(env) > ENV_NAMES_MAX)
		return err_field(err, field, "has %zu names, %d are allowed", json_object_size(env),
		                 ENV_NAMES_MAX);
	json_object_foreach ((json_t *)unconst(env), name, value) {
		char path[64];

		(void)snprintf(path, sizeof(path), "%s.%s", field, name);
		if (!*name || strchr(name, '='))
			return err_field(err, path, "a name must not be empty or contain '='");
		if (!json_is_string(value) ||
		    strlen(json_string_value(value)) != json_string_length(value))
			return err_field(err, path, "must be a string without NUL");
		bytes += strlen(name) + json_string_length(value) + 2;
	}
	if (bytes > ENV_BYTES_MAX)
		return err_field(err, field, "has %" PRIu64 " bytes, %d are allowed", bytes,
		                 ENV_BYTES_MAX);
	return 0;
}

int body_take_bytes(const char *text, const char *base64, const char *base64_field, char **ret,
                    size_t *ret_len, struct err *err)
{
	auto_free char *data = NULL;
	ssize_t len;

	if (text && base64)
		return err_field(err, base64_field, "cannot be given with its text form");
	if (text) {
		data = xstrdup(text); /* its length was bounded by the field's table */
		len = (ssize_t)strlen(text);
	} else if (base64) {
		data = xcalloc(1, strlen(base64) / 4 * 3 + 1);
		len = base64_decode(base64, strlen(base64), data);
		if (len < 0)
			return err_field(err, base64_field, "is not valid base64 with padding");
	} else {
		return 0;
	}
	*ret = take_ptr(data);
	*ret_len = (size_t)len;
	return 0;
}

int body_check_user(const char *user, const char *field, struct err *err)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t len = user ? strlen(user) : 0;
	uint64_t uid;

	if (!user)
		return 0;
	if (len == 0 || len > USER_BYTES_MAX || strspn(user, letters) != len || *user == '-')
		return err_field(err, field,
		                 "must be a user's name of 1 to %d letters, or a number",
		                 USER_BYTES_MAX);
	if (strspn(user, "0123456789") == len && parse_u64(user, UID_MAX, &uid) < 0)
		return err_field(err, field, "must be a number from 0 to %d", UID_MAX);
	return 0;
}

int body_file_mode(const char *text, const char *field, uint32_t *ret, struct err *err)
{
	size_t len = strlen(text);
	uint32_t mode = 0;

	if (len > 4 && *text == '0') {
		text++;
		len--;
	}
	if (len < 3 || len > 4 || strspn(text, "01234567") != len)
		return err_field(err, field, "must be an octal mode such as 0644");
	for (; *text; text++)
		mode = mode * 8 + (uint32_t)(*text - '0');
	*ret = mode;
	return 0;
}

int body_file_path(const char *path, const char *field, struct err *err)
{
	size_t len = path ? strlen(path) : 0;

	if (!path)
		return err_field(err, field, "is required");
	if (len == 0)
		return err_field(err, field, "must not be empty");
	if (len > PATH_BYTES_MAX)
		return err_field(err, field, "has %zu bytes, %d are allowed", len, PATH_BYTES_MAX);
	return 0;
}

static int check_word(const char *value, const char *field, const char *const *words, size_t n,
                      struct err *err)
{
	char all[64] = "";

	for (size_t i = 0; i < n; i++) {
		size_t at = strlen(all);

		if (!value || strcmp(value, words[i]) == 0)
			return 0;
		(void)snprintf(all + at, sizeof(all) - at, "%s%s", i ? ", " : "", words[i]);
	}
	return err_field(err, field, "must be one of %s", all);
}

/*
 * A whole number of units. Which values there can be is the fleet's to say (rules_limits()), so
 * that there is one range to be told; here a number is only kept whole. 0 stands for "not given"
 * further down: one that is given is as good as any other that is too small.
 */
static int read_limit(const json_t *value, const struct limit *l, void *limits, struct err *err)
{
	json_int_t number = json_integer_value(value);
	double cpus = json_number_value(value);
	uint64_t most = limit_most(l);
	char field[48];

	if (!value)
		return 0;
	(void)snprintf(field, sizeof(field), "limits.%s", l->name);
	if (l->kind == LIMIT_CPUS) {
		if (!json_is_number(value))
			return err_field(err, field, "must be a number");
		limit_set(l, limits, cpus < 0.001 ? 1 : (uint64_t)(MIN(cpus, 1e6) * 1000 + 0.5));
		return 0;
	}
	if (!json_is_integer(value))
		return err_field(err, field, "must be a whole number");
	if (number <= 0)
		limit_set(l, limits, 1);
	else
		limit_set(l, limits, MIN((uint64_t)number, most / l->unit) * l->unit);
	return 0;
}

static int read_limits(const json_t *object, struct guest_limits *ret,
                       struct exec_limits *ret_execs, struct err *err)
{
	json_t *values[LIMITS_COUNT] = {NULL};
	struct json_field fields[LIMITS_COUNT];
	int r;

	if (!object)
		return 0;
	for (size_t i = 0; i < LIMITS_COUNT; i++)
		fields[i] = (struct json_field){limit_table[i].name, JSON_FIELD_ANY, &values[i]};
	r = json_read(object, "limits.", fields, ARRAY_SIZE(fields), err);
	for (size_t i = 0; r == 0 && i < LIMITS_COUNT; i++)
		r = read_limit(values[i], &limit_table[i],
		               i < GUEST_LIMITS_COUNT ? (void *)ret : (void *)ret_execs, err);
	return r;
}

int body_read_on_connection(const char *word, bool *ret_closes, struct err *err)
{
	static const char *const words[] = {"refuse", "close"};
	int r = check_word(word, "on_connection", words, ARRAY_SIZE(words), err);

	*ret_closes = word && strcmp(word, "close") == 0;
	return r;
}

void sandbox_fields_init(struct sandbox_fields *f, struct sandbox_spec *spec)
{
	/* clang-format off */
	const struct json_field rows[SANDBOX_FIELDS] = {
		{"name",      JSON_FIELD_STRING, &spec->name,     .min = 1, .max = SANDBOX_NAME_MAX},
		{"group",     JSON_FIELD_STRING, &spec->group,    .min = 1, .max = SANDBOX_NAME_MAX},
		{"alias",     JSON_FIELD_STRING, &spec->alias,    .min = 1, .max = SANDBOX_NAME_MAX},
		{"template",  JSON_FIELD_STRING, &spec->template, .min = 1, .max = 64},
		{"image",     JSON_FIELD_STRING, &spec->image_ref, .min = 1, .max = IMAGE_REF_MAX},
		{"pull",      JSON_FIELD_STRING, &spec->image_pull},
		{"packages",  JSON_FIELD_ARRAY,  &spec->packages, .max = PACKAGES_MAX},
		{"volumes",   JSON_FIELD_ARRAY,  &spec->volumes,  .max = VOLUMES_MAX},
		{"snapshot",  JSON_FIELD_STRING, &spec->snapshot, .min = 1, .max = 64},
		{"memory",    JSON_FIELD_BOOL,   &f->with_memory},
		{"tags",      JSON_FIELD_OBJECT, &spec->tags},
		{"env",       JSON_FIELD_OBJECT, &spec->env},
		{"network",   JSON_FIELD_ANY,    &spec->network},
		{"source",    JSON_FIELD_OBJECT, &spec->source},
		{"limits",    JSON_FIELD_OBJECT, &f->limits},
		{"engine",    JSON_FIELD_STRING, &spec->engine},
		{"min_grade", JSON_FIELD_STRING, &spec->min_grade},
		{"wait_ms",   JSON_FIELD_U64,    &spec->wait_ms, .max = WAIT_MS_MAX},
	};
	/* clang-format on */

	*spec = (struct sandbox_spec){.engine = "auto"};
	f->limits = NULL;
	f->with_memory = true;
	memcpy(f->rows, rows, sizeof(rows));
}

static int check_engine(const char *word, struct err *err)
{
	const char *words[ENGINES_MAX + 1] = {"auto"};
	size_t n = 1;

	for (size_t i = 0; engines[i]; i++)
		words[n++] = engines[i]->name;
	return check_word(word, "engine", words, n, err);
}

int sandbox_fields_check(const struct sandbox_fields *f, struct sandbox_spec *spec, struct err *err)
{
	static const char *const grades[] = {"process", "emulated", "hardware"};
	static const char *const pulls[] = {"always", "missing"};
	int r = check_engine(spec->engine, err);

	if (r == 0)
		r = check_word(spec->min_grade, "min_grade", grades, ARRAY_SIZE(grades), err);
	if (r == 0 && spec->image_ref && (spec->template || spec->snapshot))
		r = err_field(err, "image", "is instead of a template or a snapshot");
	if (r == 0)
		r = check_word(spec->image_pull, "pull", pulls, ARRAY_SIZE(pulls), err);
	if (r == 0 && spec->image_pull && !spec->image_ref)
		r = err_field(err, "pull", "is of an `image`, and none is named");
	if (r == 0 && spec->snapshot && spec->packages)
		r = err_field(err, "packages", "cannot be added to a snapshot's");
	if (r == 0 && spec->env)
		r = body_check_env(spec->env, "env", err);
	spec->has_no_memory = !f->with_memory;
	if (r == 0)
		r = read_limits(f->limits, &spec->limits, &spec->exec_limits, err);
	return r;
}

static int read_ports(const json_t *numbers, struct port_numbers *ret, struct err *err)
{
	const json_t *number;
	size_t i;

	json_array_foreach(numbers, i, number)
	{
		json_int_t value = json_is_integer(number) ? json_integer_value(number) : 0;

		if (value < 1 || value > UINT16_MAX)
			return err_field(err, "ports", "must be numbers from 1 to 65535");
		ret->at[ret->n++] = (uint16_t)value;
	}
	return 0;
}

int body_read_create(const json_t *body, struct sandbox_spec *ret, bool *ret_get,
                     struct port_numbers *ret_ports, struct err *err)
{
	const struct language *language;
	struct sandbox_fields f;
	json_t *ports = NULL;
	/* clang-format off */
	const struct json_field own[] = {
		{"language",        JSON_FIELD_STRING, &ret->language},
		{"timeout_ms",      JSON_FIELD_U64,    &ret->timeout_ms, .min = 1, .max = TIMEOUT_MS_MAX},
		{"idle_timeout_ms", JSON_FIELD_U64,    &ret->idle_timeout_ms, .max = TIMEOUT_MS_MAX},
		{"on_timeout",      JSON_FIELD_STRING, &ret->on_timeout},
		{"on_idle",         JSON_FIELD_STRING, &ret->on_idle},
		{"on_node_loss",    JSON_FIELD_STRING, &ret->on_node_loss},
		{"persistent",      JSON_FIELD_BOOL,   &ret->is_persistent},
		{"auto_resume",     JSON_FIELD_BOOL,   &ret->auto_resumes},
		{"paused_time_counts", JSON_FIELD_BOOL, &ret->counts_paused},
		{"get_or_create",   JSON_FIELD_BOOL,   ret_get},
		{"ports",           JSON_FIELD_ARRAY,  &ports, .max = PORTS_MAX},
		{"results",         JSON_FIELD_ARRAY,  &ret->results, .max = RESULTS_MAX},
	};
	/* clang-format on */
	struct json_field rows[SANDBOX_FIELDS + ARRAY_SIZE(own)];
	int r;

	sandbox_fields_init(&f, ret);
	*ret_get = false;
	ret_ports->n = 0;
	if (!body)
		return 0;
	memcpy(rows, f.rows, sizeof(f.rows));
	memcpy(rows + SANDBOX_FIELDS, own, sizeof(own));
	r = json_read(body, "", rows, ARRAY_SIZE(rows), err);
	if (r < 0)
		return r;
	if (*ret_get && !ret->name)
		return err_field(err, "name", "is required with get_or_create");
	r = ports ? read_ports(ports, ret_ports, err) : 0;
	if (r == 0)
		r = results_check(ret->results, ret->is_persistent, err);
	if (r == 0 && ret->language)
		r = language_check(ret->language, "language", &language, err);
	if (r < 0)
		return r;
	if (ret->language)
		ret->language = language->name;
	return sandbox_fields_check(&f, ret, err);
}

int body_read_patch(const json_t *body, struct sandbox_patch *ret, struct err *err)
{
	json_t *limits = NULL;
	/* clang-format off */
	const struct json_field fields[] = {
		{"name",            JSON_FIELD_STRING, &ret->name, .max = SANDBOX_NAME_MAX},
		{"tags",            JSON_FIELD_OBJECT, &ret->tags},
		{"env",             JSON_FIELD_OBJECT, &ret->env},
		{"timeout_ms",      JSON_FIELD_U64,    &ret->timeout_ms, .ret_given = &ret->has_timeout,
	         .min = 1, .max = TIMEOUT_MS_MAX},
		{"idle_timeout_ms", JSON_FIELD_U64,    &ret->idle_timeout_ms,
	         .ret_given = &ret->has_idle_timeout, .max = TIMEOUT_MS_MAX},
		{"on_timeout",      JSON_FIELD_STRING, &ret->on_timeout},
		{"on_idle",         JSON_FIELD_STRING, &ret->on_idle},
		{"auto_resume",     JSON_FIELD_BOOL,   &ret->auto_resumes, .ret_given = &ret->has_auto_resume},
		{"paused_time_counts", JSON_FIELD_BOOL, &ret->counts_paused, .ret_given = &ret->has_counts_paused},
		{"limits",          JSON_FIELD_OBJECT, &limits, .ret_given = &ret->has_limits},
	};
	/* clang-format on */
	int r;

	*ret = (struct sandbox_patch){};
	r = json_read(body, "", fields, ARRAY_SIZE(fields), err);
	if (r < 0)
		return r;
	if (json_object_size(body) == 0) {
		(void)err_set(err, ERR_BAD_REQUEST, 0, "nothing to change");
		return err_hint(err, "give tags, timeout_ms or limits, for example");
	}
	if (ret->env)
		r = body_check_env(ret->env, "env", err);
	return r < 0 ? r : read_limits(limits, &ret->limits, &ret->exec_limits, err);
}

int body_read_pause(const json_t *body, struct pause_wish *ret, struct err *err)
{
	static const char *const places[] = {"disk", "memory"};
	const char *to = NULL, *on_connection = NULL;
	const struct json_field fields[] = {
		{"to", JSON_FIELD_STRING, &to},
		{"on_connection", JSON_FIELD_STRING, &on_connection},
	};
	int r = body ? json_read(body, "", fields, ARRAY_SIZE(fields), err) : 0;

	*ret = (struct pause_wish){.place = PAUSE_ANYWHERE};
	if (r == 0 && to) {
		r = check_word(to, "to", places, ARRAY_SIZE(places), err);
		ret->place = r == 0 && strcmp(to, "disk") == 0 ? PAUSE_ON_DISK : PAUSE_IN_MEMORY;
	}
	return r < 0 ? r : body_read_on_connection(on_connection, &ret->closes_connections, err);
}

int body_read_resume(const json_t *body, bool *ret_with_memory, struct err *err)
{
	const struct json_field fields[] = {{"memory", JSON_FIELD_BOOL, ret_with_memory}};

	*ret_with_memory = true;
	return body ? json_read(body, "", fields, ARRAY_SIZE(fields), err) : 0;
}

int body_read_extend(const json_t *body, uint64_t *ret_ms, struct err *err)
{
	const struct json_field fields[] = {
		{"ms", JSON_FIELD_U64, ret_ms, /* required= */ true, .min = 1,
	         .max = TIMEOUT_MS_MAX},
	};

	if (!body)
		return err_field(err, "ms", "is required");
	return json_read(body, "", fields, ARRAY_SIZE(fields), err);
}

int body_read_terminal(const json_t *body, const char *prefix, uint16_t *ret_rows,
                       uint16_t *ret_cols, struct err *err)
{
	bool required = *ret_rows == 0;
	uint64_t rows = *ret_rows, cols = *ret_cols;
	const struct json_field fields[] = {
		{"rows", JSON_FIELD_U64, &rows, required, .min = 1, .max = TERMINAL_MAX},
		{"cols", JSON_FIELD_U64, &cols, required, .min = 1, .max = TERMINAL_MAX},
	};
	int r = json_read(body, prefix, fields, ARRAY_SIZE(fields), err);

	if (r < 0)
		return r;
	*ret_rows = (uint16_t)rows;
	*ret_cols = (uint16_t)cols;
	return 0;
}

void exec_body_done(struct exec_body *b)
{
	free(b->input);
	b->input = NULL;
}

/* What the table cannot say: which fields go together. */
static int check_exec(struct exec_body *b, const json_t *pty, bool open_stdin, struct err *err)
{
	struct exec_spec *spec = &b->spec;
	int r = 0;

	if (!spec->argv == !spec->shell)
		return err_field(err, spec->argv ? "shell" : "argv",
		                 "exactly one of argv and shell must be given");
	if (spec->argv && json_string_length(json_array_get(spec->argv, 0)) == 0)
		return err_field(err, "argv", "item 0 must be a program, not empty");
	if (spec->argv)
		r = body_check_strings(spec->argv, "argv", ARGV_BYTES_MAX, err);
	if (r == 0 && spec->env)
		r = body_check_env(spec->env, "env", err);
	if (r == 0)
		r = body_check_user(spec->user, "user", err);
	if (r == 0 && pty) {
		spec->has_pty = true;
		spec->rows = 24;
		spec->cols = 80;
		r = body_read_terminal(pty, "pty.", &spec->rows, &spec->cols, err);
	}
	if (r == 0 && b->is_detached && b->spec.ends_with_caller)
		r = err_field(err, "kill_on_disconnect", "cannot be given with detached");
	spec->has_stdin = b->input || open_stdin || spec->has_pty;
	b->closes_stdin = b->input && !open_stdin;
	return r;
}

int body_read_exec(const json_t *body, struct exec_body *ret, struct err *err)
{
	struct exec_body b = {};
	const char *text = NULL, *base64 = NULL;
	json_t *pty = NULL;
	bool open_stdin = false;
	/* clang-format off */
	const struct json_field fields[] = {
		{"argv",               JSON_FIELD_ARRAY,  &b.spec.argv,  .min = 1, .max = START_ARGS_MAX},
		{"shell",              JSON_FIELD_STRING, &b.spec.shell, .min = 1},
		{"cwd",                JSON_FIELD_STRING, &b.spec.cwd,   .min = 1, .max = PATH_BYTES_MAX},
		{"env",                JSON_FIELD_OBJECT, &b.spec.env},
		{"user",               JSON_FIELD_STRING, &b.spec.user,  .min = 1, .max = USER_BYTES_MAX},
		{"stdin",              JSON_FIELD_STRING, &text,   .max = STDIN_BYTES_MAX},
		{"stdin_base64",       JSON_FIELD_STRING, &base64, .max = base64_size(STDIN_BYTES_MAX) - 1},
		{"open_stdin",         JSON_FIELD_BOOL,   &open_stdin},
		{"pty",                JSON_FIELD_OBJECT, &pty},
		{"timeout_ms",         JSON_FIELD_U64,    &b.spec.timeout_ms, .max = TIMEOUT_MS_MAX},
		{"detached",           JSON_FIELD_BOOL,   &b.is_detached},
		{"kill_on_disconnect", JSON_FIELD_BOOL,   &b.spec.ends_with_caller},
	};
	/* clang-format on */
	int r;

	if (!body)
		return err_field(err, "argv", "exactly one of argv and shell must be given");
	r = json_read(body, "", fields, ARRAY_SIZE(fields), err);
	if (r < 0)
		return r;
	r = body_take_bytes(text, base64, "stdin_base64", &b.input, &b.input_len, err);
	if (r == 0)
		r = check_exec(&b, pty, open_stdin, err);
	if (r < 0) {
		exec_body_done(&b);
		return r;
	}
	*ret = b;
	return 0;
}

int body_signal_value(const json_t *value, const char *field, int *ret, struct err *err)
{
	const char *name = json_string_value(value);
	json_int_t number = json_integer_value(value);

	if (json_is_integer(value) && number >= 1 && number <= 64) {
		*ret = (int)number;
		return 0;
	}
	if (name && strncasecmp(name, "SIG", 3) == 0)
		name += 3;
	for (int signo = 1; name && signo < SIGRTMIN; signo++)
		if (sigabbrev_np(signo) && strcasecmp(name, sigabbrev_np(signo)) == 0) {
			*ret = signo;
			return 0;
		}
	return err_field(err, field,
	                 "must be a signal's name such as INT, or a number from 1 to 64");
}

int body_read_signal(const json_t *body, int *ret_signo, bool *ret_tree, struct err *err)
{
	json_t *value = NULL;
	bool tree = false;
	const struct json_field fields[] = {
		{"signal", JSON_FIELD_ANY, &value, /* required= */ true},
		{"tree", JSON_FIELD_BOOL, &tree},
	};
	int r;

	if (!body)
		return err_field(err, "signal", "is required");
	r = json_read(body, "", fields, ARRAY_SIZE(fields), err);
	if (r == 0)
		r = body_signal_value(value, "signal", ret_signo, err);
	if (r == 0)
		*ret_tree = tree;
	return r;
}
