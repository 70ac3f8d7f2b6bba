// SPDX-License-Identifier: Apache-2.0
/*
 * Names of keys are looked up among those of the projects whose entries are read, and nowhere else:
 * else a project could find out by a search what another has called a key that worked for both.
 */
#include "api/account/event_query.h"

#include "api/api.h"

static const struct {
	const char *name;
	int (*set)(struct event_search *search, const char *text, struct err *err);
} fields[] = {
	{"who", event_search_set_who},     {"address", event_search_set_address},
	{"text", event_search_set_text},   {"since", event_search_set_since},
	{"until", event_search_set_until}, /* behind since, which it is held against */
};

static void add_key(const struct key *key, void *arg)
{
	event_search_add_key(arg, key_id(key));
}

int read_event_search(const struct http_req *req, const char *project_id, struct event_search **ret,
                      struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *who = http_query(req, "who");
	int r = 0;

	*ret = NULL;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(fields); i++) {
		const char *text = http_query(req, fields[i].name);

		if (!text)
			continue;
		if (!*ret)
			*ret = event_search_new();
		r = fields[i].set(*ret, text, err);
	}
	if (r == 0 && who) {
		keyring_each_named(api->keyring, project_id, who, add_key, *ret);
		event_search_end_keys(*ret);
	}
	return r;
}
