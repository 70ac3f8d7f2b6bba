// SPDX-License-Identifier: Apache-2.0
#pragma once
/* One service of a project that comes up: its sandbox, what is copied in, its command. */
#include "cli/compose/health.h"
#include "cli/compose/project.h"

enum service_state {
	SERVICE_WAITING, /* for what it depends on */
	SERVICE_STARTED,
	SERVICE_COMPLETED, /* its command has ended with 0 */
};

struct service {
	const char *name; /* borrowed, like spec */
	json_t *spec;
	enum service_state state;
	char *id, *exec, *config; /* exec: NULL if there is nothing to run */
	struct health health;
	bool is_kept; /* it was there, as it should be */
};

void service_done(struct service *s);
/* What its sandbox is made from, for the tag. network: as in the body of a create, or NULL. */
void service_set_config(struct service *s, const json_t *network, const char *template_digest);
/* Makes its sandbox and starts its command; or takes the one of `members` that is as it should be.
 */
must_check int service_start(const struct project *p, struct service *s, const json_t *members,
                             const json_t *network, struct err *err);
/* Looks at its command and its health. A service that has failed is an error, with what it said. */
must_check int service_look(const struct project *p, struct service *s, struct err *err);
bool service_is_settled(const struct service *s); /* there is nothing to wait for */
bool service_exec_is_over(const json_t *exec);

/* copy_in.c: the files and directories of its volumes. */
must_check int service_copy_in(const struct project *p, const struct service *s, struct err *err);
