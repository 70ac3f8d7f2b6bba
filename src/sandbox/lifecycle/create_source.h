// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The source that a new sandbox is filled with before it counts as running: a git repository or a
 * tarball, from an http or https URL.
 *
 *	{"type": "git", "url": …, "revision": …, "depth": …, "path": …, "timeout_ms": …,
 *	 "credentials": {"username": …, "password": …}}
 *	{"type": "tarball", "url": …, "path": …, "timeout_ms": …, "credentials": …}
 *
 * It is fetched inside, as the sandbox's user, through the wall: for that time the policy also
 * allows the URL's host. The wall adds the credentials to requests for that host
 * (net/policy/policy.h, transform); no byte of them ever comes into the sandbox, the store or the
 * log.
 */
#include "net/match/url.h"
#include "net/policy/policy.h"
#include "sandbox/model/sandbox.h"

enum source_type { SOURCE_GIT, SOURCE_TARBALL, SOURCE_TYPE_COUNT };

struct source {
	enum source_type type;
	char *url;
	struct url parsed; /* its paths are borrowed from url */
	char *revision;    /* "" = the default branch */
	bool is_fetched;   /* the revision is a commit or a whole ref, which clone does not take */
	uint64_t depth;    /* 0 = all of the history */
	char *path;        /* its destination; relative to where commands begin */
	uint64_t timeout_ms;
	char *password;      /* or NULL; both are wiped with it */
	char *authorization; /* the field's value, or NULL */
};

/* Names the field that is wrong. The caller owns *ret. */
must_check int source_read(const json_t *value, struct source **ret, struct err *err);
void source_free(struct source *s);
DEFINE_FREEP(struct source, source_free)

/* {type, url, revision, path}, as it is stored and shown: without credentials, and without the
 * query, which may be secret too. */
json_t *source_describe(const struct source *s);
/* A copy of own with a first rule for the source's host. If a rule of own restricts the name to
 * ranges, that still holds. */
must_check int source_policy(const struct source *s, const struct policy *own, struct policy **ret,
                             struct err *err);
/* Overwrites the source's secrets in text with stars. */
void source_scrub(const struct source *s, char *text);

/* create_source_fetch.c: plans the fetch, with a policy of source_policy(). Owns both. */
void fetch_plan(struct sandbox *s, struct source *src, struct policy *policy);
/* Called when the agent is up. Afterwards network_begin() follows, or the create has failed. */
void fetch_begin(struct sandbox *s);
void fetch_end(struct sandbox *s); /* cancels a fetch; twice is fine */
/* The last line of its output, or NULL. */
const char *fetch_progress(const struct sandbox *s);
