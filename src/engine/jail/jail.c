// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

static int jail_probe(const struct engine_host *host, struct err *err)
{
	(void)host;
	return err_set(err, ERR_UNSUPPORTED, ENOSYS, "the jail engine is not built in");
}

static void jail_leave(void)
{
}

static struct isolation jail_isolation(void)
{
	return (struct isolation){.engine = 1, .grade = GRADE_PROCESS};
}

const struct engine jail_engine = {
	.name = "jail",
	.probe = jail_probe,
	.leave = jail_leave,
	.isolation = jail_isolation,
};
