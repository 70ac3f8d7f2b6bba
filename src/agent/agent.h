// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The agent: pid 1 of a sandbox, the only thing inside that speaks to the host.
 *
 *	users/    who runs what, and what a child tells of itself
 *	archive/  trees as bytes
 *	fileops/  the child's side of a file operation
 *	process/  channels: forks, pipes, signals, output until it is acknowledged
 *	sudo/     `sudo` inside
 *	host/     frames to and from the host, and letting go of it while the sandbox is saved
 *	vm/       in a vm, where it is the machine's init
 *
 * One thread, no locale, no NSS, no plugin: nothing that the sandbox can put on its disk runs here.
 * The agent itself never opens a path of the sandbox after its start; its children do that, inside
 * the sandbox's cgroup, as the user who asked.
 */
#include "base/err.h"
#include "base/list.h"
#include "loop/loop.h"

#include <stdbool.h>
#include <sys/types.h>

#define CGROUP_FDS_MAX 16 /* one a controller on cgroup v1 */

/* What the engine tells its agent, in environment variables that are gone before anything runs. */
struct settings {
	int listen_fd; /* CLOCHE_LISTEN_FD, or -1: there is a port */
	int port_fd;   /* of a vm; CLOCHE_PORT_FD (tests), or -1 */
	int ready_fd;  /* CLOCHE_READY_FD, or -1: gets "1" when the listener is served */
	int cgroup_fds[CGROUP_FDS_MAX]; /* CLOCHE_CGROUP_FDS: cgroup.procs of the group for execs */
	size_t n_cgroup_fds;
	uint64_t open_files; /* CLOCHE_NOFILE, or 0: leave it */
	uint64_t root_caps;  /* CLOCHE_CAPS_ROOT: what an exec as root keeps */
	bool is_init;        /* pid 1 of its pid namespace */
	/* of a vm's init, which has made these itself (init.h) */
	bool is_vm;
	int group_fd;                /* the cgroup of execs */
	int kernel_random_fd;        /* its generator */
	uint64_t memory_bytes, pids; /* of all execs together, as they are set */
};
must_check int settings_read(struct settings *ret, struct err *err);

/* How frames travel where there is no socket: over a vm's port (vm/serial.h). */
struct transport {
	void *arg;
	void (*settle)(void *arg); /* before anything is started or spoken to */
	/* How many of the bytes were taken. When it was not all of them, the host's link is kicked
	 * as soon as more are. */
	size_t (*send)(void *arg, const char *data, size_t len);
	void (*end)(void *arg); /* the host's link has ended the connection */
};

struct agent;
/* What lower folders ask of higher ones. main.c says how. */
struct agent_calls {
	void (*kick)(struct agent *a); /* some channel may have a frame to send */
	/* One that has knocked with this tag need wait no longer. */
	void (*introduce)(struct agent *a, const char *tag);
};

struct host_link;
struct sudo_socket;
struct forks;
struct standby;
struct quiet;

struct agent {
	struct settings settings;
	struct loop *loop;
	struct host_link *host_link;
	struct agent_calls calls;
	const struct transport *transport; /* NULL in a jail */
	struct sudo_socket *sudo_socket;   /* NULL where there is no `sudo` */
	struct forks *forks;
	struct standby *standby;
	struct quiet *quiet; /* NULL where there is no engine that saves it */
	int null_fd;
	int passed_fd;        /* goes to the host with the next bytes; -1: none */
	struct list channels; /* struct channel */
	size_t n_channels;    /* those that the host knows */
	struct list ready;    /* channels that may have a frame to send, in turn */
};
