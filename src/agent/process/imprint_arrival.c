// SPDX-License-Identifier: Apache-2.0
#include "agent/process/imprint_arrival.h"

#include "agent/process/channel.h"
#include "agent/process/process_tree.h"
#include "agent/process/standby.h"
#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define SEALS                                                                                      \
	(F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) /* as the gateway wants them */

static struct channel *find(struct agent *a, const char *tag)
{
	list_for_each (&a->channels, struct channel, c, link)
		if (!c->is_forgotten && c->is_alive && c->tag && strcmp(c->tag, tag) == 0)
			return c;
	return NULL;
}

bool imprint_arrival_begin(struct agent *a, const char *tag, pid_t writer)
{
	struct channel *c = find(a, tag);
	const pid_t known[] = {c ? c->pid : 0, writer, standby_pid(a->standby)};
	const pid_t other = c ? process_tree_find_other(known, ARRAY_SIZE(known)) : 0;
	char reason[64];

	if (other > 0) {
		(void)snprintf(reason, sizeof(reason),
		               "another program runs in the sandbox (pid %d)", (int)other);
		channel_give_imprint(c, -1, reason);
	}
	return c && other == 0;
}

void imprint_arrival_end(struct agent *a, const char *tag, int errnum, const int *fds, size_t n_fds)
{
	struct channel *c = find(a, tag);
	const int seals = n_fds == 1 ? fcntl(fds[0], F_GET_SEALS) : -1;
	const bool is_whole = errnum == 0 && seals >= 0 && (seals & SEALS) == SEALS;
	char reason[FRAME_REASON_MAX + 1] = "";

	if (!is_whole)
		(void)snprintf(reason, sizeof(reason), "its memory could not be written: %s",
		               errnum > 0 && errnum != EPIPE ? strerror(errnum)
		                                             : "the writer ended");
	if (c)
		channel_give_imprint(c, is_whole ? fds[0] : -1, reason);
	for (size_t i = c && is_whole ? 1 : 0; i < n_fds; i++)
		(void)close(fds[i]);
}
