// SPDX-License-Identifier: Apache-2.0
/*
 * A template that was made here goes to the others: its image is brought to the store, and then
 * the database is told. One goes at a time, and a failure is tried again.
 *
 * A call to the member cannot be cancelled. So a send that is dropped stays until the answer comes.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "sandbox/storage/image_send.h"
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
	struct image_send *sending; /* NULL: the database is being told */
};

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
			(void)node_refuse(&err, "this node has just rejoined the cluster");
		end(send, &err);
	}
}

static void publish(struct shared_send *send)
{
	node_publish_image(send->node, &send->image, send->replaces[0] ? send->replaces : NULL,
	                   on_published, send);
}

static void on_sent(const struct node_image *image, const struct err *err, void *arg)
{
	struct shared_send *send = arg;

	send->sending = NULL;
	if (!is_wanted(send))
		return;
	send->image.n_parts = image->n_parts;
	memcpy(send->image.parts, image->parts, sizeof(image->parts));
	send->image.is_stored = !err;
	if (!err || strcmp(err->field, "objects_none") == 0)
		publish(send);
	else
		end(send, err);
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
	(void)snprintf(send->image.project_id, ID_SIZE, "%s", template_project_id(t));
	(void)snprintf(send->image.template_id, ID_SIZE, "%s", template_id(t));
	note->why = (struct err){0};
	s->send = send;
	send->sending = image_send_begin(s->fleet, send->image.project_id, template_image(t),
	                                 on_sent, send);
}

void shared_send_free(struct shared_templates *s)
{
	struct shared_send *send = take_ptr(s->send);

	if (!send)
		return;
	send->s = NULL;
	if (send->sending) {
		image_send_drop(send->sending);
		send_free(send);
	}
}
