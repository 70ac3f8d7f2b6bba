// SPDX-License-Identifier: Apache-2.0
#include "sandbox/storage/image_send.h"

#include "base/fd.h"
#include "sandbox/model/sandbox_private.h"

#include <string.h>

struct image_send {
	struct fleet *fleet;
	struct node *node;
	struct node_image image;
	size_t at; /* the part that is under way */
	uint64_t ask;
	struct err failed; /* before the first step */
	image_sent_fn fn;  /* NULL: nobody wants it any more */
	void *arg;
};

static void ask_broker(struct image_send *send);

static void end(struct image_send *send, const struct err *err)
{
	if (send->fn)
		send->fn(&send->image, err, send->arg);
	free(send);
}

static void on_put(const json_t *answer, const struct err *err, void *arg)
{
	struct image_send *send = arg;

	(void)answer;
	if (!send->fn || err || ++send->at == send->image.n_parts)
		end(send, err);
	else
		ask_broker(send);
}

/* The first answer is of the image itself, and says what it needs. */
static void on_shared(const struct msg_reply *reply, int *fds, void *arg)
{
	struct image_send *send = arg;
	struct node_image *image = &send->image;
	const struct image_bases *bases = &reply->shared.bases;
	struct node_image_part *part;

	send->ask = 0;
	if (reply->err.code != ERR_NONE || fds[0] < 0) {
		end(send, &reply->err);
		return;
	}
	if (image->n_parts == 0) {
		const struct digest own = image->parts[0].image;

		image->n_parts = bases->n + 1;
		for (uint32_t i = 0; i < bases->n; i++)
			image->parts[i] = (struct node_image_part){.image = bases->list[i].digest};
		image->parts[bases->n] = (struct node_image_part){
			.image = own, .seal = reply->shared.seal, .bytes = reply->shared.bytes};
		if (bases->n > 0) { /* they go first */
			ask_broker(send);
			return;
		}
	}
	part = &image->parts[send->at];
	part->seal = reply->shared.seal;
	part->bytes = reply->shared.bytes;
	node_put_part(send->node, image, send->at, fds[0], on_put, send);
}

static void on_failed(struct loop *loop, void *arg)
{
	struct image_send *send = arg;

	(void)loop;
	end(send, &send->failed);
}

static void ask_broker(struct image_send *send)
{
	struct msg_request req = {.op = MSG_IMAGE_SHARE,
	                          .claim = {.image = send->image.parts[send->at].image}};

	node_image_class(send->image.project_id, &req.claim.class);
	if (broker_client_ask_fds(send->fleet->broker, NULL, &req, on_shared, send, &send->ask,
	                          &send->failed) < 0)
		loop_defer(send->fleet->config.loop, on_failed, send);
}

struct image_send *image_send_begin(struct fleet *fleet, const char *project_id,
                                    const struct digest *image, image_sent_fn fn, void *arg)
{
	struct image_send *send = xnew0(struct image_send);

	*send = (struct image_send){
		.fleet = fleet, .node = fleet->config.node, .fn = fn, .arg = arg};
	send->image.parts[0].image = *image;
	(void)snprintf(send->image.project_id, ID_SIZE, "%s", project_id);
	ask_broker(send);
	return send;
}

void image_send_drop(struct image_send *send)
{
	send->fn = NULL;
	if (!send->ask)
		return; /* the member's answer frees it, or the loop */
	broker_client_cancel(send->fleet->broker, send->ask);
	free(send);
}
