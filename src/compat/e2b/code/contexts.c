// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/code/code.h"
#include "compat/e2b/frame/body.h"

#include "api/frame/reply.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define CWD "/home/user"

/* The contexts that E2B's server has from its start. */
static const char *const defaults[] = {"python", "javascript"};

const char *code_language(const char *name)
{
	static const char *const words[][2] = {{"python", "python"}, {"javascript", "javascript"},
	                                       {"js", "javascript"}, {"typescript", "typescript"},
	                                       {"ts", "typescript"}, {"bash", "bash"},
	                                       {"r", "r"},           {"java", "java"}};
	size_t from = strspn(name, " \t\n"), len = strcspn(name + from, " \t\n");

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strlen(words[i][0]) == len && strncasecmp(words[i][0], name + from, len) == 0)
			return words[i][1];
	return NULL;
}

int code_no_context(const char *id, struct err *err)
{
	return err_set(err, ERR_NOT_FOUND, 0, "Context %.64s not found", id);
}

static bool is_default(const struct context *c)
{
	return strcmp(context_name(c), context_language(c)) == 0;
}

static void put(struct json_writer *w, const char *id, const char *language, const char *cwd)
{
	json_open_object(w, NULL);
	json_put_str(w, "id", id);
	json_put_str(w, "language", language);
	json_put_str(w, "cwd", cwd ? cwd : CWD);
	json_close_object(w);
}

static void put_context(struct context *c, void *arg)
{
	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
		if (strcmp(context_name(c), defaults[i]) == 0)
			return; /* was put already */
	put(arg, is_default(c) ? context_name(c) : context_id(c), context_language(c),
	    context_cwd(c));
}

int code_list_contexts(struct http_req *req, struct err *err)
{
	struct json_writer *w;
	struct sandbox *s;
	struct reply reply;
	int r = envd_find_contexts(req, &s, err);

	if (r != 0)
		return r;
	w = reply_begin_bare(&reply);
	json_open_array(w, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
		put(w, defaults[i], defaults[i], NULL);
	context_each(s, put_context, w);
	json_close_array(w);
	return reply_send(&reply, req, 200, err);
}

int code_create_context(struct http_req *req, struct err *err)
{
	struct context_spec spec = {.language = "python"};
	const char *language = NULL;
	struct context *c;
	struct sandbox *s;
	struct reply reply;
	int r = envd_find_contexts(req, &s, err);

	if (r == 0)
		r = body_text(http_json(req), "language", &language, err);
	if (r == 0)
		r = body_text(http_json(req), "cwd", &spec.cwd, err);
	if (r != 0)
		return r;
	if (language && !code_language(language))
		return err_set(err, ERR_INTERNAL, 0, "No kernel for language %.40s", language);
	if (language)
		spec.language = code_language(language);
	if (spec.cwd && !spec.cwd[0])
		spec.cwd = NULL;
	r = context_create(s, &spec, &c, err);
	if (r < 0)
		return r;
	put(reply_begin_bare(&reply), context_id(c), context_language(c), context_cwd(c));
	return reply_send(&reply, req, 200, err);
}

static int find(struct http_req *req, struct context **ret, struct err *err)
{
	const char *id = http_param(req, "context_id");
	struct sandbox *s;
	int r = envd_find_contexts(req, &s, err);

	if (r != 0)
		return r;
	*ret = context_find(s, id);
	for (size_t i = 0; !*ret && i < ARRAY_SIZE(defaults); i++)
		if (strcmp(id, defaults[i]) == 0)
			return 0; /* there is nothing of it yet */
	return *ret ? 0 : code_no_context(id, err);
}

static int reply_null(struct http_req *req)
{
	http_reply(req, 200, "application/json", "null", 4);
	return 0;
}

int code_restart_context(struct http_req *req, struct err *err)
{
	struct context *c;
	int r = find(req, &c, err);

	if (r == 0 && c)
		r = context_restart(c, err);
	return r == 0 ? reply_null(req) : r;
}

int code_remove_context(struct http_req *req, struct err *err)
{
	struct context *c;
	int r = find(req, &c, err);

	if (r == 0 && c)
		context_remove(c);
	return r == 0 ? reply_null(req) : r;
}
