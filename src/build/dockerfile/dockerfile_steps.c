// SPDX-License-Identifier: Apache-2.0
/*
 * RUN and WORKDIR.
 *
 * A RUN gets exactly the variables of its stage. Its mounts are directories that are put where they
 * belong before it runs and taken away afterwards, so nothing of them is in the image: a cache is a
 * link to what the project's builds keep (build/caches.h), and of a bind there is a copy. What was
 * there before is put back.
 */
#include "build/dockerfile/dockerfile_private.h"

#include "build/recipe/script.h"
#include "build/recipe/script_text.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>

#define SUDO         "/opt/cloche/bin/sudo"
#define MOUNTS_MAX   16
#define PATH_LEN_MAX 1024

struct mount {
	char *type, *target, *source, *from, *mode, *uid, *gid, *id, *sharing;
};

struct run {
	struct mount mounts[MOUNTS_MAX];
	size_t n_mounts;
	bool is_offline;
	const char *text; /* behind the flags */
};

static void run_done(struct run *run)
{
	for (size_t i = 0; i < run->n_mounts; i++) {
		struct mount *m = &run->mounts[i];

		free(m->type);
		free(m->target);
		free(m->source);
		free(m->from);
		free(m->mode);
		free(m->uid);
		free(m->gid);
		free(m->id);
		free(m->sharing);
	}
}

/* One "name[=value]" of a mount. */
static int set_mount(const struct stage *s, struct mount *m, const char *name, const char *value,
                     struct err *err)
{
	const struct {
		const char *name;
		char **at; /* NULL: it changes nothing here */
	} rows[] = {
		{"type", &m->type},     {"target", &m->target},
		{"dst", &m->target},    {"destination", &m->target},
		{"source", &m->source}, {"src", &m->source},
		{"from", &m->from},     {"mode", &m->mode},
		{"uid", &m->uid},       {"gid", &m->gid},
		{"id", &m->id},         {"sharing", &m->sharing},
		{"ro", NULL},           {"readonly", NULL},
		{"rw", NULL},           {"readwrite", NULL},
		{"size", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (strcasecmp(rows[i].name, name) != 0)
			continue;
		if (rows[i].at) {
			free(*rows[i].at);
			*rows[i].at = xstrdup(value);
		}
		return 0;
	}
	return stage_error(s, err, "RUN --mount has no option '%.64s'", name);
}

static int check_cache(const struct stage *s, const struct mount *m, struct err *err)
{
	if (m->from || m->source)
		return stage_error(s, err,
		                   "RUN --mount=type=cache with 'from' or 'source' is not "
		                   "supported: a cache begins empty");
	if (m->sharing && strcmp(m->sharing, "shared") != 0 && strcmp(m->sharing, "private") != 0 &&
	    strcmp(m->sharing, "locked") != 0)
		return stage_error(s, err,
		                   "RUN --mount: sharing is 'shared', 'private' or 'locked', and "
		                   "not '%.64s'",
		                   m->sharing);
	return 0;
}

static int check_mount(const struct stage *s, struct mount *m, struct err *err)
{
	const char *type = m->type ? m->type : "bind";
	char *given;

	if (strcmp(type, "secret") == 0 || strcmp(type, "ssh") == 0)
		return stage_error(s, err,
		                   "RUN --mount=type=%s is not supported: a build is given no "
		                   "secret",
		                   type);
	if (strcmp(type, "bind") != 0 && strcmp(type, "cache") != 0 && strcmp(type, "tmpfs") != 0)
		return stage_error(s, err, "RUN --mount: there is no type '%.64s'", type);
	if (!m->target || !*m->target)
		return stage_error(s, err, "RUN --mount=type=%s needs a target", type);
	given = take_ptr(m->target);
	m->target = docker_resolve(s->cwd, given);
	if (strcmp(m->target, "/") == 0)
		return stage_error(s, err, "RUN --mount: the target cannot be '/'");
	return strcmp(type, "cache") == 0 ? check_cache(s, m, err) : 0;
}

static int read_mount(const struct stage *s, struct run *run, const char *value, struct err *err)
{
	struct docker_scope scope = stage_scope(s);
	auto_free char *text = NULL;
	struct mount *m = &run->mounts[run->n_mounts];
	char *rest, *item;
	int r = docker_expand(&scope, value, &text, err);

	if (r < 0)
		return r;
	if (run->n_mounts == MOUNTS_MAX)
		return stage_error(s, err, "RUN has more than %d mounts", MOUNTS_MAX);
	run->n_mounts++;
	rest = text;
	while (r == 0 && (item = strsep(&rest, ","))) {
		char *equals = strchr(item, '=');

		if (equals)
			*equals = '\0';
		if (*item)
			r = set_mount(s, m, item, equals ? equals + 1 : "", err);
	}
	return r == 0 ? check_mount(s, m, err) : r;
}

static int read_flags(const struct stage *s, struct run *run, struct err *err)
{
	int r = 0;

	run->text = s->in->text;
	for (;;) {
		auto_free char *name = NULL, *value = NULL;

		if (r < 0 || !docker_take_flag(&run->text, &name, &value))
			return r;
		if (strcmp(name, "mount") == 0 && value)
			r = read_mount(s, run, value, err);
		else if (strcmp(name, "network") == 0 && value && strcmp(value, "none") == 0)
			run->is_offline = true;
		else if (strcmp(name, "network") == 0 && value && strcmp(value, "default") == 0)
			continue;
		else
			r = stage_error(s, err, "RUN --%.64s%s%.64s is not supported", name,
			                value ? "=" : "", value ? value : "");
	}
}

/* The command itself, as words of the script. */
static int put_command(const struct stage *s, const struct run *run, struct buf *out,
                       struct err *err)
{
	auto_json json_t *words = docker_json_words(run->text);
	const struct heredoc *doc = s->in->heredocs;
	const char *text = run->text;
	auto_call(buf_done) struct buf command = BUF_INIT(SCRIPT_MAX);
	size_t i;
	json_t *word;

	if (words && json_array_size(words) == 0)
		return stage_error(s, err, "RUN needs a command");
	if (!words) {
		/* Only a here-document: that is the command. Else they follow it, as in a shell. */
		bool is_script = s->in->n_heredocs == 1 && !strpbrk(text, " \t;|&>(") &&
		                 strncmp(text, "<<", 2) == 0;

		if (!is_script)
			(void)!buf_printf(&command, "%s", text);
		for (i = 0; i < s->in->n_heredocs; i++) {
			(void)!buf_printf(&command, "%s%s%s", is_script ? "" : "\n", doc[i].body,
			                  is_script ? "" : doc[i].name);
		}
		if (!is_script && s->in->n_heredocs > 0)
			(void)!buf_append(&command, "\n", 1);
		words = json_copy(s->shell);
		if (json_array_append_new(words, json_string(buf_str(&command))) < 0)
			return stage_error(s, err, "is no text in UTF-8");
	}
	json_array_foreach(words, i, word)
	{
		(void)!buf_append(out, " ", 1);
		script_put_quoted(out, json_string_value(word));
	}
	(void)!buf_append(out, "\n", 1);
	return 0;
}

static void put_environment(struct buf *out, const json_t *values, const json_t *unless)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)unconst(values), name, value) {
		auto_free char *pair = NULL;

		if (json_object_get(unless, name))
			continue;
		pair = xasprintf("%s=%s", name, json_string_value(value));
		(void)!buf_append(out, " ", 1);
		script_put_quoted(out, pair);
	}
}

/* Notes the cache in the part, and gives its key. One that is private is locked, too: nobody else
 * has it meanwhile. */
static void add_cache(const struct stage *s, const struct mount *m, char key[DIGEST_HEX])
{
	const char *id = m->id && *m->id ? m->id : m->target;
	const bool is_locked = m->sharing && strcmp(m->sharing, "shared") != 0;
	json_t *caches = json_object_get(s->part, "caches");
	struct digest hash;

	if (EVP_Digest(id, strlen(id), hash.bytes, NULL, EVP_sha256(), NULL) != 1)
		abort(); /* no memory */
	digest_to_hex(&hash, key);
	if (!caches) {
		caches = json_array();
		(void)json_object_set_new(s->part, "caches", caches);
	}
	(void)json_array_append_new(caches, json_pack("{sssb}", "key", key, "locked", is_locked));
}

/* Calls of mount.sh: before the command, or behind it. */
static int put_mounts(struct stage *s, const struct run *run, struct buf *out, struct err *err)
{
	int r = 0;

	if (run->n_mounts > 0)
		(void)!buf_printf(out, "%s\n%s\n", script_place, script_mount);
	for (size_t i = 0; r == 0 && i < run->n_mounts; i++) {
		const struct mount *m = &run->mounts[i];
		const bool is_bind = !m->type || strcmp(m->type, "bind") == 0;
		auto_free char *dir = NULL;

		script_put_variable(out, "TARGET", m->target);
		script_put_variable(out, "MODE", m->mode ? m->mode : "");
		script_put_variable(out, "OWNER", "");
		(void)!buf_printf(out, "put_aside %zu\n", i);
		if (is_bind) {
			auto_json json_t *patterns =
				json_pack("[s]", m->source && *m->source ? m->source : ".");

			r = docker_bring(s, m->from, patterns, &dir, err);
			if (r < 0)
				break;
			script_put_variable(out, "FROM", dir);
			(void)!buf_append_str(out, "bind_mount ");
			script_put_quoted(out, json_string_value(json_array_get(patterns, 0)));
			(void)!buf_append(out, "\n", 1);
		} else {
			char key[DIGEST_HEX] = "";

			if (strcmp(m->type, "cache") == 0)
				add_cache(s, m, key);
			(void)!buf_printf(out, "%s%s", *key ? "cache_mount " : "empty_mount", key);
			(void)!buf_append(out, " ", 1);
			script_put_quoted(out, m->uid ? m->uid : "0");
			(void)!buf_append(out, " ", 1);
			script_put_quoted(out, m->gid ? m->gid : "0");
			(void)!buf_append(out, "\n", 1);
		}
	}
	return r;
}

static void put_unmounts(const struct run *run, struct buf *out)
{
	for (size_t i = run->n_mounts; i-- > 0;) {
		script_put_variable(out, "TARGET", run->mounts[i].target);
		(void)!buf_printf(out, "put_back %zu %s\n", i,
		                  run->mounts[i].type && strcmp(run->mounts[i].type, "bind") != 0
		                          ? "dir"
		                          : "");
	}
}

static int put_run(struct stage *s, const struct run *run, struct buf *out, struct err *err)
{
	const bool is_root = strcmp(s->user, "root") == 0 || strcmp(s->user, "0") == 0;
	int r = put_mounts(s, run, out, err);

	if (r < 0)
		return r;
	script_put_variable(out, "WHO", s->user);
	(void)!buf_printf(out, "%s\n", script_home);
	if (!s->is_cwd_made && strcmp(s->cwd, "/") != 0) {
		script_put_variable(out, "TARGET", s->cwd);
		(void)!buf_printf(out, "[ -d \"$TARGET\" ] || mkdir -p \"$TARGET\" || exit\n");
	}
	(void)!buf_printf(out, "cd ");
	script_put_quoted(out, s->cwd);
	(void)!buf_printf(out, " || exit\nenv -i \"HOME=$home\" HOSTNAME=sandbox");
	if (!json_object_get(s->env, "PATH"))
		(void)!buf_printf(out, " PATH=" DOCKER_PATH);
	put_environment(out, s->args, s->env);
	put_environment(out, s->env, NULL);
	if (!is_root) {
		(void)!buf_printf(out, " " SUDO " -E -u ");
		script_put_quoted(out, s->user);
		(void)!buf_printf(out, " --");
	}
	r = put_command(s, run, out, err);
	if (r == 0 && run->n_mounts > 0) {
		(void)!buf_printf(out, "status=$?\ncd /\n");
		put_unmounts(run, out);
		(void)!buf_printf(out, "exit $status\n");
	}
	return r;
}

int docker_read_run(struct stage *s, struct err *err)
{
	auto_call(buf_done) struct buf script = BUF_INIT(SCRIPT_MAX);
	struct run run = {0};
	int r = read_flags(s, &run, err);

	if (r == 0 && !*run.text)
		r = stage_error(s, err, "RUN needs a command");
	if (r == 0 && s->is_tree) {
		/* What was copied so far is the image that it runs in. */
		s->is_tree = false;
		s->part = NULL;
	}
	if (r == 0) {
		docker_open_part(s);
		if (run.is_offline)
			(void)json_object_set_new(s->part, "offline", json_true());
		r = put_run(s, &run, &script, err);
	}
	if (r == 0)
		r = docker_add_step(s, &script, /* is_last= */ true, err);
	run_done(&run);
	return r;
}

char *docker_resolve(const char *cwd, char *path)
{
	auto_free char *given = path;
	auto_free char *whole = *given == '/' ? xstrdup(given) : xasprintf("%s/%s", cwd, given);
	char *out = xcalloc(1, strlen(whole) + 2);
	size_t len = 0;
	char *rest = whole, *part;

	while ((part = strsep(&rest, "/"))) {
		if (!*part || strcmp(part, ".") == 0)
			continue;
		if (strcmp(part, "..") == 0) {
			while (len > 0 && out[--len] != '/')
				;
			out[len] = '\0';
			continue;
		}
		out[len++] = '/';
		memcpy(out + len, part, strlen(part));
		len += strlen(part);
		out[len] = '\0';
	}
	if (len == 0)
		out[0] = '/';
	return out;
}

int docker_read_workdir(struct stage *s, struct err *err)
{
	auto_call(buf_done) struct buf script = BUF_INIT(SCRIPT_MAX);
	struct docker_scope scope = stage_scope(s);
	auto_free char *word = NULL;
	int r = docker_expand(&scope, s->in->text, &word, err);

	if (r < 0)
		return r;
	if (!*word || strlen(word) + strlen(s->cwd) > PATH_LEN_MAX)
		return stage_error(s, err, "WORKDIR needs a path of at most %d bytes",
		                   PATH_LEN_MAX);
	word = docker_resolve(s->cwd, take_ptr(word));
	free(s->cwd);
	s->cwd = take_ptr(word);
	s->is_cwd_made = true;
	docker_open_part(s);
	script_put_variable(&script, "ROOT", s->is_tree ? DOCKER_TREE : "");
	script_put_variable(&script, "TARGET", s->cwd);
	script_put_variable(&script, "OWNER", s->user);
	(void)!buf_printf(&script, "%s\nmake_dirs \"$ROOT$TARGET\" \"$OWNER\"\n", script_place);
	return docker_add_step(s, &script, /* is_last= */ false, err);
}
