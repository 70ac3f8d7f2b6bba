// SPDX-License-Identifier: Apache-2.0
/*
 * What is watched: all sandboxes of a project at a glance, by the figures of their last readings.
 * Nothing is waited for. A call has figures that are older than two seconds read again, so that a
 * client that asks again and again sees them move. One call is for all sandboxes, however many
 * there are.
 */
#include "api/operate/figures.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"

#include "base/clock.h"
#include "base/text/decimal.h"

#include <string.h>

struct glance {
	const struct api *api;
	struct json_writer *w;
	size_t states[SANDBOX_STATE_COUNT];
};

static void put_figures(struct sandbox *s, void *arg)
{
	struct glance *g = arg;
	char cost[DECIMAL_SIZE];
	struct sandbox_figures f;

	g->states[sandbox_state(s)]++;
	sandbox_latest(s, &f);
	if (!f.is_live)
		return;
	decimal_format(price_cost(&g->api->prices, &f.total), cost);
	json_open_object(g->w, NULL);
	json_put_str(g->w, "id", f.id);
	json_put_u64(g->w, "at_us", f.at_us);
	json_put_u64(g->w, "cpu_ns", f.total.of[USAGE_CPU_NS]);
	json_put_u64(g->w, "memory_bytes", f.now.memory_bytes);
	json_put_u64(g->w, "disk_bytes", f.now.files_bytes);
	json_put_u64(g->w, "pids", f.now.pids);
	json_put_str(g->w, "cost", cost);
	json_close_object(g->w);
}

static void put_states(struct glance *g)
{
	json_open_object(g->w, "states");
	for (unsigned i = 0; i < SANDBOX_STATE_COUNT; i++)
		json_put_u64(g->w, sandbox_state_name((enum sandbox_state)i), g->states[i]);
	json_close_object(g->w);
}

/* Of all projects together, so for those alone who rule over all. */
static void put_starts(struct glance *g)
{
	const struct fleet_counts *counts = fleet_counts(g->api->fleet);

	json_open_object(g->w, "starts");
	json_open_array(g->w, "bounds_us");
	for (size_t i = 0; i < HISTOGRAM_BOUNDS; i++)
		json_put_u64(g->w, NULL, histogram_bounds_us[i]);
	json_close_array(g->w);
	json_open_array(g->w, "counts");
	for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++)
		json_put_u64(g->w, NULL, counts->create_us.counts[i]);
	json_close_array(g->w);
	json_put_u64(g->w, "sum_us", counts->create_us.sum_us);
	json_put_u64(g->w, "failed", counts->creates_failed);
	json_close_object(g->w);
}

void pool_to_json(const struct fleet *fleet, struct json_writer *w)
{
	struct pool_figures f;

	fleet_pool(fleet, &f);
	json_open_object(w, "pool");
	json_put_u64(w, "ready", f.ready);
	json_put_u64(w, "ready_vms", f.ready_vms);
	json_put_u64(w, "target", f.target);
	json_put_u64(w, "hits", f.hits);
	json_put_u64(w, "misses", f.misses);
	json_close_object(w);
}

void figures_to_json(const struct api *api, const char *project_id, bool is_host_admin,
                     struct json_writer *w)
{
	const struct sandbox_filter all = {.project_id = project_id, .limit = SIZE_MAX};
	const char *operators = keyring_find_project(api->keyring, "default");
	struct glance g = {.api = api, .w = w};
	bool has_more;

	json_put_u64(w, "at_us", clock_wall_us());
	json_put_str(w, "currency", api->currency);
	json_open_array(w, "sandboxes");
	(void)fleet_list(api->fleet, &all, put_figures, &g, &has_more);
	json_close_array(w);
	put_states(&g);
	if (operators && strcmp(operators, project_id) == 0)
		pool_to_json(api->fleet, w);
	else
		json_put_null(w, "pool");
	if (is_host_admin)
		put_starts(&g);
	else
		json_put_null(w, "starts");
	fleet_freshen(api->fleet, project_id);
}

int get_figures(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct reply reply;

	figures_to_json(api, caller_project(req), is_host_admin(api, http_user(req)),
	                reply_begin(&reply));
	return reply_send(&reply, req, 200, err);
}
