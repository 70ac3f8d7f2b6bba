// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The jail engine on this host, as root, with a payload (jail-payload.c) in the agent's place. A
 * test starts guests through jail_engine in a data and run directory of its own, and asks them by
 * shell commands.
 */
#include "test.h"

#include "engine/jail_host.h"

extern struct jail_rig {
	struct loop *loop;
	char top[64], data[80], run[80];
	int agent_fd;
	bool is_plain;
	struct guest_host *host; /* the engine's, since jail_rig_start() */
	struct err err;
	bool is_failed, is_gone, is_ended;
	int wait_status;
} jail_rig;

void jail_rig_set_up(bool is_plain); /* or skips */
void jail_rig_tear_down(void);
void jail_rig_probe(void); /* again, as the next broker does */
struct guest_spec jail_rig_spec(uint32_t slot);
struct guest *jail_rig_start(const struct guest_spec *spec);
void jail_rig_end(struct guest *g);
/* Runs "user COMMAND" or "root COMMAND" inside; what it says, without its last newline. Good until
 * the next call. */
const char *jail_rig_say(struct guest *g, const char *command);
/* What a shell command says on the host. Good until the next call. */
const char *jail_rig_host_says(const char *command);
/* Makes an image of a small tree with a busybox, after the shell command has changed TOP/tree, and
 * puts it where the engine looks for it. */
struct digest jail_rig_image(const char *extra);
/* What of this test's sandboxes is on the host: mounts, loop devices, cgroups. */
const char *jail_rig_on_host(void);
/* What an engine calls back. */
void jail_rig_on_started(struct guest *g, const struct err *err, void *arg);
void jail_rig_on_ended(struct guest *g, int wait_status, void *arg);
void jail_rig_on_gone(void *arg);
