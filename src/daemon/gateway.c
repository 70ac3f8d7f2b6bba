// SPDX-License-Identifier: Apache-2.0
/*
 * The gateway process. It is confined first, then wired together from the bottom up, and listens
 * last, when the fleet knows which sandboxes are alive. It stops in the reverse order:
 *
 *	SIGTERM --> no new connections, replies end or are cut
 *	        --> (--rm: sandboxes deleted) --> exit
 *
 * When the launcher dies or closes the control socket (because the broker died), a clean shutdown
 * is of no use: the gateway stops at once, and the next start continues from the store.
 */
#include "api/api.h"
#include "api/frame/access.h"
#include "api/hold.h"
#include "api/operate/problems.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/text/toml.h"
#include "base/units.h"
#include "compat/compat.h"
#include "daemon/child.h"
#include "daemon/confine/confine.h"
#include "daemon/memory.h"
#include "daemon/outgoing.h"
#include "daemon/probe/registries.h"
#include "daemon/probe/sources.h"
#include "daemon/wall.h"
#include "http/target.h"
#include "http/tls.h"
#include "mcp/mcp.h"
#include "pages/pages.h"
#include "sandbox/network/network.h"
#include "sandbox/storage/image.h"
#include "secret/secret.h"
#include "tenant/share.h"
#include "wall/client.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>

#define DRAIN_US            (5 * SECOND_US)
#define HOSTS_MAX           (TOML_ITEMS_MAX + SITE_LISTENERS_MAX + 3)
#define AHEAD_MS            1000 /* that it may take to end sandboxes whose budget is spent */
#define STORE_PATH          "/state.db" /* below the root that confine() gave it */
#define SPOOL_DIR           "/spool"
#define BUILDS_DIR          "/builds" /* their logs */
#define CRASH_COUNTERS_PATH "/jots"
#define MEMORY_US           (5 * SECOND_US) /* after which free memory is given back */
#define BACKUP_DIR          "/backup"       /* copies of the database, while a backup is made */
/* The bound for results of code calls that are not sent yet: 8 of the largest size; and what each
 * project may always have. */
#define HELD_BYTES_MAX ((size_t)320 * 1024 * 1024)
#define HELD_BYTES_OWN ((size_t)8 * 1024 * 1024)

struct gateway {
	const struct site *site;
	struct loop *loop;
	struct work *work; /* waits for the disk */
	struct store *store;
	struct event_log *events;
	struct keyring *keyring;
	struct logins *logins;
	struct meters *meters;
	struct quota *quota;
	struct shares *shares;
	char boot_id[40]; /* of the running kernel */
	int statm_fd, proc_fd_dir;
	struct fleet *fleet;
	struct http_server *server;
	struct tls_context *tls;
	struct outgoing outgoing;
	struct sources sources;
	struct host_registries registries;
	struct builds *builds;
	struct wall_client *wall;
	struct problems *problems;
	struct network_site network;
	struct master_keys master_keys;
	struct secrets *secrets;
	struct api api;
	struct mcp *mcp;
	struct http_route routes[API_ROUTES_MAX]; /* of all tables, one behind the other */
	size_t n_routes;
	const char *hosts[HOSTS_MAX + 1]; /* NULL-terminated */
	size_t n_hosts;
	char host_names[SITE_LISTENERS_MAX][HTTP_HOST_SIZE];
	char preview_url[HTTP_HOST_SIZE + 32], preview_port[16];
	int control_fd;
	struct loop_io *control_io;
	struct loop_timer *memory;
	bool is_stopping;
	bool is_followed; /* by another, so it deletes nothing */
	bool has_failed;  /* and has said so */
};

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
	if (g->n_hosts < HOSTS_MAX)
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
	g->api.preview_scheme = g->tls ? "https" : "http";
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
	if (port != 0 && port != (g->tls ? 443 : 80))
		(void)snprintf(g->preview_port, sizeof(g->preview_port), ":%u", port);
	g->api.preview_url = c->preview_url ? c->preview_url : g->preview_url;
	g->api.preview_port = g->preview_port;
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

/* Sandboxes' own host names come first: there every path belongs to the sandbox. */
static int divert(struct http_req *req, struct err *err)
{
	int r = compat_divert(req, err);

	return r != 0 ? r : pages_divert(req, err);
}

static int fail(struct http_req *req, const struct err *err)
{
	int r = compat_fail(req, err);

	return r != 0 ? r : pages_fail(req, err);
}

static int listen_all(struct gateway *g, struct err *err)
{
	struct http_app app = {.divert = divert,
	                       .fail = fail,
	                       .authorize = compat_authorize,
	                       .recheck = api_recheck,
	                       .enter = access_enter,
	                       .leave = access_leave,
	                       .holds = hold_for,
	                       .ended = access_ended,
	                       .arg = &g->api,
	                       .share = &shares_get(g->shares, "")->turn,
	                       .body_max = g->site->config->request_bytes,
	                       .hosts = allowed_hosts(g)};
	int r;

	set_preview(g);
	list_init(&g->api.watchers);
	collect_routes(g);
	app.routes = g->routes;
	app.n_routes = g->n_routes;
	r = http_server_new(g->loop, &app, &g->server, err);
	for (size_t i = 0; r == 0 && i < g->site->n_listeners; i++) {
		const struct site_listener *l = &g->site->listeners[i];

		r = http_server_listen(g->server, l->fd, l->is_unix ? NULL : g->tls, err);
	}
	return r;
}

static void on_fleet_ready(struct loop *loop, void *arg)
{
	struct gateway *g = arg;
	struct err err = {0};

	if (g->is_stopping)
		return;
	image_settle(g->fleet, builds_need, g->builds);
	if (compat_open(&g->api, &err) < 0 || listen_all(g, &err) < 0) {
		child_report(g->control_fd, &err);
		g->has_failed = true;
		loop_stop(loop);
		return;
	}
	if (!g->site->config->is_sweep) {
		builds_resume(g->builds);
		builds_begin_missing(g->builds, key_project_id(keyring_root(g->keyring)),
		                     g->site->config->templates_build);
	}
	child_report(g->control_fd, NULL);
}

static void on_deleted(struct loop *loop, void *arg)
{
	(void)arg;
	loop_stop(loop);
}

static void on_drained(struct loop *loop, void *arg)
{
	struct gateway *g = arg;

	if (g->control_fd < 0 || !fleet_is_ready(g->fleet))
		loop_stop(loop);
	else if ((g->site->config->is_rm || g->site->config->is_sweep) && !g->is_followed)
		fleet_delete_all(g->fleet, on_deleted, g);
	else
		fleet_close_pool(g->fleet, on_deleted, g);
}

static void stop(struct gateway *g, uint64_t drain_us)
{
	if (g->is_stopping)
		return;
	g->is_stopping = true;
	if (g->mcp)
		mcp_close(g->mcp);
	if (g->server)
		http_server_drain(g->server, loop_now_us(g->loop) + drain_us, on_drained, g);
	else
		loop_defer(g->loop, on_drained, g);
}

static void on_sigterm(struct loop *loop, void *arg)
{
	(void)loop;
	stop(arg, DRAIN_US);
}

static void on_leave(struct loop *loop, void *arg)
{
	struct gateway *g = arg;

	(void)loop;
	g->is_followed = true;
	stop(g, DRAIN_US);
}

static void tell_replaced(struct gateway *g, const struct child_loss *lost)
{
	static const struct {
		enum child_part part;
		const char *name;
	} rows[] = {{CHILD_BROKER, "broker"},
	            {CHILD_DIALER, "dialer"},
	            {CHILD_WALL, "wall"},
	            {CHILD_GATEWAY, "gateway"}};
	struct json_writer *w;
	struct event e;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].part != lost->part)
			continue;
		w = event_begin(&e, g->events, EVENT_DAEMON_PART_REPLACED, NULL, NULL);
		json_put_str(w, "part", rows[i].name);
		json_put_str(w, "cause", lost->was_stuck ? "stuck" : "died");
		event_end(&e);
	}
}

/* Takes the socket of a new wall or dialer from the launcher, or sees its end. */
static bool take_news(struct gateway *g)
{
	struct child_loss lost;
	int fds[FD_PASS_MAX];
	size_t n_fds = ARRAY_SIZE(fds);
	ssize_t n = fd_recv(g->control_fd, &lost, sizeof(lost), fds, &n_fds);

	if (n == -EINTR || n == -EAGAIN)
		return true;
	if (n != (ssize_t)sizeof(lost) || n_fds != 1)
		return false;
	tell_replaced(g, &lost);
	if (lost.part == CHILD_WALL)
		wall_client_attach(g->wall, fds[0]);
	else
		dialer_attach(g->outgoing.dialer, fds[0]);
	return true;
}

static void on_control(struct loop *loop, uint32_t events, void *arg)
{
	struct gateway *g = arg;

	(void)events;
	if (take_news(g))
		return;
	loop_io_removep(&g->control_io);
	(void)close(take_fd(&g->control_fd));
	log_warn("gateway.peer_gone", "the launcher or the broker is gone");
	loop_stop(loop);
}

static void on_durable(uint64_t number, const struct err *err, void *arg)
{
	struct gateway *g = arg;

	if (g->server)
		http_server_release(g->server, number, err);
}

static bool package_hosts(const char *word, json_t *names, json_t *addresses, json_t *ranges,
                          void *arg)
{
	const struct gateway *g = arg;

	return builds_package_hosts(g->builds, word, names, addresses, ranges);
}

static int open_fleet(struct gateway *g, int broker_fd, struct err *err)
{
	const struct config *c = g->site->config;
	const struct fleet_config config = {
		.loop = g->loop,
		.store = g->store,
		.work = g->work,
		.on_durable = on_durable,
		.on_durable_arg = g,
		.package_hosts = package_hosts,
		.package_hosts_arg = g,
		.events = g->events,
		.broker_fd = broker_fd,
		.own_project_id = BUILD_PROJECT,
		.spool_dir = SPOOL_DIR,
		.crash_counters_path = CRASH_COUNTERS_PATH,
		.backup_dir = BACKUP_DIR,
		.default_template = c->default_template ? c->default_template : "python",
		.engines_forbidden = config_engines_forbidden(c),
		.default_engine =
			c->default_engine ? engine_find_name(c->default_engine)->number : 0,
		.spool_bytes_max = c->spool_bytes,
		.output_sandbox_max = c->output_sandbox,
		.output_project_max = c->output_project,
		.output_host_max = c->output_host,
		.default_limits = c->default_limits,
		.max_limits = c->max_limits,
		.default_timeout_ms = c->default_timeout_ms,
		.max_timeout_ms = c->max_timeout_ms,
		.vm_boot_ms = c->vm_boot_ms,
		.sandboxes_max = c->sandboxes_max,
		.persistent_max = c->persistent_max,
		.is_sweeping = c->is_sweep,
		.ended_max = c->ended_max,
		.ended_age_ms = c->ended_age_ms,
		.ended_bytes_max = c->ended_bytes,
		.execs_max = c->execs_max,
		.boot_id = g->boot_id,
		.meters = g->meters,
		.quota = g->quota,
		.shares = g->shares,
		.secrets = g->secrets,
		.wall = g->wall,
		.network_site = network_site_ranges(&g->network),
		.has_disk_share = c->quota_disk_share < 100,
		.usage_period_ms = c->usage_period_ms,
		.usage_kept_ms = c->usage_kept_ms,
		.pool_min = c->pool_min,
		.pool_max = c->is_sweep ? 0 : c->pool_max,
		.pool_memory_bytes = c->pool_memory,
		.pool_languages = c->pool_languages,
	};

	return fleet_new(&config, on_fleet_ready, g, &g->fleet, err);
}

static int open_builds(struct gateway *g, struct err *err)
{
	const struct config *c = g->site->config;
	const struct builds_config config = {
		.loop = g->loop,
		.fleet = g->fleet,
		.store = g->store,
		.log_dir = BUILDS_DIR,
		.sources = g->sources.lines,
		.codename = g->sources.codename,
		.npm_registry = c->templates_npm ? c->templates_npm : g->registries.npm,
		.pip_index = c->templates_pip ? c->templates_pip : g->registries.pip,
		.names = c->templates_names,
		.cache_bytes_max = c->templates_cache,
		.sets_bytes_max = c->templates_packages,
	};

	return builds_open(&config, &g->builds, err);
}

static int open_wall(struct gateway *g, struct err *err)
{
	g->wall = wall_client_new(g->loop);
	network_site_listeners(&g->network, g->site);
	return network_site_read(&g->network, g->site->config, err);
}

static void tell_start_or_stop(struct gateway *g, enum event_type type)
{
	struct event e;

	json_put_str(event_begin(&e, g->events, type, NULL, NULL), "version", CLOCHE_VERSION);
	event_end(&e);
}

static int open_events(struct gateway *g, struct err *err)
{
	const struct config *c = g->site->config;
	const struct event_config config = {
		.loop = g->loop,
		.store = g->store,
		.boot_id = g->boot_id,
		.limits = {.age_us = c->events_age_ms * 1000,
	                   .bytes = c->events_bytes,
	                   .count = c->events_count,
	                   .rate = c->events_rate},
	};
	int r = event_log_open(&config, &g->events, err);

	if (r == 0)
		tell_start_or_stop(g, EVENT_DAEMON_STARTED);
	return r;
}

static int open_quota(struct gateway *g, struct err *err)
{
	const struct config *c = g->site->config;
	struct quota_config config = {
		.store = g->store,
		.defaults = {.of = {[QUOTA_SANDBOXES] = c->quota_sandboxes,
	                            [QUOTA_CPU_MILLI] = c->quota_cpu_milli ? c->quota_cpu_milli
	                                                                   : QUOTA_UNLIMITED,
	                            [QUOTA_MEMORY_BYTES] = c->quota_memory_bytes,
	                            [QUOTA_DISK_BYTES] = c->quota_disk_bytes,
	                            [QUOTA_CREATES_PER_MINUTE] = c->quota_creates,
	                            [QUOTA_BUDGET_NANO] = c->quota_budget}},
		.prices = c->prices,
		.currency = c->currency,
		.ahead_ms = 2 * c->usage_period_ms + AHEAD_MS,
	};
	int r;

	g->shares = config.shares = shares_new();
	r = quota_open(&config, &g->quota, err);

	if (r == 0)
		meters_on_use(g->meters, quota_on_use, g->quota);
	return r;
}

static void on_memory(struct loop *loop, void *arg)
{
	const struct gateway *g = arg;

	(void)loop;
	memory_give_back();
	loop_timer_set_in(g->memory, MEMORY_US);
}

/* Paths are as the gateway sees them, below its root. */
static int open_store(struct gateway *g, struct err *err)
{
	int r = store_open(STORE_PATH, &g->store, err);

	return r < 0 ? err_prefix(err, "in '%s/gateway'", g->site->config->data_dir) : 0;
}

static void on_secret(const char *project_id, const char *name, void *arg)
{
	const struct gateway *g = arg;

	network_on_secret(g->fleet, project_id, name);
}

static int wire_up(struct gateway *g, const struct gateway_fds *fds, struct err *err)
{
	int r = loop_new(&g->loop, err);

	if (r == 0 && work_attach(g->work, g->loop) < 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot watch the work thread");
	if (r == 0)
		r = open_store(g, err);
	if (r == 0)
		r = open_events(g, err);
	if (r == 0)
		r = outgoing_open(&g->outgoing, g->loop, g->store, g->events, fds->dialer, err);
	if (r == 0)
		r = keyring_load(g->store, &g->keyring, err);
	if (r == 0)
		r = keyring_ensure_admin(g->keyring, fds->key, err);
	if (r == 0)
		r = logins_open(g->store, g->keyring, &g->logins, err);
	if (r == 0)
		r = meters_open(g->store, g->boot_id, &g->meters, err);
	if (r == 0)
		r = open_quota(g, err);
	if (r == 0)
		r = secrets_open(&(struct secrets_config){.store = g->store,
		                                          .events = g->events,
		                                          .keys = &g->master_keys},
		                 &g->secrets, err);
	if (r == 0)
		r = open_wall(g, err);
	if (r == 0)
		r = open_fleet(g, fds->broker, err);
	if (r == 0)
		r = open_builds(g, err);
	if (r < 0)
		return r;
	secrets_on_change(g->secrets, on_secret, g);
	tell_replaced(g, &fds->lost);
	wall_client_set_ops(g->wall, &network_wall_ops, g->fleet);
	wall_client_attach(g->wall, fds->wall);
	g->problems = problems_new(&(struct problems_config){.loop = g->loop,
	                                                     .fleet = g->fleet,
	                                                     .store = g->store,
	                                                     .events = g->events,
	                                                     .dialer = g->outgoing.dialer});
	g->api = (struct api){.loop = g->loop,
	                      .fleet = g->fleet,
	                      .keyring = g->keyring,
	                      .logins = g->logins,
	                      .meters = g->meters,
	                      .quota = g->quota,
	                      .shares = g->shares,
	                      .prices = g->site->config->prices,
	                      .currency = g->site->config->currency,
	                      .events = g->events,
	                      .hooks = g->outgoing.hooks,
	                      .secrets = g->secrets,
	                      .builds = g->builds,
	                      .problems = g->problems,
	                      .store = g->store,
	                      .is_metrics_open = g->site->config->is_metrics_open,
	                      .proc = {g->statm_fd, g->proc_fd_dir},
	                      .doctor = g->site->doctor,
	                      .data_dir = g->site->config->data_dir,
	                      .held = {.most = HELD_BYTES_MAX, .always = HELD_BYTES_OWN},
	                      .started_us = clock_wall_us()};
	g->mcp = mcp_new(&g->api);
	r = loop_signal_add(g->loop, SIGTERM, on_sigterm, g);
	if (r == 0)
		r = loop_signal_add(g->loop, CHILD_LEAVE_SIGNAL, on_leave, g);
	if (r == 0)
		r = loop_io_add(g->loop, g->control_fd, EPOLLIN, on_control, g, &g->control_io);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot watch for signals") : 0;
}

/* The file of the settings, else systemd's credential, else one of our own, which is made. */
static int read_master_keys(struct gateway *g, struct err *err)
{
	const struct config *c = g->site->config;
	const char *credentials = getenv("CREDENTIALS_DIRECTORY");
	auto_free char *given = credentials ? xasprintf("%s/secrets.key", credentials) : NULL;
	auto_free char *own = xasprintf("%s/secrets.key", c->data_dir);

	if (c->secrets_key_file)
		return master_keys_read(c->secrets_key_file, false, &g->master_keys, err);
	if (given && access(given, F_OK) == 0)
		return master_keys_read(given, false, &g->master_keys, err);
	return master_keys_read(own, true, &g->master_keys, err);
}

static int run(struct gateway *g, const struct gateway_fds *fds, struct err *err)
{
	const struct config *c = g->site->config;
	auto_free char *root_dir = xasprintf("%s/gateway", c->data_dir);
	int r = 0;

	/* Read while it can be seen. Without it every start counts as a reboot. */
	if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", g->boot_id,
	                 sizeof(g->boot_id)) < 0)
		g->boot_id[0] = '\0';
	g->statm_fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	g->proc_fd_dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->tls_cert) /* while it can still read the key */
		r = tls_context_new(c->tls_cert, c->tls_key, &g->tls, err);
	if (r == 0)
		r = read_master_keys(g, err);
	if (r == 0)
		r = outgoing_prepare(&g->outgoing, c, err);
	sources_read(&g->sources, c->templates_sources); /* likewise */
	registries_read(&g->registries);
	if (r == 0)
		r = confine(&(struct confine_plan){.part = CONFINE_GATEWAY,
		                                   .root_dir = root_dir,
		                                   .uid = g->site->uid,
		                                   .gid = g->site->gid,
		                                   .ret_work = &g->work},
		            err);
	if (r == 0)
		r = wire_up(g, fds, err);
	(void)close(fds->key);
	if (r < 0)
		return r;
	child_beat(g->loop, &g->control_fd, c);
	loop_tell_long_turns(g->loop);
	g->memory = loop_timer_new(g->loop, on_memory, g);
	loop_timer_set_in(g->memory, MEMORY_US);
	r = loop_run(g->loop);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "the event loop failed") : 0;
}

static void take_down(struct gateway *g)
{
	loop_timer_free(g->memory);
	http_server_free(take_ptr(g->server));
	work_free(take_ptr(g->work));
	compat_close(&g->api);
	problems_free(g->problems);
	builds_close(g->builds);
	sources_done(&g->sources);
	registries_done(&g->registries);
	if (g->fleet)
		fleet_free(g->fleet);
	mcp_free(g->mcp);
	wall_client_free(g->wall);
	secrets_close(g->secrets);
	master_keys_done(&g->master_keys);
	meters_close(g->meters);
	quota_close(g->quota);
	shares_free(g->shares);
	logins_free(g->logins);
	if (g->keyring)
		keyring_free(g->keyring);
	outgoing_close(&g->outgoing);
	if (g->events && g->is_stopping)
		tell_start_or_stop(g, EVENT_DAEMON_STOPPED);
	event_log_close(g->events);
	if (g->store)
		store_close(g->store);
	tls_context_free(g->tls);
	if (g->loop) {
		loop_io_removep(&g->control_io);
		loop_free(g->loop);
	}
}

int gateway_main(const struct site *site, const struct gateway_fds *fds)
{
	struct gateway g = {.site = site, .control_fd = fds->control};
	int keep[SITE_LISTENERS_MAX + 5] = {fds->broker, fds->control, fds->key, fds->dialer,
	                                    fds->wall};
	struct err err = {0};
	int r;

	for (size_t i = 0; i < site->n_listeners; i++)
		keep[5 + i] = site->listeners[i].fd;
	child_begin("gateway", site->config, keep, 5 + site->n_listeners);
	memory_prepare();
	r = run(&g, fds, &err);
	if (r < 0 && g.control_fd >= 0)
		child_report(g.control_fd, &err);
	take_down(&g);
	return r < 0 || g.has_failed ? CHILD_FAILED : CHILD_OK;
}
