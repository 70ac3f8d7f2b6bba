// SPDX-License-Identifier: Apache-2.0
/*
 * The wall's process. It first reads the host's files that it needs, then gives up access to all.
 * It runs as nobody, sees an empty directory, and can make sockets but no process. It ends when the
 * gateway is gone; if it dies alone, the launcher starts another.
 *
 * DATA/wall.key is the secret from which the keys of sandboxes' issuers are derived. The first wall
 * makes it, and no other process ever reads it.
 */
#include "daemon/wall.h"

#include "base/fd.h"
#include "base/log.h"
#include "daemon/child.h"
#include "daemon/confine/confine.h"
#include "daemon/listen.h"
#include "http/target.h"
#include "wall/wall.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define NOBODY          65534
#define RESOLV_CONF     "/etc/resolv.conf"
#define RESOLV_CONF_MAX 16384
#define BLANKS          " \t\r"

static int read_ranges(struct network_ranges *n, const char *field, char *const *list,
                       struct err *err)
{
	for (; list && *list; list++) {
		const char *why = "there are too many";

		if (n->n == NETWORK_RANGES_MAX ||
		    cidr_parse(*list, strlen(*list), &n->items[n->n], &why) < 0)
			return err_field(err, field, "'%s': %s", *list, why);
		n->n++;
	}
	return 0;
}

void network_site_listeners(struct network_site *ret, const struct site *site)
{
	for (size_t i = 0; i < site->n_listeners; i++) {
		char text[64], name[HTTP_HOST_SIZE];
		unsigned port;

		if (site->listeners[i].is_unix)
			continue;
		listen_name(site->listeners[i].fd, text, sizeof(text));
		if (http_host_parse(text, name, &port) == 0)
			ret->ports[ret->n_ports++] = (uint16_t)port;
	}
}

struct range_site network_site_ranges(const struct network_site *n)
{
	return (struct range_site){.never = n->never.items,
	                           .n_never = n->never.n,
	                           .may_open = n->may_open.items,
	                           .n_may_open = n->may_open.n,
	                           .ports = n->ports,
	                           .n_ports = n->n_ports};
}

int network_site_read(struct network_site *ret, const struct config *c, struct err *err)
{
	int r = read_ranges(&ret->never, "network.never", c->network_never, err);

	if (r == 0)
		r = read_ranges(&ret->may_open, "network.may_open", c->network_may_open, err);
	return r;
}

static int use_settings(struct resolver_config *r, char *const *list, struct err *err)
{
	for (; *list; list++) {
		const char *why = "there are too many";

		if (r->n_servers == RESOLVER_SERVERS_MAX ||
		    resolver_parse_server(*list, &r->servers[r->n_servers], &why) < 0)
			return err_field(err, "network.resolvers", "'%s': %s", *list, why);
		r->n_servers++;
	}
	return 0;
}

int wall_check_settings(const struct config *c, struct err *err)
{
	struct network_site site = {0};
	struct resolver_config resolver = {0};
	int r = network_site_read(&site, c, err);

	return r == 0 && c->network_resolvers ? use_settings(&resolver, c->network_resolvers, err)
	                                      : r;
}

static void use_line(struct resolver_config *r, char *line)
{
	static const char word[] = "nameserver";
	char *address = line + strspn(line, BLANKS);

	if (strncmp(address, word, strlen(word)) != 0 || r->n_servers == RESOLVER_SERVERS_MAX)
		return;
	address += strlen(word);
	address += strspn(address, BLANKS);
	address[strcspn(address, BLANKS "#%")] = '\0'; /* a zone is of no use to a name's server */
	if (resolver_parse_server(address, &r->servers[r->n_servers], NULL) == 0)
		r->n_servers++;
}

/* If the host has no resolver, neither it nor its sandboxes can resolve names. */
static void use_host(struct resolver_config *r)
{
	char text[RESOLV_CONF_MAX];
	char *rest = text, *line;

	if (fd_read_file(AT_FDCWD, RESOLV_CONF, text, sizeof(text)) < 0)
		return;
	while ((line = strsep(&rest, "\n")))
		use_line(r, line);
}

static void on_lost(struct loop *loop, void *arg)
{
	(void)arg;
	loop_stop(loop);
}

/* It gets its name when it is complete: a wall that dies before leaves only a temporary file. */
static int make_secret(const char *path, uint8_t secret[ISSUER_SECRET_SIZE], struct err *err)
{
	auto_free char *new_path = xasprintf("%s.new", path);
	auto_fd int fd =
		open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	random_bytes(secret, ISSUER_SECRET_SIZE);
	if (fd < 0 || write(fd, secret, ISSUER_SECRET_SIZE) != ISSUER_SECRET_SIZE ||
	    fsync(fd) < 0 || rename(new_path, path) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", path);
	log_info("wall.key_made", "file='%s'", path);
	return 0;
}

static int read_secret(const struct config *c, uint8_t secret[ISSUER_SECRET_SIZE], struct err *err)
{
	auto_free char *path = xasprintf("%s/wall.key", c->data_dir);
	auto_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	static const uint8_t zeros[ISSUER_SECRET_SIZE]; /* what a lost write leaves */
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return make_secret(path, secret, err);
	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot read '%s'", path);
	if (fstat(fd, &st) < 0 || st.st_size != ISSUER_SECRET_SIZE ||
	    read(fd, secret, ISSUER_SECRET_SIZE) != ISSUER_SECRET_SIZE ||
	    memcmp(secret, zeros, ISSUER_SECRET_SIZE) == 0) {
		(void)err_set(err, ERR_INTERNAL, 0,
		              "the key '%s' is damaged: it is not %d random bytes", path,
		              ISSUER_SECRET_SIZE);
		return err_hint(err, "restore it from a backup, or remove it: a new one is made, "
		                     "sandboxes whose policy looks into TLS get new certificates, "
		                     "and programs that run in them must be started anew");
	}
	return 0;
}

static int prepare_tls(const struct config *c, struct wall_config *config, struct err *err)
{
	uint8_t secret[ISSUER_SECRET_SIZE];
	int r = read_secret(c, secret, err);

	if (r == 0)
		r = secure_new(c->network_ca_file, secret, &config->secure, err);
	explicit_bzero(secret, sizeof(secret));
	return r;
}

static int prepare(const struct config *c, struct wall_config *config, struct network_site *site,
                   struct err *err)
{
	auto_free char *root_dir = xasprintf("%s/empty", c->run_dir);
	struct rlimit files = {.rlim_max = 1024};
	int r = network_site_read(site, c, err);

	if (r == 0 && c->network_resolvers)
		r = use_settings(&config->resolver, c->network_resolvers, err);
	else if (r == 0)
		use_host(&config->resolver);
	if (r == 0)
		r = prepare_tls(c, config, err);
	if (r < 0)
		return r;
	if (mkdir(root_dir, 0555) < 0 && errno != EEXIST)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", root_dir);
	config->site = network_site_ranges(site);
	config->connections_max = c->network_connections;
	(void)getrlimit(RLIMIT_NOFILE, &files); /* confine() takes all of them */
	config->fds_max = files.rlim_max;
	return confine(
		&(struct confine_plan){
			.part = CONFINE_WALL, .root_dir = root_dir, .uid = NOBODY, .gid = NOBODY},
		err);
}

int wall_main(const struct site *site, int link_fd, int control_fd)
{
	const int keep[] = {link_fd, control_fd};
	struct wall_config config = {.link_fd = link_fd, .lost = on_lost};
	struct network_site network = {0};
	struct wall_process *wall = NULL;
	struct err err = {0};
	int r;

	network_site_listeners(&network, site);
	child_begin("wall", site->config, keep, ARRAY_SIZE(keep));
	child_disregard(SIGTERM); /* it goes when the gateway has gone, not before */
	r = prepare(site->config, &config, &network, &err);
	if (r == 0)
		r = loop_new(&config.loop, &err);
	if (r == 0)
		r = wall_process_new(&config, &wall, &err);
	child_report(control_fd, r < 0 ? &err : NULL);
	if (r == 0) {
		child_beat(config.loop, &control_fd, site->config);
		loop_tell_long_turns(config.loop);
		r = loop_run(config.loop);
	}
	return r < 0 ? CHILD_FAILED : CHILD_OK;
}
