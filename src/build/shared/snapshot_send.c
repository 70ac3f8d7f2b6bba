// SPDX-License-Identifier: Apache-2.0
/*
 * A snapshot that was taken here goes to the store:
 *
 *	image ─► file ─► files ─► seal ─► store ─► row
 *
 *	image	of its template, if no record of the cluster has it with its parts
 *	file	an empty one of the broker's
 *	files	description and bundle, written by this process as a view's agent packs them
 *	seal	the broker hashes the file, and seals it
 *	store	the member brings it there
 *	row	the database is told
 *
 * A call to the member cannot be cancelled. If nobody wants the result any more, its answer frees
 * the send.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "build/shared/shared_private.h"
#include "build/transfer/view.h"
#include "sandbox/snapshot/snapshot_file.h"
#include "sandbox/snapshot/snapshot_shared.h"
#include "sandbox/storage/image_send.h"
#include "sandbox/storage/template.h"

#include <endian.h>
#include <string.h>

#define AGAIN_US (30 * SECOND_US)
#define SLACK    (UINT64_C(64) << 20)

struct snapshot_send {
	struct shared_snapshots *s; /* NULL: nobody wants it any more */
	struct node *node;
	struct node_snapshot row;
	struct image_send *image;
	struct snapshot_file *file;
	uint64_t size, most;
	int fd;
	char *text; /* for the bundle */
	size_t len, sent;
	struct view *view;
	struct file_call *call;
};

static void send_free(struct snapshot_send *send)
{
	close_fd(&send->fd);
	free(send->text);
	free(send);
}

static struct snapshot *find(const struct snapshot_send *send)
{
	return snapshot_find(send->s->owner->config.fleet, send->row.project_id, send->row.id);
}

/* err NULL: it is durable. */
static void end(struct snapshot_send *send, const struct err *err)
{
	struct shared_snapshots *s = send->s;
	struct snapshot *sn = find(send);
	const bool is_refused = err && strcmp(err->field, "objects_none") == 0;
	struct err why = {0};

	s->send = NULL;
	if (send->call)
		file_call_cancel(take_ptr(send->call));
	view_close(take_ptr(send->view));
	snapshot_file_drop(take_ptr(send->file));
	if (sn && !err) {
		if (snapshot_set_durable(sn, true, &why) < 0) /* it is sent once more */
			snapshot_set_unsent(sn, &why, clock_steady_us() + AGAIN_US);
		log_info("snapshot.durable", "id=%s bytes=%llu", send->row.id,
		         (unsigned long long)send->row.bytes);
	} else if (sn && is_refused) {
		(void)err_set(&why, ERR_UNAVAILABLE, 0,
		              "its files lie on this node alone: the cluster keeps no objects");
		(void)err_hint(&why, "name a bucket or a directory that all nodes see as `objects` "
		                     "under [cluster] in the settings of each node");
		snapshot_set_unsent(sn, &why, UINT64_MAX);
	} else if (sn) {
		snapshot_set_unsent(sn, err, clock_steady_us() + AGAIN_US);
		log_warn("snapshot.not_sent", "id=%s error='%s'", send->row.id, err->message);
	}
	send_free(send);
	shared_snapshots_look_soon(s);
}

/* Whether it is to go on: the snapshot may be gone, or this daemon be at its end. */
static bool is_wanted(struct snapshot_send *send)
{
	struct err err;

	if (!send->s) {
		send_free(send);
		return false;
	}
	if (find(send))
		return true;
	(void)err_set(&err, ERR_GONE, 0, "the snapshot was removed");
	end(send, &err);
	return false;
}

static void on_published(const json_t *answer, const struct err *failure, void *arg)
{
	struct snapshot_send *send = arg;
	const char *result = node_result(answer);
	struct err err;

	if (!is_wanted(send))
		return;
	if (failure || strcmp(result, "ok") == 0) {
		end(send, failure);
		return;
	}
	if (strcmp(result, "gone") == 0)
		snapshot_drop(find(send)); /* by a node that had a copy */
	if (strcmp(result, "full") == 0)
		(void)err_set(&err, ERR_LIMIT, 0,
		              "the project has as many durable snapshots as it can have");
	else if (strcmp(result, "no_project") == 0)
		(void)err_set(&err, ERR_NOT_FOUND, 0, "the cluster has no such project");
	else if (strcmp(result, "taken") == 0)
		(void)err_set(&err, ERR_CONFLICT, 0, "another snapshot of the cluster has its id");
	else
		(void)node_refuse(&err, "this node has just rejoined the cluster");
	end(send, &err);
}

static void on_put(const json_t *answer, const struct err *err, void *arg)
{
	struct snapshot_send *send = arg;
	struct err why;

	(void)answer;
	if (!is_wanted(send))
		return;
	close_fd(&send->fd);
	/* From here on the database may know of it, whoever dies. */
	if (err || snapshot_set_sending(find(send), &why) < 0)
		end(send, err ? err : &why);
	else
		node_publish_snapshot(send->node, &send->row, on_published, send);
}

static void on_sealed(int *fd, const struct sealed_file_result *result, const struct err *err,
                      void *arg)
{
	struct snapshot_send *send = arg;

	send->file = NULL;
	if (!is_wanted(send))
		return;
	if (err) {
		end(send, err);
		return;
	}
	send->row.bytes = result->bytes;
	send->row.digest = result->digest;
	send->row.seal = result->seal;
	send->fd = take_fd(fd);
	node_put_snapshot(send->node, &send->row, send->fd, on_put, send);
}

static void seal(struct snapshot_send *send)
{
	struct err err;

	close_fd(&send->fd); /* nobody can write any more: the broker looks */
	if (snapshot_file_close(send->file, on_sealed, send, &err) < 0) {
		send->file = NULL;
		end(send, &err);
	}
}

static int write_file(struct snapshot_send *send, const void *data, size_t len, struct err *err)
{
	const char *at = data;

	if (send->size + len > send->most)
		return err_set(err, ERR_TOO_LARGE, 0,
		               "the snapshot's files take more room than they seemed to");
	while (len > 0) {
		ssize_t n = pwrite(send->fd, at, len, (off_t)send->size);

		if (n < 0)
			return err_set(err, errno == ENOSPC ? ERR_HOST_DISK_FULL : ERR_INTERNAL,
			               errno, "cannot write the snapshot's files");
		at += n;
		len -= (size_t)n;
		send->size += (size_t)n;
	}
	return 0;
}

static void on_data(const char *data, size_t len, void *arg)
{
	struct snapshot_send *send = arg;
	struct err err;

	if (send->fd >= 0 && write_file(send, data, len, &err) < 0) {
		log_warn("snapshot.not_written", "id=%s error='%s'", send->row.id, err.message);
		close_fd(&send->fd); /* on_packed() tells */
	}
}

static void on_packed(const struct err *err, void *arg)
{
	struct snapshot_send *send = arg;
	struct err why;

	send->call = NULL;
	if (!is_wanted(send))
		return;
	if (!err && send->fd < 0) {
		(void)err_set(&why, ERR_HOST_DISK_FULL, 0, "the snapshot's files have no room");
		err = &why;
	}
	if (err) {
		end(send, err);
		return;
	}
	view_close(take_ptr(send->view));
	seal(send);
}

static void tell_text(void *arg)
{
	struct snapshot_send *send = arg;

	while (send->sent < send->len) {
		ssize_t n = file_call_write(send->call, send->text + send->sent,
		                            send->len - send->sent);

		if (n <= 0)
			return; /* on_room goes on */
		send->sent += (size_t)n;
		if (send->sent == send->len)
			file_call_finish(send->call);
	}
}

static void on_ready(const struct err *err, void *arg)
{
	static const struct file_call_ops ops = {
		.on_data = on_data, .on_room = tell_text, .on_end = on_packed};
	struct snapshot_send *send = arg;
	struct start op = {.op = FILE_BUNDLE_OUT};
	struct err why;

	if (!is_wanted(send))
		return;
	if (!err && view_call(send->view, &op, &ops, send, &send->call, &why) < 0)
		err = &why;
	if (err)
		end(send, err);
	else
		tell_text(send);
}

static int write_head(struct snapshot_send *send, const struct snapshot *sn, struct err *err)
{
	auto_json json_t *description = snapshot_describe(sn),
			 *bundle = snapshot_describe_bundle(sn);
	auto_free char *text = json_dumps(description, JSON_COMPACT);
	const size_t len = text ? strlen(text) : 0;
	const uint32_t number = htole32((uint32_t)len);
	int r;

	send->text = json_dumps(bundle, JSON_COMPACT);
	send->len = send->text ? strlen(send->text) : 0;
	if (len == 0 || len > DESCRIPTION_MAX || send->len == 0)
		return err_set(err, ERR_INTERNAL, 0, "the snapshot cannot be described");
	r = write_file(send, SNAPSHOT_MAGIC, SNAPSHOT_MAGIC_SIZE, err);
	if (r == 0)
		r = write_file(send, &number, sizeof(number), err);
	if (r == 0)
		r = write_file(send, text, len, err);
	return r;
}

static void on_file(int *fd, const struct sealed_file_result *result, const struct err *failure,
                    void *arg)
{
	struct snapshot_send *send = arg;
	const struct view_spec spec = {.project_id = send->row.project_id,
	                               .values = {send->row.id}};
	struct err err;

	(void)result;
	if (failure) {
		send->file = NULL;
		err = *failure;
	} else {
		send->fd = take_fd(fd);
	}
	if (!is_wanted(send))
		return;
	if (failure || write_head(send, find(send), &err) < 0 ||
	    view_open(send->s->owner, &spec, on_ready, send, &send->view, &err) < 0)
		end(send, &err);
}

static void open_file(struct snapshot_send *send)
{
	struct sealed_file_spec spec = {.bytes = send->most, .generation = send->row.generation};
	struct err err;

	node_snapshot_class(&send->row, &spec.class);
	if (snapshot_file_open(send->s->owner->config.fleet, &spec, on_file, send, &send->file,
	                       &err) < 0)
		end(send, &err);
}

static void on_image(const struct node_image *image, const struct err *err, void *arg)
{
	struct snapshot_send *send = arg;

	send->image = NULL;
	if (!is_wanted(send))
		return;
	if (err) {
		end(send, err);
		return;
	}
	send->row.image = *image;
	send->row.image.name = NULL;
	open_file(send);
}

/* A record of the cluster that has the image says its parts, and whose they are. */
static bool find_image(struct snapshot_send *send, const struct snapshot *sn, const char *project)
{
	const struct node_image *i = node_image_named(send->node, project, snapshot_template(sn));

	if (!i || i->is_gone || !i->is_stored || i->n_parts == 0 ||
	    !digest_equal(&i->parts[i->n_parts - 1].image, snapshot_image(sn)))
		return false;
	send->row.image = *i;
	send->row.image.name = NULL;
	send->row.image.manifest = send->row.image.was = NULL;
	return true;
}

static void on_begin(struct loop *loop, void *arg)
{
	struct snapshot_send *send = arg;
	const struct snapshot *sn;

	(void)loop;
	if (!is_wanted(send))
		return;
	sn = find(send);
	if (digest_is_zero(snapshot_image(sn)) || find_image(send, sn, send->row.project_id) ||
	    find_image(send, sn, ""))
		open_file(send);
	else
		send->image = image_send_begin(send->s->owner->config.fleet, send->row.project_id,
		                               snapshot_image(sn), on_image, send);
}

void snapshot_send_begin(struct shared_snapshots *s, struct snapshot *sn)
{
	struct snapshot_send *send = xnew0(struct snapshot_send);

	*send = (struct snapshot_send){.s = s,
	                               .node = shared_snapshots_node(s),
	                               .most = 4 * snapshot_bytes(sn) + SLACK,
	                               .fd = -1};
	(void)snprintf(send->row.id, ID_SIZE, "%s", snapshot_id(sn));
	(void)snprintf(send->row.project_id, ID_SIZE, "%s", snapshot_project_id(sn));
	(void)snprintf(send->row.source_id, ID_SIZE, "%s", snapshot_source_id(sn));
	send->row.generation = snapshot_generation(sn);
	send->row.expires_us = snapshot_expires_us(sn);
	s->send = send;
	loop_defer(s->owner->config.loop, on_begin, send);
}

void snapshot_send_close(struct shared_snapshots *s)
{
	struct snapshot_send *send = take_ptr(s->send);

	if (!send)
		return;
	send->s = NULL;
	if (send->call)
		file_call_cancel(take_ptr(send->call));
	if (send->image)
		image_send_drop(take_ptr(send->image));
	else if (send->file)
		snapshot_file_drop(take_ptr(send->file));
	else
		return; /* the member's answer frees it, or the loop */
	send_free(send);
}
