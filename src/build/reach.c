// SPDX-License-Identifier: Apache-2.0
/*
 * What a build's sandbox may reach. Debian's packages come only from the archives that the host
 * itself uses; npm, pip and commands may also reach the public internet. The checks reach nothing.
 *
 * An operator's mirrors often have private addresses. Only their names may lead there. That is
 * safe: whoever controls such a name already controls what the host's own apt, npm and pip install.
 * The same holds for the default registries of npm and pip, which the step `registries` finds out:
 * it runs only the host's and Debian's own programs.
 */
#include "build/part.h"
#include "build/plan.h"

#include "net/match/url.h"

#include <string.h>

/* The ranges in which companies and clouds have their mirrors. Neither loopback nor link-local,
 * where the host's own services and the clouds' metadata are. */
static const char *const private_ranges[] = {
	"10.0.0.0/8",    "172.16.0.0/12",   "192.168.0.0/16", "100.64.0.0/10", "192.0.2.0/24",
	"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "fc00::/7",      "2001:db8::/32",
};

struct reach {
	json_t *names;     /* that the operator has named */
	json_t *addresses; /* likewise */
};

static void add_host(struct reach *r, const struct host *host)
{
	char text[HOST_SIZE];

	if (host->is_name)
		host_format(host, text);
	else
		address_format(&host->address, text);
	json_array_append_new(host->is_name ? r->names : r->addresses, json_string(text));
}

static void add_url(struct reach *r, const char *text)
{
	struct url url;
	const char *why;

	if (text && url_parse(text, strlen(text), &url, &why) == 0)
		add_host(r, &url.host);
}

static void add_name(struct reach *r, const char *text)
{
	struct host host;
	const char *why;

	if (host_parse(text, strlen(text), &host, &why) == 0)
		add_host(r, &host);
}

/* Of lines as apt has them. */
static void add_lines(struct reach *r, char *sources)
{
	for (char *line = sources; line && *line;) {
		char *end = strchr(line, '\n');
		char *uri = strchr(line, ' ') + 1;

		uri[strcspn(uri, " ")] = '\0';
		add_url(r, uri);
		line = end ? end + 1 : NULL;
	}
}

static void add_sources(struct reach *r, const struct build *b)
{
	auto_free char *sources = plan_sources(&b->owner->config, b->suite);

	add_lines(r, sources);
}

static void add_private_ranges(json_t *ranges)
{
	for (size_t i = 0; i < ARRAY_SIZE(private_ranges); i++)
		json_array_append_new(ranges, json_string(private_ranges[i]));
}

json_t *plan_private_ranges(void)
{
	json_t *ranges = json_array();

	add_private_ranges(ranges);
	return ranges;
}

static void allow(json_t *rules, const char *field, json_t *items, json_t *cidrs)
{
	json_t *match = json_object();

	if (json_array_size(items) == 0) {
		json_decref(match);
		return;
	}
	(void)json_object_set(match, field, items);
	if (cidrs)
		(void)json_object_set(match, "cidrs", cidrs);
	json_array_append_new(rules, json_pack("{soss}", "match", match, "action", "allow"));
}

json_t *plan_network(const struct build *b, enum step step)
{
	const struct builds_config *c = &b->owner->config;
	const struct registries *learnt = &b->owner->learnt;
	auto_json json_t *names = json_array();
	auto_json json_t *addresses = json_array();
	auto_json json_t *ranges = plan_private_ranges();
	json_t *rules = json_array();
	struct reach r = {.names = names, .addresses = addresses};

	if (step == STEP_CHECKS || step == STEP_CONTEXT || step == STEP_CARRY ||
	    (step == STEP_PART && part_is_offline(b))) {
		json_decref(rules);
		return json_string("deny-all");
	}
	if (b->suite[0])
		add_sources(&r, b);
	if (step == STEP_EXTRAS || step == STEP_PART) {
		add_url(&r, c->npm_registry ? c->npm_registry : learnt->npm);
		add_url(&r, c->pip_index ? c->pip_index : learnt->pip);
		if (!c->pip_index)
			add_name(&r, learnt->pip_files);
		for (char **p = c->names; p && *p; p++)
			add_name(&r, *p);
	}
	allow(rules, "domains", names, ranges);
	allow(rules, "domains", names, NULL);
	allow(rules, "cidrs", addresses, NULL);
	if (step == STEP_EXTRAS || step == STEP_PART) /* all that is public */
		json_array_append_new(rules, json_pack("{s{}ss}", "match", "action", "allow"));
	return json_pack("{so}", "rules", rules);
}

static void add_usual(struct reach *r, const char *const *names)
{
	for (; *names; names++)
		add_name(r, *names);
}

static void add_archives(struct reach *r, const struct builds_config *c)
{
	auto_free char *sources = plan_sources(c, c->codename ? c->codename : "stable");

	add_lines(r, sources);
}

bool builds_package_hosts(const struct builds *bs, const char *word, json_t *names,
                          json_t *addresses, json_t *ranges)
{
	static const char *const of_pip[] = {"pypi.org", "files.pythonhosted.org", NULL};
	static const char *const of_npm[] = {"registry.npmjs.org", NULL};
	static const char *const of_apt[] = {"deb.debian.org", "security.debian.org", NULL};
	const struct builds_config *c = &bs->config;
	struct reach r = {.names = names, .addresses = addresses};
	size_t before = json_array_size(names) + json_array_size(addresses);
	const char *const *usual;

	if (strcmp(word, "pip") == 0) {
		add_url(&r, c->pip_index ? c->pip_index : bs->learnt.pip);
		if (!c->pip_index)
			add_name(&r, bs->learnt.pip_files);
		usual = of_pip;
	} else if (strcmp(word, "npm") == 0) {
		add_url(&r, c->npm_registry ? c->npm_registry : bs->learnt.npm);
		usual = of_npm;
	} else if (strcmp(word, "apt") == 0) {
		add_archives(&r, c);
		usual = of_apt;
	} else {
		return false;
	}
	if (json_array_size(names) + json_array_size(addresses) == before)
		add_usual(&r, usual);
	else if (json_array_size(ranges) == 0)
		add_private_ranges(ranges);
	return true;
}
