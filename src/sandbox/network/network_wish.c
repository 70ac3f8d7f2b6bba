// SPDX-License-Identifier: Apache-2.0
/*
 * `allow: ["pip"]` becomes rules behind the others, so that nobody has to know where packages come
 * from: the operator's mirrors have names of their own, and often private addresses. Such a name
 * may lead there and nowhere else that is private; so it is for builds (build/reach.c).
 */
#include "sandbox/model/fleet_state.h"
#include "sandbox/network/network.h"

#include <string.h>

struct hosts {
	json_t *names, *addresses, *ranges;
};

static void add_rule(json_t *rules, const char *field, json_t *items, json_t *cidrs)
{
	json_t *match = json_object();

	if (json_array_size(items) == 0) {
		json_decref(match);
		return;
	}
	(void)json_object_set(match, field, items);
	if (json_array_size(cidrs) > 0)
		(void)json_object_set(match, "cidrs", cidrs);
	(void)json_array_append_new(rules, json_pack("{soss}", "match", match, "action", "allow"));
}

/* Takes the words out of the list; whether there was one. */
static bool take_words(const struct fleet_config *c, json_t *allow, struct hosts *h)
{
	bool has_any = false;

	for (size_t i = json_array_size(allow); i > 0; i--) {
		const char *word = json_string_value(json_array_get(allow, i - 1));

		if (word && c->package_hosts(word, h->names, h->addresses, h->ranges,
		                             c->package_hosts_arg)) {
			(void)json_array_remove(allow, i - 1);
			has_any = true;
		}
	}
	return has_any;
}

static void add_rules(json_t *policy, const struct hosts *h)
{
	json_t *rules = json_object_get(policy, "rules");

	if (!rules) {
		rules = json_array();
		(void)json_object_set_new(policy, "rules", rules);
	}
	if (json_array_size(h->ranges) > 0)
		add_rule(rules, "domains", h->names, h->ranges);
	add_rule(rules, "domains", h->names, NULL);
	add_rule(rules, "cidrs", h->addresses, NULL);
}

int network_read_wish(const struct fleet *fleet, const json_t *value, const char *field,
                      struct policy **ret, struct err *err)
{
	auto_json json_t *copy = NULL;
	auto_json json_t *names = json_array();
	auto_json json_t *addresses = json_array();
	auto_json json_t *ranges = json_array();
	const struct hosts hosts = {names, addresses, ranges};

	if (!json_is_array(json_object_get(value, "allow")) || !fleet->config.package_hosts)
		return network_read(value, field, ret, err);
	copy = json_deep_copy(value);
	if (take_words(&fleet->config, json_object_get(copy, "allow"),
	               &(struct hosts){names, addresses, ranges}))
		add_rules(copy, &hosts);
	return network_read(copy, field, ret, err);
}
