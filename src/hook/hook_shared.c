// SPDX-License-Identifier: Apache-2.0
#include "hook/hook_shared.h"

#include "base/clock.h"
#include "base/log.h"
#include "hook/hook_private.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#define MOST     (2 * HOOKS_MAX_OF_PROJECT) /* two nodes may have made the last one at once */
#define TEXT_MAX 4096
#define YEAR_MAX INT64_C(100000000000000000) /* a time beyond that is none */
#define SEEK_MAX 1024                        /* entries that are looked at in a turn */

void hooks_set_node(struct hooks *hooks, uint32_t node)
{
	hooks->node = node;
}

static char *make_content(const char *url, const char *types, const char *secret,
                          uint64_t created_us)
{
	json_t *json = json_pack("{ss ss ss sI}", "url", url, "types", types, "secret", secret,
	                         "created_us", (json_int_t)created_us);
	char *text = json_dumps(json, JSON_COMPACT),
	     *kept = unconst(json_string_value(json_object_get(json, "secret")));

	OPENSSL_cleanse(kept, strlen(kept));
	json_decref(json);
	return text;
}

int hooks_draft(const struct hooks *hooks, const char *project_id, const struct hook_wish *wish,
                char id[ID_SIZE], char secret[HOOK_SECRET_SIZE], char **ret, struct err *err)
{
	int r = hook_check_wish(hooks, project_id, wish->url, wish, err);

	if (r == 0)
		r = hook_check_room(hooks, project_id, HOOKS_MAX_OF_PROJECT, err);
	if (r < 0)
		return r;
	id_make(id, "wh");
	if (wish->secret)
		(void)snprintf(secret, HOOK_SECRET_SIZE, "%s", wish->secret);
	else
		hook_secret_make(secret);
	*ret = make_content(wish->url, wish->types ? wish->types : "", secret, clock_wall_us());
	return *ret ? 0 : err_field(err, "url", "cannot be used");
}

/* What it signs with, in plain text or as a reference, for sealed_text_wipe(). */
static int read_secret(const struct hook *h, char **ret, struct err *err)
{
	const struct hook_secret secret = hook_secret_of(h);

	if (!hook_secret_names(h->secret, NULL))
		return hook_secret_open(&secret, ret, err);
	*ret = xstrdup(h->secret);
	return 0;
}

int hooks_draft_change(struct hooks *hooks, const char *project_id, const char *id,
                       const struct hook_wish *wish, char **ret, struct err *err)
{
	const struct hook *h = hooks_find(hooks, project_id, id);
	auto_call(sealed_text_wipe) char *secret = NULL;
	struct hook_wish next = *wish;
	int r;

	if (!h)
		return err_set(err, ERR_NOT_FOUND, 0, "no webhook '%.64s'", id);
	if (!next.secret && next.url && hook_secret_names(h->secret, NULL))
		next.secret = h->secret; /* it may not be for the new URL */
	r = hook_check_wish(hooks, project_id, next.url ? next.url : h->url_text, &next, err);
	if (r == 0 && !wish->secret)
		r = read_secret(h, &secret, err);
	if (r < 0)
		return r;
	*ret = make_content(wish->url ? wish->url : h->url_text,
	                    wish->types ? wish->types : h->types_text,
	                    wish->secret ? wish->secret : secret, h->created_us);
	return *ret ? 0 : err_field(err, "url", "cannot be used");
}

/* From the newest entry back, to the last one before the hook was made: one that comes from another
 * node was made a moment ago, most often. */
static int look_back(const struct event_line *line, void *arg)
{
	struct hook *h = arg;

	if (line->at_us >= h->created_us)
		return 0;
	h->cursor = h->after = line->cursor;
	h->is_seeking = false;
	return 1;
}

bool hook_seek(struct hook *h)
{
	const struct event_filter filter = {.project_id = h->project_id};
	struct event_walk walk = {
		.filter = &filter, .is_back = true, .before = h->before ? h->before : EVENT_NEWEST};
	struct err err;
	int r = h->hooks->node ? event_log_walk(h->hooks->config.events, &walk, SEEK_MAX, look_back,
	                                        h, &err)
	                       : 0; /* alone it begins with the first */

	if (r < 0) {
		log_error("hook.events_unreadable", "id=%s error='%s'", h->id, err.message);
		return false;
	}
	h->before = walk.before;
	if (r > 0 && h->is_seeking) {
		loop_timer_set_in(h->timer, 0);
		return false;
	}
	h->is_seeking = false; /* all of the log is younger */
	if (h->cursor > 0 && store_hooks_move(h->hooks->rows, h->id, h->cursor, &err) < 0)
		log_error("hook.not_saved", "id=%s error='%s'", h->id, err.message);
	return true;
}

static struct hook *find(const struct hooks *hooks, const char *id)
{
	list_for_each (&hooks->all, struct hook, h, link)
		if (strcmp(h->id, id) == 0)
			return h;
	return NULL;
}

static int refuse(struct err *err)
{
	return err_set(err, ERR_BAD_REQUEST, 0, "a webhook of the cluster has another shape");
}

struct content { /* strings are borrowed */
	const char *url, *types, *secret;
	uint64_t created_us;
};

static bool is_plain(const char *text)
{
	for (const char *p = text; *p; p++)
		if (*p <= ' ' || *p >= 0x7f)
			return false;
	return strlen(text) <= TEXT_MAX;
}

static int read_content(const json_t *json, struct content *ret, struct err *err)
{
	const json_int_t created = json_integer_value(json_object_get(json, "created_us"));
	uint64_t set;

	ret->url = json_string_value(json_object_get(json, "url"));
	ret->types = json_string_value(json_object_get(json, "types"));
	ret->secret = json_string_value(json_object_get(json, "secret"));
	if (!ret->url || !ret->types || !ret->secret || created <= 0 || created > YEAR_MAX ||
	    !is_plain(ret->url) || strlen(ret->types) > TEXT_MAX ||
	    (!hook_secret_names(ret->secret, NULL) && !hook_secret_is_valid(ret->secret)) ||
	    strlen(ret->secret) >= HOOK_SECRET_SIZE)
		return refuse(err);
	ret->created_us = (uint64_t)created;
	return ret->types[0] ? event_types_parse(ret->types, "types", &set, err) : 0;
}

/* As this node's rows have it, for free(). */
static char *keep_secret(const struct hooks *hooks, const struct hook_arrival *a,
                         const char *secret)
{
	const struct hook_secret s = {hooks->config.secrets, a->project_id, a->id, secret};

	return hook_secret_names(secret, NULL) || !hooks->config.secrets ? xstrdup(secret)
	                                                                 : hook_secret_seal(&s);
}

static int change_one(struct hook *h, const struct content *c, const char *secret, struct err *err)
{
	struct hook_row row = hook_row_of(h);
	int r;

	row.url = c->url;
	row.types = c->types;
	row.secret = secret;
	row.cursor = h->seq ? h->seq - 1 : h->after;
	r = store_hooks_change(h->hooks->rows, &row, err);
	if (r < 0)
		return r;
	hook_replace_text(&h->url_text, c->url);
	hook_replace_text(&h->types_text, c->types);
	hook_replace_text(&h->secret, secret);
	hook_begin_again(h, row.cursor);
	return hook_read_texts(h) < 0 ? refuse(err) : 0;
}

static int add_one(struct hooks *hooks, const struct hook_arrival *a, const struct content *c,
                   const char *secret, struct err *err)
{
	const struct hook_row row = {.id = a->id,
	                             .project_id = a->project_id,
	                             .url = c->url,
	                             .types = c->types,
	                             .secret = secret,
	                             .created_us = c->created_us};
	struct hook *h;
	int r = hook_check_room(hooks, a->project_id, MOST, err);

	if (r == 0)
		r = store_hooks_add(hooks->rows, &row, err);
	if (r == 0 && hook_make(hooks, &row, &h) < 0)
		r = refuse(err);
	return r;
}

static int put_content(struct hooks *hooks, const struct hook_arrival *a, const struct content *c,
                       struct err *err)
{
	struct hook *h = find(hooks, a->id);
	auto_free char *secret = keep_secret(hooks, a, c->secret);

	if (!secret)
		return err_set(err, ERR_INTERNAL, 0, "its secret cannot be sealed");
	return h ? change_one(h, c, secret, err) : add_one(hooks, a, c, secret, err);
}

int hooks_take(struct hooks *hooks, const struct hook_arrival *a, struct err *err)
{
	struct hook *h = find(hooks, a->id);
	auto_json json_t *json = NULL;
	struct content c = {0};
	char *secret;
	int r;

	if (!id_is_valid(a->id, "wh") || (h && strcmp(h->project_id, a->project_id) != 0))
		return refuse(err);
	if (!a->content)
		return h ? hooks_remove(hooks, a->project_id, a->id, err) : 0;
	r = json_parse(a->content, strlen(a->content), &json, err);
	if (r == 0)
		r = read_content(json, &c, err);
	if (r == 0)
		r = put_content(hooks, a, &c, err);
	secret = unconst(json_string_value(json_object_get(json, "secret")));
	if (secret)
		OPENSSL_cleanse(secret, strlen(secret));
	return r;
}

char *hooks_describe(struct hooks *hooks, const char *project_id, const char *id)
{
	const struct hook *h = hooks_find(hooks, project_id, id);
	auto_call(sealed_text_wipe) char *secret = NULL;

	if (!h || read_secret(h, &secret, NULL) < 0)
		return NULL;
	return make_content(h->url_text, h->types_text, secret, h->created_us);
}

/* A row does not know its state's number: the first is that of its creation. */
void hooks_each_of_all(const struct hooks *hooks,
                       void (*fn)(const struct hook_arrival *one, void *arg), void *arg)
{
	list_for_each (&hooks->all, const struct hook, h, link)
		fn(&(struct hook_arrival){.id = h->id,
		                          .project_id = h->project_id,
		                          .changed_us = h->created_us},
		   arg);
}
