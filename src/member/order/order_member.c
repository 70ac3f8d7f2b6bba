// SPDX-License-Identifier: Apache-2.0
/*
 * The member's process, as the launcher starts it: root at first. It reads what it needs, forks the
 * resolver of names, and gives up all else: its own user, a root directory with the certificates
 * that libpq reads, no capability, no way to start a program.
 *
 * It does not end for what is wrong with the database or its files: it tells, and tries again. It
 * ends with the gateway or the launcher, and when a command has changed its files.
 */
#include "base/fd.h"
#include "base/log.h"
#include "base/units.h"
#include "daemon/confine/confine.h"
#include "member/member.h"
#include "member/objects/objects_check.h"
#include "member/order/order.h"
#include "member/papers/node_keys.h"
#include "member/papers/trouble.h"
#include "member/status_socket.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* In the member's root directory. */
#define INVITATIONS "/invitations"
#define RENEWALS    "/renewals"
#define CERTIFICATE "/certificate"
#define OPEN_FILES  16384

struct member_process {
	const struct order *order;
	struct loop *loop;
	struct loop_timer *beat; /* for the launcher's watchdog */
	struct loop_io *control;
	struct node_file node;
	struct conninfo conninfo;
	struct authority_pems authority;
	struct member *member;
	struct status_socket *status;
	int store_fds[STORE_WORKERS];
	struct store_pool *store; /* NULL: no objects are kept */
	struct objects_check *check;
	char *key, *certificate;          /* that it joined with; NULL: it has none, and is alone */
	uint8_t wrapping_key[OBJECT_KEY]; /* of the projects' keys */
	bool has_wrapping_key;
};

static void on_watchdog(struct loop *loop, void *arg)
{
	struct member_process *p = arg;

	(void)loop;
	(void)!send((int)p->order->control_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	loop_timer_set_in(p->beat, p->order->beat_ms * 1000);
}

/* It says nothing: what can be read is the end. */
static void on_launcher(struct loop *loop, uint32_t events, void *arg)
{
	(void)events;
	(void)arg;
	loop_stop(loop);
}

static json_t *status_of(void *arg)
{
	const struct member_process *p = arg;
	json_t *all = member_status(p->member);

	if (p->check)
		(void)json_object_set_new(all, "objects", objects_check_status(p->check));
	if (p->check)
		(void)json_object_set_new(json_object_get(all, "objects"), "collection",
		                          member_collect_status(p->member));
	return all;
}

/* They are forked before anything secret was read but the store's keys, which they read. */
static int start_store(struct member_process *p, struct err *err)
{
	const struct order *o = p->order;
	const struct store_config config = {.objects = o->objects,
	                                    .endpoint = o->objects_endpoint,
	                                    .region = o->objects_region,
	                                    .credentials = o->objects_credentials,
	                                    .ca = o->objects_ca};
	int r = 0;

	for (size_t i = 0; r == 0 && o->objects && i < STORE_WORKERS; i++)
		r = store_worker_start(&config, &p->store_fds[i], err);
	return r;
}

/* A file that libpq will read, where the member can see it. */
static int bring(struct member_process *p, const char *key, uid_t uid, gid_t gid, struct err *err)
{
	const char *from = conninfo_get(&p->conninfo, key);
	auto_free char *dir = node_file_path(p->order->data_dir, "root/tls");
	auto_free char *to = xasprintf("%s/%s", dir, key);
	auto_free char *inside = xasprintf("/tls/%s", key);
	struct buf text = BUF_INIT((size_t)1 << 20);
	int r;

	if (!from)
		return 0;
	r = buf_append_file(&text, from);
	if (r == 0)
		r = fd_replace_file(AT_FDCWD, to, buf_str(&text), text.len, 0600,
		                    /* sync= */ false);
	if (r == 0 && chown(to, uid, gid) < 0)
		r = -errno;
	buf_done(&text);
	if (r < 0)
		return trouble_set(err, TROUBLE_SETTING, "cluster.postgres: cannot read %s=%s: %s",
		                   key, from, strerror(-r));
	conninfo_set(&p->conninfo, key, inside);
	return 0;
}

static int read_files(struct member_process *p, uid_t uid, gid_t gid, struct err *err)
{
	static const char *const files[] = {"sslrootcert", "sslcert", "sslkey", "sslcrl"};
	const struct order *o = p->order;
	int r = node_file_read(&p->node, o->data_dir, err);

	if (r == 0 && p->node.invitation)
		r = trouble_set(err, TROUBLE_NOT_JOINED, "this node has not finished to join");
	if (r == 0)
		r = conninfo_read(&p->conninfo, "cluster.postgres", o->postgres ? o->postgres : "",
		                  err);
	if (r == 0)
		r = conninfo_for_member(&p->conninfo, p->node.user, p->node.password, err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++)
		r = bring(p, files[i], uid, gid, err);
	if (r == 0) {
		p->authority.key = node_file_load(o->data_dir, "authority.key");
		p->authority.certificate = node_file_load(o->data_dir, "authority.crt");
		p->authority.lifetime_s = o->certificate_s;
		p->key = node_file_load(o->data_dir, "node.key");
		p->certificate = node_file_load(o->data_dir, "node.crt");
		p->has_wrapping_key = node_keys_read_wrapping(o->data_dir, p->wrapping_key) == 0;
	}
	return r;
}

/* A stream takes two. */
static void raise_open_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= OPEN_FILES)
		return;
	limit.rlim_cur = MIN(limit.rlim_max, OPEN_FILES);
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

static enum trouble kind_of(const struct err *err)
{
	for (int t = 1; t < TROUBLE_COUNT; t++)
		if (strcmp(err->field, trouble_code((enum trouble)t)) == 0)
			return (enum trouble)t;
	return TROUBLE_SETTING;
}

static int open_all(struct member_process *p, const struct err *trouble, int resolver_fd,
                    int status_fd)
{
	struct name_resolver *resolver = NULL;
	int r = name_resolver_new(p->loop, resolver_fd, &resolver);

	if (r == 0 && p->order->objects)
		r = store_pool_new(p->loop, p->store_fds, STORE_WORKERS, &p->store);
	if (r < 0)
		return r;
	if (p->store)
		p->check = objects_check_new(p->loop, p->store, p->order->objects,
		                             p->node.node && !p->has_wrapping_key);
	p->member = member_new(&(struct member_config){
		.loop = p->loop,
		.resolver = resolver,
		.node = p->node.node && !p->node.invitation ? &p->node : NULL,
		.conninfo = &p->conninfo,
		.authority = &p->authority,
		.dirs = {.invitations = INVITATIONS, .renewals = RENEWALS},
		.certificate_dir = CERTIFICATE,
		.key = p->key,
		.certificate = p->certificate,
		.store = p->store,
		.check = p->check,
		.wrapping_key = p->has_wrapping_key ? p->wrapping_key : NULL,
		.collect_us = p->order->objects_collect_s * SECOND_US,
		.collect_most = (unsigned)p->order->objects_collect_most,
		.trouble = trouble->code ? kind_of(trouble) : TROUBLE_NONE,
		.message = trouble->code ? trouble->message : NULL,
	});
	r = status_socket_serve(p->loop, status_fd, status_of, p, &p->status);
	if (r == 0)
		r = member_link(p->member, (int)p->order->link_fd);
	if (r == 0)
		r = loop_io_add(p->loop, (int)p->order->control_fd, EPOLLIN, on_launcher, p,
		                &p->control);
	if (r == 0 && p->order->beat_ms > 0) {
		p->beat = loop_timer_new(p->loop, on_watchdog, p);
		loop_timer_set_in(p->beat, 0);
	}
	return r;
}

static int run(struct member_process *p, struct err *err)
{
	auto_free char *root = node_file_path(p->order->data_dir, "root");
	struct confine_plan plan = {.part = CONFINE_MEMBER, .root_dir = root};
	struct err trouble = {0};
	int resolver_fd = -1, status_fd = -1;
	int r = node_file_prepare(p->order->data_dir, err);

	node_file_user(&plan.uid, &plan.gid);
	if (r == 0)
		r = start_store(p, err);
	if (r == 0 && read_files(p, plan.uid, plan.gid, &trouble) < 0)
		log_warn("cluster.not_ready", "code=%s error='%s' hint='%s'", trouble.field,
		         trouble.message, trouble.hint);
	raise_open_files();
	if (r == 0)
		r = status_socket_bind(p->order->run_dir, &status_fd, err);
	if (r == 0)
		r = name_resolver_start(&resolver_fd, err);
	if (r == 0)
		r = confine(&plan, err);
	if (r == 0)
		r = loop_new(&p->loop, err);
	if (r == 0) {
		r = open_all(p, &trouble, resolver_fd, status_fd);
		if (r < 0)
			(void)err_set(err, ERR_INTERNAL, -r, "cannot watch what the member needs");
	}
	if (r < 0)
		return r;
	loop_tell_long_turns(p->loop);
	member_start(p->member);
	r = loop_run(p->loop);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "the event loop failed") : 0;
}

int order_member(const struct order *o)
{
	struct member_process p = {.order = o};
	struct err err = {0};

	(void)prctl(PR_SET_NAME, "cloche-member");
	/* It goes when the gateway has gone, not before; and it starts no program. */
	(void)signal(SIGTERM, SIG_IGN);
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	log_init("member", (enum log_level)o->log_level);
	if (run(&p, &err) == 0)
		return 0;
	log_error("cluster.member_failed", "error='%s'", err.message);
	return 1;
}
