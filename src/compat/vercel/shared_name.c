// SPDX-License-Identifier: Apache-2.0
/*
 * Names of Vercel's sandboxes in a cluster: at most one sandbox of all nodes has a name. A name is
 * taken like that of a native sandbox (node/names.c), under a label that no native name can have.
 */
#include "api/frame/find.h"
#include "compat/vercel/wire.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#define LABEL_START "vercel/"

void vercel_label_make(const char *space, const char *name, char ret[VERCEL_LABEL_SIZE])
{
	auto_free char *both = xasprintf("%s/%s", space, name); /* a name has no slash */
	unsigned char digest[SHA256_DIGEST_LENGTH];
	size_t len;

	(void)SHA256((const unsigned char *)both, strlen(both), digest);
	len = (size_t)snprintf(ret, VERCEL_LABEL_SIZE, "%s", LABEL_START);
	for (size_t i = 0; len + 2 < VERCEL_LABEL_SIZE; i++, len += 2)
		(void)snprintf(ret + len, 3, "%02x", digest[i]);
}

static void label_of(const struct vercel_sandbox *box, char ret[VERCEL_LABEL_SIZE])
{
	vercel_label_make(box->space, box->name, ret);
}

bool vercel_is_label(const char *text)
{
	return strncmp(text, LABEL_START, strlen(LABEL_START)) == 0;
}

static bool has_sandbox(const char *id, void *arg)
{
	return vercel_sandbox_by_id(arg, id) != NULL;
}

static void each_named(void (*fn)(const char *project_id, const char *id, const char *name,
                                  void *fn_arg),
                       void *fn_arg, void *arg)
{
	const struct vercel *v = arg;
	char label[VERCEL_LABEL_SIZE];

	list_for_each (&v->sandboxes, const struct vercel_sandbox, box, link) {
		label_of(box, label);
		fn(box->project_id, box->id, label, fn_arg);
	}
}

void vercel_share_names(struct vercel *v)
{
	static const struct node_named named = {has_sandbox, each_named};

	node_has_named(v->api->node, &named, v);
}

void vercel_name_take(const struct vercel_sandbox *box, node_done_fn fn, void *arg)
{
	char label[VERCEL_LABEL_SIZE];

	label_of(box, label);
	node_take(box->vercel->api->node,
	          &(struct node_taking){
			  .project_id = box->project_id, .sandbox_id = box->id, .name = label},
	          fn, arg);
}

void vercel_name_give(const struct vercel_sandbox *box)
{
	node_give(box->vercel->api->node, box->id, /* with_key= */ false);
}
