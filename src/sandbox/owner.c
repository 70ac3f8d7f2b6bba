// SPDX-License-Identifier: Apache-2.0
/*
 * Whose a layer is, for the broker, which knows no projects: a number is enough to hold a project
 * to its share of the disk (engine/jail/owners.h). It is a hash of the project's id, which we made
 * ourselves, so it is the same after every start and nothing is kept for it. Nobody waits for the
 * answer: a sandbox is counted when it has hardly begun to write.
 */
#include "base/log.h"
#include "sandbox/inside.h"

#include <unistd.h>

#define NUMBER_BITS 48

static uint64_t number_of(const char *project_id)
{
	uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */

	for (const char *p = project_id; *p; p++)
		hash = (hash ^ (unsigned char)*p) * UINT64_C(1099511628211);
	hash = (hash ^ hash >> NUMBER_BITS) & ((UINT64_C(1) << NUMBER_BITS) - 1);
	return hash > 0 ? hash : 1;
}

static void on_told(const struct msg_reply *reply, int fd, void *arg)
{
	(void)arg;
	if (fd >= 0)
		(void)close(fd);
	if (reply->err.code != ERR_NONE)
		log_warn("owner.untold", "error='%s'", reply->err.message);
}

void owner_tell(struct fleet *fleet, const char *layer, const char *project_id)
{
	struct msg_request req = {.op = MSG_OWNER};

	if (!fleet->config.has_disk_share)
		return;
	(void)snprintf(req.owner.layer, sizeof(req.owner.layer), "%s", layer);
	req.owner.number = number_of(project_id);
	(void)!host_ask(fleet->host, &req, on_told, NULL, NULL, NULL);
}
