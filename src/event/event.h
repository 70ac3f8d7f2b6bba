// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The event log: what happened, outside the reach of sandboxes. Every project has a chain of
 * entries of its own, and so have entries of no project (chains.h): numbers without gaps, each
 * entry with the hash of the one before in its chain (verify.h), so anybody who knows a later hash
 * can detect a change. All entries of the host have a place in one order, which only those see who
 * see all.
 *
 *	event_begin() … event_end() --> waiting --> end of the turn: one transaction --> readers
 *
 * Nothing waits for the disk: a killed gateway loses at most the entries of its last turn, which no
 * reader has seen. A power cut may lose a few more; the numbers then continue much higher, so that
 * no number is used twice.
 *
 * The audit log has what was asked for and made no entry of its own: reads of content, and writes
 * inside of sandboxes. Every project has a chain of these beside the other one, so that reads push
 * out nothing. They are written a little later, together, which costs their callers no time.
 *
 * Growth is bounded: the oldest entries are removed by age, bytes and count (retention.h), and the
 * chain's row keeps the hash of the last one removed. Entries that a sandbox can cause are limited
 * by rate; an entry (EVENT_SUPPRESSED) tells how many were left out.
 */
#include "base/json/json.h"
#include "base/list.h"
#include "loop/loop.h"
#include "store/store.h"

enum event_type {
	EVENT_DAEMON_STARTED,
	EVENT_DAEMON_STOPPED,
	EVENT_DAEMON_PART_REPLACED, /* the broker, say: it died, or was stuck and killed */
	EVENT_DAEMON_PROBLEM_BEGAN, /* one that /v1/health lists */
	EVENT_DAEMON_PROBLEM_ENDED,
	EVENT_CREATE_QUEUED, /* one waits for room (tenant/create_queue.h) */
	EVENT_POOL_RESERVED, /* sandboxes are made ahead for a project (sandbox/pool) */
	EVENT_POOL_RELEASED,
	EVENT_SANDBOX_CREATED,
	EVENT_SANDBOX_RUNNING,
	EVENT_SANDBOX_ADOPTED, /* by a restarted daemon */
	EVENT_SANDBOX_PAUSED,
	EVENT_SANDBOX_RESUMED,
	EVENT_SANDBOX_STOPPING,
	EVENT_SANDBOX_STOPPED, /* its files are kept */
	EVENT_SANDBOX_ENDED,
	EVENT_SANDBOX_ROLLED_BACK,
	EVENT_SANDBOX_RESTORED, /* on this node, as its own was lost */
	EVENT_SANDBOX_FENCED,   /* it stands still: another node may run it */
	EVENT_SANDBOX_UNFENCED, /* it goes on */
	EVENT_SANDBOX_CHANGED,  /* limits, timeout, tags, ports or policy */
	EVENT_EXEC_STARTED,
	EVENT_EXEC_EXITED,
	EVENT_CONTEXT_CREATED,
	EVENT_CONTEXT_ENDED,
	EVENT_POLICY_DECIDED, /* by the network wall */
	EVENT_POLICY_LEARNT,  /* a policy that records: something new was reached */
	EVENT_KEY_CREATED,
	EVENT_KEY_REVOKED,
	EVENT_KEY_REFUSED,
	EVENT_KEY_LOGGED_IN,    /* to the dashboard */
	EVENT_PERSON_LOGGED_IN, /* at the login provider */
	EVENT_PERSON_LOGGED_OUT,
	EVENT_PERSON_REFUSED,
	EVENT_PROJECT_CREATED,
	EVENT_PROJECT_REMOVED,
	EVENT_BUILD_STARTED,
	EVENT_BUILD_RETRIED,
	EVENT_BUILD_ENDED,
	EVENT_TEMPLATE_CREATED,
	EVENT_TEMPLATE_REMOVED,
	EVENT_SNAPSHOT_CREATED,
	EVENT_SNAPSHOT_REMOVED,
	EVENT_VOLUME_CREATED,
	EVENT_VOLUME_REMOVED,
	EVENT_QUOTA_CHANGED,
	EVENT_SECRET_SET, /* made, or given another value */
	EVENT_SECRET_REMOVED,
	EVENT_IDENTITY_ISSUED,  /* a token was given out */
	EVENT_IDENTITY_ROTATED, /* another key signs them */
	EVENT_NODE_LOST,       /* it was cut off from its cluster for too long, and has ended all */
	EVENT_NODE_RETURNED,   /* such a one is back */
	EVENT_CLUSTER_REWOUND, /* the cluster's database has lost what it had acknowledged */
	EVENT_HOST_DISK,       /* it is full, read-only, or has room again */
	EVENT_SUPPRESSED,
	EVENT_NOT_SENT, /* removed before they were sent to where the settings say */
	EVENT_API_READ, /* somebody has read content by a call */
	EVENT_API_WRITE,
	EVENT_TYPE_COUNT
};
const char *event_type_name(enum event_type type); /* "exec.exited" */
/* Of the audit log, by its name: these entries have chains of their own. */
#define EVENT_AUDIT_PREFIX "api."
bool event_is_audit(const char *name);
/* Parses a list such as "exec.exited,sandbox" into a set of bits; a word alone means all of its
 * kind. */
must_check int event_types_parse(const char *text, const char *field, uint64_t *ret,
                                 struct err *err);

#define EVENT_DATA_MAX        2048 /* bytes of an entry's own facts */
#define EVENT_TEXT_MAX        200  /* bytes of a text from outside */
#define EVENT_REQUEST_ID_SIZE 65
#define EVENT_CLIENT_SIZE     48 /* an address, or "unix:UID" */
#define EVENT_AGENT_SIZE      65
#define EVENT_PERSON_SIZE     2048

struct event_log;

struct event_limits {
	uint64_t age_us, bytes, count; /* bounds of what is kept */
	uint32_t rate; /* minor entries a second and sandbox; ten times that at once */
};

struct event_config {
	struct loop *loop;
	struct store *store; /* to be closed after the log */
	const char *boot_id; /* of the running kernel; "" = not known */
	struct event_limits limits;
	/* Of sandboxes that help with a call, a build's say: their entries do not tell what the
	 * caller has asked for. NULL = none. */
	const char *helpers_project_id;
};

/* How long a project's entries are kept, instead of the limit for all; 0: as that says. The bounds
 * of bytes and count hold all the same. log may be NULL. */
void event_log_set_age(struct event_log *log, const char *project_id, uint64_t age_us);

must_check int event_log_open(const struct event_config *config, struct event_log **ret,
                              struct err *err);
void event_log_close(struct event_log *log); /* writes what waits; NULL is fine */
/*
 * Writes the waiting entries, and lets save() write the state that they describe, in one
 * transaction. If the log cannot be written, save() is called alone. log may be NULL.
 */
must_check int event_log_save(struct event_log *log, int (*save)(void *arg, struct err *err),
                              void *arg, struct err *err);

/* Whom the current handler works for; NULL for what is not known. */
struct event_origin {
	const char *key_id, *request_id;
	const char *person; /* JSON, as the key has it (tenant/person_key.h) */
	const char *client; /* where it calls from */
	const char *agent;  /* what it says it is; only printable ASCII of it is kept */
};
void event_log_set_origin(struct event_log *log, const struct event_origin *origin); /* copied */
/* Entries were made since, of a project that is no helper's. */
bool event_log_was_told(const struct event_log *log);

/* An entry being made. Ids are borrowed until event_end(); NULL means none. */
struct event {
	struct event_log *log;
	enum event_type type;
	const char *project_id, *sandbox_id, *exec_id;
	struct buf data;
	struct json_writer w;
};
/* Returns the writer for the entry's facts, an open object. log may be NULL: then nothing is
 * kept. */
struct json_writer *event_begin(struct event *e, struct event_log *log, enum event_type type,
                                const char *project_id, const char *sandbox_id);
void event_end(struct event *e);
/* A text that a guest or client chose: cut to EVENT_TEXT_MAX; NULL gives null. */
void event_put_text(struct json_writer *w, const char *name, const char *text);

/* Called after entries were written, from the loop. The watch is the caller's. */
struct event_watch {
	struct list link;
	void (*fn)(void *arg);
	void *arg;
};
void event_watch_add(struct event_log *log, struct event_watch *w);
void event_watch_remove(struct event_watch *w);

struct event_search; /* search.h */

struct event_filter {
	const char *project_id;            /* NULL = all of the host, "" = those of no project */
	bool is_audit;                     /* of the audit log, and nothing else */
	bool is_both;                      /* of both logs; where all of the host are read */
	const char *sandbox_id;            /* NULL = all */
	uint64_t types;                    /* 0 = all */
	const struct event_search *search; /* NULL = all */
};
struct event_line {      /* one entry for a reader */
	uint64_t cursor; /* its number in its project; its place where all are read */
	uint64_t at_us;
	const char *type;
	const char *json; /* the whole entry, as verify.h has it */
	size_t len;
};
/*
 * Reads the entries after *after, a bounded number in one call, and calls fn for those that match.
 * *after moves along: it is a number of the filter's project, or a place where all are read.
 * Returns 1 if there may be more, 0 at the newest. If fn returns > 0 the call ends.
 */
must_check int event_log_read(struct event_log *log, const struct event_filter *filter,
                              uint64_t *after, int (*fn)(const struct event_line *line, void *arg),
                              void *arg, struct err *err);

/*
 * A walk from one end to the other, in bounded steps: forwards from `after`, or back from `before`
 * down to `after`. The one where it stands moves along.
 */
struct event_walk {
	const struct event_filter *filter;
	bool is_back;
	uint64_t after, before;
	uint64_t looked; /* how many entries it has looked at */
};
#define EVENT_NEWEST INT64_MAX /* as `before`: from the newest on */
/* A step, as event_log_read(). At most `most` entries are looked at. */
must_check int event_log_walk(struct event_log *log, struct event_walk *walk, uint64_t most,
                              int (*fn)(const struct event_line *line, void *arg), void *arg,
                              struct err *err);

struct event_chain_status {
	char project_id[48]; /* "" = none */
	bool is_audit;
	bool is_cut;                   /* entries were removed from its beginning */
	uint64_t anchor_seq, head_seq; /* the last one removed, the newest written */
	char anchor_hash[65], head_hash[65];
	uint64_t count;
};
/* Of a project that has no entries, all is zero. */
void event_log_chain(const struct event_log *log, const char *project_id, bool is_audit,
                     struct event_chain_status *ret);
/* Of every project that has a chain, and of the entries of no project; and the same of the audit
 * log. */
void event_log_each_chain(const struct event_log *log,
                          void (*fn)(const struct event_chain_status *status, void *arg),
                          void *arg);
/* The one chain of before; false if there never was one. */
bool event_log_former(const struct event_log *log, struct event_chain_status *ret);
/* Of what the filter's project has, entries up to this number were removed; of all, some up to this
 * place. */
uint64_t event_log_removed(const struct event_log *log, const struct event_filter *filter);

struct event_status {
	uint64_t place; /* of the newest */
	uint64_t count, bytes;
	uint64_t suppressed; /* since the start: over a rate */
	uint64_t lost;       /* since the start: could not be written */
};
void event_log_status(const struct event_log *log, struct event_status *ret);
