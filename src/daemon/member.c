// SPDX-License-Identifier: Apache-2.0
/*
 * The member of a cluster, as the daemon sees it: a program of its own (src/member), since it loads
 * libpq, which no other part has. The part that the launcher starts becomes it. What it needs to
 * know comes on its stdin, where no other process reads it: the setting may hold a password. Here
 * is also what the commands of a cluster need to know.
 */
#include "base/fd.h"
#include "base/json/json.h"
#include "daemon/child.h"
#include "daemon/daemon.h"
#include "daemon/watchdog.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static int write_order(const struct site *site, int link_fd, int control_fd, int *ret_fd)
{
	const struct config *c = site->config;
	const uint64_t period_us = c->watchdog_ms ? watchdog_period_us(c->watchdog_ms) : 0;
	auto_json json_t *order = json_pack(
		"{ss ss ss ss ss* ss* ss* ss* ss* ss* sI sI sI sI sI sI sI}", "command", "member",
		"data_dir", c->data_dir, "run_dir", c->run_dir, "postgres", c->cluster_postgres,
		"address", c->cluster_address, "objects", c->cluster_objects, "objects_endpoint",
		c->cluster_objects_endpoint, "objects_region", c->cluster_objects_region,
		"objects_credentials", c->cluster_objects_credentials, "objects_ca",
		c->cluster_objects_ca, "objects_collect_s",
		(json_int_t)(c->cluster_objects_collect_ms / 1000), "objects_collect_most",
		(json_int_t)c->cluster_objects_collect_most, "certificate_s",
		(json_int_t)(c->cluster_certificate_ms / 1000), "beat_ms",
		(json_int_t)(period_us / 1000), "log_level", (json_int_t)c->log_level, "link_fd",
		(json_int_t)link_fd, "control_fd", (json_int_t)control_fd);
	auto_free char *text = json_dumps(order, JSON_COMPACT);
	auto_fd int fd = memfd_create("order", MFD_CLOEXEC);

	if (!text || fd < 0 || fd_write_all(fd, text, strlen(text)) < 0 ||
	    lseek(fd, 0, SEEK_SET) < 0)
		return text ? -errno : -EINVAL;
	*ret_fd = take_fd(&fd);
	return 0;
}

/* It is up before its program is: what is wrong with a cluster keeps no node from working. */
int member_main(const struct site *site, int link_fd, int control_fd)
{
	const int keep[] = {link_fd, control_fd, site->member_fd};
	char *argv[] = {unconst("cloche-cluster"), NULL};
	char *envp[] = {unconst("LC_ALL=C"), NULL};
	int order_fd = -1;
	int r;

	child_begin("member", site->config, keep, ARRAY_SIZE(keep));
	child_disregard(SIGTERM); /* it goes when the gateway has gone, not before */
	r = write_order(site, link_fd, control_fd, &order_fd);
	if (r < 0 || dup2(order_fd, STDIN_FILENO) < 0 || fcntl(link_fd, F_SETFD, 0) < 0 ||
	    fcntl(control_fd, F_SETFD, 0) < 0) {
		log_error("daemon.member_failed", "errno=%d", errno);
		return CHILD_FAILED;
	}
	child_report(control_fd, NULL);
	(void)fexecve(site->member_fd, argv, envp);
	log_error("daemon.member_failed", "error='%s'", strerror(errno));
	return CHILD_FAILED;
}

int cluster_settings_read(struct cluster_settings *ret, const char *file, struct err *err)
{
	char *argv[] = {unconst("serve"), unconst("--config"), unconst(file), NULL};
	struct config c;
	int r;

	config_init(&c);
	r = config_load(&c, file ? 3 : 1, argv, err);
	if (r == 0)
		*ret = (struct cluster_settings){
			.data_dir = xstrdup(c.data_dir),
			.run_dir = xstrdup(c.run_dir),
			.postgres = c.cluster_postgres ? xstrdup(c.cluster_postgres) : NULL,
			.address = c.cluster_address ? xstrdup(c.cluster_address) : NULL,
			.certificate_ms = c.cluster_certificate_ms,
		};
	config_done(&c);
	return r;
}

void cluster_settings_done(struct cluster_settings *s)
{
	free(s->data_dir);
	free(s->run_dir);
	free(s->postgres);
	free(s->address);
	*s = (struct cluster_settings){0};
}

int cluster_open_program(int *ret_fd, struct err *err)
{
	return site_open_member(ret_fd, err);
}
