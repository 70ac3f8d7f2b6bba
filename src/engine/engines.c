// SPDX-License-Identifier: Apache-2.0
/*
 * The table of engines. A new engine is a folder and a row here, after the others: the first row is
 * ENGINE_BASE. A program with a table of its own is linked without this file.
 */
#include "engine/jail_host.h"
#include "engine/vm/kind.h"

const struct engine *const engines[] = {
	&jail_engine,
	&vm_engine,
	NULL,
};
