// SPDX-License-Identifier: Apache-2.0
/*
 * Tells the broker who owns a layer. The broker knows no projects: a number is enough to hold a
 * project to its share of the disk (engine/layer/owners.h) and of the CPU (engine/guest/weigh.h).
 * It is a hash of the project's id, so it is the same after every start and need not be stored.
 * Nobody waits for the answer: the sandbox has hardly begun to write by then. If only the CPU
 * matters, it is sent a little later, when it delays nobody, and not at all for sandboxes that have
 * ended by then.
 */
#include "sandbox/model/owner.h"

#include "base/log.h"

#define NUMBER_BITS 48
#define SOON_US     20000
#define TOLD_A_TURN 64

static uint64_t number_of(const char *project_id)
{
	uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */

	for (const char *p = project_id; *p; p++)
		hash = (hash ^ (unsigned char)*p) * UINT64_C(1099511628211);
	hash = (hash ^ hash >> NUMBER_BITS) & ((UINT64_C(1) << NUMBER_BITS) - 1);
	return hash > 0 ? hash : 1;
}

void owner_name(const struct share *share, uint64_t *ret_number, uint32_t *ret_weight)
{
	if (!share || !share->project_id[0])
		return;
	*ret_number = number_of(share->project_id);
	*ret_weight = share->broker.weight;
}

static void on_told(const struct msg_reply *reply, void *arg)
{
	(void)arg;
	if (reply->err.code != ERR_NONE)
		log_warn("owner.weight_not_set", "error='%s'", reply->err.message);
}

static void tell(struct fleet *fleet, const char *layer, const char *project_id, uint32_t weight)
{
	struct msg_request req = {.op = MSG_OWNER};

	(void)snprintf(req.owner.layer, sizeof(req.owner.layer), "%s", layer);
	req.owner.number = number_of(project_id);
	req.owner.weight = weight;
	(void)!broker_client_ask(fleet->broker, &req, on_told, NULL, NULL, NULL);
}

static uint32_t weight_of(const struct sandbox *s)
{
	const struct share *share = sandbox_share(s);

	return share ? share->broker.weight : FAIR_WEIGHT;
}

static void tell_sandbox(struct sandbox *s)
{
	list_remove(&s->link_untold);
	s->told_weight = weight_of(s);
	tell(s->fleet, s->id, s->project_id, s->told_weight);
}

static void on_soon(struct loop *loop, void *arg)
{
	struct fleet *fleet = arg;
	struct sandbox *s;

	(void)loop;
	for (unsigned n = 0; n < TOLD_A_TURN; n++) {
		s = list_first(&fleet->untold, struct sandbox, link_untold);
		if (!s)
			return;
		if (sandbox_has_guest(s))
			tell_sandbox(s);
		else
			list_remove(&s->link_untold);
	}
	loop_timer_set_in(fleet->soon, 0);
}

void owner_tell(struct sandbox *s)
{
	struct fleet *fleet = s->fleet;

	if (fleet->config.has_disk_share) {
		tell_sandbox(s);
		return;
	}
	if (list_empty(&s->link_untold))
		list_append(&fleet->untold, &s->link_untold);
	if (!loop_timer_is_set(fleet->soon))
		loop_timer_set_in(fleet->soon, SOON_US);
}

void owner_look(struct sandbox *s)
{
	if (s->told_weight > 0 && s->told_weight != weight_of(s))
		owner_tell(s);
}

void owner_tell_volume(struct fleet *fleet, const char *id, const char *project_id)
{
	if (fleet->config.has_disk_share)
		tell(fleet, id, project_id, FAIR_WEIGHT);
}

uint64_t owner_of_volume(const struct fleet *fleet, const char *project_id)
{
	return fleet->config.has_disk_share ? number_of(project_id) : 0;
}

void owner_open(struct fleet *fleet)
{
	list_init(&fleet->untold);
	fleet->soon = loop_timer_new(fleet->config.loop, on_soon, fleet);
}

void owner_close(struct fleet *fleet)
{
	loop_timer_free(take_ptr(fleet->soon));
}
