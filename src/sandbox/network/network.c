// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "sandbox/model/sandbox_events.h"
#include "sandbox/model/sandbox_private.h"
#include "sandbox/network/identity_fill.h"
#include "sandbox/network/network_private.h"
#include "sandbox/network/secret_fill.h"
#include "secret/secret.h"
#include "wall/client.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

const struct policy *network_wanted(const struct network *n)
{
	return n->lent ? n->lent : n->policy;
}

bool network_wants_door(const struct policy *policy)
{
	return policy->n_rules > 0 || policy->mode == POLICY_RECORD;
}

bool network_needs_door(const struct network *n)
{
	return n->sandbox->group || network_wants_door(network_wanted(n));
}

int network_write(const struct policy *policy, struct buf *out)
{
	struct json_writer w;

	json_writer_init(&w, out);
	policy_write(policy, &w, NULL, SECRETS_SHOWN);
	return json_writer_end(&w);
}

int network_check(const struct policy *policy, const char *field, struct err *err)
{
	auto_call(buf_done) struct buf out = BUF_INIT(WALL_TEXT_MAX);

	if (network_write(policy, &out) == 0)
		return 0;
	return err_field(err, field, "has more than %zu bytes", WALL_TEXT_MAX);
}

int network_read(const json_t *value, const char *field, struct policy **ret, struct err *err)
{
	auto_call(policy_freep) struct policy *p = NULL;
	int r = 0;

	if (!value) {
		*ret = policy_new();
		return 0;
	}
	r = policy_read(value, field, &p, err);
	if (r == 0)
		r = network_check(p, field, err);
	if (r < 0)
		return r;
	*ret = take_ptr(p);
	return 0;
}

struct network *network_of(struct sandbox *s)
{
	struct network *n = s->network;

	if (n)
		return n;
	n = s->network = xnew0(struct network);
	n->sandbox = s;
	n->policy = policy_new();
	list_init(&n->waiters);
	n->again = loop_timer_new(s->fleet->config.loop, door_on_timer, n);
	return n;
}

void network_set(struct sandbox *s, struct policy *policy)
{
	struct network *n = network_of(s);

	policy_free(n->policy);
	free(take_ptr(n->locked));
	n->policy = policy;
	n->version++;
	n->n_learnt = 0;
}

void network_lend(struct sandbox *s, struct policy *policy)
{
	struct network *n = network_of(s);

	policy_free(n->lent);
	n->lent = policy;
	n->denied[0] = '\0';
	n->version++;
}

const struct policy *network_policy(const struct sandbox *s)
{
	static const struct policy nothing;

	return s->network ? s->network->policy : &nothing;
}

bool network_is_open(const struct sandbox *s)
{
	return s->network && s->network->is_open;
}

bool network_is_settled(const struct sandbox *s)
{
	return !s->network || s->network->applied == s->network->version;
}

/* Without a wall (in tests of other things) only a policy that needs none can be in force. */
static bool has_nothing_to_do(const struct network *n)
{
	return !n->is_open && n->applied == 0 && !network_needs_door(n) && !door_is_busy(n);
}

void network_apply(struct sandbox *s, network_fn done, void *arg)
{
	struct network *n = network_of(s);
	struct network_waiter *w;

	if (has_nothing_to_do(n))
		n->applied = n->version;
	if (done) {
		w = xnew0(struct network_waiter);
		*w = (struct network_waiter){.fn = done, .arg = arg};
		list_append(&n->waiters, &w->link);
		loop_timer_set_in(n->again, 0); /* from the loop */
		return;
	}
	door_step(n);
}

int network_change(struct sandbox *s, struct policy *policy, network_fn done, void *arg,
                   struct err *err)
{
	struct network *n = network_of(s);
	struct policy *old = n->policy;
	char *locked = take_ptr(n->locked);
	int r = 0;

	if (!sandbox_is_alive(s) || s->state == SANDBOX_STOPPING)
		r = err_set(err, ERR_GONE, 0, "sandbox %s has ended", s->id);
	if (r == 0)
		r = secret_check_policy(s->fleet, s->project_id, policy, "policy", err);
	if (r == 0)
		r = identity_check_policy(s->fleet, policy, "policy", err);
	if (r == 0) {
		n->policy = policy; /* the row is written from it */
		r = s->fleet->lifecycle->save(s, err);
	}
	if (r < 0) {
		n->policy = old;
		n->locked = locked;
		policy_free(policy);
		return r;
	}
	policy_free(old);
	free(locked);
	emit_changed(s, "network");
	n->version++;
	n->n_learnt = 0;
	network_apply(s, done, arg);
	return 0;
}

void network_on_secret(struct fleet *fleet, const char *project_id, const char *name)
{
	list_for_each (&fleet->all, struct sandbox, s, link_all) {
		if (!s->network || strcmp(s->project_id, project_id) != 0 ||
		    !secret_is_in_policy(network_wanted(s->network), name))
			continue;
		s->network->version++;
		door_step(s->network);
	}
}

size_t network_count_users(const struct fleet *fleet, const char *project_id, const char *name)
{
	size_t n = 0;

	list_for_each (&fleet->all, const struct sandbox, s, link_all)
		n += s->network && strcmp(s->project_id, project_id) == 0 && sandbox_is_alive(s) &&
		     secret_is_in_policy(s->network->policy, name);
	return n;
}

static void on_first_door(struct sandbox *s, const struct err *err, void *arg)
{
	struct sandbox *self = arg;

	if (self->state != SANDBOX_CREATING)
		return;
	if (s)
		s->fleet->lifecycle->next(s);
	else
		self->fleet->lifecycle->fail_create(self, err);
}

void network_begin(struct sandbox *s)
{
	if (s->drops_trust) { /* whom its source trusts; one of its own takes that one's place */
		s->drops_trust = false;
		if (!trust_is_needed(s, network_wanted(network_of(s)))) {
			trust_drop(s->network);
			return;
		}
	}
	if (s->network && (s->network->is_open || network_needs_door(s->network))) {
		network_apply(s, on_first_door, s);
		return;
	}
	if (s->network)
		s->network->applied = s->network->version;
	s->fleet->lifecycle->next(s);
}

void network_ahead(struct sandbox *s, network_fn done, void *arg)
{
	auto_json json_t *nothing = json_pack("{s[{s{}ss}]}", "rules", "match", "action", "deny");
	struct policy *policy;

	if (network_read(nothing, "network", &policy, NULL) < 0)
		abort(); /* it is a constant */
	network_set(s, policy);
	network_apply(s, done, arg);
}

static void cancel_calls(struct network *n, struct wall_client *wall)
{
	wall_client_cancel(wall, n->call);
	wall_client_cancel(wall, n->last_call);
}

void network_free(struct sandbox *s)
{
	struct network *n = take_ptr(s->network);

	if (!n)
		return;
	broker_client_cancel(s->fleet->broker, n->ask);
	if (s->fleet->config.wall)
		cancel_calls(n, s->fleet->config.wall);
	trust_forget(n);
	signer_forget(n);
	list_for_each (&n->waiters, struct network_waiter, w, link)
		free(w);
	loop_timer_free(n->again);
	loop_timer_free(n->renewal);
	policy_free(n->policy);
	policy_free(n->lent);
	free(n->locked);
	free(n);
}

#define LABEL_SIZE (2 * ID_SIZE + 16)

static void label_of(const struct sandbox *s, char ret[LABEL_SIZE])
{
	(void)snprintf(ret, LABEL_SIZE, "policy %s %s", s->project_id, s->id);
}

static const struct master_keys *keys_of(const struct sandbox *s)
{
	const struct secrets *secrets = s->fleet->config.secrets;

	return secrets ? secrets_keys(secrets) : NULL;
}

/* Of a policy with credentials in it, for free(). */
static char *seal(const struct sandbox *s)
{
	auto_call(buf_done) struct buf text = BUF_INIT(WALL_TEXT_MAX);
	char label[LABEL_SIZE];
	char *sealed = NULL;

	label_of(s, label);
	if (network_write(s->network->policy, &text) == 0)
		sealed = sealed_text_make(keys_of(s), label, text.data, text.len);
	if (text.data)
		OPENSSL_cleanse(text.data, text.len);
	return sealed;
}

int network_put_row(const struct sandbox *s, struct json_writer *w, const char *name)
{
	auto_free char *sealed = NULL;

	if (!s->network)
		return 0;
	if (s->network->locked) {
		json_put_str(w, name, s->network->locked);
		return 0;
	}
	if (!keys_of(s) || !secret_is_literal_in(s->network->policy)) {
		policy_write(s->network->policy, w, name, SECRETS_SHOWN);
		return 0;
	}
	sealed = seal(s);
	if (!sealed)
		return -ENOMEM;
	json_put_str(w, name, sealed);
	return 0;
}

/* With the key lost it reaches nothing, and the row keeps what it has. */
static int lock(struct sandbox *s, const char *text)
{
	struct network *n = network_of(s);

	log_error("network.locked",
	          "id=%s message='the key that sealed its policy is not in the key file' hint='put "
	          "the file back and restart the daemon, or set the policy again'",
	          s->id);
	n->locked = xstrdup(text);
	n->version++;
	return 0;
}

static int read_sealed(struct sandbox *s, const char *text, json_t **ret, bool *ret_stale)
{
	auto_call(sealed_text_wipe) char *opened = NULL;
	char label[LABEL_SIZE];
	int r;

	if (!keys_of(s))
		return -ENOKEY;
	label_of(s, label);
	r = sealed_text_open(keys_of(s), label, text, &opened, ret_stale);
	return r < 0 ? r : json_parse(opened, strlen(opened), ret, NULL);
}

int network_read_row(struct sandbox *s, const json_t *value)
{
	const char *text = json_string_value(value);
	bool is_sealed = text && sealed_text_is(text), is_stale = false;
	auto_json json_t *opened = NULL;
	struct policy *policy;
	int r;

	if (!value)
		return 0;
	if (is_sealed && read_sealed(s, text, &opened, &is_stale) < 0)
		return lock(s, text);
	r = network_read(opened ? opened : value, "network", &policy, NULL);
	if (r < 0)
		return r;
	network_set(s, policy);
	s->network->is_stale =
		is_stale || (!is_sealed && keys_of(s) && secret_is_literal_in(policy));
	if (s->network->is_stale && !is_sealed)
		store_wants_erasing(s->fleet->config.store);
	return 0;
}

void network_seal_rows(struct fleet *fleet)
{
	struct err err;

	list_for_each (&fleet->all, struct sandbox, s, link_all) {
		if (!s->network || !s->network->is_stale)
			continue;
		s->network->is_stale = false;
		if (fleet->lifecycle->save(s, &err) < 0)
			log_error("sandbox.not_saved", "id=%s error='%s'", s->id, err.message);
	}
}

size_t network_count_locked(const struct fleet *fleet)
{
	size_t n = 0;

	list_for_each (&fleet->all, const struct sandbox, s, link_all)
		n += network_is_locked(s) && (sandbox_is_alive(s) || s->is_kept);
	return n;
}

bool network_is_locked(const struct sandbox *s)
{
	return s->network && s->network->locked;
}

const char *network_name(const struct sandbox *s)
{
	const struct policy *p = network_policy(s);

	if (!policy_opens(p))
		return "deny-all";
	return policy_allows_all(p) ? "allow-all" : "rules";
}
