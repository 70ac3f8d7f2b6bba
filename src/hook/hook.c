// SPDX-License-Identifier: Apache-2.0
/*
 * A hook holds only the entry that it sends now; all others stay in the log. So a receiver that is
 * down costs a row and a timer, however much happens meanwhile. If the log has removed entries that
 * were never sent, the hook continues with the oldest one left.
 */
#include "hook/hook_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "hook/sign.h"
#include "net/match/range.h"
#include "net/match/url.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define URL_BYTES_MAX 2048
#define REQUEST_MAX   (64 * 1024)

static const struct hook_timing usual_timing = {
	.first_us = SECOND_US,
	.most_us = 600 * SECOND_US,
	.give_up_us = 86400 * SECOND_US,
};

static void look(struct loop *loop, void *arg);

static void done_with_entry(struct hook *h)
{
	struct err err;

	h->cursor = h->seq;
	h->seq = 0;
	h->failures = 0;
	buf_truncate(&h->entry, 0);
	if (store_hooks_move(h->hooks->rows, h->id, h->cursor, &err) < 0)
		log_error("hook.not_saved", "id=%s error='%s'", h->id, err.message);
	loop_timer_set_in(h->timer, 0);
}

static void attempt_failed(struct hook *h, const char *why)
{
	const struct hook_timing *timing = &h->hooks->timing;
	uint64_t now_us = loop_now_us(h->hooks->config.outgoing.loop);
	uint64_t pause_us = timing->first_us << MIN(h->failures, 20U);

	h->failures++;
	h->hooks->failed++;
	(void)snprintf(h->last_error, sizeof(h->last_error), "%s", why);
	log_debug("hook.failed", "id=%s seq=%" PRIu64 " failures=%u why='%s'", h->id, h->seq,
	          h->failures, why);
	if (now_us - h->begun_us < timing->give_up_us) {
		loop_timer_set_in(h->timer, MIN(pause_us, timing->most_us));
		return;
	}
	log_warn("hook.dropped", "id=%s seq=%" PRIu64 " why='%s'", h->id, h->seq, why);
	h->dropped++;
	h->hooks->dropped++;
	done_with_entry(h);
}

static void on_answer(const struct outgoing_reply *reply, void *arg)
{
	struct hook *h = arg;
	char text[64];

	outgoing_call_free(take_ptr(h->call));
	if (reply->status >= 200 && reply->status < 300) {
		h->last_error[0] = '\0';
		h->delivered++;
		h->hooks->delivered++;
		done_with_entry(h);
		return;
	}
	(void)snprintf(text, sizeof(text), "it answered with status %d", reply->status);
	attempt_failed(h, reply->status ? text : reply->why);
}

struct hook_secret hook_secret_of(const struct hook *h)
{
	return (struct hook_secret){h->hooks->config.secrets, h->project_id, h->id, h->secret};
}

static bool can_sign(const struct hook *h, struct err *err)
{
	const struct hook_secret secret = hook_secret_of(h);
	auto_call(sealed_text_wipe) char *value = NULL;

	return hook_secret_open(&secret, &value, err) == 0;
}

/* Posts the entry with its signature (standardwebhooks.com). */
static int send_entry(struct hook *h)
{
	const struct hook_secret secret = hook_secret_of(h);
	auto_call(sealed_text_wipe) char *value = NULL;
	uint64_t seconds = clock_wall_us() / 1000000;
	char id[ID_SIZE + 36], time[24], signature[HOOK_SIGN_SIZE];
	const struct http_field fields[] = {
		{"Content-Type", "application/json"},
		{"webhook-id", id},
		{"webhook-timestamp", time},
		{"webhook-signature", signature},
	};
	const struct outgoing_request request = {.method = "POST",
	                                         .url = h->url_text,
	                                         .fields = fields,
	                                         .n_fields = ARRAY_SIZE(fields),
	                                         .body = h->entry.data,
	                                         .len = h->entry.len};
	int r = hook_secret_open(&secret, &value, NULL);

	if (h->hooks->node) /* each numbers its own entries */
		(void)snprintf(id, sizeof(id), "%s.%" PRIu32 ".%" PRIu64, h->id, h->hooks->node,
		               h->seq);
	else
		(void)snprintf(id, sizeof(id), "%s.%" PRIu64, h->id, h->seq);
	(void)snprintf(time, sizeof(time), "%" PRIu64, seconds);
	if (r == 0)
		r = hook_sign(value, id, seconds, h->entry.data, h->entry.len, signature);
	if (r == 0)
		h->call = outgoing_call_new(&h->hooks->config.outgoing, &request, on_answer, h);
	return r;
}

static void attempt(struct hook *h)
{
	struct err err;

	if (!can_sign(h, &err)) { /* it waits for its secret */
		(void)snprintf(h->last_error, sizeof(h->last_error), "%s (%s)", err.message,
		               err.hint);
		log_error("hook.locked", "id=%s error='%s' hint='%s'", h->id, err.message,
		          err.hint);
		return;
	}
	if (h->failures == 0)
		h->begun_us = loop_now_us(h->hooks->config.outgoing.loop);
	if (send_entry(h) < 0)
		attempt_failed(h, "the request could not be made");
}

static int take_line(const struct event_line *line, void *arg)
{
	struct hook *h = arg;

	buf_truncate(&h->entry, 0);
	if (buf_append(&h->entry, line->json, line->len) < 0)
		return 0; /* we write no entry this long: somebody has altered it */
	h->seq = line->cursor;
	return 1;
}

static void look(struct loop *loop, void *arg)
{
	struct hook *h = arg;
	const struct event_filter filter = {.project_id = h->project_id, .types = h->types};
	struct err err;
	int r = 0;

	(void)loop;
	if (h->call || (h->is_seeking && !hook_seek(h)))
		return;
	if (h->seq == 0)
		r = event_log_read(h->hooks->config.events, &filter, &h->after, take_line, h, &err);
	if (r < 0)
		log_error("hook.events_unreadable", "id=%s error='%s'", h->id, err.message);
	else if (h->seq != 0)
		attempt(h);
	else if (r > 0)
		loop_timer_set_in(h->timer, 0);
}

static void on_more(void *arg)
{
	struct hooks *hooks = arg;

	list_for_each (&hooks->all, struct hook, h, link)
		if (h->seq == 0 && !loop_timer_is_set(h->timer))
			loop_timer_set_in(h->timer, 0);
}

void hook_free(struct hook *h)
{
	list_remove(&h->link);
	h->hooks->n_all--;
	outgoing_call_free(h->call);
	loop_timer_free(h->timer);
	buf_done(&h->entry);
	free(h->url_text);
	free(h->types_text);
	free(h->secret);
	free(h);
}

int hook_read_texts(struct hook *h)
{
	const char *why;
	struct url url;

	h->types = 0;
	if (url_parse(h->url_text, strlen(h->url_text), &url, &why) < 0)
		return -EINVAL;
	return h->types_text[0] ? event_types_parse(h->types_text, "types", &h->types, NULL) : 0;
}

/* In memory only. */
int hook_make(struct hooks *hooks, const struct hook_row *row, struct hook **ret)
{
	struct hook *h = xnew0(struct hook);

	h->hooks = hooks;
	(void)snprintf(h->id, sizeof(h->id), "%s", row->id);
	(void)snprintf(h->project_id, sizeof(h->project_id), "%s", row->project_id);
	h->url_text = xstrdup(row->url);
	h->types_text = xstrdup(row->types);
	h->secret = xstrdup(row->secret);
	h->created_us = row->created_us;
	h->cursor = h->after = row->cursor;
	h->is_seeking = row->cursor == 0 && row->created_us > 0;
	buf_init(&h->entry, REQUEST_MAX / 2);
	h->timer = loop_timer_new(hooks->config.outgoing.loop, look, h);
	list_append(&hooks->all, &h->link);
	hooks->n_all++;
	if (hook_read_texts(h) < 0) {
		hook_free(h);
		return -EINVAL;
	}
	loop_timer_set_in(h->timer, 0);
	*ret = h;
	return 0;
}

static int load_hook(const struct hook_row *row, void *arg)
{
	struct hook *h;

	if (hook_make(arg, row, &h) < 0)
		log_error("hook.unreadable", "id='%s'", row->id);
	return 0;
}

/* Of its row, what may change. */
struct hook_row hook_row_of(const struct hook *h)
{
	return (struct hook_row){.id = h->id,
	                         .url = h->url_text,
	                         .types = h->types_text,
	                         .secret = h->secret,
	                         .cursor = h->cursor};
}

/* Secrets of older rows are sealed, and those under an older key sealed anew. */
static void seal_all(struct hooks *hooks)
{
	list_for_each (&hooks->all, struct hook, h, link) {
		const struct hook_secret secret = hook_secret_of(h);
		char *sealed = hook_secret_seal(&secret);
		struct hook_row row;
		struct err err;

		if (!sealed)
			continue;
		if (!sealed_text_is(h->secret))
			store_wants_erasing(hooks->config.store);
		sealed_text_wipe(&h->secret);
		h->secret = sealed;
		row = hook_row_of(h);
		if (store_hooks_change(hooks->rows, &row, &err) < 0)
			log_error("hook.not_saved", "id=%s error='%s'", h->id, err.message);
	}
}

int hooks_open(const struct hooks_config *config, struct hooks **ret, struct err *err)
{
	struct hooks *hooks = xnew0(struct hooks);
	int r;

	hooks->config = *config;
	hooks->timing = config->timing ? *config->timing : usual_timing;
	list_init(&hooks->all);
	hooks->watch = (struct event_watch){.fn = on_more, .arg = hooks};
	event_watch_add(config->events, &hooks->watch);
	r = store_hooks_open(config->store, &hooks->rows, err);
	if (r == 0)
		r = store_hooks_each(hooks->rows, load_hook, hooks, err);
	if (r < 0) {
		hooks_close(hooks);
		return r;
	}
	seal_all(hooks);
	*ret = hooks;
	return 0;
}

void hooks_close(struct hooks *hooks)
{
	if (!hooks)
		return;
	list_for_each (&hooks->all, struct hook, h, link)
		hook_free(h);
	event_watch_remove(&hooks->watch);
	store_hooks_close(hooks->rows);
	free(hooks);
}

static int check_url(const struct hooks *hooks, const char *text, struct err *err)
{
	const struct range_site site = {.may_open = hooks->config.allowed,
	                                .n_may_open = hooks->config.n_allowed};
	const char *why = "";
	struct url url;

	if (strlen(text) > URL_BYTES_MAX)
		return err_field(err, "url", "is longer than %d bytes", URL_BYTES_MAX);
	for (const char *p = text; *p; p++)
		if (*p <= ' ' || *p >= 0x7f)
			return err_field(err, "url", "must be printable ASCII without blanks");
	if (url_parse(text, strlen(text), &url, &why) < 0)
		return err_field(err, "url", "%s", why);
	if (url.scheme != URL_HTTP && url.scheme != URL_HTTPS)
		return err_field(err, "url", "must be http or https");
	if (!url.host.is_name && !range_is_open(&site, &url.host.address, hooks->config.allowed,
	                                        hooks->config.n_allowed)) {
		(void)err_field(err, "url", "is not a public address");
		return err_hint(err, "the operator can allow it with --webhooks-allow");
	}
	return 0;
}

int hook_check_room(const struct hooks *hooks, const char *project_id, size_t most, struct err *err)
{
	size_t n = 0;

	list_for_each (&hooks->all, const struct hook, h, link)
		n += strcmp(h->project_id, project_id) == 0;
	if (n >= most || (n >= HOOKS_SHARE && hooks->n_all >= HOOKS_MAX))
		return err_set(err, ERR_LIMIT, 0, "there are %zu webhooks, which is the limit", n);
	return 0;
}

/* For the row, for free(): the reference, or a new one of its own, which is sealed. */
static char *make_secret(const struct hooks *hooks, const char *project_id, const char *id,
                         const char *wanted, char ret[HOOK_SECRET_SIZE])
{
	const struct hook_secret secret = {hooks->config.secrets, project_id, id, ret};

	if (wanted) {
		(void)snprintf(ret, HOOK_SECRET_SIZE, "%s", wanted);
		return xstrdup(wanted);
	}
	hook_secret_make(ret);
	return hooks->config.secrets ? hook_secret_seal(&secret) : xstrdup(ret);
}

int hook_check_wish(const struct hooks *hooks, const char *project_id, const char *url,
                    const struct hook_wish *wish, struct err *err)
{
	const struct hook_secret secret = {hooks->config.secrets, project_id, "", wish->secret};
	uint64_t set;
	int r = wish->url ? check_url(hooks, wish->url, err) : 0;

	if (r == 0 && wish->types && wish->types[0])
		r = event_types_parse(wish->types, "types", &set, err);
	return r == 0 && wish->secret ? hook_secret_check(&secret, url, err) : r;
}

int hooks_add(struct hooks *hooks, const char *project_id, const struct hook_wish *wish,
              char secret[HOOK_SECRET_SIZE], const struct hook **ret, struct err *err)
{
	struct hook_row row = {.project_id = project_id,
	                       .url = wish->url,
	                       .types = wish->types ? wish->types : ""};
	auto_free char *kept = NULL;
	struct event_chain_status chain;
	char id[ID_SIZE];
	struct hook *h;
	int r = hook_check_wish(hooks, project_id, wish->url, wish, err);

	if (r == 0)
		r = hook_check_room(hooks, project_id, HOOKS_MAX_OF_PROJECT, err);
	if (r < 0)
		return r;
	id_make(id, "wh");
	kept = make_secret(hooks, project_id, id, wish->secret, secret);
	if (!kept)
		return err_set(err, ERR_INTERNAL, 0, "its secret cannot be sealed");
	event_log_chain(hooks->config.events, project_id, /* is_audit= */ false, &chain);
	row.id = id;
	row.secret = kept;
	row.created_us = clock_wall_us();
	row.cursor = chain.head_seq;
	r = store_hooks_add(hooks->rows, &row, err);
	if (r == 0 && hook_make(hooks, &row, &h) < 0)
		r = err_field(err, "url", "cannot be used");
	if (r < 0)
		return r;
	*ret = h;
	return 0;
}

const struct hook *hooks_find(struct hooks *hooks, const char *project_id, const char *id)
{
	list_for_each (&hooks->all, struct hook, h, link)
		if (strcmp(h->id, id) == 0 && strcmp(h->project_id, project_id) == 0)
			return h;
	return NULL;
}

void hook_replace_text(char **at, const char *with)
{
	char *copy = xstrdup(with);

	free(*at);
	*at = copy;
}

void hook_begin_again(struct hook *h, uint64_t cursor)
{
	outgoing_call_free(take_ptr(h->call));
	h->cursor = h->after = cursor;
	h->seq = 0;
	h->failures = 0;
	h->last_error[0] = '\0';
	loop_timer_set_in(h->timer, 0);
}

int hooks_change(struct hooks *hooks, const char *project_id, const char *id,
                 const struct hook_wish *wish, const struct hook **ret, struct err *err)
{
	struct hook *h = unconst(hooks_find(hooks, project_id, id));
	struct hook_wish next;
	struct hook_row row;
	int r;

	if (!h)
		return err_set(err, ERR_NOT_FOUND, 0, "no webhook '%.64s'", id);
	next = *wish;
	if (!next.secret && next.url && hook_secret_names(h->secret, NULL))
		next.secret = h->secret; /* it may not be for the new URL */
	r = hook_check_wish(hooks, project_id, next.url ? next.url : h->url_text, &next, err);
	if (r < 0)
		return r;
	row = hook_row_of(h);
	row.url = wish->url ? wish->url : row.url;
	row.types = wish->types ? wish->types : row.types;
	row.secret = wish->secret ? wish->secret : row.secret;
	row.cursor = h->seq ? h->seq - 1 : h->after;
	r = store_hooks_change(hooks->rows, &row, err);
	if (r < 0)
		return r;
	if (wish->url)
		hook_replace_text(&h->url_text, wish->url);
	if (wish->types)
		hook_replace_text(&h->types_text, wish->types);
	if (wish->secret)
		hook_replace_text(&h->secret, wish->secret);
	hook_begin_again(h, row.cursor);
	*ret = h;
	return hook_read_texts(h) < 0 ? err_field(err, "url", "cannot be used") : 0;
}

int hooks_remove(struct hooks *hooks, const char *project_id, const char *id, struct err *err)
{
	const struct hook *h = hooks_find(hooks, project_id, id);
	int r;

	if (!h)
		return err_set(err, ERR_NOT_FOUND, 0, "no webhook '%.64s'", id);
	r = store_hooks_remove(hooks->rows, h->id, err);
	if (r == 0)
		hook_free(unconst(h));
	return r;
}

void hooks_on_secret(struct hooks *hooks, const char *project_id, const char *name)
{
	list_for_each (&hooks->all, struct hook, h, link)
		if (strcmp(h->project_id, project_id) == 0 && hook_secret_names(h->secret, name))
			loop_timer_set_in(h->timer, 0);
}

size_t hooks_count_locked(const struct hooks *hooks)
{
	size_t n = 0;

	list_for_each (&hooks->all, const struct hook, h, link)
		n += !hook_secret_names(h->secret, NULL) && !can_sign(h, NULL);
	return n;
}

size_t hooks_count_users(const struct hooks *hooks, const char *project_id, const char *name)
{
	size_t n = 0;

	list_for_each (&hooks->all, const struct hook, h, link)
		n += strcmp(h->project_id, project_id) == 0 && hook_secret_names(h->secret, name);
	return n;
}

void hooks_forget(struct hooks *hooks, const char *project_id)
{
	list_for_each (&hooks->all, struct hook, h, link)
		if (strcmp(h->project_id, project_id) == 0)
			hook_free(h);
}

void hooks_each(struct hooks *hooks, const char *project_id,
                void (*fn)(const struct hook *h, void *arg), void *arg)
{
	list_for_each (&hooks->all, struct hook, h, link)
		if (strcmp(h->project_id, project_id) == 0)
			fn(h, arg);
}

void hooks_count(const struct hooks *hooks, struct hook_counts *ret)
{
	*ret = (struct hook_counts){.hooks = hooks->n_all,
	                            .delivered = hooks->delivered,
	                            .failed = hooks->failed,
	                            .dropped = hooks->dropped};
	list_for_each (&hooks->all, const struct hook, h, link)
		ret->failing += h->failures > 0;
}

void hook_to_json(const struct hook *h, struct json_writer *w, const char *name)
{
	json_open_object(w, name);
	json_put_str(w, "id", h->id);
	json_put_str(w, "url", h->url_text);
	json_put_str(w, "types", h->types_text[0] ? h->types_text : NULL);
	json_put_str(w, "secret", hook_secret_names(h->secret, NULL) ? h->secret : NULL);
	json_put_bool(w, "locked", !can_sign(h, NULL));
	json_put_u64(w, "created_us", h->created_us);
	json_put_u64(w, "last_seq", h->cursor);
	json_put_u64(w, "delivered", h->delivered);
	json_put_u64(w, "dropped", h->dropped);
	json_put_u64(w, "failures", h->failures);
	json_put_str(w, "last_error", h->last_error[0] ? h->last_error : NULL);
	json_close_object(w);
}
