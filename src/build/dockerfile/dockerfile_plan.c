// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the stages one after the other. A stage knows what its base has told of itself, and each
 * instruction changes that or adds to the stage's parts. At the end only those stages are kept that
 * the target needs.
 */
#include "build/dockerfile/dockerfile_private.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define ONBUILD_MAX 64

static int read_onbuild(struct stage *s, struct err *err);

/* clang-format off */
static int (*const readers[])(struct stage *s, struct err *err) = {
	[DOCKER_ADD]         = docker_read_copy,
	[DOCKER_ARG]         = docker_read_arg,
	[DOCKER_CMD]         = docker_read_command,
	[DOCKER_COPY]        = docker_read_copy,
	[DOCKER_ENTRYPOINT]  = docker_read_command,
	[DOCKER_ENV]         = docker_read_env,
	[DOCKER_EXPOSE]      = docker_read_list,
	[DOCKER_FROM]        = NULL, /* begins a stage */
	[DOCKER_HEALTHCHECK] = docker_read_healthcheck,
	[DOCKER_LABEL]       = docker_read_label,
	[DOCKER_MAINTAINER]  = docker_read_word,
	[DOCKER_ONBUILD]     = read_onbuild,
	[DOCKER_RUN]         = docker_read_run,
	[DOCKER_SHELL]       = docker_read_command,
	[DOCKER_STOPSIGNAL]  = docker_read_word,
	[DOCKER_USER]        = docker_read_word,
	[DOCKER_VOLUME]      = docker_read_list,
	[DOCKER_WORKDIR]     = docker_read_workdir,
};
/* clang-format on */
static_assert(ARRAY_SIZE(readers) == DOCKER_KIND_COUNT, "an instruction has no reader");

int stage_error(const struct stage *s, struct err *err, const char *format, ...)
{
	char text[400];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return dockerfile_error(err, s->in->line, "%s", text);
}

/* Those that are there without an ARG. */
static const char *find_given(const struct plan *p, const char *name)
{
	static const char *const known[] = {
		"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "FTP_PROXY",
		"ftp_proxy",  "NO_PROXY",   "no_proxy",    "ALL_PROXY",   "all_proxy",
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(known[i], name) == 0)
			return json_string_value(json_object_get(p->request->build_args, name));
	return NULL;
}

static const char *find_in_stage(const char *name, void *arg)
{
	const struct stage *s = arg;
	const char *value = json_string_value(json_object_get(s->env, name));

	if (!value)
		value = json_string_value(json_object_get(s->args, name));
	return value ? value : find_given(s->plan, name);
}

struct docker_scope stage_scope(const struct stage *s)
{
	return (struct docker_scope){.escape = s->plan->file->escape,
	                             .line = s->in->line,
	                             .find = find_in_stage,
	                             .arg = unconst(s)};
}

static const char *find_global(const char *name, void *arg)
{
	const struct plan *p = arg;
	const char *value = json_string_value(json_object_get(p->globals, name));

	return value ? value : find_given(p, name);
}

/* What is known of the platform, for an ARG without a default. */
static void set_platform(struct plan *p)
{
	static const char *const sides[] = {"BUILD", "TARGET"};
	const char *arch = p->request->arch;
	char name[32];

	for (size_t i = 0; i < ARRAY_SIZE(sides); i++) {
		(void)snprintf(name, sizeof(name), "%sPLATFORM", sides[i]);
		(void)json_object_set_new(p->globals, name, json_sprintf("linux/%s", arch));
		(void)snprintf(name, sizeof(name), "%sOS", sides[i]);
		(void)json_object_set_new(p->globals, name, json_string("linux"));
		(void)snprintf(name, sizeof(name), "%sARCH", sides[i]);
		(void)json_object_set_new(p->globals, name, json_string(arch));
		(void)snprintf(name, sizeof(name), "%sVARIANT", sides[i]);
		(void)json_object_set_new(p->globals, name, json_string(""));
	}
}

static int check_platform(const struct plan *p, unsigned line, const char *value, struct err *err)
{
	const char *own = json_string_value(json_object_get(p->globals, "TARGETPLATFORM"));

	if (strncmp(value, own, strlen(own)) == 0 &&
	    (value[strlen(own)] == '\0' || value[strlen(own)] == '/'))
		return 0;
	return dockerfile_error(err, line, "FROM --platform=%.64s: this host builds for %s only",
	                        value, own);
}

struct from {
	char *base, *name;
};

/* [--platform=P] BASE [AS NAME] */
static int read_from(struct plan *p, const struct instruction *in, struct from *ret,
                     struct err *err)
{
	const struct docker_scope scope = {
		.escape = p->file->escape, .line = in->line, .find = find_global, .arg = p};
	const char *text = in->text;
	auto_free char *flag = NULL, *value = NULL, *platform = NULL;
	auto_json json_t *words = NULL;
	int r = 0;

	if (docker_take_flag(&text, &flag, &value)) {
		if (strcmp(flag, "platform") != 0 || !value)
			return dockerfile_error(err, in->line, "FROM has no option '--%.64s'",
			                        flag);
		r = docker_expand(&scope, value, &platform, err);
		if (r == 0)
			r = check_platform(p, in->line, platform, err);
	}
	if (r == 0)
		r = docker_split(&scope, text, &words, err);
	if (r < 0)
		return r;
	if (json_array_size(words) != 1 &&
	    (json_array_size(words) != 3 ||
	     strcasecmp(json_string_value(json_array_get(words, 1)), "as") != 0))
		return dockerfile_error(err, in->line, "FROM needs BASE, or BASE AS NAME");
	ret->base = xstrdup(json_string_value(json_array_get(words, 0)));
	if (!*ret->base)
		return dockerfile_error(err, in->line, "FROM: the base's name is empty");
	if (json_array_size(words) == 3)
		ret->name = xstrdup(json_string_value(json_array_get(words, 2)));
	return 0;
}

/* A name may stand for one stage only, and is not a number. */
static int name_stage(struct plan *p, unsigned line, char *name, struct err *err)
{
	if (!isalpha((unsigned char)*name) || strlen(name) > 64)
		return dockerfile_error(err, line, "FROM: '%.64s' cannot be a stage's name", name);
	for (char *c = name; *c; c++) {
		if (!isalnum((unsigned char)*c) && !strchr("_.-", *c))
			return dockerfile_error(err, line, "FROM: '%.64s' cannot be a stage's name",
			                        name);
		*c = (char)tolower((unsigned char)*c);
	}
	if (json_object_get(p->stage_names, name))
		return dockerfile_error(err, line, "FROM: there is a stage '%s' already", name);
	return json_object_set_new(p->stage_names, name,
	                           json_integer((json_int_t)json_array_size(p->stages)));
}

static json_t *copy_or(const json_t *value, json_t *otherwise) /* takes otherwise */
{
	if (!value)
		return otherwise;
	json_decref(otherwise);
	return json_deep_copy(value);
}

/* What a stage starts with, from what its base has told. config: of the manifest. */
static void take_base(struct stage *s, const json_t *manifest)
{
	const char *user = json_string_value(json_object_get(manifest, "user"));
	const char *cwd = json_string_value(json_object_get(manifest, "cwd"));

	s->config = copy_or(json_object_get(manifest, "config"), json_object());
	s->env = copy_or(json_object_get(manifest, "env"), json_object());
	s->entrypoint = copy_or(json_object_get(manifest, "entrypoint"), NULL);
	s->cmd = copy_or(json_object_get(manifest, "cmd"), NULL);
	s->shell = copy_or(json_object_get(s->config, "shell"), json_pack("[ss]", "/bin/sh", "-c"));
	s->args = json_object();
	s->user = xstrdup(user ? user : "root");
	s->cwd = xstrdup(cwd ? cwd : "/");
}

static void stage_done(struct stage *s)
{
	json_decref(s->env);
	json_decref(s->args);
	json_decref(s->shell);
	json_decref(s->entrypoint);
	json_decref(s->cmd);
	json_decref(s->config);
	free(s->user);
	free(s->cwd);
	*s = (struct stage){0};
}

/* The same facts as a manifest has, kept with the stage for those that start from it. */
static json_t *stage_facts(const struct stage *s)
{
	json_t *facts = json_pack("{sOsOssss}", "env", s->env, "config", s->config, "user", s->user,
	                          "cwd", s->cwd);

	if (s->entrypoint)
		(void)json_object_set(facts, "entrypoint", s->entrypoint);
	if (s->cmd)
		(void)json_object_set(facts, "cmd", s->cmd);
	return facts;
}

static int read_one(struct stage *s, const struct instruction *in, struct err *err)
{
	s->in = in;
	return readers[in->kind](s, err);
}

/* The base's ONBUILD, as if they stood behind the FROM. */
static int run_onbuild(struct stage *s, const struct instruction *from, struct err *err)
{
	auto_json json_t *list = json_incref(json_object_get(s->config, "onbuild"));
	int r = 0;

	(void)json_object_del(s->config, "onbuild");
	for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));
		struct dockerfile one = {0};

		r = text ? dockerfile_parse(text, strlen(text), &one, err) : 0;
		for (size_t k = 0; r == 0 && k < one.n; k++) {
			one.items[k].line = from->line;
			if (one.items[k].kind == DOCKER_FROM || one.items[k].kind == DOCKER_ONBUILD)
				r = dockerfile_error(err, from->line,
				                     "the base's ONBUILD may not be a FROM");
			else
				r = read_one(s, &one.items[k], err);
		}
		s->in = from;
		dockerfile_done(&one);
	}
	return r;
}

static int read_onbuild(struct stage *s, struct err *err)
{
	json_t *list = json_object_get(s->config, "onbuild");
	struct dockerfile one = {0};
	int r = dockerfile_parse(s->in->text, strlen(s->in->text), &one, err);

	if (r < 0)
		(void)dockerfile_error(err, s->in->line, "ONBUILD: '%.64s' is no instruction",
		                       s->in->text);
	else if (one.items[0].kind == DOCKER_FROM || one.items[0].kind == DOCKER_ONBUILD ||
	         one.items[0].kind == DOCKER_MAINTAINER)
		r = stage_error(s, err, "ONBUILD cannot have %s",
		                instruction_name(one.items[0].kind));
	dockerfile_done(&one);
	if (r < 0)
		return r;
	if (!list) {
		list = json_array();
		(void)json_object_set_new(s->config, "onbuild", list);
	}
	if (json_array_size(list) == ONBUILD_MAX)
		return stage_error(s, err, "there are more than %d ONBUILD", ONBUILD_MAX);
	return json_array_append_new(list, json_string(s->in->text)) < 0
	               ? stage_error(s, err, "is no text in UTF-8")
	               : 0;
}

static json_t *describe_base(struct plan *p, const struct docker_base *base)
{
	const char *suite = json_string_value(json_object_get(base->manifest, "suite"));
	char image[DIGEST_HEX];
	json_t *row;

	(void)p;
	if (base->is_open)
		return json_pack("{ssss}", "pull", base->name, "name", base->name);
	digest_to_hex(&base->image, image);
	row = json_pack("{ssss}", "image", image, "name", base->name);
	if (suite)
		(void)json_object_set_new(row, "suite", json_string(suite));
	return row;
}

/* Finds what the stage starts from: nothing, another stage, or a template. */
static int find_base(struct plan *p, const struct instruction *in, const char *word,
                     struct stage *s, json_t **ret, struct err *err)
{
	const struct docker_request *request = p->request;
	const int other = isdigit((unsigned char)*word) ? -1 : docker_find_stage(p, word);
	struct docker_base base = {0};
	int r;

	if (other >= 0) {
		const json_t *row = json_array_get(p->stages, (size_t)other);
		const json_t *suite = json_object_get(row, "suite");

		take_base(s, json_object_get(row, "facts"));
		*ret = json_pack("{si}", "stage", other);
		if (suite)
			(void)json_object_set(*ret, "suite", (json_t *)unconst(suite));
		return 0;
	}
	if (strcmp(word, "scratch") == 0) {
		take_base(s, NULL);
		(void)json_object_set_new(s->env, "PATH", json_string(DOCKER_PATH));
		s->is_tree = true;
		*ret = json_pack("{sb}", "tree", 1);
		return 0;
	}
	r = request->find(word, &base, request->arg, err);
	if (r < 0) {
		(void)err_prefix(err, "line %u", in->line);
		take_base(s, NULL);
		return r;
	}
	take_base(s, base.manifest);
	*ret = describe_base(p, &base);
	return 0;
}

/* From a FROM up to the next. */
static int read_stage(struct plan *p, size_t *at, struct err *err)
{
	const struct instruction *from = &p->file->items[*at];
	struct stage s = {.plan = p, .index = json_array_size(p->stages), .in = from};
	auto_json json_t *row = NULL;
	struct from words = {0};
	int r;

	if (s.index == STAGES_MAX)
		return dockerfile_error(err, from->line, "there are more than %d stages",
		                        STAGES_MAX);
	r = read_from(p, from, &words, err);
	if (r == 0)
		r = find_base(p, from, words.base, &s, &row, err);
	if (r == 0 && words.name)
		r = name_stage(p, from->line, words.name, err);
	if (r == 0)
		(void)json_array_append(p->stages, row);
	if (r == 0)
		r = run_onbuild(&s, from, err);
	for (++*at; r == 0 && *at < p->file->n && p->file->items[*at].kind != DOCKER_FROM; ++*at)
		r = read_one(&s, &p->file->items[*at], err);
	if (r == 0 && s.is_tree && !s.part) { /* even nothing has to be sealed */
		s.in = from;
		docker_open_part(&s);
	}
	if (r == 0)
		(void)json_object_set_new(row, "facts", stage_facts(&s));
	stage_done(&s);
	free(words.base);
	free(words.name);
	return r;
}

/* The ARG before the first FROM. */
static int read_globals(struct plan *p, size_t *at, struct err *err)
{
	int r = 0;

	set_platform(p);
	for (*at = 0; r == 0 && *at < p->file->n; ++*at) {
		const struct instruction *in = &p->file->items[*at];
		const struct docker_scope scope = {
			.escape = p->file->escape, .line = in->line, .find = find_global, .arg = p};
		auto_json json_t *words = NULL;

		if (in->kind == DOCKER_FROM)
			return 0;
		if (in->kind != DOCKER_ARG)
			return dockerfile_error(err, in->line, "%s before the first FROM",
			                        instruction_name(in->kind));
		r = docker_split(&scope, in->text, &words, err);
		for (size_t i = 0; r == 0 && i < json_array_size(words); i++)
			r = docker_take_arg(p, &scope, json_string_value(json_array_get(words, i)),
			                    p->globals, NULL, err);
	}
	return r < 0 ? r : err_field(err, "dockerfile", "has no FROM");
}

static int find_target(const struct plan *p, size_t *ret, struct err *err)
{
	const char *name = p->request->target;
	const int found = name ? docker_find_stage(p, name) : (int)json_array_size(p->stages) - 1;

	if (found < 0)
		return err_field(err, "target", "the Dockerfile has no stage '%.64s'", name);
	*ret = (size_t)found;
	return 0;
}

static void mark(const json_t *row, bool needed[STAGES_MAX])
{
	const json_t *stage = json_object_get(row, "stage");

	if (stage)
		needed[json_integer_value(stage)] = true;
}

/* Drops the parts of stages that the target does not need. Stages need earlier ones only. */
static void keep_needed(const struct plan *p, size_t target)
{
	bool needed[STAGES_MAX] = {0};
	size_t i;
	json_t *carry;

	needed[target] = true;
	for (size_t stage = target + 1; stage-- > 0;) {
		if (!needed[stage])
			continue;
		mark(json_array_get(p->stages, stage), needed);
		for (size_t k = 0; k < json_array_size(p->parts); k++) {
			const json_t *part = json_array_get(p->parts, k);

			if (json_integer_value(json_object_get(part, "stage")) != (json_int_t)stage)
				continue;
			json_array_foreach(json_object_get(part, "carries"), i, carry)
			{
				mark(carry, needed);
			}
		}
	}
	for (size_t stage = 0; stage < json_array_size(p->stages); stage++)
		if (!needed[stage])
			(void)json_object_del(json_array_get(p->stages, stage), "pull");
	for (size_t k = json_array_size(p->parts); k-- > 0;) {
		const json_t *part = json_array_get(p->parts, k);

		if (!needed[json_integer_value(json_object_get(part, "stage"))])
			(void)json_array_remove(p->parts, k);
	}
}

static void add_pulls(const json_t *rows, json_t *found)
{
	size_t i;
	json_t *row;

	json_array_foreach(rows, i, row)
	{
		json_t *reference = json_object_get(row, "pull");

		if (reference)
			(void)json_object_set(found, json_string_value(reference), reference);
	}
}

/* Which images are open, each once. */
static json_t *list_pulls(const struct plan *p)
{
	auto_json json_t *found = json_object();
	json_t *pulls = json_array(), *reference;
	const char *word;

	add_pulls(p->stages, found);
	for (size_t k = 0; k < json_array_size(p->parts); k++)
		add_pulls(json_object_get(json_array_get(p->parts, k), "carries"), found);
	json_object_foreach (found, word, reference) {
		(void)json_array_append(pulls, reference);
	}
	return pulls;
}

/* The target's facts are the template's. */
static void put_facts(const struct plan *p, size_t target, json_t *recipe)
{
	const char *const name =
		json_string_value(json_object_get(json_array_get(p->stages, target), "name"));

	(void)json_object_update(recipe,
	                         json_object_get(json_array_get(p->stages, target), "facts"));
	(void)json_object_set_new(recipe, "from", json_string(name ? name : "scratch"));
	for (size_t i = 0; i < json_array_size(p->stages); i++)
		(void)json_object_del(json_array_get(p->stages, i), "facts");
}

/* An argument that no ARG asks for would be lost silently. */
static int check_args(const struct plan *p, struct err *err)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)unconst(p->request->build_args), name, value)
		if (!json_object_get(p->used_args, name) && !find_given(p, name))
			return err_field(err, "build_args", "the Dockerfile has no ARG %.64s",
			                 name);
	return 0;
}

int docker_plan(const struct docker_request *request, json_t *recipe, struct err *err)
{
	struct dockerfile file = {0};
	auto_json json_t *names = json_object(), *globals = json_object(), *used = json_object();
	auto_json json_t *pulls = NULL;
	json_t *plan = json_pack("{s[]s[]s[]}", "stages", "parts", "copies");
	struct plan p = {.request = request,
	                 .file = &file,
	                 .stages = json_object_get(plan, "stages"),
	                 .parts = json_object_get(plan, "parts"),
	                 .copies = json_object_get(plan, "copies"),
	                 .stage_names = names,
	                 .globals = globals,
	                 .used_args = used};
	size_t at = 0, target = 0;
	int r = dockerfile_parse(request->text, request->len, &file, err);

	(void)json_object_set_new(recipe, "dockerfile", plan);
	if (r == 0)
		r = read_globals(&p, &at, err);
	while (r == 0 && at < file.n)
		r = read_stage(&p, &at, err);
	if (r == 0)
		r = find_target(&p, &target, err);
	if (r == 0) {
		keep_needed(&p, target);
		pulls = list_pulls(&p);
		if (json_array_size(pulls) > 0)
			(void)json_object_set(recipe, "pulls", pulls);
		else /* an ONBUILD of an open image may have the ARG */
			r = check_args(&p, err);
	}
	if (r == 0) {
		put_facts(&p, target, recipe);
		(void)json_object_set_new(plan, "target", json_integer((json_int_t)target));
	}
	dockerfile_done(&file);
	return r;
}
