// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Reads the settings of a running daemon again, from the file and command line that it was started
 * with. They are on trial until the processes that were started with them are up.
 *
 *	as they were --try--> on trial --+--keep--> the new ones
 *	                                 +--undo--> as they were
 */
#include "daemon/config/config.h"

struct reload {
	struct config *config; /* the daemon's; changed in place, since the site borrows it */
	int argc;
	char **argv;
	bool is_on_trial;
	struct config before; /* while on trial */
};

/* On failure nothing has changed. Settings that only a restart can change are logged, and stay. */
must_check int reload_try(struct reload *r, struct err *err);
bool reload_keep(struct reload *r); /* false: nothing was on trial */
bool reload_undo(struct reload *r); /* the same */
