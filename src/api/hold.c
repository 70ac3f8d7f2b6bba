// SPDX-License-Identifier: Apache-2.0
/*
 * Whatever changes something is held while a kept change is not on disk (sandbox/model/durable.h),
 * so that a route that is new keeps what it acknowledges. Calls that make nothing that is kept go
 * out at once and so wait for nobody's disk: those of the table, and answers about a sandbox that
 * is not to outlive the machine's restart (sandboxes/sandbox_reply.c).
 */
#include "api/hold.h"

#include "api/handlers.h"
#include "sandbox/model/durable.h"

static const http_fn quick[] = {
	create_exec,
	delete_exec,
	write_exec_stdin,
	signal_exec,
	resize_exec,
	run_code,
	create_context,
	delete_context,
	restart_context,
	interrupt_context,
	run_once,
	create_batch,
	create_reservation,
	delete_reservation,
	write_file,
	remove_file,
	make_directory,
	move_file,
	copy_file,
	chmod_file,
	chown_file,
	make_symlink,
	write_tar,
	apply_changes,
	explain_network,
	create_login,
	create_login_link,
	end_provider_login,
	create_device_login,
	poll_device_login,
	create_identity_token,
};

static bool is_quick(const struct http_req *req)
{
	const struct http_route *route = http_route(req);
	enum http_method method = http_req_method(req);

	if (!route || method == HTTP_GET || method == HTTP_HEAD || method == HTTP_OPTIONS)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(quick); i++)
		if (route->fn == quick[i])
			return true;
	return false;
}

uint64_t hold_for(struct http_req *req)
{
	const struct api *api = http_app_arg(req);

	return is_quick(req) ? 0 : durable_ask(api->fleet);
}
