// SPDX-License-Identifier: Apache-2.0
/* Tags of templates. "name:tag" is our template "name.tag" with the same image: a tag costs one
 * row. */
#include "compat/e2b/control/templates.h"
#include "compat/e2b/frame/body.h"
#include "compat/e2b/frame/objects.h"

#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "sandbox/storage/template.h"

#include <stdio.h>
#include <string.h>

#define TAGS_MAX 32

struct tags { /* of a body */
	const char *name;
	const json_t *list;
};

static int read_tags(const struct http_req *req, const char *field, struct tags *ret,
                     struct err *err)
{
	int r = body_text(http_json(req), field, &ret->name, err);

	if (r == 0)
		r = body_array(http_json(req), "tags", &ret->list, err);
	if (r < 0)
		return r;
	if (!ret->name || !*ret->name)
		return err_field(err, field, "is required");
	if (json_array_size(ret->list) == 0 || json_array_size(ret->list) > TAGS_MAX)
		return err_field(err, "tags", "are 1 to %d", TAGS_MAX);
	for (size_t i = 0; i < json_array_size(ret->list); i++) {
		const char *tag = json_string_value(json_array_get(ret->list, i));

		if (!tag || !*tag ||
		    strlen(tag) != json_string_length(json_array_get(ret->list, i)) ||
		    strpbrk(tag, "~/:"))
			return err_field(err, "tags", "must be words");
	}
	return 0;
}

/* Our name for "name" of "team/name:tag" with the i-th tag. */
static void word_of(const struct tags *tags, size_t i, char ret[TEMPLATE_WORD_SIZE])
{
	auto_free char *whole = xasprintf("%.*s:%s", (int)strcspn(tags->name, ":"), tags->name,
	                                  json_string_value(json_array_get(tags->list, i)));

	template_read_name(whole, ret);
}

static struct template *find_own(const struct http_req *req, const char *word)
{
	const struct api *api = http_app_arg(req);
	struct template *t = template_find(api->fleet, caller_project(req), word);

	return t && !template_is_shared(t) ? t : NULL;
}

static int refuse(const char *name, struct err *err)
{
	return err_set(err, ERR_NOT_FOUND, 0, "template '%.64s' not found", name);
}

/* Clients want a UUID: templates with the same image have the same one. */
static void put_build(struct json_writer *w, const char *name, const struct template *t)
{
	char hex[DIGEST_HEX], uuid[40];

	digest_to_hex(template_image(t), hex);
	(void)snprintf(uuid, sizeof(uuid), "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12,
	               hex + 16, hex + 20);
	json_put_str(w, name, uuid);
}

int e2b_assign_tags(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct tags tags = {0};
	char word[TEMPLATE_WORD_SIZE];
	struct template *t, *made;
	struct template_spec spec;
	struct json_writer *w;
	struct reply reply;
	int r = read_tags(req, "target", &tags, err);

	if (r < 0)
		return r;
	template_read_name(tags.name, word);
	t = find_own(req, word);
	if (!t)
		return refuse(tags.name, err);
	spec = (struct template_spec){.project_id = caller_project(req),
	                              .name = word,
	                              .image = *template_image(t),
	                              .manifest = template_manifest(t),
	                              .is_replacing = true};
	for (size_t i = 0; r == 0 && i < json_array_size(tags.list); i++) {
		word_of(&tags, i, word);
		r = template_check_name(word, err);
		if (r == 0 && find_own(req, word) != t)
			r = template_publish(api->fleet, &spec, &made, err);
	}
	if (r < 0)
		return r;
	w = reply_begin(&reply);
	put_build(w, "buildID", t);
	json_put_value(w, "tags", tags.list);
	return reply_send(&reply, req, 201, err);
}

int e2b_remove_tags(struct http_req *req, struct err *err)
{
	struct tags tags = {0};
	char word[TEMPLATE_WORD_SIZE];
	int r = read_tags(req, "name", &tags, err);

	for (size_t i = 0; r == 0 && i < json_array_size(tags.list); i++) {
		word_of(&tags, i, word);
		if (!find_own(req, word))
			r = refuse(word, err);
	}
	for (size_t i = 0; r == 0 && i < json_array_size(tags.list); i++) {
		struct template *t;

		word_of(&tags, i, word);
		t = find_own(req, word); /* named twice: it is gone */
		r = t ? template_remove(t, err) : 0;
	}
	if (r == 0)
		http_reply(req, 204, NULL, NULL, 0);
	return r;
}

struct listing {
	struct json_writer *w; /* NULL: they are counted */
	const char *name;
	const char *only; /* this tag alone, or NULL */
	void (*put)(struct json_writer *w, const char *tag, const struct template *t);
	size_t n;
	char last[TEMPLATE_WORD_SIZE]; /* that was met */
};

static void put_tag(struct json_writer *w, const char *tag, const struct template *t)
{
	json_open_object(w, NULL);
	json_put_str(w, "tag", tag);
	put_build(w, "buildID", t);
	e2b_put_time(w, "createdAt", template_created_us(t));
	json_close_object(w);
}

/* A tag is assigned once: who assigns it again makes it anew. */
static void put_assignment(struct json_writer *w, const char *tag, const struct template *t)
{
	(void)tag;
	json_open_object(w, NULL);
	put_build(w, "assignmentId", t);
	put_build(w, "buildId", t);
	e2b_put_time(w, "assignedAt", template_created_us(t));
	e2b_put_time(w, "buildCreatedAt", template_created_us(t));
	e2b_put_time(w, "buildFinishedAt", template_created_us(t));
	json_close_object(w);
}

static void put_group(struct json_writer *w, const char *tag, const struct template *t)
{
	json_open_object(w, NULL);
	json_put_str(w, "tag", tag);
	json_open_array(w, "assignments");
	put_assignment(w, tag, t);
	json_close_array(w);
	json_put_bool(w, "hasMore", false);
	json_close_object(w);
}

static void take_tag(const struct template *t, void *arg)
{
	struct listing *l = arg;
	const char *name = template_name(t), *tag;
	size_t len = strlen(l->name);

	if (template_is_shared(t) || strncmp(name, l->name, len) != 0 ||
	    (name[len] && name[len] != '.'))
		return;
	tag = name[len] ? name + len + 1 : TEMPLATE_TAG_DEFAULT;
	if (l->only && strcmp(l->only, tag) != 0)
		return;
	l->n++;
	(void)snprintf(l->last, sizeof(l->last), "%s", tag);
	if (l->w)
		l->put(l->w, tag, t);
}

static size_t walk(const struct http_req *req, struct listing *l)
{
	const struct api *api = http_app_arg(req);

	l->n = 0;
	template_each(api->fleet, caller_project(req), take_tag, l);
	return l->n;
}

bool template_a_tag(const struct http_req *req, const char *word, char ret[TEMPLATE_WORD_SIZE])
{
	struct listing l = {.name = word};

	if (walk(req, &l) == 0)
		return false;
	(void)snprintf(ret, TEMPLATE_WORD_SIZE, "%s", l.last);
	return true;
}

/* The template of the path, and how many tags it has. */
static int count_tags(const struct http_req *req, char ret[TEMPLATE_WORD_SIZE], size_t *ret_n,
                      struct err *err)
{
	struct listing l = {.name = ret};

	template_read_name(http_param(req, "id"), ret);
	*ret_n = walk(req, &l);
	return *ret_n == 0 ? refuse(ret, err) : 0;
}

int e2b_list_tags(struct http_req *req, struct err *err)
{
	char word[TEMPLATE_WORD_SIZE];
	struct listing l = {.name = word, .put = put_tag};
	struct reply reply;
	size_t n;
	int r = count_tags(req, word, &n, err);

	if (r < 0)
		return r;
	l.w = reply_begin_bare(&reply);
	json_open_array(l.w, NULL);
	(void)walk(req, &l);
	json_close_array(l.w);
	return reply_send(&reply, req, 200, err);
}

int e2b_count_tags(struct http_req *req, struct err *err)
{
	char word[TEMPLATE_WORD_SIZE];
	struct reply reply;
	size_t n;
	int r = count_tags(req, word, &n, err);

	if (r < 0)
		return r;
	json_put_u64(reply_begin(&reply), "total", n);
	return reply_send(&reply, req, 200, err);
}

int e2b_has_tag(struct http_req *req, struct err *err)
{
	char word[TEMPLATE_WORD_SIZE];
	struct listing l = {.name = word, .only = http_query(req, "tag")};
	struct json_writer *w;
	struct reply reply;
	size_t n;
	int r = l.only && *l.only ? 0 : err_field(err, "tag", "is required");

	if (r == 0)
		r = count_tags(req, word, &n, err);
	if (r < 0)
		return r;
	w = reply_begin(&reply);
	json_put_bool(w, "exists", walk(req, &l) > 0);
	json_put_strn(w, "normalizedTag", l.only, strlen(l.only));
	return reply_send(&reply, req, 200, err);
}

/* All of a template's tags, or what one was assigned to, in one page: a project has few. */
static int reply_page(struct http_req *req, const char *name, struct listing *l, struct err *err)
{
	char word[TEMPLATE_WORD_SIZE];
	struct reply reply;
	size_t n;
	int r = count_tags(req, word, &n, err);

	if (r < 0)
		return r;
	l->name = word;
	if (walk(req, l) == 0)
		return err_set(err, ERR_NOT_FOUND, 0, "tag '%.64s' not found", l->only);
	l->w = reply_begin(&reply);
	json_open_array(l->w, name);
	(void)walk(req, l);
	json_close_array(l->w);
	json_put_null(l->w, "nextCursor");
	return reply_send(&reply, req, 200, err);
}

int e2b_group_tags(struct http_req *req, struct err *err)
{
	struct listing l = {.put = put_group};

	return reply_page(req, "tags", &l, err);
}

int e2b_list_assignments(struct http_req *req, struct err *err)
{
	struct listing l = {.put = put_assignment, .only = http_param(req, "tag")};

	return reply_page(req, "data", &l, err);
}
