// SPDX-License-Identifier: Apache-2.0
/* The table of the tests' daemon: that of src/engine/engines.c, and one row more. */
#include "bare/bare.h"
#include "engine/jail_host.h"
#include "engine/vm/kind.h"

const struct engine *const engines[] = {
	&jail_engine,
	&vm_engine,
	&bare_engine,
	NULL,
};
