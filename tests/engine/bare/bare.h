// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The bare engine: a guest is an agent and its children, with no wall between them and the host.
 * Root inside is root outside, and nothing is limited. It exists to show that an engine is a folder
 * and a row, and is linked into the tests' daemon only.
 *
 * A guest has namespaces of its own so that nothing of it stays behind: mounts, files and processes
 * go with its first process. Its root is that of the template `host`, and what it writes is in
 * memory.
 */
#include "engine/engine.h"

extern const struct engine bare_engine;

/* What the child of a start needs, as fds that it inherits. */
struct bare_child {
	const struct guest_spec *spec;
	int go_fd;       /* a byte: go on; its end: the broker is gone */
	int listen_fd;   /* the agent's */
	int ready_fd;    /* gets a byte from the agent when it serves */
	int agent_fd;    /* its program */
	int template_fd; /* as of host_root_open() */
};

/* child.c: becomes the agent, or exits. */
_Noreturn void bare_child_run(const struct bare_child *c);
