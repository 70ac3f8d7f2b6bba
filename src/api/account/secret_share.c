// SPDX-License-Identifier: Apache-2.0
/*
 * Secrets that are set and removed. In a cluster all nodes are to have the new state before the
 * caller hears of it: it goes to the database, sealed, and comes into this node's tables with the
 * answer. If another node has changed the same secret meanwhile, the call is made again.
 */
#include "api/account/secrets.h"

#include "api/api.h"
#include "api/frame/access.h"
#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/nodes/node_fresh.h"
#include "net/policy/secret_reference.h"
#include "node/sealed_records.h"
#include "sandbox/network/network.h"

#include <stdio.h>
#include <string.h>

struct secret_wait {
	struct late_reply late;
	const struct api *api;
	char project_id[ID_SIZE], name[SECRET_NAME_SIZE];
	uint64_t version; /* that it had */
	bool is_gone;
	secret_done_fn done;
};

static void note(const struct secret_wait *w)
{
	if (w->is_gone)
		secrets_note_removed(w->api->secrets, w->project_id, w->name, w->version);
	else
		secrets_note_set(w->api->secrets, w->project_id, w->name);
}

static void on_shared(const struct err *failure, void *arg)
{
	const struct secret_wait w = *(struct secret_wait *)arg;
	struct http_req *req = late_reply_take(arg, NULL);
	struct err err = {0};
	int r = 0;

	if (req && node_fresh_retry(req, failure))
		return;
	if (req)
		access_enter_again(req);
	if (failure)
		err = *failure;
	else
		note(&w);
	if (req && !failure)
		r = w.done(req, w.name, w.version == 0, &err);
	if (req && (failure || r < 0))
		http_reply_err(req, &err);
	if (req)
		access_leave(req);
}

/* content NULL: it is removed. */
static int share(struct http_req *req, const struct secret_wait *wait, const char *content,
                 struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct secret_wait *w = late_reply_new(req, sizeof(*w));
	const struct late_reply late = w->late;
	char id[ID_SIZE];
	int r;

	*w = *wait;
	w->late = late;
	w->api = api;
	w->is_gone = !content;
	(void)snprintf(w->project_id, sizeof(w->project_id), "%s", caller_project(req));
	secret_record_id(w->project_id, w->name, id);
	r = node_put_sealed(api->node,
	                    &(struct node_sealed){.kind = "secret",
	                                          .id = id,
	                                          .project_id = w->project_id,
	                                          .version = w->version,
	                                          .content = content},
	                    on_shared, w, err);
	return r < 0 ? late_reply_drop(w, r) : 0;
}

int secret_put(struct http_req *req, const struct secret_wish *wish, secret_done_fn done,
               struct err *err)
{
	const struct api *api = http_app_arg(req);
	auto_call(sealed_text_wipe) char *content = NULL;
	struct secret_wait wait = {.done = done};
	const struct secret *s;
	bool is_new;
	int r;

	if (!node_is_in(api->node)) {
		r = secrets_set(api->secrets, caller_project(req), wish->name, wish->value,
		                wish->len, wish->hosts, &s, &is_new, err);
		return r < 0 ? r : done(req, wish->name, is_new, err);
	}
	r = node_fresh_look(req, err); /* its number and hosts may be of another node */
	if (r != 0)
		return MIN(r, 0);
	r = secrets_draft(api->secrets, caller_project(req), wish, &content, &wait.version, err);
	if (r < 0)
		return r;
	(void)snprintf(wait.name, sizeof(wait.name), "%s", wish->name);
	return share(req, &wait, content, err);
}

int secret_drop(struct http_req *req, const char *name, secret_done_fn done, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct secret_wait wait = {.done = done};
	struct secret_facts facts;
	const struct secret *s;
	int r;

	if (!node_is_in(api->node)) {
		r = secrets_remove(api->secrets, caller_project(req), name, err);
		return r < 0 ? r : done(req, name, false, err);
	}
	r = secret_find_fresh(req, name, &s, err);
	if (r != 0)
		return MIN(r, 0);
	secret_look(s, &facts);
	wait.version = facts.version;
	(void)snprintf(wait.name, sizeof(wait.name), "%s", name);
	return share(req, &wait, NULL, err);
}

static int check_unused_here(const struct http_req *req, const char *name, struct err *err)
{
	const struct api *api = http_app_arg(req);
	size_t n = hooks_count_users(api->hooks, caller_project(req), name);

	if (n > 0) {
		(void)err_set(err, ERR_CONFLICT, 0, "%zu webhook%s with secret '%.64s'", n,
		              n == 1 ? " signs" : "s sign", name);
		return err_hint(err, "remove them or give them another secret first; or remove it "
		                     "with force: they wait then");
	}
	n = network_count_users(api->fleet, caller_project(req), name);
	if (n == 0)
		return 0;
	(void)err_set(err, ERR_CONFLICT, 0, "the policies of %zu sandbox%s refer to secret '%.64s'",
	              n, n == 1 ? "" : "es", name);
	return err_hint(err, "end them or change their policies first; or remove it with force: "
	                     "what those rules allow is denied then");
}

struct removal_wait {
	struct late_reply late;
	char name[SECRET_NAME_SIZE];
	secret_done_fn done;
};

static void on_users(const struct err *failure, void *arg)
{
	const struct removal_wait w = *(struct removal_wait *)arg;
	struct http_req *req = late_reply_take(arg, failure);
	struct err err = {0};

	if (!req)
		return;
	access_enter_again(req);
	if (secret_drop(req, w.name, w.done, &err) < 0)
		http_reply_err(req, &err);
	access_leave(req);
}

int secret_drop_unused(struct http_req *req, const char *name, secret_done_fn done, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const struct secret *s;
	struct removal_wait *w;
	int r = check_unused_here(req, name, err);

	if (r < 0 || !node_is_in(api->node))
		return r < 0 ? r : secret_drop(req, name, done, err);
	r = secret_find_fresh(req, name, &s, err);
	if (r != 0)
		return MIN(r, 0);
	w = late_reply_new(req, sizeof(*w));
	(void)snprintf(w->name, sizeof(w->name), "%s", name);
	w->done = done;
	r = api->ask_secret_users(req, name, on_users, w, err);
	if (r > 0)
		return 0;
	(void)late_reply_drop(w, 0);
	return r < 0 ? r : secret_drop(req, name, done, err);
}

int secret_find_fresh(struct http_req *req, const char *name, const struct secret **ret,
                      struct err *err)
{
	const struct api *api = http_app_arg(req);
	int r;

	*ret = secrets_find(api->secrets, caller_project(req), name);
	if (*ret)
		return 0;
	r = node_fresh_look(req, err);
	if (r != 0)
		return r;
	(void)err_set(err, ERR_NOT_FOUND, 0, "no secret '%.64s'", name);
	return err_hint(err, "`cloche secret ls` lists those of your project");
}
