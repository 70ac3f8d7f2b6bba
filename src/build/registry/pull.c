// SPDX-License-Identifier: Apache-2.0
/*
 * What the sandbox of a pull may reach, and what it is told.
 *
 * Rules let GET and HEAD through and nothing else, so the wall looks into all of its TLS, verifies
 * each server itself, and nothing can be sent out but in URLs. In this order:
 *
 *	the registry, its mirrors, the servers of its tokens    at private addresses too, if the
 *	                                                        operator has named them
 *	hosts of templates.names                                likewise: blobs often lie elsewhere
 *	every other host with a public address                  for redirects and tokens
 *
 * A host with credentials has one rule more in front: a request that has the placeholder of
 * guest/build/pull.py in its Authorization gets the real one.
 *
 * A registry on this machine itself speaks plain HTTP. A sandbox has a loopback of its own, so it
 * gets a name that the wall forwards to the address. The wall opens that only if network.may_open
 * has it.
 */
#include "base/parse.h"
#include "build/build_private.h"
#include "build/image/registries.h"
#include "build/registry/pull_private.h"
#include "sandbox/network/network.h"
#include "sandbox/network/secret_fill.h"

#include <string.h>

#define PLACEHOLDER    "Basic cloche" /* as guest/build/pull.py has it */
#define PLACES_MAX     8
#define PULL_BYTES_MAX (UINT64_C(8) << 30) /* of its blobs; their files need room beside them */

/* A server in the making of a policy. */
struct server {
	struct host host;
	uint16_t port;
	bool is_named;       /* by the operator */
	char *authorization; /* or NULL; ours */
};

struct plan {
	const struct builds *bs;
	const struct pull_wish *wish;
	struct image_reference ref;
	json_t *rules, *places, *signs, *ranges;
	struct pull *pull;
	size_t n_places;
};

static json_t *match_of(const struct server *s, json_t *ranges)
{
	json_t *match = json_pack("{s[i]ss s[ss]}", "ports", (int)s->port, "protocol", "tls",
	                          "methods", "GET", "HEAD");
	char text[HOST_SIZE];

	if (s->host.is_name) {
		host_format(&s->host, text);
		(void)json_object_set_new(match, "domains", json_pack("[s]", text));
		if (ranges)
			(void)json_object_set(match, "cidrs", ranges);
	} else {
		address_format(&s->host.address, text);
		(void)json_object_set_new(match, "cidrs", json_pack("[s]", text));
	}
	return match;
}

/* The two rules of a server, for addresses in these ranges; NULL: for public ones. */
static void add_rules(struct plan *p, const struct server *s, json_t *ranges)
{
	json_t *match;

	if (s->authorization) {
		match = match_of(s, ranges);
		(void)json_object_set_new(
			match, "headers",
			json_pack("[{ssss}]", "name", "authorization", "value", PLACEHOLDER));
		json_array_append_new(p->rules, json_pack("{sos{s{s{ss}}}}", "match", match,
		                                          "action", "transform", "headers",
		                                          "authorization", s->authorization));
	}
	json_array_append_new(p->rules,
	                      json_pack("{soss}", "match", match_of(s, ranges), "action", "allow"));
}

static void add_server(struct plan *p, const struct server *s)
{
	if (s->is_named && s->host.is_name)
		add_rules(p, s, p->ranges);
	add_rules(p, s, NULL);
}

static char *make_basic(const char *user, const char *password)
{
	auto_free char *plain = xasprintf("%s:%s", user, password);
	auto_free char *coded = xcalloc(1, base64_size(strlen(plain)));
	char *basic;

	(void)base64_encode(plain, strlen(plain), coded);
	basic = xasprintf("Basic %s", coded);
	explicit_bzero(plain, strlen(plain));
	explicit_bzero(coded, strlen(coded));
	return basic;
}

static void server_done(struct server *s)
{
	if (s->authorization)
		explicit_bzero(s->authorization, strlen(s->authorization));
	free(s->authorization);
}

static char *url_of(const struct server *s)
{
	char host[HOST_SIZE];

	host_format(&s->host, host);
	return xasprintf("https://%s:%u", host, s->port);
}

/* By the settings. A secret that this project does not keep is no error until it is missed. */
static void take_set(struct plan *p, struct server *s)
{
	const char *row = registries_credentials(&p->bs->config.registries, &s->host, s->port);
	const char *colon = row ? strchr(row, ':') : NULL;
	auto_free char *user = NULL, *reference = NULL, *value = NULL, *url = NULL;
	struct err err;

	if (!colon)
		return;
	user = xstrndup(row, (size_t)(colon - row));
	reference = xasprintf("secret://%s", colon + 1);
	url = url_of(s);
	if (secret_fill_text(p->bs->config.fleet, p->wish->project_id, reference, url,
	                     "registries.credentials", &value, &err) < 0) {
		(void)snprintf(p->pull->locked, sizeof(p->pull->locked), "%.199s", err.message);
		return;
	}
	s->authorization = make_basic(user, value);
	explicit_bzero(value, strlen(value));
}

static int take_given(const struct plan *p, struct server *s, struct err *err)
{
	auto_free char *value = NULL, *url = url_of(s);
	int r = secret_fill_text(p->bs->config.fleet, p->wish->project_id, p->wish->password, url,
	                         "credentials.password", &value, err);

	if (r < 0)
		return r;
	s->authorization = make_basic(p->wish->username, value);
	explicit_bzero(value, strlen(value));
	return 0;
}

static void add_place(struct plan *p, const char *url, const char *shown, bool signs)
{
	json_array_append_new(p->places,
	                      json_pack("{sssssb}", "url", url, "shown", shown, "signs", signs));
	p->n_places++;
}

/* On this machine: a name that the wall forwards. path: of the URL, or "". */
static void add_loopback(struct plan *p, const struct server *s, const char *path,
                         const char *shown)
{
	auto_free char *name = xasprintf("registry-%zu.invalid", p->n_places);
	auto_free char *inside = xasprintf("http://%s%s", name, path);
	char host[HOST_SIZE];
	auto_free char *to = NULL;

	host_format(&s->host, host);
	to = xasprintf("http://%s:%u/", s->host.is_name ? "127.0.0.1" : host, s->port);
	json_array_append_new(p->rules, json_pack("{s{s[s]sss[ss]}s{s{ss}}}", "match", "domains",
	                                          name, "protocol", "http", "methods", "GET",
	                                          "HEAD", "action", "forward", "url", to));
	add_place(p, inside, shown, /* signs= */ false);
}

static void add_mirror(struct plan *p, const char *text)
{
	struct url url;
	const char *why;
	auto_call(server_done) struct server s = {.is_named = true};
	auto_free char *path = NULL;

	if (url_parse(text, strlen(text), &url, &why) < 0)
		return; /* the settings were checked */
	s.host = url.host;
	s.port = url.port;
	path = xstrndup(url.path, url.path_len);
	if (url.scheme == URL_HTTP) {
		add_loopback(p, &s, path, text);
		return;
	}
	take_set(p, &s);
	add_server(p, &s);
	add_place(p, text, text, s.authorization != NULL);
}

/* A server that gives tokens, and may have the registry's credentials for that. */
static void add_signer(struct plan *p, const struct host *host, uint16_t port,
                       const char *authorization, bool is_named)
{
	auto_call(server_done) struct server s = {.host = *host,
	                                          .port = port ? port : REGISTRY_PORT,
	                                          .is_named = is_named,
	                                          .authorization = xstrdup(authorization)};
	char text[HOST_SIZE];

	host_format(host, text);
	add_server(p, &s);
	json_array_append_new(p->signs, json_sprintf("%s:%u", text, s.port));
}

static int add_token_host(struct plan *p, const char *authorization, struct err *err)
{
	const char *text = p->wish->token_host, *why = NULL;
	struct host host;
	uint16_t port;

	if (!text)
		return 0;
	if (authority_parse(text, strlen(text), &host, &port, &why) < 0)
		return err_field(err, "credentials.token_host", "'%.100s' %s", text, why);
	if (strncmp(p->wish->password, "secret://", strlen("secret://")) == 0) {
		/* A secret may be bound to hosts: this one must be among them. */
		auto_call(server_done) struct server s = {.host = host,
		                                          .port = port ? port : REGISTRY_PORT};
		int r = take_given(p, &s, err);

		if (r < 0)
			return r;
	}
	add_signer(p, &host, port, authorization, registries_has(&p->bs->config.registries, &host));
	return 0;
}

/* All hosts of the settings that have the same user and secret. */
static void add_set_signers(struct plan *p, const struct server *origin)
{
	const struct registries_config *c = &p->bs->config.registries;
	const char *own = registries_credentials(c, &origin->host, origin->port);

	for (char **row = c->credentials; own && row && *row; row++) {
		const char *equals = strchr(*row, '='), *why;
		struct server s = {.is_named = true};

		if (strcmp(equals + 1, own) != 0 ||
		    authority_parse(*row, (size_t)(equals - *row), &s.host, &s.port, &why) < 0 ||
		    host_is_equal(&s.host, &origin->host))
			continue;
		s.port = s.port ? s.port : REGISTRY_PORT;
		take_set(p, &s); /* else the secret is not for that host */
		if (s.authorization)
			add_signer(p, &s.host, s.port, s.authorization, /* is_named= */ true);
		server_done(&s);
	}
}

static int add_origin(struct plan *p, struct err *err)
{
	auto_call(server_done) struct server s = {
		.host = p->ref.host,
		.port = p->ref.port ? p->ref.port : REGISTRY_PORT,
		.is_named = registries_has(&p->bs->config.registries, &p->ref.host)};
	char shown[HOST_SIZE + 6];
	auto_free char *url = NULL;
	int r = 0;

	image_reference_registry(&p->ref, shown);
	if (host_is_loopback(&s.host)) {
		if (p->wish->password)
			return err_field(
				err, "credentials",
				"a registry on this machine is asked in the clear, and gets none");
		s.port = p->ref.port ? p->ref.port : 80;
		add_loopback(p, &s, "", shown);
		return 0;
	}
	if (p->wish->password)
		r = take_given(p, &s, err);
	else
		take_set(p, &s);
	if (r < 0)
		return r;
	url = url_of(&s);
	add_server(p, &s);
	add_place(p, url, shown, s.authorization != NULL);
	if (p->wish->password)
		return add_token_host(p, s.authorization, err);
	if (s.authorization)
		add_set_signers(p, &s);
	return 0;
}

/* What a registry may lead to: hosts that builds may reach, and all that is public. */
static void add_others(struct plan *p)
{
	auto_json json_t *names = json_array();
	json_t *match;

	for (char **name = p->bs->config.names; name && *name; name++)
		json_array_append_new(names, json_string(*name));
	if (json_array_size(names) > 0) {
		match = json_pack("{sOsOsss[ss]}", "domains", names, "cidrs", p->ranges, "protocol",
		                  "tls", "methods", "GET", "HEAD");
		json_array_append_new(p->rules,
		                      json_pack("{soss}", "match", match, "action", "allow"));
	}
	/* By name: where a rule is about every address, the wall asks a resolver for the names that
	 * it forwards. */
	match = json_pack("{s[s]sss[ss]}", "domains", "*", "protocol", "tls", "methods", "GET",
	                  "HEAD");
	json_array_append_new(p->rules, json_pack("{soss}", "match", match, "action", "allow"));
}

static void make_wish(struct plan *p)
{
	const struct fleet_config *c = fleet_config(p->bs->config.fleet);
	p->pull->wish = json_pack(
		"{sssssssssO sO sI ss}", "name", p->ref.name, "tag", p->ref.tag, "digest",
		p->ref.digest, "arch", plan_arch(), "places", p->places, "signs", p->signs, "bytes",
		(json_int_t)MIN(PULL_BYTES_MAX, c->max_limits.disk_bytes), "into", PULL_INTO);
}

int pull_plan(const struct builds *bs, const struct pull_wish *wish, struct pull **ret,
              struct err *err)
{
	auto_json json_t *rules = json_array(), *places = json_array(), *signs = json_array();
	auto_json json_t *ranges = plan_private_ranges();
	auto_json json_t *network = json_pack("{sO}", "rules", rules);
	struct plan p = {.bs = bs,
	                 .wish = wish,
	                 .rules = rules,
	                 .places = places,
	                 .signs = signs,
	                 .ranges = ranges};
	const char *mirror;
	int r = image_reference_parse(wish->ref, bs->config.registries.place, wish->field, &p.ref,
	                              err);

	if (r < 0)
		return r;
	p.pull = xnew0(struct pull);
	image_reference_format(&p.ref, p.pull->ref);
	for (size_t i = 0;
	     i < PLACES_MAX && !wish->password &&
	     (mirror = registries_mirror(&bs->config.registries, &p.ref.host, p.ref.port, i));
	     i++)
		add_mirror(&p, mirror);
	r = add_origin(&p, err);
	if (r == 0) {
		add_others(&p);
		make_wish(&p);
		for (size_t i = 0; r == 0 && i < ARRAY_SIZE(p.pull->policies); i++)
			r = network_read(network, wish->field, &p.pull->policies[i], err);
	}
	if (r < 0) {
		pull_free(p.pull);
		return r;
	}
	*ret = p.pull;
	return 0;
}

void pull_free(struct pull *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(p->policies); i++)
		policy_free(p->policies[i]);
	json_decref(p->wish);
	free(p);
}

const char *pull_ref(const struct pull *p)
{
	return p->ref;
}
