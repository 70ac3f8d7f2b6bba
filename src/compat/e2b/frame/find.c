// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/frame/find.h"

#include "api/frame/find.h"
#include "compat/e2b/frame/notes.h"

#include <stdio.h>
#include <string.h>

void e2b_id(const struct sandbox *s, char ret[E2B_ID_SIZE])
{
	(void)snprintf(ret, E2B_ID_SIZE, "%s", sandbox_id(s) + strlen("sb_"));
}

void e2b_native_id(const char *id, char ret[ID_SIZE])
{
	size_t len = strcspn(id, "-");

	ret[0] = '\0';
	if (len == ID_RANDOM_LEN)
		(void)snprintf(ret, ID_SIZE, "sb_%.*s", ID_RANDOM_LEN, id);
	if (ret[0] && !id_is_valid(ret, "sb"))
		ret[0] = '\0';
}

bool e2b_is_there(const struct sandbox *s)
{
	switch (sandbox_state(s)) {
	case SANDBOX_CREATING:
	case SANDBOX_RUNNING:
	case SANDBOX_PAUSING:
	case SANDBOX_PAUSED:
		return true;
	case SANDBOX_STOPPING:
	case SANDBOX_STOPPED:
	case SANDBOX_FAILED:
	case SANDBOX_STATE_COUNT:
		break;
	}
	return sandbox_is_resting(s);
}

bool e2b_may_enter(const struct http_req *req)
{
	return key_scope(http_user(req)) >= SCOPE_WRITE;
}

int e2b_find(struct http_req *req, struct sandbox **ret, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *name = http_param(req, "id");
	char id[ID_SIZE];
	struct sandbox *s;

	e2b_native_id(name, id);
	http_set_subject(req, id);
	s = id[0] ? sandbox_find(api->fleet, caller_project(req), id) : NULL;
	if (!s || !e2b_is_there(s))
		return err_set(err, ERR_NOT_FOUND, 0, "sandbox \"%.64s\" not found", name);
	if (e2b_may_enter(req)) {
		notes_add_token(s, api->keyring, http_user(req));
		notes_add_client(s, http_user(req), http_peer_network(req));
	}
	*ret = s;
	return 0;
}
