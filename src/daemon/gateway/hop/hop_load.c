// SPDX-License-Identifier: Apache-2.0
/*
 * How full this node is, told to the member every PERIOD_US, which sends it with its beats; and how
 * full some others are, which its answer tells. They are some seconds old, so placement takes one
 * of two at random and not the emptiest (cluster/placement.h).
 *
 * What is counted is what this node itself refuses by, and what makes it slow: the number of
 * sandboxes, of which a create takes one, and memory and disk in use, which a create's limits say
 * nothing about. In the slot for CPU a sandbox is SLOT. Beside it are figures for people alone
 * (GET /v1/nodes).
 */
#include "base/clock.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/units.h"
#include "daemon/gateway/hop/hop_private.h"
#include "sandbox/fleet/fleet.h"
#include "sandbox/model/find.h"

#include <string.h>

#define PERIOD_US SECOND_US
#define SLOT      1000
#define SMOOTH    4 /* seconds that CPU is told of, about */

void hop_load_look(struct hops *h)
{
	struct fleet *fleet = h->config.fleet;
	const struct host_disk *disk = fleet_disk(fleet);
	struct placement_figures *f = &h->figures;
	const uint64_t most = fleet_config(fleet)->sandboxes_max;
	uint64_t total, used;

	host_reading_memory(h->config.host, &total, &used);
	f->version = clock_wall_us();
	f->capacity[PLACEMENT_CPU_MILLI] = most * SLOT;
	f->committed[PLACEMENT_CPU_MILLI] =
		(fleet_check_disk(fleet, NULL) < 0 ? most : (uint64_t)fleet_count(fleet)) * SLOT;
	f->capacity[PLACEMENT_MEMORY_MIB] = total / MIB;
	f->committed[PLACEMENT_MEMORY_MIB] = used / MIB;
	f->capacity[PLACEMENT_DISK_MIB] = (disk->layers_bytes + disk->layers_free_bytes) / MIB;
	f->committed[PLACEMENT_DISK_MIB] = disk->layers_bytes / MIB;
}

static bool read_figures(const json_t *all, uint64_t ret[PLACEMENT_WHAT_COUNT])
{
	for (size_t i = 0; i < PLACEMENT_WHAT_COUNT; i++) {
		const json_t *one = json_array_get(all, i);
		json_int_t n = json_integer_value(one);

		if (!json_is_integer(one) || n < 0 || n > INT64_MAX / SLOT)
			return false;
		ret[i] = (uint64_t)n;
	}
	return json_array_size(all) == PLACEMENT_WHAT_COUNT;
}

/* {node, load: {version, capacity, committed}} */
static bool read_node(const json_t *one, struct placement_node *ret)
{
	const json_t *load = json_object_get(one, "load");
	const json_int_t node = json_integer_value(json_object_get(one, "node")),
			 version = json_integer_value(json_object_get(load, "version"));

	*ret = (struct placement_node){
		.node = (uint32_t)node, .has_spare = true, .has_image = true, .has_lease = true};
	ret->figures.version = (uint64_t)version;
	return node > 0 && node <= INT32_MAX && version > 0 &&
	       read_figures(json_object_get(load, "capacity"), ret->figures.capacity) &&
	       read_figures(json_object_get(load, "committed"), ret->figures.committed);
}

/* The database is not believed: a node that cannot be read is passed over, and who is full says so
 * itself. */
static void on_sample(const json_t *answer, const struct err *err, void *arg)
{
	struct hops *h = arg;
	const json_t *all = json_object_get(answer, "nodes"), *one;
	struct placement_node nodes[PLACEMENT_SAMPLE];
	unsigned n = 0;
	size_t i;

	h->is_load_asked = false;
	if (err)
		return;
	json_array_foreach(all, i, one)
	{
		if (n < PLACEMENT_SAMPLE && read_node(one, &nodes[n]))
			n++;
	}
	placement_sampled(&h->view, nodes, n);
}

static void look_at_cpu(struct hops *h)
{
	const uint64_t now_us = clock_steady_us(), busy_us = host_reading_busy_us(h->config.host);

	if (h->cpu.at_us && now_us > h->cpu.at_us && busy_us >= h->cpu.busy_us) {
		uint64_t milli = (busy_us - h->cpu.busy_us) * 1000 / (now_us - h->cpu.at_us);

		h->cpu.milli = ((SMOOTH - 1) * h->cpu.milli + milli) / SMOOTH;
	}
	h->cpu.at_us = now_us;
	h->cpu.busy_us = busy_us;
}

static void add_for_people(struct hops *h, json_t *load)
{
	struct fleet *fleet = h->config.fleet;
	auto_json json_t *more = NULL;
	struct pool_figures pool;

	look_at_cpu(h);
	fleet_pool(fleet, &pool);
	more = json_pack("{sI sI sI sI sI}", "sandboxes", (json_int_t)fleet_count(fleet),
	                 "sandboxes_max", (json_int_t)fleet_config(fleet)->sandboxes_max, "spares",
	                 (json_int_t)pool.ready, "cpu_milli", (json_int_t)h->cpu.milli, "cpus",
	                 (json_int_t)fleet_host(fleet)->probe.cpus);
	(void)json_object_update(load, more);
}

static void on_timer(struct loop *loop, void *arg)
{
	struct hops *h = arg;
	const struct placement_figures *f = &h->figures;
	auto_json json_t *call = NULL;

	(void)loop;
	loop_timer_set_in(h->load_timer, PERIOD_US);
	if (h->is_load_asked || !cluster_link_is_in(h->config.link) ||
	    !fleet_is_ready(h->config.fleet))
		return;
	hop_load_look(h);
	call = json_pack("{ss s{sI s[III] s[III]}}", "call", "load", "load", "version",
	                 (json_int_t)f->version, "capacity", (json_int_t)f->capacity[0],
	                 (json_int_t)f->capacity[1], (json_int_t)f->capacity[2], "committed",
	                 (json_int_t)f->committed[0], (json_int_t)f->committed[1],
	                 (json_int_t)f->committed[2]);
	add_for_people(h, json_object_get(call, "load"));
	h->is_load_asked = true;
	node_call(h->config.node, call, on_sample, h);
}

void hop_load_refused(struct hops *h, uint32_t node)
{
	for (unsigned i = 0; i < h->view.n; i++)
		if (h->view.nodes[i].node == node)
			memcpy(h->view.nodes[i].figures.committed,
			       h->view.nodes[i].figures.capacity,
			       sizeof(h->view.nodes[i].figures.committed));
}

void hop_load_begin(struct hops *h)
{
	if (!loop_timer_is_set(h->load_timer))
		loop_timer_set_in(h->load_timer, 0);
}

void hop_load_open(struct hops *h)
{
	h->load_timer = loop_timer_new(h->config.loop, on_timer, h);
}

void hop_load_close(struct hops *h)
{
	loop_timer_free(h->load_timer);
}
