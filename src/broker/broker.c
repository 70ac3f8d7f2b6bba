// SPDX-License-Identifier: Apache-2.0
/*
 * The broker's life: it takes over the guests whose records it finds, serves one gateway, and exits
 * when the gateway is gone and the last request that changes something is done. It does not wait
 * for forks: after the gateway's death an agent may never have been told to expect one, and waiting
 * for it would delay the next gateway. Guests outlive the broker.
 *
 * Requests that take time (create, delete, fork) are counted; past IN_FLIGHT_MAX the socket is not
 * read, and the rest waits in the kernel or in the gateway.
 */
#include "broker/broker.h"

#include "base/log.h"
#include "base/units.h"
#include "broker/adopt.h"
#include "broker/broker_private.h"
#include "engine/linux/namespaces.h"

#include <assert.h>

#define IN_FLIGHT_MAX 128
#define LAST_WORDS_US (10 * SECOND_US) /* for creates and deletes once the gateway is gone */

static void over(struct loop *loop, void *arg)
{
	struct broker *b = arg;

	if (b->is_over)
		return;
	b->is_over = true;
	b->over(loop, b->over_arg);
}

static bool has_work(const struct broker *b)
{
	return b->in_flight > b->n_forks;
}

static void hold(struct broker *b)
{
	wire_hold(b->wire, b->is_freezing || b->in_flight >= IN_FLIGHT_MAX);
}

void broker_set_freezing(struct broker *b, bool on)
{
	b->is_freezing = on;
	hold(b);
}

void broker_work_begin(struct broker *b)
{
	b->in_flight++;
	hold(b);
}

void broker_work_end(struct broker *b)
{
	assert(b->in_flight > 0);
	b->in_flight--;
	hold(b);
	if (b->is_gone && !b->is_over && !has_work(b))
		loop_defer(b->config.loop, over, b);
}

static void on_gateway_gone(void *arg)
{
	struct broker *b = arg;

	b->is_gone = true;
	log_debug("broker.gateway_gone", "in_flight=%zu", b->in_flight);
	if (!has_work(b))
		over(b->config.loop, b);
	else
		loop_timer_set_in(b->last_words, LAST_WORDS_US);
}

static void on_disk_changed(const struct host_disk *disk, void *arg)
{
	struct broker *b = arg;
	struct msg_reply reply;

	if (!b->wire) /* no gateway yet: it asks for this first */
		return;
	box_reply_init(&reply, MSG_DISK, /* tag= */ 0, "");
	reply.disk = *disk;
	wire_reply(b->wire, &reply, NULL);
}

static const struct wire_ops wire_ops = {.on_request = requests_on_request,
                                         .on_gone = on_gateway_gone};

static size_t n_engines(void)
{
	size_t n = 0;

	while (engines[n])
		n++;
	return n;
}

void broker_look_again(struct broker *b)
{
	for (size_t i = 1; engines[i]; i++)
		if (b->no_engine[i].code != ERR_NONE &&
		    engines[i]->probe(&b->config.host, &b->hosts[i], &b->no_engine[i]) == 0)
			b->no_engine[i] = (struct err){0};
}

const struct err *broker_lacks(struct broker *b, uint32_t engine)
{
	broker_look_again(b);
	for (size_t i = 0; engines[i]; i++)
		if (engines[i]->number == engine && b->no_engine[i].code != ERR_NONE)
			return &b->no_engine[i];
	return NULL;
}

void broker_set_engine(struct box *box, uint32_t engine)
{
	for (size_t i = 0; engines[i]; i++)
		if (engines[i]->number == engine) {
			box->engine = engines[i];
			box->host = box->broker->hosts[i];
		}
}

/* Takes over a guest from its record. The record is broken if its slot is invalid or already
 * taken. */
static int adopt_one(const char *id, struct err *err, void *arg)
{
	struct broker *b = arg;
	struct box *box = box_new(b);
	int r = -ENOENT;

	for (size_t i = n_engines(); r == -ENOENT && i-- > 0;)
		if (engines[i]->adopt)
			r = engines[i]->adopt(b->hosts[i], id, box_on_guest_ended, box, &box->guest,
			                      &box->spec, err);
	if (r < 0) {
		box_free(box);
		return r;
	}
	box->state = BOX_RUNNING;
	if (!engine_find(box->spec.engine)) {
		box_kill(box);
		return err_set(err, ERR_UNSUPPORTED, ENOSYS, "its engine is not there any more");
	}
	broker_set_engine(box, box->spec.engine);
	box->has_slot = slots_claim(&b->slots, box->spec.slot);
	if (box->has_slot)
		return 0;
	r = err_set(err, ERR_INTERNAL, EEXIST, "its uid range %u is taken", box->spec.slot);
	box_kill(box);
	return r;
}

static bool is_known(const char *id, void *arg)
{
	return box_find(arg, id) != NULL;
}

static int broker_start(struct broker *b, struct err *err)
{
	int r = finals_open(&b->finals, b->config.host.run_dir, err);

	if (r == 0)
		r = b->base->probe(&b->config.host, &b->hosts[0], err);
	if (r < 0)
		return r;
	b->config.host.base = b->hosts[0];
	for (size_t i = 1; engines[i]; i++)
		if (engines[i]->probe(&b->config.host, &b->hosts[i], &b->no_engine[i]) == 0)
			b->no_engine[i] = (struct err){0};
	r = adopt_all(b->config.host.run_dir, adopt_one, b, err);
	if (r < 0)
		return r;
	if (!list_empty(&b->boxes))
		finals_check(&b->finals);
	if (b->base->sweep)
		b->base->sweep(b->hosts[0], is_known, b);
	return wire_new(b->config.loop, take_fd(&b->config.gateway_fd), &wire_ops, b, &b->wire,
	                err);
}

int broker_new(const struct broker_config *config, loop_fn fn, void *arg, struct broker **ret,
               struct err *err)
{
	struct broker *b = xnew0(struct broker);
	int r;

	assert(config->sandboxes_max >= 1 && config->sandboxes_max <= BROKER_SLOTS);
	b->config = *config;
	b->config.host.loop = config->loop;
	b->config.host.final = box_on_final;
	b->config.host.final_arg = b;
	b->config.host.disk_changed = on_disk_changed;
	b->config.host.disk_arg = b;
	static_assert(BROKER_UID_BASE == NAMESPACES_FIRST_ID && BROKER_UIDS == NAMESPACES_IDS_EACH,
	              "settings and engines count uids alike");
	slots_set_range(&b->slots, config->first_slot, config->n_slots);
	b->base = engines[0];
	b->over = fn;
	b->over_arg = arg;
	b->last_words = loop_timer_new(config->loop, over, b);
	list_init(&b->boxes);
	list_init(&b->seals);
	list_init(&b->takes);
	list_init(&b->sealed_waits);
	list_init(&b->copies);
	r = broker_start(b, err);
	if (r < 0) {
		broker_free(b);
		return r;
	}
	*ret = b;
	return 0;
}

void broker_free(struct broker *b)
{
	struct box *box;
	struct waiter *waiter;

	if (!b)
		return;
	b->is_over = true; /* a leaving engine answers its waiters: over() must not follow */
	for (size_t i = n_engines(); i-- > 0;)
		if (b->hosts[i])
			engines[i]->leave(b->hosts[i]);
	seals_free(b);
	exchange_free(b);
	sealed_free(b);
	volumes_free(b);
	loop_child_remove(b->syncer);
	while ((box = list_first(&b->boxes, struct box, link))) {
		while ((waiter = list_first(&box->waiters, struct waiter, link))) {
			list_remove(&waiter->link);
			free(waiter);
		}
		box_free(box);
	}
	wire_free(b->wire);
	finals_close(&b->finals);
	if (b->config.gateway_fd >= 0)
		(void)close(b->config.gateway_fd);
	loop_timer_free(b->last_words);
	free(b);
}
