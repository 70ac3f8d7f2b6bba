// SPDX-License-Identifier: Apache-2.0
/*
 * While the steps are read, the current user, directory and variables are kept: they hold for the
 * following steps, and at the end for the template's sandboxes.
 */
#include "compat/e2b/control/steps.h"

#include "base/buf.h"
#include "build/parcel.h"
#include "build/recipe/script.h"
#include "build/recipe/script_text.h"
#include "build/recipe/word.h"
#include "compat/e2b/control/ready.h"
#include "compat/e2b/frame/body.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_USER "user"
#define DEFAULT_HOME "/home/user"
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define SCRIPT_MAX   (8 * 1024 * 1024) /* of any body, with all that quotes add */
#define ENV_TEXT_MAX (16 * 1024)       /* names and values together */
#define ARGS_MAX     512
#define USER_LEN_MAX 32
#define PATH_LEN_MAX 1024
#define READY_TRIES  "300" /* about a minute */
#define SUDO         "/opt/cloche/bin/sudo"

struct steps {
	char user[USER_LEN_MAX + 1], cwd[PATH_LEN_MAX + 1];
	json_t *env, *files, *run, *parcels, *titles; /* the recipe's */
	size_t text_len;
};

/* A step: its arguments, and the script that is made from them. */
struct step_words {
	unsigned number;
	const char *type;
	const char *args[ARGS_MAX]; /* each a string; "" where it is null */
	size_t n_args;
	const char *hash; /* or NULL */
	struct buf script;
};

/* Changes to the step's directory, with its variables. */
static void put_place(const struct steps *s, struct buf *out)
{
	const char *name;
	json_t *value;

	json_object_foreach (s->env, name, value) {
		(void)!buf_printf(out, "export ");
		script_put_variable(out, name, json_string_value(value));
	}
	(void)!buf_printf(out, "cd ");
	script_put_quoted(out, s->cwd);
	(void)!buf_printf(out, " || exit\n");
}

static int wrong(const struct step_words *w, const char *what, struct err *err)
{
	char field[64];

	(void)snprintf(field, sizeof(field), "steps[%u]", w->number - 1);
	return err_field(err, field, "%s %s", w->type, what);
}

static int take_user(struct steps *s, const struct step_words *w, const char *user, struct err *err)
{
	size_t len = strlen(user);

	if (len == 0 || len > USER_LEN_MAX || *user == '-')
		return wrong(w, "needs a user's name", err);
	for (const char *c = user; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("_.-", *c))
			return wrong(w, "needs a user's name", err);
	(void)snprintf(s->user, sizeof(s->user), "%s", user);
	return 0;
}

/* Makes the user, if there is none. Not every image has programs for that. */
static void put_user(const char *user, struct buf *out)
{
	script_put_variable(out, "name", user);
	(void)!buf_printf(out,
	                  "grep -q \"^$name:\" /etc/passwd || useradd --create-home --shell "
	                  "/bin/bash \"$name\" 2>/dev/null ||\n"
	                  "	adduser -D \"$name\" 2>/dev/null || {\n"
	                  "	n=1000\n"
	                  "	while grep -q \"^[^:]*:[^:]*:$n:\" /etc/passwd /etc/group; do "
	                  "n=$((n + 1)); done\n"
	                  "	echo \"$name:x:$n:\" >>/etc/group\n"
	                  "	echo \"$name:x:$n:$n::/home/$name:/bin/bash\" >>/etc/passwd\n"
	                  "	mkdir -p \"/home/$name\" && chown $n:$n \"/home/$name\"\n"
	                  "}\n");
}

/* E2B's builds start as `user`, whatever the image has; those of registries hardly have it. */
static void put_default_user(struct steps *s)
{
	auto_call(buf_done) struct buf script = BUF_INIT(SCRIPT_MAX);

	if (strcmp(s->user, DEFAULT_USER) != 0)
		return;
	put_user(s->user, &script);
	(void)!buf_printf(&script, "[ -d " DEFAULT_HOME " ] || { mkdir -p " DEFAULT_HOME
	                           " && chown $name " DEFAULT_HOME "; }\n");
	(void)json_object_set_new(s->files, STEPS_USER, json_string(buf_str(&script)));
	(void)json_array_append_new(s->run, json_string("sh " STEPS_USER));
}

/* In the words of E2B's envd, which programs look for. */
static void put_user_check(const struct steps *s, struct step_words *w)
{
	script_put_variable(&w->script, "command", w->args[0]);
	(void)!buf_printf(&w->script,
	                  "grep -q '^%s:' /etc/passwd || {\n"
	                  "	echo \"failed to run command '$command': command failed: "
	                  "unauthenticated: invalid username: '%s'\" >" STEPS_WHY "\n"
	                  "	exit 1\n"
	                  "}\n",
	                  s->user, s->user);
}

static int read_run(struct steps *s, struct step_words *w, struct err *err)
{
	char was[sizeof(s->user)];
	int r = 0;

	if (w->n_args < 1)
		return wrong(w, "needs a command", err);
	memcpy(was, s->user, sizeof(was));
	if (w->n_args > 1 && w->args[1][0])
		r = take_user(s, w, w->args[1], err);
	if (r < 0)
		return r;
	if (strcmp(s->user, "root") != 0 && !isdigit((unsigned char)s->user[0]))
		put_user_check(s, w);
	put_place(s, &w->script);
	(void)!buf_printf(&w->script, "shell=$(command -v bash || command -v sh)\nexec ");
	if (strcmp(s->user, "root") != 0)
		(void)!buf_printf(&w->script, SUDO " -E -u %s -- ", s->user);
	(void)!buf_printf(&w->script, "\"$shell\" -l -c ");
	script_put_quoted(&w->script, w->args[0]);
	memcpy(s->user, was, sizeof(was));
	return 0;
}

/* The part of the path before the first pattern: the client has already resolved the pattern. */
static char *plain_part(const char *path)
{
	size_t len = strcspn(path, "*?[{\\");

	if (path[len])
		while (len > 0 && path[len - 1] != '/')
			len--;
	return xstrndup(path, len);
}

static bool is_listed(const json_t *list, const char *text)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (strcmp(json_string_value(json_array_get(list, i)), text) == 0)
			return true;
	return false;
}

static int read_copy(struct steps *s, struct step_words *w, struct err *err)
{
	auto_free char *part = NULL;
	auto_free char *src = NULL;
	auto_free char *owner = NULL;

	if (w->n_args < 2 || !w->args[0][0] || !w->args[1][0])
		return wrong(w, "needs a source and a target", err);
	if (!w->hash || !parcel_is_hash(w->hash))
		return wrong(w, "needs filesHash, a SHA-256", err);
	part = plain_part(w->args[0]);
	src = xasprintf(PARCEL_DIR "/%s/%s", w->hash, part);
	if (w->n_args > 2 && w->args[2][0])
		owner = strchr(w->args[2], ':') ? xstrdup(w->args[2])
		                                : xasprintf("%s:%s", w->args[2], w->args[2]);
	else
		owner = xasprintf("%s:%s", s->user, s->user);
	put_place(s, &w->script);
	script_put_variable(&w->script, "NAME", w->args[0]);
	script_put_variable(&w->script, "SRC", src);
	script_put_variable(&w->script, "TARGET", w->args[1]);
	script_put_variable(&w->script, "OWNER", owner);
	script_put_variable(&w->script, "MODE", w->n_args > 3 ? w->args[3] : "");
	(void)!buf_printf(&w->script, "%s\ncopy_in\n", script_copy);
	if (!is_listed(s->parcels, w->hash))
		(void)json_array_append_new(s->parcels, json_string(w->hash));
	return 0;
}

/* Expands $NAME and ${NAME} with the variables so far; NULL if it becomes too long. */
static char *expanded(const struct steps *s, const char *text)
{
	auto_call(buf_done) struct buf out = BUF_INIT(ENV_TEXT_MAX);
	int r = 0;

	while (*text && r == 0) {
		size_t len = strcspn(text, "$");
		bool has_brace = text[len] && text[len + 1] == '{';
		const char *name = text + len + 1 + has_brace;
		size_t name_len = 0;
		char key[64];
		const char *value;

		r = buf_append(&out, text, len);
		text += len;
		if (!*text)
			break;
		while (isalnum((unsigned char)name[name_len]) || name[name_len] == '_')
			name_len++;
		if (name_len == 0 || name_len >= sizeof(key) ||
		    (has_brace && name[name_len] != '}')) {
			r = r == 0 ? buf_append(&out, text, 1) : r;
			text++;
			continue;
		}
		(void)snprintf(key, sizeof(key), "%.*s", (int)name_len, name);
		value = json_string_value(json_object_get(s->env, key));
		if (!value)
			value = strcmp(key, "PATH") == 0 ? DEFAULT_PATH : "";
		r = r == 0 ? buf_append(&out, value, strlen(value)) : r;
		text = name + name_len + has_brace;
	}
	return r < 0 ? NULL : xstrdup(buf_str(&out));
}

static bool is_env_small(const json_t *env)
{
	size_t len = 0;
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)unconst(env), name, value)
		len += strlen(name) + json_string_length(value) + strlen("export =''\n");
	return len <= ENV_TEXT_MAX;
}

static int read_env(struct steps *s, struct step_words *w, struct err *err)
{
	if (w->n_args == 0 || w->n_args % 2 != 0)
		return wrong(w, "needs names, each with a value", err);
	for (size_t i = 0; i < w->n_args; i += 2) {
		auto_free char *value = NULL;

		if (!word_is_variable(w->args[i]))
			return wrong(w, "has a name that no variable can have", err);
		value = expanded(s, w->args[i + 1]);
		if (!value)
			return wrong(w, "has too long a value", err);
		(void)json_object_set_new(s->env, w->args[i], json_string(value));
		if (!is_env_small(s->env))
			return wrong(w, "sets more variables than a template can have", err);
	}
	return 0;
}

static int read_workdir(struct steps *s, struct step_words *w, struct err *err)
{
	char path[PATH_LEN_MAX + 1];
	int len;

	if (w->n_args < 1 || !w->args[0][0])
		return wrong(w, "needs a path", err);
	if (w->args[0][0] == '/')
		len = snprintf(path, sizeof(path), "%s", w->args[0]);
	else
		len = snprintf(path, sizeof(path), "%s%s%s", s->cwd,
		               s->cwd[strlen(s->cwd) - 1] == '/' ? "" : "/", w->args[0]);
	if (len >= (int)sizeof(path))
		return wrong(w, "has too long a path", err);
	memcpy(s->cwd, path, sizeof(path));
	script_put_variable(&w->script, "target", s->cwd);
	script_put_variable(&w->script, "owner", s->user);
	/* New directories belong to the user. */
	(void)!buf_printf(
		&w->script,
		"[ ! -d \"$target\" ] || exit 0\n"
		"new=$target\n"
		"while [ ! -d \"$(dirname \"$new\")\" ]; do new=$(dirname \"$new\"); done\n"
		"mkdir -p \"$target\" && chown -R \"$owner\" \"$new\"\n");
	return 0;
}

static int read_user(struct steps *s, struct step_words *w, struct err *err)
{
	int r = w->n_args < 1 ? wrong(w, "needs a user's name", err)
	                      : take_user(s, w, w->args[0], err);

	if (r == 0)
		put_user(s->user, &w->script);
	return r;
}

static const struct {
	const char *type;
	int (*read)(struct steps *s, struct step_words *w, struct err *err);
} kinds[] = {
	{"RUN", read_run},         {"COPY", read_copy}, {"ENV", read_env},
	{"WORKDIR", read_workdir}, {"USER", read_user},
};

static int read_args(const json_t *step, struct step_words *w, struct err *err)
{
	const json_t *args = NULL;
	int r = body_array(step, "args", &args, err);

	if (r == 0)
		r = body_text(step, "filesHash", &w->hash, err);
	if (r == 0 && json_array_size(args) > ARGS_MAX)
		r = wrong(w, "has too many words", err);
	for (size_t i = 0; r == 0 && i < json_array_size(args); i++) {
		const json_t *word = json_array_get(args, i);

		if (json_is_null(word))
			w->args[w->n_args++] = "";
		else if (json_is_string(word) &&
		         strlen(json_string_value(word)) == json_string_length(word))
			w->args[w->n_args++] = json_string_value(word);
		else
			r = wrong(w, "has a word that is no text", err);
	}
	return r;
}

static void keep_step(struct steps *s, struct step_words *w)
{
	char path[sizeof(STEPS_DIR) + 16];
	auto_free char *title = xasprintf("%s %.200s", w->type, w->n_args ? w->args[0] : "");

	(void)json_array_append_new(s->titles, json_string(title));
	if (w->script.len == 0)
		return;
	(void)snprintf(path, sizeof(path), STEPS_DIR "/%u", w->number);
	(void)json_object_set_new(s->files, path, json_string(buf_str(&w->script)));
	(void)json_array_append_new(s->run, json_sprintf("sh %s", path));
	s->text_len += w->script.len;
}

static int read_step(struct steps *s, unsigned number, const json_t *step, struct err *err)
{
	struct step_words w = {.number = number, .type = "", .script = BUF_INIT(SCRIPT_MAX)};
	size_t kind = 0;
	int r = json_is_object(step) ? body_text(step, "type", &w.type, err)
	                             : wrong(&w, "must be an object", err);

	if (r == 0)
		r = read_args(step, &w, err);
	while (kind < ARRAY_SIZE(kinds) && strcmp(kinds[kind].type, w.type) != 0)
		kind++;
	if (r == 0 && kind == ARRAY_SIZE(kinds))
		r = wrong(&w, "is no step: RUN, COPY, ENV, WORKDIR and USER are", err);
	if (r == 0)
		r = kinds[kind].read(s, &w, err);
	if (r == 0)
		keep_step(s, &w);
	if (r == 0 && s->text_len >= STEPS_TEXT_MAX)
		r = err_set(
			err, ERR_TOO_LARGE, 0,
			"the steps have more than %d bytes: put scripts into files and COPY them",
			STEPS_TEXT_MAX);
	buf_done(&w.script);
	return r;
}

/* A check that runs the start command in a sandbox of the template, before it is published. */
static void put_check(const struct steps *s, const char *start, const char *ready, json_t *recipe)
{
	auto_call(buf_done) struct buf check = BUF_INIT(4 * STEPS_TEXT_MAX);
	auto_call(buf_done) struct buf look = BUF_INIT(STEPS_TEXT_MAX);

	ready_put(&look, ready);
	put_place(s, &check);
	if (start) {
		script_put_variable(&check, "start", start);
		(void)!buf_printf(&check, "sh -c \"$start\" >/dev/null 2>&1 </dev/null &\n");
	}
	script_put_variable(&check, "ready", ready);
	script_put_variable(&check, "look", buf_str(&look));
	(void)!buf_printf(&check, "i=0\n"
	                          "until said=$(sh -c \"$look\" 2>&1 >/dev/null); do\n"
	                          "	i=$((i + 1))\n"
	                          "	[ $i -lt " READY_TRIES
	                          " ] || { echo \"never ready: $ready${said:+: $said}\" >" STEPS_WHY
	                          "; exit 1; }\n"
	                          "	sleep 0.2\n"
	                          "done\n");
	(void)json_object_set_new(recipe, "checks", json_pack("[s]", buf_str(&check)));
}

static int read_start(const struct steps *s, const json_t *body, json_t *recipe, struct err *err)
{
	json_t *notes = json_object_get(recipe, "e2b");
	const char *start = NULL, *ready = NULL;
	int r = body_text(body, "startCmd", &start, err);

	if (r == 0)
		r = body_text(body, "readyCmd", &ready, err);
	if (r < 0)
		return r;
	if ((start ? strlen(start) : 0) + (ready ? strlen(ready) : 0) >= STEPS_TEXT_MAX / 8)
		return err_field(err, "startCmd", "is too long: put it into a file and COPY that");
	if (start && *start)
		(void)json_object_set_new(notes, "start", json_string(start));
	if (ready && *ready) {
		(void)json_object_set_new(notes, "ready", json_string(ready));
		put_check(s, start && *start ? start : NULL, ready, recipe);
	}
	return 0;
}

static json_t *added(json_t *to, const char *name, json_t *value)
{
	(void)json_object_set_new(to, name, value);
	return value;
}

int steps_read(const json_t *body, const struct steps_start *start, json_t *recipe, struct err *err)
{
	const json_t *list = NULL;
	struct steps s = {
		.env = added(recipe, "env",
	                     start->env ? json_deep_copy(start->env) : json_object()),
		.files = added(recipe, "files", json_object()),
		.run = added(recipe, "run", json_array()),
		.parcels = added(recipe, "parcels", json_array()),
		.titles = added(json_object_get(recipe, "e2b"), "titles", json_array()),
	};
	int r = body_array(body, "steps", &list, err);

	(void)snprintf(s.user, sizeof(s.user), "%s", start->user ? start->user : DEFAULT_USER);
	(void)snprintf(s.cwd, sizeof(s.cwd), "%s", start->cwd ? start->cwd : DEFAULT_HOME);
	put_default_user(&s);
	if (r == 0 && !is_env_small(s.env))
		r = err_field(err, "fromTemplate", "has more variables than a build can pass on");
	if (r == 0 && json_array_size(list) > STEPS_MAX)
		r = err_field(err, "steps", "are at most %d", STEPS_MAX);
	for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
		r = read_step(&s, (unsigned)i + 1, json_array_get(list, i), err);
	if (r == 0)
		r = read_start(&s, body, recipe, err);
	(void)json_object_set_new(recipe, "user", json_string(s.user));
	(void)json_object_set_new(recipe, "cwd", json_string(s.cwd));
	/* A recipe that does nothing would not make a new image. */
	if (json_array_size(s.run) == 0)
		(void)json_array_append_new(s.run, json_string(":"));
	return r;
}

unsigned steps_find(const char *line, size_t len)
{
	const char *at = memmem(line, len, STEPS_DIR "/", strlen(STEPS_DIR "/"));
	unsigned number = 0;

	if (!at)
		return 0;
	at += strlen(STEPS_DIR "/");
	for (; at < line + len && isdigit((unsigned char)*at) && number <= STEPS_MAX; at++)
		number = number * 10 + (unsigned)(*at - '0');
	return number <= STEPS_MAX ? number : 0;
}
