// SPDX-License-Identifier: Apache-2.0
/*
 * COPY and ADD. Their sources are patterns, which are matched inside the sandbox (guest/build/
 * place.sh), where the context or what another stage has left was unpacked before.
 */
#include "build/dockerfile/dockerfile_private.h"

#include "build/recipe/script.h"
#include "build/recipe/script_text.h"

#include <stdio.h>
#include <string.h>

#define CARRIES_MAX 64

struct copy {
	char *from, *chown, *chmod, *checksum; /* flags; NULL if they are not given */
	bool has_url;                          /* one of its sources is fetched */
	json_t *sources;                       /* array */
	char *target;
};

static void copy_done(struct copy *c)
{
	free(c->from);
	free(c->chown);
	free(c->chmod);
	free(c->checksum);
	free(c->target);
	json_decref(c->sources);
}

/* Expands a flag's value into *at. */
static int set_flag(const struct stage *s, const char *value, char **at, struct err *err)
{
	struct docker_scope scope = stage_scope(s);

	free(take_ptr(*at));
	return docker_expand(&scope, value, at, err);
}

static int read_flags(const struct stage *s, struct copy *c, const char **text, struct err *err)
{
	const char *kind = instruction_name(s->in->kind);
	int r = 0;

	for (;;) {
		auto_free char *name = NULL, *value = NULL;

		if (r < 0 || !docker_take_flag(text, &name, &value))
			return r;
		if (strcmp(name, "from") == 0 && value && s->in->kind == DOCKER_COPY)
			r = set_flag(s, value, &c->from, err);
		else if (strcmp(name, "chown") == 0 && value)
			r = set_flag(s, value, &c->chown, err);
		else if (strcmp(name, "chmod") == 0 && value)
			r = set_flag(s, value, &c->chmod, err);
		else if (strcmp(name, "checksum") == 0 && value && s->in->kind == DOCKER_ADD)
			r = set_flag(s, value, &c->checksum, err);
		else if (strcmp(name, "link") == 0)
			continue; /* says how the layers are kept */
		else
			r = stage_error(s, err, "%s --%.64s is not supported", kind, name);
	}
}

static bool is_url(const char *word)
{
	return strstr(word, "://") || strncmp(word, "git@", 4) == 0;
}

static bool is_of_git(const char *word)
{
	const size_t len = strcspn(word, "#?");

	return strncmp(word, "git@", 4) == 0 || strncmp(word, "git://", 6) == 0 ||
	       strncmp(word, "ssh://", 6) == 0 ||
	       (len > 4 && strncmp(word + len - 4, ".git", 4) == 0);
}

/* A path of the context or of a root, without what leads up, relative: "." for all. */
static int clean_source(const struct stage *s, const char *word, char **ret, struct err *err)
{
	char *path;

	for (const char *c = word; (c = strstr(c, "..")); c += 2)
		if ((c == word || c[-1] == '/') && (!c[2] || c[2] == '/'))
			return stage_error(s, err, "%s: '%.200s' leads out of what can be copied",
			                   instruction_name(s->in->kind), word);
	path = docker_resolve("/", xstrdup(word));
	*ret = xstrdup(path[1] ? path + 1 : ".");
	free(path);
	return 0;
}

/* The part of a path before its first pattern; the caller frees. */
static char *plain_part(const char *path)
{
	size_t len = strcspn(path, "*?[\\");

	if (path[len])
		while (len > 0 && path[len - 1] != '/')
			len--;
	while (len > 0 && path[len - 1] == '/')
		len--;
	return xstrndup(path, len);
}

/* Notes that a path of another stage or image is needed; its number in the part. */
static int add_carry(struct stage *s, json_t *carry, const char *path, size_t *ret, struct err *err)
{
	json_t *list = json_object_get(s->part, "carries");

	*ret = json_array_size(list);
	if (*ret == CARRIES_MAX)
		return stage_error(s, err,
		                   "more than %d paths of other stages are copied before a RUN",
		                   CARRIES_MAX);
	(void)json_object_set_new(carry, "path", json_string(path));
	(void)json_object_set_new(carry, "line", json_integer(s->in->line));
	return json_array_append(list, carry);
}

/* What `--from` names, as the beginning of a carry. */
static int find_from(const struct stage *s, const char *from, json_t **ret, struct err *err)
{
	const struct docker_request *request = s->plan->request;
	const int stage = docker_find_stage(s->plan, from);
	struct docker_base base = {0};
	char image[DIGEST_HEX];
	int r;

	if (stage >= 0 && (size_t)stage >= s->index)
		return stage_error(s, err, "--from=%.64s: a stage copies from earlier ones only",
		                   from);
	if (stage >= 0) {
		*ret = json_pack("{si}", "stage", stage);
		return 0;
	}
	r = request->find(from, &base, request->arg, err);
	if (r < 0) {
		(void)err_prefix(err, "line %u", s->in->line);
		return r;
	}
	digest_to_hex(&base.image, image);
	*ret = base.is_open ? json_pack("{ss}", "pull", base.name)
	                    : json_pack("{ss}", "image", image);
	return 0;
}

/* Of another stage: each source is brought, up to its first pattern, under the name "tree". */
static int bring_carry(struct stage *s, const char *from, json_t *patterns, char **ret_dir,
                       struct err *err)
{
	auto_json json_t *carry = NULL;
	auto_free char *path = NULL, *plain = NULL;
	size_t number;
	const char *rest;
	int r = find_from(s, from, &carry, err);

	if (r == 0)
		r = clean_source(s, json_string_value(json_array_get(patterns, 0)), &path, err);
	if (r < 0 || !path)
		return r;
	plain = plain_part(path);
	r = add_carry(s, carry, strcmp(plain, ".") == 0 ? "" : plain, &number, err);
	if (r < 0)
		return r;
	rest = path + strlen(plain);
	rest += strspn(rest, "/");
	*ret_dir = xasprintf(DOCKER_CARRIED "%zu", number);
	(void)json_array_set_new(patterns, 0,
	                         *rest && strcmp(plain, ".") != 0 ? json_sprintf("tree/%s", rest)
	                                                          : json_string("tree"));
	return 0;
}

int docker_bring(struct stage *s, const char *from, json_t *patterns, char **ret_dir,
                 struct err *err)
{
	json_t *copies = s->plan->copies;
	json_t *cleaned;
	int r = 0;

	if (from)
		return bring_carry(s, from, patterns, ret_dir, err);
	cleaned = json_array();
	for (size_t i = 0; r == 0 && i < json_array_size(patterns); i++) {
		auto_free char *path = NULL;

		r = clean_source(s, json_string_value(json_array_get(patterns, i)), &path, err);
		if (r == 0)
			(void)json_array_append_new(cleaned, json_string(path));
	}
	if (r == 0) {
		(void)json_array_clear(patterns);
		(void)json_array_extend(patterns, cleaned);
		(void)json_array_append_new(json_object_get(s->part, "copies"),
		                            json_integer((json_int_t)json_array_size(copies)));
		(void)json_array_append_new(copies, cleaned);
		*ret_dir = xstrdup(DOCKER_CONTEXT);
	} else {
		json_decref(cleaned);
	}
	return r;
}

/* The words, of either form; the last is the target. */
static int read_words(const struct stage *s, struct copy *c, const char *text, struct err *err)
{
	struct docker_scope scope = stage_scope(s);
	size_t n;
	int r = 0;

	c->sources = docker_json_words(text);
	if (c->sources) { /* variables are expanded in this form, too */
		for (size_t i = 0; r == 0 && i < json_array_size(c->sources); i++) {
			auto_free char *word = NULL;

			r = docker_expand(&scope, json_string_value(json_array_get(c->sources, i)),
			                  &word, err);
			if (r == 0)
				(void)json_array_set_new(c->sources, i, json_string(word));
		}
	} else {
		r = docker_split(&scope, text, &c->sources, err);
	}
	if (r < 0)
		return r;
	n = json_array_size(c->sources);
	if (n < 2)
		return stage_error(s, err, "%s needs a source and a target",
		                   instruction_name(s->in->kind));
	c->target = xstrdup(json_string_value(json_array_get(c->sources, n - 1)));
	(void)json_array_remove(c->sources, n - 1);
	if (!*c->target)
		return stage_error(s, err, "%s needs a target", instruction_name(s->in->kind));
	if (n > 2 && c->target[strlen(c->target) - 1] != '/' && strcmp(c->target, ".") != 0)
		return stage_error(s, err,
		                   "%s of several sources needs a target that ends with '/'",
		                   instruction_name(s->in->kind));
	return 0;
}

/* "USER" is its own group too where it is a number; a name's group is the user's own. */
static char *owner_of(const struct copy *c)
{
	if (!c->chown)
		return xstrdup(c->from ? "" : "0:0");
	if (strchr(c->chown, ':'))
		return xstrdup(c->chown);
	return strspn(c->chown, "0123456789") == strlen(c->chown)
	               ? xasprintf("%s:%s", c->chown, c->chown)
	               : xasprintf("%s:", c->chown);
}

static void put_target(const struct stage *s, const struct copy *c, struct buf *out)
{
	const size_t len = strlen(c->target);
	const bool is_dir = c->target[len - 1] == '/' || strcmp(c->target, ".") == 0 ||
	                    (len > 1 && strcmp(c->target + len - 2, "/.") == 0);
	auto_free char *path = docker_resolve(s->cwd, xstrdup(c->target));
	auto_free char *whole = xasprintf("%s%s%s", s->is_tree ? DOCKER_TREE : "", path,
	                                  is_dir && path[1] ? "/" : "");

	script_put_variable(out, "TARGET", whole);
}

/* A source that is a here-document: a file of this step's own. */
static int put_heredoc(struct stage *s, const char *word, struct buf *out, struct err *err)
{
	struct docker_scope scope = stage_scope(s);
	char path[sizeof(DOCKER_STEPS) + 128];
	const struct heredoc *doc = NULL;
	auto_free char *body = NULL;
	int r = 0;

	scope.keeps_quotes = true;
	for (size_t i = 0; i < s->in->n_heredocs; i++) {
		const char *name = s->in->heredocs[i].name;
		const char *at = strstr(word, name);

		if (at && strcmp(at, name) == 0)
			doc = &s->in->heredocs[i];
	}
	if (!doc)
		return stage_error(s, err, "'%.64s' names no here-document", word);
	if (doc->is_quoted)
		body = xstrdup(doc->body);
	else
		r = docker_expand(&scope, doc->body, &body, err);
	(void)snprintf(path, sizeof(path), DOCKER_STEPS "/%u.%s", s->plan->number + 1, doc->name);
	if (r == 0)
		r = docker_add_file(s, path, body, err);
	if (r == 0)
		(void)!buf_printf(out, "FROM=%s\nRENAME=%s\nplace %u.%s\nRENAME=\n", DOCKER_STEPS,
		                  doc->name, s->plan->number + 1, doc->name);
	return r;
}

static int check_url(const struct stage *s, const struct copy *c, const char *word, struct err *err)
{
	const char *kind = instruction_name(s->in->kind);

	if (s->in->kind == DOCKER_ADD && is_of_git(word))
		return stage_error(s, err,
		                   "ADD of the git repository '%.200s' is not supported: clone it "
		                   "into the context, or with RUN",
		                   word);
	if (s->in->kind != DOCKER_ADD ||
	    (strncmp(word, "http://", 7) != 0 && strncmp(word, "https://", 8) != 0))
		return stage_error(s, err,
		                   "%s of '%.200s' is not supported: ADD takes http and https",
		                   kind, word);
	if (c->checksum && (strncmp(c->checksum, "sha256:", 7) != 0 || strlen(c->checksum) != 71 ||
	                    strspn(c->checksum + 7, "0123456789abcdef") != 64))
		return stage_error(s, err, "ADD --checksum: '%.100s' is not sha256: and 64 digits",
		                   c->checksum);
	return 0;
}

/* What a URL names: the last part of its path. */
static char *file_of_url(const char *url)
{
	const char *path = strstr(url, "://") + 3, *last;
	size_t len = strcspn(path, "?#");

	last = memchr(path, '/', len);
	if (!last)
		return xstrdup("");
	for (const char *c = last; c < path + len; c++)
		if (*c == '/')
			last = c;
	return xstrndup(last + 1, len - (size_t)(last + 1 - path));
}

/*
 * A URL is fetched in the sandbox of its part, with that one's network. With a checksum the result
 * is found again by later builds; without one nobody knows whether it is still the same.
 */
static int put_url(struct stage *s, struct copy *c, const char *word, struct buf *out,
                   struct err *err)
{
	const bool is_dir = c->target[strlen(c->target) - 1] == '/';
	auto_free char *name = NULL;
	int r = check_url(s, c, word, err);

	if (r < 0)
		return r;
	name = file_of_url(word);
	if (strcmp(name, "..") == 0 || strcmp(name, ".") == 0 || (is_dir && !*name))
		return stage_error(
			s, err,
			"ADD of '%.200s' needs a target that names a file: the URL names "
			"none",
			word);
	(void)json_object_set_new(s->part, "fetches", json_true());
	if (!c->checksum)
		(void)json_object_set_new(s->part, "unknown", json_true());
	c->has_url = true;
	(void)!buf_printf(out, "%s\nFROM=%s\nFETCHED=$FROM\nUNPACK=\nfetch ", script_fetch,
	                  DOCKER_FETCHED);
	script_put_quoted(out, word);
	(void)!buf_append_str(out, " file ");
	script_put_quoted(out, c->checksum ? c->checksum + 7 : "");
	(void)!buf_append(out, "\n", 1);
	script_put_variable(out, "RENAME", name);
	(void)!buf_printf(out, "place file\nrm -rf \"$FETCHED\"\nRENAME=\nUNPACK=1\n");
	return 0;
}

static int put_source(struct stage *s, struct copy *c, const char *word, struct buf *out,
                      struct err *err)
{
	auto_json json_t *patterns = json_pack("[s]", word);
	auto_free char *dir = NULL;
	int r;

	if (strncmp(word, "<<", 2) == 0 && s->in->n_heredocs > 0)
		return put_heredoc(s, word, out, err);
	if (is_url(word) && !c->from)
		return put_url(s, c, word, out, err);
	if (c->checksum)
		return stage_error(s, err, "ADD --checksum is for URLs");
	r = docker_bring(s, c->from, patterns, &dir, err);
	if (r < 0)
		return r;
	script_put_variable(out, "FROM", dir);
	if (c->from) {
		const bool is_whole =
			strcmp(json_string_value(json_array_get(patterns, 0)), "tree") == 0;
		auto_free char *plain = is_whole ? plain_part(word) : xstrdup("");
		const char *slash = strrchr(plain, '/');

		script_put_variable(out, "RENAME", slash ? slash + 1 : plain);
	}
	(void)!buf_append_str(out, "place ");
	script_put_quoted(out, json_string_value(json_array_get(patterns, 0)));
	(void)!buf_append(out, "\n", 1);
	return 0;
}

int docker_read_copy(struct stage *s, struct err *err)
{
	auto_call(buf_done) struct buf script = BUF_INIT(SCRIPT_MAX);
	auto_free char *owner = NULL;
	const char *text = s->in->text;
	struct copy c = {0};
	int r = read_flags(s, &c, &text, err);

	if (r == 0)
		r = read_words(s, &c, text, err);
	if (r == 0) {
		docker_open_part(s);
		owner = owner_of(&c);
		(void)!buf_printf(&script, "%s\n%s\n", script_copy, script_place);
		put_target(s, &c, &script);
		script_put_variable(&script, "OWNER", owner);
		script_put_variable(&script, "MODE", c.chmod ? c.chmod : "");
		script_put_variable(&script, "UNPACK", s->in->kind == DOCKER_ADD ? "1" : "");
		script_put_variable(&script, "RENAME", "");
	}
	for (size_t i = 0; r == 0 && i < json_array_size(c.sources); i++)
		r = put_source(s, &c, json_string_value(json_array_get(c.sources, i)), &script,
		               err);
	if (r == 0) /* what was fetched is an image of its own: a RUN may be without a network */
		r = docker_add_step(s, &script, /* is_last= */ c.has_url, err);
	copy_done(&c);
	return r;
}
