// SPDX-License-Identifier: Apache-2.0
#include "node/sealed_records.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "node/records_private.h"
#include "node/sealed_marks.h"
#include "secret/sealed_text.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KINDS_MAX   2
#define LABEL_SIZE  (2 * ID_SIZE + 96)
#define KEY_WAIT_US (5 * SECOND_US) /* between two questions for it */
#define SEALED_MAX  32000           /* of a record: what the database takes */

struct sealed_records {
	struct node *node;
	struct sealed_marks *marks;
	struct {
		const struct node_sealed_kind *kind;
		void *arg;
	} kinds[KINDS_MAX];
	size_t n_kinds;
	struct master_keys key;
	void (*want_key)(void *arg);
	void *want_key_arg;
	uint64_t wanted_us;
	bool is_saying, has_gathered;
	bool is_keyless;  /* the broker has none */
	bool is_behind;   /* some could not be taken: there is no key, or no project yet */
	bool has_retried; /* all was asked for once more because of that */
};

struct state { /* one that is on its way to the database */
	struct sealed_records *s;
	struct sealed_mark is;
	char *sealed;
	node_done_fn fn; /* NULL: nobody waits */
	void *arg;
};

static void state_free(struct state *p)
{
	free(p->sealed);
	free(p);
}

static void label_of(const struct sealed_mark *m, char ret[LABEL_SIZE])
{
	(void)snprintf(ret, LABEL_SIZE, "cluster %s %s %s %" PRIu64 " %" PRIu64 " %s", m->kind,
	               m->project_id, m->id, m->version, m->changed_us,
	               m->is_gone ? "gone" : "live");
}

static int find_kind(const struct sealed_records *s, const char *kind)
{
	for (size_t i = 0; i < s->n_kinds; i++)
		if (strcmp(s->kinds[i].kind->kind, kind) == 0)
			return (int)i;
	return -ENOENT;
}

static bool has_key(const struct sealed_records *s)
{
	return s->key.n > 0;
}

/* What this node has and was never shared, as from before it joined. */
static void gather_one(const struct node_sealed *what, void *arg)
{
	struct sealed_records *s = arg;
	struct sealed_mark *m = sealed_marks_make(s->marks, what->kind, what->id, what->project_id);

	if (m && sealed_mark_is_later(what->version, what->changed_us, m)) {
		m->version = what->version;
		m->changed_us = what->changed_us;
		m->is_gone = false;
	}
}

static void gather(struct sealed_records *s)
{
	if (s->has_gathered)
		return;
	s->has_gathered = true;
	for (size_t i = 0; i < s->n_kinds; i++)
		s->kinds[i].kind->each(gather_one, s, s->kinds[i].arg);
}

static int refuse_content(int r, const struct sealed_mark *m, struct err *err)
{
	if (r == -ENOKEY)
		return err_set(err, ERR_CONFLICT, 0,
		               "a %s is sealed with another key than this node's: sha256sum "
		               "DATA/cluster/objects.keys must say the same on all nodes",
		               m->kind);
	return err_set(err, ERR_CONFLICT, 0,
	               "no node of this cluster has sealed this %s for this project, as this "
	               "state: its row in the database was changed",
	               m->kind);
}

/* Opens a state, puts it into this node's tables, and remembers it. */
static int take(struct sealed_records *s, const struct sealed_mark *is, const char *sealed,
                struct err *err)
{
	const int k = find_kind(s, is->kind);
	auto_call(sealed_text_wipe) char *content = NULL;
	char label[LABEL_SIZE];
	bool is_stale;
	int r;

	if (k < 0)
		return 0; /* of a newer cloche */
	label_of(is, label);
	r = sealed_text_open(&s->key, label, sealed, &content, &is_stale);
	if (r < 0)
		return refuse_content(r, is, err);
	r = s->kinds[k].kind->take(&(struct node_sealed){.kind = is->kind,
	                                                 .id = is->id,
	                                                 .project_id = is->project_id,
	                                                 .version = is->version,
	                                                 .changed_us = is->changed_us,
	                                                 .content = is->is_gone ? NULL : content},
	                           err, s->kinds[k].arg);
	return r < 0 ? r : sealed_marks_keep(s->marks, is, err);
}

static int read_record(const json_t *record, struct sealed_mark *ret, const char **ret_sealed)
{
	const json_int_t version = json_integer_value(json_object_get(record, "version"));
	const json_int_t changed = json_integer_value(json_object_get(record, "changed_us"));

	*ret_sealed = json_string_value(json_object_get(record, "sealed"));
	if (version <= 0 || version > NUMBER_MAX || changed <= 0 || changed > NUMBER_MAX * 100 ||
	    !*ret_sealed || strlen(*ret_sealed) > SEALED_MAX)
		return -EPROTO;
	ret->version = (uint64_t)version;
	ret->changed_us = (uint64_t)changed;
	return 0;
}

int sealed_records_apply(struct records *r, const char *kind, const char *id,
                         const char *project_id, const json_t *record, bool is_gone,
                         struct err *err)
{
	struct sealed_records *s = r->sealed;
	struct sealed_mark is = {.is_gone = is_gone};
	struct sealed_mark *m;
	const char *sealed;

	gather(s);
	if (!sealed_mark_name(&is, kind, id, project_id) || read_record(record, &is, &sealed) < 0)
		return err_set(err, ERR_BAD_REQUEST, 0, "a sealed record has another shape");
	m = sealed_marks_make(s->marks, kind, id, project_id);
	if (!m || strcmp(m->project_id, project_id) != 0)
		return err_set(err, ERR_CONFLICT, 0, "it is another project's");
	m->there_version = is.version;
	m->there_changed_us = is.changed_us;
	m->is_gone_there = is_gone;
	if (!sealed_mark_is_later(is.version, is.changed_us, m)) {
		if (is.version != m->version || is.changed_us != m->changed_us)
			log_warn("cluster.sealed_older",
			         "kind=%s id='%s' version=%" PRIu64 " message='the database has an "
			         "older state than this node: it is told again'",
			         m->kind, m->id, is.version);
		return 0;
	}
	if (!has_key(s) || !keyring_project_name(r->node->config.keyring, project_id)) {
		s->is_behind = true; /* taken when it is there */
		return 0;
	}
	return take(s, &is, sealed, err);
}

/* To the database. */

static int seal(const struct sealed_records *s, struct state *p, const char *content)
{
	char label[LABEL_SIZE];

	label_of(&p->is, label);
	p->sealed = sealed_text_make(&s->key, label, content ? content : "",
	                             content ? strlen(content) : 0);
	return p->sealed && strlen(p->sealed) < SEALED_MAX ? 0 : -E2BIG;
}

static int refuse_put(const json_t *answer, const struct state *p, struct err *err)
{
	const char *result = node_result(answer);

	if (strcmp(result, "older") == 0) {
		(void)err_set(err, ERR_CONFLICT, 0,
		              "the %s was changed on another node at the same time", p->is.kind);
		if (err)
			err->errnum = NODE_CHANGED_MEANWHILE;
		return err_hint(err, "try again");
	}
	if (strcmp(result, "no_project") == 0)
		return err_set(err, ERR_NOT_FOUND, 0, "the project was removed");
	if (strcmp(result, "full") == 0)
		return err_set(err, ERR_LIMIT, 0, "the cluster has as many %ss as it can have",
		               p->is.kind);
	if (strcmp(result, "taken") == 0)
		return err_set(err, ERR_CONFLICT, 0, "the id is another project's");
	return node_refuse(err, "this node has just joined anew");
}

/* What the database says that it has, where it has taken nothing. */
static void note_there(struct sealed_mark *m, const json_t *answer)
{
	const json_int_t version = json_integer_value(json_object_get(answer, "version"));
	const json_int_t changed = json_integer_value(json_object_get(answer, "changed_us"));

	if (version > 0 && version <= NUMBER_MAX && changed > 0 && changed <= NUMBER_MAX * 100) {
		m->there_version = (uint64_t)version;
		m->there_changed_us = (uint64_t)changed;
	}
}

static void on_put(const json_t *answer, const struct err *failure, void *arg)
{
	struct state *p = arg;
	struct sealed_records *s = p->s;
	struct sealed_mark *m = sealed_marks_make(s->marks, p->is.kind, p->is.id, p->is.project_id);
	struct err err = {0};
	int r;

	if (failure)
		err = *failure;
	r = failure                                  ? -EIO
	    : strcmp(node_result(answer), "ok") == 0 ? 0
	                                             : refuse_put(answer, p, &err);
	if (r == 0 && m) {
		m->there_version = p->is.version;
		m->there_changed_us = p->is.changed_us;
		m->is_gone_there = p->is.is_gone;
	} else if (!failure && m) {
		note_there(m, answer);
		records_ask_changes(s->node->records);
	}
	if (r == 0 && p->fn && (!m || sealed_mark_is_later(p->is.version, p->is.changed_us, m)))
		r = take(s, &p->is, p->sealed, &err);
	s->is_behind |= r < 0 && strcmp(node_result(answer), "ok") == 0; /* all others have it */
	if (p->fn) {
		p->fn(r < 0 ? &err : NULL, p->arg);
	} else {
		s->is_saying = false;
		if (r < 0)
			log_warn("cluster.sealed_not_taken", "kind=%s id='%s' error='%s'",
			         p->is.kind, p->is.id, err.message);
		if (m)
			m->is_said = true; /* once, whatever is answered */
		if (!failure)
			sealed_records_say(s->node->records);
	}
	state_free(p);
}

static void send_state(struct state *p)
{
	auto_json json_t *call =
		json_pack("{ss ss ss ss sI sI sb sb ss}", "call", "put_sealed", "kind", p->is.kind,
	                  "id", p->is.id, "project_id", p->is.project_id, "version",
	                  (json_int_t)p->is.version, "changed_us", (json_int_t)p->is.changed_us,
	                  "is_gone", p->is.is_gone, "is_said", !p->fn, "sealed", p->sealed);

	node_call(p->s->node, call, on_put, p);
}

static int refuse_keyless(const struct sealed_records *s, struct err *err)
{
	if (!s->is_keyless)
		return node_refuse(err, "this node has just started");
	(void)err_set(err, ERR_UNAVAILABLE, 0,
	              "this node has no key for what the nodes of its cluster share");
	return err_hint(err, "on the node that made the cluster: cloche cluster migrate --owner "
	                     "CONNINFO; then copy DATA/cluster/objects.keys from there to here, "
	                     "as root");
}

int node_put_sealed(struct node *n, const struct node_sealed *what, node_done_fn fn, void *arg,
                    struct err *err)
{
	struct sealed_records *s = n->records->sealed;
	const struct sealed_mark *m =
		sealed_marks_make(s->marks, what->kind, what->id, what->project_id);
	struct state *p;
	int r = node_check(n, err);

	if (r < 0)
		return r;
	if (!has_key(s))
		return refuse_keyless(s, err);
	if (!m)
		return err_set(err, ERR_LIMIT, 0, "this node knows too many %ss", what->kind);
	p = xnew0(struct state);
	*p = (struct state){.s = s, .fn = fn, .arg = arg};
	(void)sealed_mark_name(&p->is, what->kind, what->id, what->project_id);
	p->is.version = MAX(MAX(what->version, m->version), m->there_version) + 1;
	p->is.changed_us = MAX(clock_wall_us(), m->changed_us + 1);
	p->is.is_gone = !what->content;
	if (seal(s, p, what->content) < 0) {
		state_free(p);
		return err_set(err, ERR_TOO_LARGE, 0, "it is too large for the cluster's database");
	}
	send_state(p);
	return 0;
}

/* What this node has, and the database has not, or has an older state of. A removal is said only
 * where the database has what was removed. */
static bool must_say(const struct sealed_mark *m)
{
	return m->version > 0 && !m->is_said &&
	       (m->version != m->there_version || m->changed_us != m->there_changed_us) &&
	       !sealed_mark_is_earlier(m) &&
	       (!m->is_gone || (m->there_version > 0 && !m->is_gone_there));
}

static bool say_one(struct sealed_mark *m, void *arg)
{
	struct sealed_records *s = arg;
	const int k = find_kind(s, m->kind);
	auto_call(sealed_text_wipe) char *content = NULL;
	struct state *p;

	if (!must_say(m) || k < 0)
		return true;
	content = m->is_gone ? NULL
	                     : s->kinds[k].kind->describe(m->project_id, m->id, s->kinds[k].arg);
	if (!m->is_gone && !content) {
		m->is_said = true; /* it is locked */
		return true;
	}
	p = xnew0(struct state);
	*p = (struct state){.s = s, .is = *m};
	if (seal(s, p, content) < 0) {
		m->is_said = true;
		state_free(p);
		return true;
	}
	s->is_saying = true;
	send_state(p);
	return false; /* one after the other */
}

void sealed_records_say(struct records *r)
{
	struct sealed_records *s = r->sealed;

	if (!records_is_current(r) || !r->has_said || s->is_saying || !has_key(s))
		return;
	gather(s);
	sealed_marks_each(s->marks, say_one, s);
}

void sealed_records_want_key(struct records *r)
{
	struct sealed_records *s = r->sealed;
	const uint64_t now = clock_steady_us();

	if (!node_is_in(s->node) || !node_number(s->node) || has_key(s) || !s->want_key ||
	    (s->wanted_us != 0 && now - s->wanted_us < KEY_WAIT_US))
		return;
	s->wanted_us = now;
	s->want_key(s->want_key_arg);
}

/* True: all is to be asked for again, as what some records lacked is there now. */
bool sealed_records_look(struct records *r)
{
	struct sealed_records *s = r->sealed;
	bool is_due = s->is_behind && has_key(s) && !s->has_retried && records_is_current(r);

	sealed_records_want_key(r);
	if (is_due) {
		s->has_retried = true;
		s->is_behind = false;
	}
	return is_due;
}

void sealed_records_begin_again(struct records *r)
{
	r->sealed->has_gathered = false;
	sealed_marks_begin_again(r->sealed->marks);
}

void sealed_records_forget_project(struct records *r, const char *project_id)
{
	struct sealed_records *s = r->sealed;

	for (size_t i = 0; i < s->n_kinds; i++)
		s->kinds[i].kind->forget(project_id, s->kinds[i].arg);
	sealed_marks_forget_project(s->marks, project_id);
}

void node_has_sealed(struct node *n, const struct node_sealed_kind *kind, void *arg)
{
	struct sealed_records *s;

	if (!n)
		return;
	s = n->records->sealed;
	assert(s->n_kinds < KINDS_MAX);
	s->kinds[s->n_kinds].kind = kind;
	s->kinds[s->n_kinds++].arg = arg;
}

void node_on_key_wanted(struct node *n, void (*fn)(void *arg), void *arg)
{
	if (!n)
		return;
	n->records->sealed->want_key = fn;
	n->records->sealed->want_key_arg = arg;
}

void node_take_key(struct node *n, const uint8_t key[32])
{
	struct sealed_records *s = n->records->sealed;

	if (!key) {
		if (!s->is_keyless)
			log_warn("cluster.key_not_had",
			         "message='without DATA/cluster/objects.keys this node shares no "
			         "secrets and webhooks' hint='cloche cluster migrate on the node "
			         "that made the cluster, then copy the file'");
		s->is_keyless = true;
		return;
	}
	s->is_keyless = false;
	master_keys_of_one(key, &s->key);
	s->has_retried = false;
	log_info("cluster.key_had", "key=%s", s->key.ids[0]);
	if (s->is_behind && records_is_current(n->records)) {
		s->is_behind = false;
		records_begin_again(n->records);
		records_ask_changes(n->records);
	}
	sealed_records_say(n->records);
}

bool node_has_key(const struct node *n)
{
	return has_key(n->records->sealed);
}

char *node_make_sealed(const struct node *n, const char *label, const char *text)
{
	return node_has_key(n)
	               ? sealed_text_make(&n->records->sealed->key, label, text, strlen(text))
	               : NULL;
}

int node_open_sealed(const struct node *n, const char *label, const char *sealed, char **ret,
                     struct err *err)
{
	bool is_stale;

	if (strlen(sealed) <= SEALED_MAX && node_has_key(n) &&
	    sealed_text_open(&n->records->sealed->key, label, sealed, ret, &is_stale) >= 0)
		return 0;
	return err_set(err, ERR_CONFLICT, 0,
	               "no node of this cluster has sealed it for this project, sandbox and "
	               "generation: its row in the database was changed");
}

struct sealed_records *sealed_records_new(struct node *n)
{
	struct sealed_records *s = xnew0(struct sealed_records);

	s->node = n;
	s->marks = sealed_marks_new(n->config.store);
	return s;
}

void sealed_records_free(struct sealed_records *s)
{
	sealed_marks_free(s->marks);
	master_keys_done(&s->key);
	free(s);
}
