// SPDX-License-Identifier: Apache-2.0
/*
 * What the host can do. The gateway cannot look itself: it has the findings of the daemon's start,
 * and the broker's word about what was installed since.
 */
#include "api/api.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "sandbox/storage/guest_kernel.h"

#include <string.h>

static bool has_criu(const struct fleet *fleet)
{
	return !(fleet_isolation(fleet, ENGINE_BASE)->gaps & BIT(WALL_MEMORY_SNAPSHOTS));
}

static bool has_qemu(const struct fleet *fleet)
{
	for (size_t i = 0; engines[i]; i++)
		if (engines[i]->traits.has_own_kernel &&
		    fleet_host(fleet)->probe.engines[i].err.code == ERR_NONE)
			return true;
	return false;
}

static const struct {
	const char *check;
	bool (*is_there)(const struct fleet *fleet);
} later[] = {{"criu", has_criu}, {"qemu", has_qemu}, {"guest_kernel", guest_kernel_is_there}};

static void look_again(const struct fleet *fleet, json_t *check)
{
	const char *name = json_string_value(json_object_get(check, "name"));

	for (size_t i = 0; i < ARRAY_SIZE(later); i++) {
		if (strcmp(name, later[i].check) != 0 ||
		    json_is_true(json_object_get(check, "present")) || !later[i].is_there(fleet))
			continue;
		(void)json_object_set_new(check, "present", json_true());
		(void)json_object_set_new(check, "detail",
		                          json_string("installed since the daemon started"));
		(void)json_object_del(check, "remedy");
	}
}

int get_doctor(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	auto_json json_t *found = NULL;
	struct reply reply;
	json_t *checks;
	int r = check_is_default(req, err);

	if (r < 0)
		return r;
	if (!api->doctor)
		return err_set(err, ERR_UNAVAILABLE, 0, "it is not known what this host can do");
	r = json_parse(api->doctor, strlen(api->doctor), &found, err);
	if (r < 0)
		return r;
	checks = json_object_get(found, "checks");
	for (size_t i = 0; fleet_is_ready(api->fleet) && i < json_array_size(checks); i++)
		look_again(api->fleet, json_array_get(checks, i));
	json_put_value(reply_begin_bare(&reply), NULL, found);
	return reply_send(&reply, req, 200, err);
}
