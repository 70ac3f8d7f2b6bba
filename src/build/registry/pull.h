// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A pull fetches one image of a registry into a sandbox that is made for it. The import beside it
 * (build/transfer/import.h) unpacks and seals what came, as it does with an archive.
 *
 *	reference, settings --> pull: what the sandbox may reach, where to ask
 *	sandbox: policy lent --> guest/build/pull.py --> policy taken back --> unpacked
 *
 * Neither the gateway nor the broker talks to a registry. The sandbox has no credentials: the wall
 * puts them in, only for the hosts that they are meant for, only after these have proved their
 * names. When the bytes are unpacked, the sandbox has no network any more.
 */
#include "build/build.h"

#define PULL_INTO "/template.in" /* where an import looks for an image that is there already */

struct pull;
struct pull_fetch;

struct pull_wish { /* borrowed for the call */
	const char *project_id;
	const char *ref, *field; /* the image, and what an error calls it */
	/* For the image's registry, before those of the settings; NULL: none. */
	const char *username, *password; /* which may be `secret://NAME` */
	const char *token_host;          /* "HOST[:PORT]" that may have them too; or NULL */
};

must_check int pull_plan(const struct builds *bs, const struct pull_wish *wish, struct pull **ret,
                         struct err *err);
void pull_free(struct pull *p); /* NULL is fine */
/* The reference with its host, and its tag or digest. */
const char *pull_ref(const struct pull *p);

#define PULL_LAYERS_MAX 512      /* as OCI_LAYERS_MAX */
#define PULL_ELSEWHERE  SIZE_MAX /* of on_layers */

struct pull_ops {
	/* The image and its layers, by what OCI calls a ChainID: chains[i] stands for the layers 0
	 * to i. None of it is verified yet. Returns how many of the lowest need not be fetched; or
	 * PULL_ELSEWHERE: then on_end comes next, with the digest, and nothing was fetched. NULL:
	 * all are fetched but those of pull_fetch_spec. */
	size_t (*on_layers)(const struct digest *chains, size_t n, void *arg);
	void (*on_progress)(uint64_t bytes, uint64_t total, void *arg);
	/* Called once: digest is what the registry calls the image ("sha256:…"), or err says why it
	 * is not there. */
	void (*on_end)(const char *digest, const struct err *err, void *arg);
};
struct pull_fetch_spec { /* after PULL_ELSEWHERE */
	const char *digest;
	size_t n_skipped; /* of the lowest layers */
};
/* Fetches into the sandbox. All are called from the loop. The pull is borrowed until the end. A
 * pull can be fetched twice. rest: NULL the first time; with it, on_layers is not called. */
struct pull_fetch *pull_fetch_begin(struct sandbox *s, struct pull *p,
                                    const struct pull_fetch_spec *rest, const struct pull_ops *ops,
                                    void *arg);
void pull_fetch_cancel(struct pull_fetch *f); /* on_end is not called */
