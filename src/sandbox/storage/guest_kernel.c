// SPDX-License-Identifier: Apache-2.0
#include "sandbox/storage/guest_kernel.h"

#include "base/log.h"
#include "sandbox/model/sandbox_private.h"
#include "sandbox/storage/template.h"

bool guest_kernel_is(const struct template *t)
{
	return json_object_get(template_manifest(t), "kernel") != NULL;
}

bool guest_kernel_is_there(const struct fleet *fleet)
{
	const struct template *t = template_find(fleet, "", GUEST_KERNEL_NAME);

	return t && template_is_shared(t) && guest_kernel_is(t);
}

static void on_told(const struct msg_reply *reply, void *arg)
{
	struct fleet *fleet = arg;

	if (reply->err.code != ERR_NONE)
		log_warn("kernel.refused", "error='%s'", reply->err.message);
	fleet->warm_not_before_us = 0; /* the kernel may have been what was missing */
	fleet->spares->look(fleet->pool);
}

void guest_kernel_tell(struct fleet *fleet)
{
	const struct template *t = template_find(fleet, "", GUEST_KERNEL_NAME);
	struct msg_request req = {.op = MSG_KERNEL};
	struct err err;

	if (!guest_kernel_is_there(fleet))
		return;
	req.image = *template_image(t);
	if (broker_client_ask(fleet->broker, &req, on_told, fleet, NULL, &err) < 0)
		log_warn("kernel.not_announced", "error='%s'", err.message);
}
