// SPDX-License-Identifier: Apache-2.0
/*
 * The end of a node that was cut off for too long. If no beat was answered for lost_after, others
 * take the node for dead, and may give its names and leases to other nodes. So it ends its own
 * sandboxes a little before.
 *
 * The member says when that is, and the gateway watches its own clock: a member that is dead or
 * stopped keeps no sandbox alive. The time is also in a file, together with the boot that its clock
 * belongs to, for a gateway that starts while its node is cut off. The file is written without a
 * sync: a machine that crashes loses the file, but also all its sandboxes.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/units.h"
#include "event/event.h"
#include "node/node_private.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define AGAIN_US SECOND_US /* while it is lost: what was being made then ends, too */
#define WHY      "this node was cut off from its cluster for so long that the others take it for dead"

struct kept { /* the file */
	char boot_id[48];
	uint64_t lost_us;
};

struct lost {
	struct node *node;
	struct loop_timer *timer;
	uint64_t lost_us; /* 0: not known */
	bool is_lost;
	uint64_t since_us; /* when it was found to be so */
	int fd;            /* -1: there is none */
};

static void put_node(struct json_writer *w, const struct node *n)
{
	json_put_u64(w, "node", n->word.node);
	json_put_u64(w, "epoch", n->word.epoch);
}

static void tell(const struct lost *l, enum event_type type, const char *field, uint64_t value)
{
	struct json_writer *w;
	struct event e;

	if (!l->node->config.events)
		return;
	w = event_begin(&e, l->node->config.events, type, NULL, NULL);
	put_node(w, l->node);
	json_put_u64(w, field, value);
	event_end(&e);
}

static void keep(const struct lost *l)
{
	struct kept kept = {.lost_us = l->lost_us};

	if (l->fd < 0)
		return;
	(void)snprintf(kept.boot_id, sizeof(kept.boot_id), "%s", l->node->config.boot_id);
	if (pwrite(l->fd, &kept, sizeof(kept), 0) != (ssize_t)sizeof(kept))
		log_error("cluster.lost_time_not_kept", "error='%s'", strerror(errno));
}

/* Of another boot it is nothing: all has ended with that. */
static uint64_t read_kept(const struct lost *l)
{
	struct kept kept = {0};

	if (l->fd < 0 || pread(l->fd, &kept, sizeof(kept), 0) != (ssize_t)sizeof(kept))
		return 0;
	kept.boot_id[sizeof(kept.boot_id) - 1] = '\0';
	return strcmp(kept.boot_id, l->node->config.boot_id) == 0 ? kept.lost_us : 0;
}

static void end_all(struct lost *l)
{
	const struct node *n = l->node;
	size_t ended;

	if (!n->sandboxes)
		return; /* with node_has_sandboxes() */
	ended = n->sandboxes->end_all(WHY, n->sandboxes_arg);
	if (ended > 0) {
		log_warn("cluster.sandboxes_ended", "sandboxes=%zu message='" WHY "'", ended);
		tell(l, EVENT_NODE_LOST, "sandboxes", ended);
	}
}

static void come_back(struct lost *l, uint64_t now_us)
{
	log_warn("cluster.returned",
	         "node=%u epoch=%" PRIu64
	         " message='the others took this node for dead: it comes back with nothing'",
	         l->node->word.node, l->node->word.epoch);
	tell(l, EVENT_NODE_RETURNED, "lost_for_ms", (now_us - l->since_us) / 1000);
	l->is_lost = false;
}

/* A word that it is held has a time that is still to come. */
void lost_look(struct lost *l)
{
	struct node *n = l->node;
	const uint64_t now_us = clock_steady_us();

	if (!node_is_in(n) || l->lost_us == 0)
		return;
	if (now_us < l->lost_us && n->word.state != FENCE_LOST) {
		if (l->is_lost && n->word.state == FENCE_HELD)
			come_back(l, now_us);
		loop_timer_set(l->timer, l->lost_us);
		return;
	}
	if (!l->is_lost) {
		log_warn("cluster.lost", "node=%u message='" WHY "'", n->word.node);
		l->since_us = now_us;
	}
	l->is_lost = true;
	n->word.state = FENCE_LOST;
	loop_timer_set_in(l->timer, AGAIN_US);
	end_all(l);
}

void lost_on_word(struct lost *l)
{
	if (l->node->word.lost_us > l->lost_us) {
		l->lost_us = l->node->word.lost_us;
		keep(l);
	}
	lost_look(l);
}

static void on_timer(struct loop *loop, void *arg)
{
	struct lost *l = arg;

	(void)loop;
	lost_look(l);
	if (l->is_lost)
		leases_on_word(l->node->leases);
}

int node_check_serves(const struct node *n, struct err *err)
{
	return node_is_in(n) && !fence_allows(node_state(n), FENCE_SERVE) ? node_refuse(err, WHY)
	                                                                  : 0;
}

struct lost *lost_new(struct node *n)
{
	struct lost *l = xnew0(struct lost);
	const char *path = n->config.lost_path;

	l->node = n;
	l->timer = loop_timer_new(n->config.loop, on_timer, l);
	l->fd = path ? open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
	if (path && l->fd < 0)
		log_error("cluster.lost_time_not_kept", "error='%s'", strerror(errno));
	l->lost_us = read_kept(l);
	lost_look(l);
	return l;
}

void lost_free(struct lost *l)
{
	loop_timer_free(l->timer);
	close_fd(&l->fd);
	free(l);
}
