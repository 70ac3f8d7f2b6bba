// SPDX-License-Identifier: Apache-2.0
/* Who may come in and by which names: Host names, the addresses of previews, and the routes of all
 * wires in one table. */
#include "daemon/gateway/gateway.h"

#include "api/account/quota_wait.h"
#include "api/frame/access.h"
#include "api/hold.h"
#include "api/nodes/node_fresh.h"
#include "compat/compat.h"
#include "daemon/gateway/hop/hop_gather.h"
#include "pages/pages.h"
#include "tenant/share.h"

#include <assert.h>
#include <string.h>

static bool has_wildcard(const struct config *c)
{
	struct listen_address a;

	for (char **p = c->listen; *p; p++)
		if (listen_parse(*p, &a, NULL) == 0 && listen_is_wildcard(&a))
			return true;
	return false;
}

static void add_host(struct gateway *g, const char *name)
{
	if (g->n_hosts < GATEWAY_HOSTS_MAX)
		g->hosts[g->n_hosts++] = name;
}

/* Its own address, as in a Host header. */
static void add_listener(struct gateway *g, size_t i)
{
	char text[64];
	unsigned port;

	listen_name(g->site->listeners[i].fd, text, sizeof(text));
	if (http_host_parse(text, g->host_names[i], &port) == 0)
		add_host(g, g->host_names[i]);
}

/*
 * The Host names that are answered, against DNS rebinding: those in the settings, and always the
 * local names of this machine, which no web page can have. A daemon that listens on every address
 * cannot know its names: unless they are set, all are accepted.
 */
static const char *const *allowed_hosts(struct gateway *g)
{
	const struct config *c = g->site->config;

	if (!c->hosts && has_wildcard(c))
		return NULL;
	add_host(g, "localhost");
	add_host(g, "127.0.0.1");
	add_host(g, "::1");
	for (size_t i = 0; i < g->site->n_listeners; i++)
		if (!g->site->listeners[i].is_unix)
			add_listener(g, i);
	for (char **p = c->hosts; p && *p; p++) {
		if (strcmp(*p, "*") == 0)
			return NULL;
		add_host(g, *p);
	}
	return g->hosts;
}

/* The URL of previews: as in the settings, else the first TCP listener. */
static void set_preview(struct gateway *g)
{
	const struct config *c = g->site->config;
	char text[64], name[HTTP_HOST_SIZE];
	unsigned port = 0;

	g->api.preview = (struct preview){.fleet = g->fleet,
	                                  .keyring = g->keyring,
	                                  .domain = c->preview_domain,
	                                  .admits = compat_admits};
	g->api.authority = g->authority;
	/* Browsers know nothing of an authority of our own, and no TLS is asked for there. */
	g->api.preview_scheme = g->tls && !g->authority ? "https" : "http";
	for (size_t i = 0; i < g->site->n_listeners && port == 0; i++) {
		if (g->site->listeners[i].is_unix)
			continue;
		listen_name(g->site->listeners[i].fd, text, sizeof(text));
		if (http_host_parse(text, name, &port) < 0)
			continue;
		if (strcmp(name, "0.0.0.0") == 0 || strcmp(name, "::") == 0)
			(void)snprintf(text, sizeof(text), "localhost:%u", port);
		(void)snprintf(g->preview_url, sizeof(g->preview_url), "%s://%s",
		               g->api.preview_scheme, text);
	}
	/* With both, no port is the usual one of both schemes. */
	if (port != 0 && (g->authority || port != (g->tls ? 443 : 80)))
		(void)snprintf(g->preview_port, sizeof(g->preview_port), ":%u", port);
	g->api.preview_url = c->preview_url ? c->preview_url : g->preview_url;
	g->api.preview_port = g->preview_port;
	g->api.preview_tls_port = strcmp(g->preview_port, ":443") == 0 ? "" : g->preview_port;
}

static void add_routes(struct gateway *g, const struct http_route *rows, size_t n)
{
	assert(g->n_routes + n <= ARRAY_SIZE(g->routes));
	memcpy(g->routes + g->n_routes, rows, n * sizeof(*rows));
	g->n_routes += n;
}

static void collect_routes(struct gateway *g)
{
	size_t n;
	const struct http_route *rows = compat_routes(&n);

	add_routes(g, rows, n);
	rows = mcp_routes(&n);
	add_routes(g, rows, n);
	g->api.routes = g->routes;
	g->api.n_routes = g->n_routes;
}

/* What another node has goes there as it is. Then sandboxes' own host names: there every path
 * belongs to the sandbox. */
static int divert(struct http_req *req, struct err *err)
{
	const struct gateway *g = container_of(http_app_arg(req), struct gateway, api);
	int r = hops_divert(g->hops, req, err);

	if (r == 0)
		r = compat_divert(req, err);
	return r != 0 ? r : pages_divert(req, err);
}

static int locate(struct http_req *req, struct err *err)
{
	const struct gateway *g = container_of(http_app_arg(req), struct gateway, api);

	return hops_locate(g->hops, req, err);
}

static int pass_by_name(struct http_req *req, const char *name, struct err *err)
{
	const struct gateway *g = container_of(http_app_arg(req), struct gateway, api);

	return hops_pass_by_name(g->hops, req, name, err);
}

static int lead(struct http_req *req, struct err *err)
{
	const struct gateway *g = container_of(http_app_arg(req), struct gateway, api);

	return hops_lead(g->hops, req, err);
}

static int place(struct http_req *req, const struct err *refused, struct err *err)
{
	const struct gateway *g = container_of(http_app_arg(req), struct gateway, api);

	return hops_place(g->hops, req, refused, err);
}

static int ask_peers(struct http_req *req, peers_fn fn, void *arg, struct err *err)
{
	const struct gateway *g = container_of(http_app_arg(req), struct gateway, api);

	return hops_gather(g->hops, req, fn, arg, err);
}

static int ask_secret_users(struct http_req *req, const char *name,
                            void (*fn)(const struct err *err, void *arg), void *arg,
                            struct err *err)
{
	const struct gateway *g = container_of(http_app_arg(req), struct gateway, api);

	return hops_ask_secret_users(g->hops, req, name, fn, arg, err);
}

/* Calls that wait for other nodes, and are then made again. */
static int refused(struct http_req *req, const struct err *err)
{
	int r = quota_wait_refused(req, err);

	return r != 0 ? r : node_fresh_refused(req, err);
}

static int fail(struct http_req *req, const struct err *err)
{
	int r = compat_fail(req, err);

	return r != 0 ? r : pages_fail(req, err);
}

int listeners_open(struct gateway *g, struct err *err)
{
	struct http_app app = {.divert = divert,
	                       .fail = fail,
	                       .authorize = compat_authorize,
	                       .locate = locate,
	                       .recheck = api_recheck,
	                       .enter = access_enter,
	                       .leave = access_leave,
	                       .refused = refused,
	                       .holds = hold_for,
	                       .ended = access_ended,
	                       .arg = &g->api,
	                       .share = &shares_get(g->shares, "")->turn,
	                       .body_max = g->site->config->request_bytes,
	                       .hosts = allowed_hosts(g)};
	int r;

	g->api.pass_by_name = pass_by_name;
	g->api.ask_peers = ask_peers;
	g->api.ask_secret_users = ask_secret_users;
	g->api.place = place;
	g->api.lead = lead;
	set_preview(g);
	list_init(&g->api.watchers);
	list_init(&g->api.batches);
	collect_routes(g);
	app.routes = g->routes;
	app.n_routes = g->n_routes;
	r = http_server_new(g->loop, &app, &g->server, err);
	for (size_t i = 0; r == 0 && i < g->site->n_listeners; i++) {
		const struct site_listener *l = &g->site->listeners[i];

		r = g->authority && !l->is_unix
		            ? http_server_listen_both(g->server, l->fd, g->tls, err)
		            : http_server_listen(g->server, l->fd, l->is_unix ? NULL : g->tls, err);
	}
	return r;
}
