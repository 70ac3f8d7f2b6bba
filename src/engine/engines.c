// SPDX-License-Identifier: Apache-2.0
/*
 * The engines that there are. One more is a folder and a row here, behind the others: the first
 * row is ENGINE_BASE. A program that has a table of its own is linked without this file.
 */
#include "engine/jail_host.h"
#include "engine/vm/kind.h"

const struct engine *const engines[] = {
	&jail_engine,
	&vm_engine,
	NULL,
};
