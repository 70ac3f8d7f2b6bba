// SPDX-License-Identifier: Apache-2.0
/*
 * A session is an id that cannot be guessed and, once a tool needed it, a sandbox. Nothing about it
 * is stored: its sandboxes have a hash of id and key as a tag, and an unknown session id is looked
 * up among these tags. So a session survives a killed gateway; a session without a sandbox has
 * nothing to lose.
 *
 * It ends when the client says so, when it was not used for MCP_IDLE_MS, or, if the client holds a
 * stream open for it, with that stream; then its sandboxes are deleted. If the gateway died and
 * nobody uses the session again, its sandboxes end by their own idle timeout.
 */
#include "mcp/mcp_private.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/log.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

static void make_tag(struct session *s)
{
	char text[2 * ID_SIZE + 2];
	struct digest d;

	(void)snprintf(text, sizeof(text), "%s %s", s->id, s->key_id);
	if (EVP_Digest(text, strlen(text), d.bytes, NULL, EVP_sha256(), NULL) != 1)
		abort(); /* only without memory */
	digest_to_hex(&d, s->tag);
}

static struct session *add(struct mcp *m, const struct key *key, const char *id)
{
	struct session *s = xnew0(struct session);

	s->mcp = m;
	(void)snprintf(s->id, sizeof(s->id), "%s", id);
	(void)snprintf(s->key_id, sizeof(s->key_id), "%s", key_id(key));
	(void)snprintf(s->project_id, sizeof(s->project_id), "%s", key_project_id(key));
	make_tag(s);
	list_append(&m->sessions, &s->link);
	m->n_sessions++;
	session_touch(s);
	return s;
}

static bool is_at_work(const struct session *s)
{
	if (s->is_making)
		return true;
	list_for_each (&s->mcp->calls, struct mcp_call, c, link)
		if (c->session == s)
			return true;
	return false;
}

static void forget(struct session *s)
{
	list_remove(&s->link);
	s->mcp->n_sessions--;
	free(s);
}

/* Clients leave without notice. A session without a sandbox is removed for a new one. */
static int make_room(struct mcp *m, const struct key *key, struct err *err)
{
	struct session *spare = NULL;
	size_t n = 0, n_project = 0;

	list_for_each (&m->sessions, struct session, s, link) {
		bool is_own = strcmp(s->key_id, key_id(key)) == 0;

		n += is_own;
		n_project += strcmp(s->project_id, key_project_id(key)) == 0;
		if (is_own && !spare && !s->sandbox_id[0] && !s->hold && !is_at_work(s))
			spare = s;
	}
	if (n < MCP_KEY_SESSIONS &&
	    (m->n_sessions < MCP_SESSIONS_MAX || n_project < MCP_SESSIONS_SHARE))
		return 0;
	if (spare) {
		forget(spare);
		return 0;
	}
	(void)err_set(err, ERR_LIMIT, 0, "this key has %zu MCP sessions with sandboxes", n);
	return err_hint(err, "end some with DELETE /mcp, or use another key");
}

struct session *session_new(struct mcp *m, const struct key *key, struct err *err)
{
	char id[ID_SIZE];

	if (make_room(m, key, err) < 0)
		return NULL;
	id_make_tagged(id, "mcp");
	return add(m, key, id);
}

static void take_main(struct sandbox *sandbox, void *arg)
{
	struct session *s = arg;

	if (sandbox_state(sandbox) != SANDBOX_STOPPING && !s->sandbox_id[0])
		(void)snprintf(s->sandbox_id, sizeof(s->sandbox_id), "%s", sandbox_id(sandbox));
}

/* Finds a session of an earlier daemon by its sandbox. */
static struct session *take_up(struct mcp *m, const struct key *key, const char *id)
{
	struct session *s;
	struct err err;
	bool more;

	if (make_room(m, key, &err) < 0)
		return NULL;
	s = add(m, key, id);
	(void)fleet_list(m->api->fleet,
	                 &(struct sandbox_filter){.project_id = s->project_id,
	                                          .tag_name = MAIN_TAG,
	                                          .tag_value = s->tag,
	                                          .limit = 2},
	                 take_main, s, &more);
	if (s->sandbox_id[0])
		return s;
	forget(s);
	return NULL;
}

struct session *session_find(struct mcp *m, const struct key *key, const char *id)
{
	if (!id_is_valid(id, "mcp"))
		return NULL;
	list_for_each (&m->sessions, struct session, s, link)
		if (strcmp(s->id, id) == 0)
			return strcmp(s->key_id, key_id(key)) == 0 ? s : NULL;
	return take_up(m, key, id);
}

static void set_idle(struct mcp *m)
{
	const struct session *s = list_first(&m->sessions, struct session, link);

	loop_timer_set(m->idle, s ? s->used_us + MCP_IDLE_MS * 1000 : UINT64_MAX);
}

void session_touch(struct session *s)
{
	s->used_us = loop_now_us(s->mcp->api->loop);
	list_remove(&s->link);
	list_append(&s->mcp->sessions, &s->link);
	set_idle(s->mcp);
}

static void on_idle(struct loop *loop, void *arg)
{
	struct mcp *m = arg;
	uint64_t since = loop_now_us(loop) - MCP_IDLE_MS * 1000;
	struct session *s;

	while ((s = list_first(&m->sessions, struct session, link)) && s->used_us <= since) {
		if (is_at_work(s))
			session_touch(s);
		else
			session_end(s);
	}
	set_idle(m);
}

struct ids {
	char (*at)[ID_SIZE];
	size_t n;
};

static void note_id(struct sandbox *s, void *arg)
{
	struct ids *ids = arg;

	ids->at = xrealloc(ids->at, (ids->n + 1) * sizeof(*ids->at));
	(void)snprintf(ids->at[ids->n++], ID_SIZE, "%s", sandbox_id(s));
}

static void delete_sandboxes(const struct session *s)
{
	struct fleet *fleet = s->mcp->api->fleet;
	struct ids ids = {0};
	bool more;

	(void)fleet_list(fleet,
	                 &(struct sandbox_filter){.project_id = s->project_id,
	                                          .tag_name = SESSION_TAG,
	                                          .tag_value = s->tag,
	                                          .limit = SIZE_MAX},
	                 note_id, &ids, &more);
	for (size_t i = 0; i < ids.n; i++) {
		struct sandbox *box = sandbox_find(fleet, s->project_id, ids.at[i]);

		if (box && sandbox_state(box) != SANDBOX_STOPPED &&
		    sandbox_state(box) != SANDBOX_FAILED)
			sandbox_delete(box, END_DELETED, NULL, NULL);
	}
	free(ids.at);
}

void session_end(struct session *s)
{
	struct http_req *hold = take_ptr(s->hold);

	if (hold) {
		http_on_done(hold, NULL, NULL);
		http_stream_end(hold);
	}
	list_for_each (&s->mcp->calls, struct mcp_call, c, link)
		if (c->session == s)
			call_cancel(c);
	delete_sandboxes(s);
	log_debug("mcp.ended", "session=%.12s key=%s", s->tag, s->key_id);
	forget(s);
}

static void on_hold_done(void *arg)
{
	struct http_req *req = arg;
	struct mcp *m = http_state(req);

	list_for_each (&m->sessions, struct session, s, link)
		if (s->hold == req) {
			s->hold = NULL;
			if (!m->is_closing)
				session_end(s);
			return;
		}
}

void session_hold(struct session *s, struct http_req *req)
{
	if (s->hold) { /* the client came again before its old connection was seen to be dead */
		http_on_done(s->hold, NULL, NULL);
		http_stream_end(s->hold);
	}
	s->hold = req;
	http_set_state(req, s->mcp);
	http_on_done(req, on_hold_done, req);
	http_stream_start(req, 200, "text/event-stream", -1);
	if (http_stream_write(req, ":\n\n", 3) < 0)
		return; /* on_hold_done follows */
}

void sessions_init(struct mcp *m)
{
	list_init(&m->sessions);
	m->idle = loop_timer_new(m->api->loop, on_idle, m);
}

void sessions_done(struct mcp *m)
{
	list_for_each (&m->sessions, struct session, s, link)
		forget(s);
	loop_timer_free(m->idle);
}
