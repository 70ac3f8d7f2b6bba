// SPDX-License-Identifier: Apache-2.0
#include "daemon/reload.h"

#include <assert.h>

static void tell_fixed(const char *option)
{
	log_warn("daemon.setting_fixed", "setting='%s' hint='restart the daemon to change it'",
	         option);
}

int reload_try(struct reload *r, struct err *err)
{
	struct config next;
	int result;

	assert(!r->is_on_trial);
	config_init(&next);
	result = config_load(&next, r->argc, r->argv, err);
	if (result < 0) {
		config_done(&next);
		return result;
	}
	config_keep_fixed(&next, r->config, tell_fixed);
	r->before = *r->config;
	*r->config = next;
	r->is_on_trial = true;
	return 0;
}

bool reload_keep(struct reload *r)
{
	if (!r->is_on_trial)
		return false;
	config_done(&r->before);
	r->is_on_trial = false;
	return true;
}

bool reload_undo(struct reload *r)
{
	if (!r->is_on_trial)
		return false;
	config_undo_fixed(r->config, &r->before);
	config_done(r->config);
	*r->config = r->before;
	r->is_on_trial = false;
	return true;
}
