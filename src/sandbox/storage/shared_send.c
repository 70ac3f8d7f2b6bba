// SPDX-License-Identifier: Apache-2.0
/*
 * A template that was made here goes to the others: for each part, first what its image needs, the
 * broker hands out file and seal, and the member brings it to the store. Then the database is told.
 * One goes at a time, and a failure is tried again.
 *
 * Calls to the member cannot be taken back, so a send outlives the fleet's interest in it: when
 * it is dropped, the answer only frees it.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/units.h"
#include "sandbox/storage/shared_template_private.h"

#include <string.h>

#define AGAIN_US (30 * SECOND_US)
#define HEARD_US (5 * SECOND_US)

struct shared_send {
	struct shared_templates *s; /* NULL: nobody wants it any more */
	struct node *node;
	char *name, *replaces;
	json_t *manifest;
	struct node_image image;
	size_t at; /* the part that is under way */
	uint64_t ask;
};

static void ask_broker(struct shared_send *send);

static void send_free(struct shared_send *send)
{
	json_decref(send->manifest);
	free(send->name);
	free(send->replaces);
	free(send);
}

static void end(struct shared_send *send, const struct err *err)
{
	struct shared_templates *s = send->s;
	struct shared_state *note = shared_state_of(s, send->image.template_id);

	s->send = NULL;
	note->why = err ? *err : (struct err){0};
	if (err) {
		note->again_us = clock_steady_us() + AGAIN_US;
		log_warn("template.not_shared", "id=%s name=%s error='%s'", send->image.template_id,
		         send->name, err->message);
	} else {
		log_info("template.shared", "id=%s name=%s parts=%zu", send->image.template_id,
		         send->name, send->image.n_parts);
	}
	send_free(send);
	shared_look_soon(s);
}

/* Whether it is to go on: the template may be gone. */
static bool is_wanted(struct shared_send *send)
{
	if (!send->s) {
		send_free(send);
		return false;
	}
	if (template_find_id(send->s->fleet, send->image.template_id))
		return true;
	send->s->send = NULL;
	shared_state_drop(send->s, send->image.template_id);
	shared_look_soon(send->s);
	send_free(send);
	return false;
}

/* The store is not there: the others know of it, and this node says so. */
static void keep_here(struct shared_send *send)
{
	struct shared_state *note = shared_state_of(send->s, send->image.template_id);
	struct err err;

	(void)err_set(&err, ERR_UNAVAILABLE, 0,
	              "its image lies on this node alone: the cluster keeps no objects");
	(void)err_hint(&err, "name a bucket or a directory that all nodes see as `objects` under "
	                     "[cluster] in the settings of each node");
	end(send, &err);
	note->is_refused = true; /* until this daemon starts anew, with other settings */
}

static void on_published(const json_t *answer, const struct err *failure, void *arg)
{
	struct shared_send *send = arg;
	const char *result = node_result(answer);
	struct err err = {0};

	if (!is_wanted(send))
		return;
	if (failure) {
		end(send, failure);
	} else if (strcmp(result, "ok") == 0) {
		if (send->image.is_stored)
			end(send, NULL);
		else
			keep_here(send);
	} else if (strcmp(result, "taken") == 0 || strcmp(result, "gone") == 0) {
		/* The next look, with what the database has by then, says what is to be done. */
		shared_state_of(send->s, send->image.template_id)->again_us =
			clock_steady_us() + HEARD_US;
		end(send, NULL);
	} else {
		if (strcmp(result, "no_project") == 0)
			(void)err_set(&err, ERR_NOT_FOUND, 0, "the cluster has no such project");
		else if (strcmp(result, "full") == 0)
			(void)err_set(&err, ERR_LIMIT, 0,
			              "the cluster has as many records as it can have");
		else
			(void)node_refuse(&err, "this node has just joined anew");
		end(send, &err);
	}
}

static void publish(struct shared_send *send)
{
	node_publish_image(send->node, &send->image, send->replaces[0] ? send->replaces : NULL,
	                   on_published, send);
}

static void on_put(const json_t *answer, const struct err *err, void *arg)
{
	struct shared_send *send = arg;

	(void)answer;
	if (!is_wanted(send))
		return;
	if (err && strcmp(err->field, "objects_none") == 0) {
		send->image.is_stored = false;
		publish(send);
	} else if (err) {
		end(send, err);
	} else if (++send->at < send->image.n_parts) {
		ask_broker(send);
	} else {
		send->image.is_stored = true;
		publish(send);
	}
}

/* The first answer is of the image itself, and says what it needs. */
static void on_shared(const struct msg_reply *reply, int *fds, void *arg)
{
	struct shared_send *send = arg;
	struct node_image *image = &send->image;
	const struct image_bases *bases = &reply->shared.bases;
	struct node_image_part *part;

	send->ask = 0;
	if (!is_wanted(send))
		return;
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

static void ask_broker(struct shared_send *send)
{
	struct msg_request req = {.op = MSG_IMAGE_SHARE,
	                          .claim = {.image = send->image.parts[send->at].image}};
	struct err err;

	node_image_class(send->image.project_id, &req.claim.class);
	if (broker_client_ask_fds(send->s->fleet->broker, NULL, &req, on_shared, send, &send->ask,
	                          &err) < 0)
		end(send, &err);
}

void shared_send_begin(struct shared_templates *s, const struct template *t,
                       struct shared_state *note)
{
	struct shared_send *send = xnew0(struct shared_send);

	*send = (struct shared_send){.s = s,
	                             .node = shared_node(s->fleet),
	                             .name = xstrdup(template_name(t)),
	                             .replaces = xstrdup(note->replaces),
	                             .manifest = json_deep_copy(template_manifest(t))};
	send->image.name = send->name;
	send->image.manifest = send->manifest;
	send->image.created_us = template_created_us(t);
	send->image.parts[0].image = *template_image(t);
	(void)snprintf(send->image.project_id, ID_SIZE, "%s", template_project_id(t));
	(void)snprintf(send->image.template_id, ID_SIZE, "%s", template_id(t));
	note->why = (struct err){0};
	s->send = send;
	ask_broker(send);
}

void shared_send_free(struct shared_templates *s)
{
	struct shared_send *send = take_ptr(s->send);

	if (!send)
		return;
	send->s = NULL;
	if (send->ask) {
		broker_client_cancel(s->fleet->broker, send->ask);
		send_free(send);
	}
}
