// SPDX-License-Identifier: Apache-2.0
/* Is it up, is anything wrong, and what can this host do. A stranger learns no more than the first.
 */
#include "api/api.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "api/operate/figures.h"
#include "api/operate/problems.h"

#include "base/clock.h"
#include "sandbox/model/create_rules.h"

static void put_engines(struct json_writer *w, const struct msg_reply *host)
{
	json_open_array(w, "engines");
	for (size_t i = 0; engines[i]; i++)
		if (host->probe.engines[i].isolation.engine)
			isolation_to_json(&host->probe.engines[i].isolation, w, NULL);
	json_close_array(w);
}

static void put_default(struct json_writer *w, const struct fleet *fleet)
{
	char why[256];
	const uint32_t engine = engine_default(fleet, why, sizeof(why));

	json_open_object(w, "default_engine");
	json_put_str(w, "engine", engine_name(engine));
	json_put_str(w, "reason", why);
	json_close_object(w);
}

static void put_host(struct json_writer *w, const struct msg_reply *host,
                     const struct host_disk *disk)
{
	json_open_object(w, "host");
	json_put_u64(w, "cpus", host->probe.cpus);
	json_put_u64(w, "memory_mib", host->probe.memory_bytes >> 20);
	json_put_u64(w, "disk_free_mib", disk->free_bytes >> 20);
	json_close_object(w);
	json_open_object(w, "disk");
	json_put_str(w, "state", disk_state_name(disk->state));
	json_put_u64(w, "free_mib", disk->free_bytes >> 20);
	json_put_u64(w, "reserve_mib", disk->reserve_bytes >> 20);
	json_put_u64(w, "layers_mib", disk->layers_bytes >> 20);
	json_put_u64(w, "layers_free_mib", disk->layers_free_bytes >> 20);
	json_put_u64(w, "layers_limit_mib", disk->layers_limit_bytes >> 20);
	json_close_object(w);
}

/* A stranger is not told what is wrong. */
int get_ready(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct reply reply;
	int r;

	if (!fleet_is_ready(api->fleet))
		return err_set(err, ERR_UNAVAILABLE, 0, "the daemon is starting");
	problems_ask(api->problems);
	r = problems_refuse(api->problems, err);
	if (r < 0)
		return http_user(req) ? r
		                      : err_set(err, ERR_UNAVAILABLE, 0,
		                                "the daemon takes no new work at the moment");
	json_put_bool(reply_begin(&reply), "ready", true);
	return reply_send(&reply, req, 200, err);
}

/* What tells of all projects together. */
static void put_operators(const struct api *api, struct json_writer *w, bool is_ready)
{
	json_put_u64(w, "sandboxes", fleet_count(api->fleet));
	problems_to_json(api->problems, w, "problems");
	pool_to_json(api->fleet, w);
	if (is_ready)
		put_host(w, fleet_host(api->fleet), fleet_disk(api->fleet));
}

int get_health(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct err none;
	bool is_ready = fleet_is_ready(api->fleet);
	struct reply reply;
	struct json_writer *w;

	problems_ask(api->problems);
	w = reply_begin(&reply);
	json_put_str(w, "status",
	             !is_ready                       ? "starting"
	             : problems_count(api->problems) ? "degraded"
	                                             : "ok");
	json_put_bool(w, "ready", is_ready && !problems_block(api->problems));
	json_put_str(w, "version", CLOCHE_VERSION);
	if (http_user(req)) {
		json_put_u64(w, "uptime_ms", (clock_wall_us() - api->started_us) / 1000);
		if (is_ready) {
			put_engines(w, fleet_host(api->fleet));
			put_default(w, api->fleet);
		}
	}
	if (http_user(req) && check_is_default(req, &none) == 0)
		put_operators(api, w, is_ready);
	return reply_send(&reply, req, 200, err);
}
