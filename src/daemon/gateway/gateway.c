// SPDX-License-Identifier: Apache-2.0
/*
 * The gateway process. It is confined first, then its services open (services.c), and it listens
 * last (listeners.c), when the fleet knows which sandboxes are alive. It stops in the reverse
 * order:
 *
 *	SIGTERM --> no new connections, replies end or are cut
 *	        --> (--rm: sandboxes deleted) --> exit
 *
 * When the launcher dies or closes the control socket (because the broker died), a clean shutdown
 * is of no use: the gateway stops at once, and the next start continues from the store.
 */
#include "daemon/gateway/gateway.h"

#include "base/fd.h"
#include "base/units.h"
#include "compat/compat.h"
#include "daemon/config/config_json.h"
#include "daemon/confine/confine.h"
#include "daemon/memory.h"
#include "event/seal.h"
#include "sandbox/storage/image.h"
#include "tenant/create_queue.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>

#define NODE_FILE_MAX ((size_t)64 * 1024)
#define DRAIN_US      (5 * SECOND_US)
#define MEMORY_US     (5 * SECOND_US) /* after which free memory is given back */

static void on_fleet_ready(struct loop *loop, void *arg)
{
	struct gateway *g = arg;
	struct err err = {0};

	if (g->is_stopping)
		return;
	image_settle(g->fleet, builds_need, g->builds);
	if (compat_open(&g->api, &err) < 0 || listeners_open(g, &err) < 0) {
		child_report(g->control_fd, &err);
		g->has_failed = true;
		loop_stop(loop);
		return;
	}
	fleet_share_names(g->fleet);
	store_erase(g->store);
	if (!g->site->config->is_sweep) {
		builds_resume(g->builds);
		builds_begin_missing(g->builds, key_project_id(keyring_root(g->keyring)),
		                     g->site->config->templates_build);
	}
	child_report(g->control_fd, NULL);
}

static void on_flushed(struct loop *loop, void *arg)
{
	(void)arg;
	loop_stop(loop);
}

static void on_deleted(struct loop *loop, void *arg)
{
	const struct gateway *g = arg;

	(void)loop;
	telemetry_flush(g->telemetry, on_flushed, NULL);
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
	if (g->fleet)
		create_queue_close(fleet_creates(g->fleet));
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

/* Takes the socket of a new wall, dialer or member from the launcher, or sees its end. */
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
	services_tell_replaced(g, &lost);
	if (lost.part == CHILD_WALL)
		wall_client_attach(g->wall, fds[0]);
	else if (lost.part == CHILD_MEMBER)
		cluster_link_attach(&g->cluster, g->loop, fds[0]);
	else
		dialer_attach(g->senders.outgoing.dialer, fds[0]);
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
	log_warn("gateway.peer_gone", "message='the launcher or the broker is gone'");
	loop_stop(loop);
}

static int watch(struct gateway *g, struct err *err)
{
	int r = loop_signal_add(g->loop, SIGTERM, on_sigterm, g);

	if (r == 0)
		r = loop_signal_add(g->loop, CHILD_LEAVE_SIGNAL, on_leave, g);
	if (r == 0)
		r = loop_io_add(g->loop, g->control_fd, EPOLLIN, on_control, g, &g->control_io);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot watch for signals") : 0;
}

static void on_memory(struct loop *loop, void *arg)
{
	const struct gateway *g = arg;

	(void)loop;
	memory_give_back();
	loop_timer_set_in(g->memory, MEMORY_US);
}

/* The file of the settings, else systemd's credential, else one of our own, which is made. */
static int read_master_keys(struct gateway *g, struct err *err)
{
	static const char variable[] = "CREDENTIALS_DIRECTORY";
	const struct config *c = g->site->config;
	const char *credentials = getenv(variable);
	auto_free char *given = credentials ? xasprintf("%s/secrets.key", credentials) : NULL;

	if (c->secrets_key_file)
		return master_keys_read(c->secrets_key_file, false, &g->master_keys, err);
	if (given && access(given, F_OK) == 0) {
		g->key_file = take_ptr(given);
		g->key_file_origin = (struct origin){.from = ORIGIN_ENVIRONMENT, .place = variable};
		return master_keys_read(g->key_file, false, &g->master_keys, err);
	}
	g->key_file = xasprintf("%s/secrets.key", c->data_dir);
	return master_keys_read(g->key_file, true, &g->master_keys, err);
}

/* DATA/audit.key: the seed of the key that seals exports; made at the first start. */
static int read_seal_key(struct gateway *g, struct err *err)
{
	auto_free char *path = xasprintf("%s/audit.key", g->site->config->data_dir);
	struct master_keys seeds = {0};
	int r = master_keys_read(path, true, &seeds, err);

	if (r == 0)
		r = seal_key_new(seeds.of[0], &g->seal_key, err);
	else if (err->hint[0] != '\0') /* about secrets, whose keys are in such a file, too */
		(void)err_hint(err,
		               "put it back from a copy, or remove it: a new one is made then; "
		               "exports that were sealed before are checked with the public "
		               "key of then");
	master_keys_done(&seeds);
	return r;
}

static int describe_settings(struct gateway *g, struct err *err)
{
	const struct found_setting found[] = {
		{"secrets-key-file", g->key_file, g->key_file_origin},
		{"templates-npm-registry", g->registries.npm, g->registries.npm_origin},
		{"templates-pip-index", g->registries.pip, g->registries.pip_origin},
	};

	g->settings = config_json(g->site->config, found, ARRAY_SIZE(found), err);
	return g->settings ? 0 : -EIO;
}

/* With the operator's certificate, else one of our own for the preview domain. */
static int open_tls(struct gateway *g, struct err *err)
{
	const struct config *c = g->site->config;
	auto_free char *dir = xasprintf("%s/authority", c->data_dir);
	int r;

	if (c->tls_cert)
		return tls_context_new(c->tls_cert, c->tls_key, &g->tls, err);
	if (!c->preview_domain)
		return 0;
	r = authority_open(dir, c->preview_domain, time(NULL), &g->authority, err);
	if (r == 0)
		r = tls_context_new_bare(&g->tls, err);
	if (r == 0)
		authority_serve(g->authority, g->tls);
	return r;
}

/* Those of the cluster that this node is in: what it makes ahead, before its member has said a
 * word, has them, too. */
static void read_node(struct gateway *g)
{
	const struct config *c = g->site->config;
	auto_free char *path = xasprintf("%s/cluster/node.json", c->data_dir);
	auto_call(buf_done) struct buf text = BUF_INIT(NODE_FILE_MAX);
	auto_json json_t *all = NULL;
	uint32_t tags[TAGS_PER_NODE];
	const json_t *list;
	struct err err;

	if (!c->cluster_postgres || buf_append_file(&text, path) < 0 ||
	    json_parse(buf_str(&text), text.len, &all, &err) < 0 ||
	    json_object_get(all, "invitation"))
		return;
	g->node_number = (uint32_t)json_integer_value(json_object_get(all, "node"));
	list = json_object_get(all, "tags");
	if (json_array_size(list) != TAGS_PER_NODE)
		return;
	for (size_t i = 0; i < TAGS_PER_NODE; i++)
		tags[i] = (uint32_t)json_integer_value(json_array_get(list, i)) % TAG_COUNT;
	id_set_tags(tags, TAGS_PER_NODE);
}

static void serve_peer(uint32_t from, int fd, void *arg)
{
	const struct gateway *g = arg;
	struct err err;

	if (!g->server)
		(void)close(fd);
	else if (http_server_take(g->server, fd, from, &err) < 0)
		log_warn("gateway.peer_refused", "node=%u error='%s'", from, err.message);
}

static void join_cluster(struct gateway *g)
{
	g->hops = hops_new(&(struct hops_config){.loop = g->loop,
	                                         .link = &g->cluster,
	                                         .fleet = g->fleet,
	                                         .node = g->node,
	                                         .keyring = g->keyring,
	                                         .preview_domain = g->site->config->preview_domain,
	                                         .host = &g->host_reading,
	                                         .serve = serve_peer,
	                                         .arg = g});
	cluster_link_attach(&g->cluster, g->loop, g->fds->member);
}

static int run(struct gateway *g, struct err *err)
{
	const struct config *c = g->site->config;
	auto_free char *root_dir = xasprintf("%s/gateway", c->data_dir);
	int r;

	/* Read while it can be seen. Without it every start counts as a reboot. */
	if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", g->boot_id,
	                 sizeof(g->boot_id)) < 0)
		g->boot_id[0] = '\0';
	g->statm_fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	g->proc_fd_dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	host_reading_open(&g->host_reading);
	r = open_tls(g, err); /* while it can still read the key */
	if (r == 0)
		r = read_master_keys(g, err);
	if (r == 0)
		r = read_seal_key(g, err);
	if (r == 0)
		r = senders_prepare(&g->senders, c, err);
	if (r == 0)
		r = people_prepare(&g->people, c, err);
	read_node(g);
	sources_read(&g->sources, c->templates_sources); /* likewise */
	registries_read(&g->registries);
	if (r == 0)
		r = describe_settings(g, err);
	if (r == 0)
		r = confine(&(struct confine_plan){.part = CONFINE_GATEWAY,
		                                   .root_dir = root_dir,
		                                   .uid = g->site->uid,
		                                   .gid = g->site->gid,
		                                   .ret_work = &g->work},
		            err);
	if (r == 0)
		r = services_open(g, err);
	if (r == 0)
		r = watch(g, err);
	if (r == 0)
		join_cluster(g);
	(void)close(g->fds->key);
	if (r < 0)
		return r;
	child_beat(g->loop, &g->control_fd, c);
	loop_tell_long_turns(g->loop);
	g->memory = loop_timer_new(g->loop, on_memory, g);
	loop_timer_set_in(g->memory, MEMORY_US);
	r = loop_run(g->loop);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "the event loop failed") : 0;
}

int gateway_main(const struct site *site, const struct gateway_fds *fds)
{
	struct gateway g = {
		.site = site, .fds = fds, .on_ready = on_fleet_ready, .control_fd = fds->control};
	int keep[SITE_LISTENERS_MAX + 6] = {fds->broker, fds->control, fds->key,
	                                    fds->dialer, fds->wall,    fds->member};
	struct err err = {0};
	int r;

	for (size_t i = 0; i < site->n_listeners; i++)
		keep[6 + i] = site->listeners[i].fd;
	child_begin("gateway", site->config, keep, 6 + site->n_listeners);
	memory_prepare();
	r = run(&g, &err);
	if (r < 0 && g.control_fd >= 0)
		child_report(g.control_fd, &err);
	loop_timer_free(g.memory);
	http_server_free(take_ptr(g.server));
	hops_free(g.hops);
	cluster_link_done(&g.cluster);
	loop_io_removep(&g.control_io);
	services_close(&g);
	return r < 0 || g.has_failed ? CHILD_FAILED : CHILD_OK;
}
