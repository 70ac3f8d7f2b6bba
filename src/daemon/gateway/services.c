// SPDX-License-Identifier: Apache-2.0
/*
 * What the gateway is made of, opened from the bottom up by a table: each step may use what the
 * ones before it have opened. Paths are as the gateway sees them, below its root.
 */
#include "api/handlers.h"
#include "api/operate/metrics.h"
#include "api/operate/problems.h"
#include "api/templates/templates.h"
#include "base/clock.h"
#include "build/build.h"
#include "compat/compat.h"
#include "daemon/gateway/gateway.h"
#include "daemon/gateway/shared_records.h"
#include "event/seal.h"
#include "loop/work.h"
#include "node/usage_telling.h"
#include "sandbox/network/identity_fill.h"
#include "sandbox/network/network.h"
#include "tenant/share.h"

#include <errno.h>
#include <string.h>

#define AHEAD_MS            1000 /* that it may take to end sandboxes whose budget is spent */
#define STORE_PATH          "/state.db"
#define SPOOL_DIR           "/spool"
#define BUILDS_DIR          "/builds" /* their logs */
#define CRASH_COUNTERS_PATH "/jots"
#define LOST_PATH           "/cluster-lost"
#define BACKUP_DIR          "/backup" /* copies of the database, while a backup is made */
/* The bound for results of code calls that are not sent yet: 8 of the largest size; and what each
 * project may always have. */
#define HELD_BYTES_MAX ((size_t)320 * 1024 * 1024)
#define HELD_BYTES_OWN ((size_t)8 * 1024 * 1024)

static int open_loop(struct gateway *g, struct err *err)
{
	int r = loop_new(&g->loop, err);

	if (r == 0 && work_attach(g->work, g->loop) < 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot watch the work thread");
	return r;
}

static int open_store(struct gateway *g, struct err *err)
{
	int r = store_open(STORE_PATH, &g->store, err);

	return r < 0 ? err_prefix(err, "in '%s/gateway'", g->site->config->data_dir) : 0;
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
		.helpers_project_id = BUILD_PROJECT,
	};
	int r = event_log_open(&config, &g->events, err);

	if (r == 0)
		tell_start_or_stop(g, EVENT_DAEMON_STARTED);
	return r;
}

static int open_outgoing(struct gateway *g, struct err *err)
{
	return senders_open(&g->senders, g->loop, g->store, g->events, g->secrets, g->fds->dialer,
	                    err);
}

static bool sends(const struct config *c, const char *name)
{
	char *const *signals = c->telemetry_signals;

	while (signals && *signals && strcmp(*signals, name) != 0)
		signals++;
	return !signals || *signals;
}

static bool put_metrics(size_t group, struct metrics *m, void *arg)
{
	const struct gateway *g = arg;

	return metrics_put_group(&g->api, group, m);
}

static int open_telemetry(struct gateway *g, struct err *err)
{
	const struct config *c = g->site->config;
	struct telemetry_config config = {
		.url = c->telemetry_url,
		.headers = &g->senders.headers,
		.interval_us = c->telemetry_interval_ms * 1000,
		.traces_percent = c->telemetry_percent,
		.traces_rate = c->telemetry_rate,
		.host_name = g->senders.host_name,
		.instance = store_number(g->store),
		.outgoing = g->senders.outgoing,
		.put_metrics = put_metrics,
		.arg = g,
	};

	(void)err;
	for (unsigned i = 0; i < TELEMETRY_SIGNALS; i++)
		config.sends[i] = sends(c, telemetry_signal_names[i]);
	g->telemetry = telemetry_new(&config);
	return 0;
}

static int open_audit(struct gateway *g, struct err *err)
{
	return senders_open_audit(&g->senders, g->store, g->events, g->seal_key, err);
}

static int open_keyring(struct gateway *g, struct err *err)
{
	int r = keyring_load(g->store, &g->keyring, err);

	return r < 0 ? r : keyring_ensure_admin(g->keyring, g->fds->key, err);
}

static int open_logins(struct gateway *g, struct err *err)
{
	return logins_open(g->store, g->keyring, &g->logins, err);
}

static int open_people(struct gateway *g, struct err *err)
{
	const struct people_services services = {.loop = g->loop,
	                                         .outgoing = &g->senders.outgoing,
	                                         .store = g->store,
	                                         .ring = g->keyring,
	                                         .events = g->events,
	                                         .keys = &g->master_keys};

	return people_open(&g->people, g->site->config, &services, err);
}

static int open_meters(struct gateway *g, struct err *err)
{
	return meters_open(g->store, g->boot_id, &g->meters, err);
}

static int open_history(struct gateway *g, struct err *err)
{
	const struct config *c = g->site->config;
	const struct history_config config = {
		.loop = g->loop,
		.store = g->store,
		.bytes_max = c->history_bytes,
		.runs_max = c->history_runs,
		.period_us = c->usage_period_ms * 1000,
	};

	return history_open(&config, &g->history, err);
}

static void on_use(const char *project_id, const char *key_id, const struct usage *more, void *arg)
{
	const struct gateway *g = arg;

	quota_on_use(project_id, key_id, more, g->quota);
	history_on_use(g->history, project_id, more);
}

static int open_node(struct gateway *g, struct err *err)
{
	(void)err;
	g->node = node_link_open(&g->cluster, g->fds->member >= 0,
	                         &(struct node_config){.loop = g->loop,
	                                               .keyring = g->keyring,
	                                               .quota = g->quota,
	                                               .store = g->store,
	                                               .events = g->events,
	                                               .boot_id = g->boot_id,
	                                               .lost_path = LOST_PATH});
	return 0;
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
	config.events = g->events;
	r = quota_open(&config, &g->quota, err);

	if (r == 0)
		meters_on_use(g->meters, on_use, g);
	return r;
}

static void on_secret(const char *project_id, const char *name, void *arg)
{
	const struct gateway *g = arg;

	network_on_secret(g->fleet, project_id, name);
	hooks_on_secret(g->senders.hooks, project_id, name);
}

static int open_secrets(struct gateway *g, struct err *err)
{
	const struct secrets_config config = {
		.store = g->store, .events = g->events, .keys = &g->master_keys};
	int r = secrets_open(&config, &g->secrets, err);

	if (r == 0)
		secrets_on_change(g->secrets, on_secret, g);
	return r;
}

static const char *project_name(const char *project_id, void *arg)
{
	const struct gateway *g = arg;

	return keyring_project_name(g->keyring, project_id);
}

static void on_revoked(void *arg)
{
	const struct gateway *g = arg;

	identity_renew_all(g->fleet);
}

static int open_identity(struct gateway *g, struct err *err)
{
	const struct config *c = g->site->config;
	const struct identity_config config = {
		.loop = g->loop,
		.store = g->store,
		.events = g->events,
		.work = g->work,
		.keys = &g->master_keys,
		.issuer = c->identity_issuer,
		.token_ms = c->identity_token_ms,
		.rotate_ms = c->identity_rotate_ms,
		.audiences = c->identity_audiences,
		.project_name = project_name,
		.project_name_arg = g,
	};
	int r = c->identity_issuer ? identity_open(&config, &g->identity, err) : 0;

	if (r == 0 && g->identity)
		identity_on_revoked(g->identity, on_revoked, g);
	return r;
}

static int open_wall(struct gateway *g, struct err *err)
{
	g->wall = wall_client_new(g->loop);
	network_site_listeners(&g->network, g->site);
	return network_site_read(&g->network, g->site->config, err);
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

static bool is_cordoned(void *arg)
{
	const struct gateway *g = arg;
	const struct cluster_node_row *row = cluster_link_node(&g->cluster, g->cluster.word.node);

	return row && row->is_cordoned;
}

static int open_fleet(struct gateway *g, struct err *err)
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
		.broker_fd = g->fds->broker,
		.own_project_id = BUILD_PROJECT,
		.spool_dir = SPOOL_DIR,
		.crash_counters_path = CRASH_COUNTERS_PATH,
		.backup_dir = BACKUP_DIR,
		.default_template = c->default_template ? c->default_template : "python",
		.engines_forbidden = config_engines_forbidden(c),
		.default_engine =
			c->default_engine ? engine_find_name(c->default_engine)->number : 0,
		.spool_bytes_max = c->spool_bytes,
		.results_sandbox_max = c->results_sandbox,
		.results_project_max = c->results_project,
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
		.history = g->history,
		.quota = g->quota,
		.is_cordoned = is_cordoned,
		.is_cordoned_arg = g,
		.has_objects = c->cluster_objects != NULL,
		.shares = g->shares,
		.secrets = g->secrets,
		.identity = g->identity,
		.telemetry = g->telemetry,
		.node = g->node,
		.wall = g->wall,
		.network_site = network_site_ranges(&g->network),
		.has_disk_share = c->quota_disk_share < 100,
		.usage_period_ms = c->usage_period_ms,
		.usage_kept_ms = c->usage_kept_ms,
		.pool_min = c->pool_min,
		.pool_max = c->is_sweep ? 0 : c->pool_max,
		.pool_memory_bytes = c->pool_memory,
		.pool_reserve_max = c->pool_reserve,
		.pool_reserve_bytes = c->pool_reserve_memory,
		.pool_languages = c->pool_languages,
	};

	return fleet_new(&config, g->on_ready, g, &g->fleet, err);
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
		.registries = {.place = c->registries_default,
	                       .mirrors = c->registries_mirrors,
	                       .credentials = c->registries_credentials},
		.check_manifest = check_manifest,
		.plan_foreign = compat_plan_build,
		.cache_bytes_max = c->templates_cache,
		.sets_bytes_max = c->templates_packages,
		.generation_every_ms = c->cluster_generation_ms,
	};

	return builds_open(&config, &g->builds, err);
}

static int open_wall_link(struct gateway *g, struct err *err)
{
	(void)err;
	wall_client_set_ops(g->wall, &network_wall_ops, g->fleet);
	wall_client_attach(g->wall, g->fds->wall);
	return 0;
}

static int open_problems(struct gateway *g, struct err *err)
{
	(void)err;
	g->problems = problems_new(&(struct problems_config){.loop = g->loop,
	                                                     .fleet = g->fleet,
	                                                     .store = g->store,
	                                                     .events = g->events,
	                                                     .dialer = g->senders.outgoing.dialer,
	                                                     .secrets = g->secrets,
	                                                     .provider = g->people.provider,
	                                                     .cluster = &g->cluster.word,
	                                                     .hooks = g->senders.hooks,
	                                                     .telemetry = g->telemetry,
	                                                     .audit = g->senders.audit});
	return 0;
}

static const struct {
	enum child_part part;
	const char *name;
} parts[API_PARTS] = {{CHILD_BROKER, "broker"},
                      {CHILD_DIALER, "dialer"},
                      {CHILD_WALL, "wall"},
                      {CHILD_GATEWAY, "gateway"}};

static int open_api(struct gateway *g, struct err *err)
{
	(void)err;
	g->api = (struct api){.loop = g->loop,
	                      .fleet = g->fleet,
	                      .keyring = g->keyring,
	                      .node = g->node,
	                      .logins = g->logins,
	                      .people = g->people.flow,
	                      .meters = g->meters,
	                      .history = g->history,
	                      .quota = g->quota,
	                      .shares = g->shares,
	                      .prices = g->site->config->prices,
	                      .currency = g->site->config->currency,
	                      .events = g->events,
	                      .seal_key = g->seal_key,
	                      .hooks = g->senders.hooks,
	                      .telemetry = g->telemetry,
	                      .audit = g->senders.audit,
	                      .secrets = g->secrets,
	                      .builds = g->builds,
	                      .problems = g->problems,
	                      .store = g->store,
	                      .compat_wait_ms = g->site->config->compat_wait_ms,
	                      .is_metrics_open = g->site->config->is_metrics_open,
	                      .proc = {g->statm_fd, g->proc_fd_dir},
	                      .doctor = g->site->doctor,
	                      .settings = g->settings,
	                      .data_dir = g->site->config->data_dir,
	                      .held = {.most = HELD_BYTES_MAX, .always = HELD_BYTES_OWN},
	                      .started_us = clock_wall_us()};
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		g->api.parts[i].name = parts[i].name;
	shared_records_open(g);
	node_tells_usage(g->node, g->meters);
	if (g->node)
		node_on_unused_project(g->node, projects_remove_unused, &g->api);
	g->mcp = mcp_new(&g->api);
	return 0;
}

static void feed_history(void *arg)
{
	const struct gateway *g = arg;

	fleet_feed_history(g->fleet);
}

static bool read_host(uint64_t elapsed_us, uint64_t of[HISTORY_FIGURES_MAX], void *arg)
{
	struct gateway *g = arg;

	return host_reading_take(&g->host_reading, &g->api, elapsed_us, of);
}

static bool has_disk_room(void *arg)
{
	const struct gateway *g = arg;

	return fleet_disk(g->fleet)->state == DISK_OK;
}

static int start_history(struct gateway *g, struct err *err)
{
	(void)err;
	history_start(g->history, &(struct history_sources){.feed = feed_history,
	                                                    .host = read_host,
	                                                    .has_room = has_disk_room,
	                                                    .arg = g});
	return 0;
}

static int (*const steps[])(struct gateway *g, struct err *err) = {
	open_loop,    open_store,    open_events, open_secrets,  open_outgoing, open_telemetry,
	open_keyring, open_identity, open_logins, open_people,   open_meters,   open_history,
	open_quota,   open_node,     open_wall,   open_fleet,    open_builds,   open_wall_link,
	open_audit,   open_problems, open_api,    start_history,
};

int services_open(struct gateway *g, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(steps); i++)
		r = steps[i](g, err);
	if (r == 0)
		services_tell_replaced(g, &g->fds->lost);
	return r;
}

void services_tell_replaced(struct gateway *g, const struct child_loss *lost)
{
	struct json_writer *w;
	struct event e;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (parts[i].part != lost->part)
			continue;
		g->api.parts[i].replaced_us = clock_wall_us();
		w = event_begin(&e, g->events, EVENT_DAEMON_PART_REPLACED, NULL, NULL);
		json_put_str(w, "part", parts[i].name);
		json_put_str(w, "cause", lost->was_stuck ? "stuck" : "died");
		event_end(&e);
	}
}

void services_close(struct gateway *g)
{
	work_free(take_ptr(g->work));
	if (g->node) {
		node_told(g->node, NULL);
		cluster_link_done(&g->cluster);
	}
	compat_close(&g->api);
	problems_free(g->problems);
	builds_close(g->builds);
	history_stop(g->history);
	sources_done(&g->sources);
	registries_done(&g->registries);
	if (g->fleet)
		fleet_free(g->fleet);
	node_free(g->node); /* the fleet tells it of each sandbox that it lets go */
	mcp_free(g->mcp);
	wall_client_free(g->wall);
	meters_close(g->meters);
	history_close(g->history);
	quota_close(g->quota);
	shares_free(g->shares);
	logins_free(g->logins);
	people_close(&g->people);
	if (g->keyring)
		keyring_free(g->keyring);
	telemetry_free(g->telemetry);
	senders_close(&g->senders);
	identity_close(g->identity);
	secrets_close(g->secrets);
	master_keys_done(&g->master_keys);
	seal_key_free(g->seal_key);
	free(g->key_file);
	json_decref(g->settings);
	if (g->events && g->is_stopping)
		tell_start_or_stop(g, EVENT_DAEMON_STOPPED);
	event_log_close(g->events);
	if (g->store)
		store_close(g->store);
	tls_context_free(g->tls);
	authority_free(g->authority);
	if (g->loop)
		loop_free(g->loop);
}
