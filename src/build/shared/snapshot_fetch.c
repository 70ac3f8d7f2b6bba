// SPDX-License-Identifier: Apache-2.0
/*
 * Fetches a durable snapshot, once for all who wait for it:
 *
 *	row ─► file ─► files ─► check ─► image ─► import
 *
 *	row	what the database says: which project's, which sandbox's, which objects
 *	file	the broker checks the seal, and room, and hands out an empty file
 *	files	the member fills it
 *	check	the broker hashes it: it is what was sealed
 *	image	of its template, if it is not here
 *	import	the agent of a new sandbox unpacks it; a snapshot of that one is the copy
 *
 * A failure leaves nothing behind, and the next caller begins anew.
 */
#include "base/fd.h"
#include "base/log.h"
#include "build/shared/shared_private.h"
#include "build/transfer/snapshot_import.h"
#include "sandbox/snapshot/snapshot_file.h"
#include "sandbox/snapshot/snapshot_shared.h"
#include "sandbox/storage/template.h"

#include <endian.h>
#include <string.h>

#define CHUNK       ((size_t)64 << 10)
#define FETCHES_MAX 8

struct fetch {
	struct list link;           /* in the fetches */
	struct shared_snapshots *s; /* NULL: nobody wants it any more */
	struct node *node;
	struct node_snapshot row; /* at first its ids alone */
	struct snapshot_file *file;
	bool is_asking; /* the member, or the database */
	int fd;
	uint64_t at; /* of the file: what is imported */
	struct snapshot *described;
	struct shared_wait image_wait;
	struct snapshot_import *import;
	struct list waits;
	char chunk[CHUNK];
	size_t chunk_len, chunk_sent;
};

static void fetch_free(struct fetch *f)
{
	close_fd(&f->fd);
	snapshot_forget_described(f->described);
	free(f);
}

static void end(struct fetch *f, const struct err *err)
{
	struct list waits = LIST_INIT(waits);
	struct err why = err ? *err : (struct err){0};

	list_remove(&f->link);
	list_for_each (&f->waits, struct shared_wait, w, link) {
		list_remove(&w->link);
		list_append(&waits, &w->link);
	}
	if (err)
		log_warn("snapshot.not_fetched", "id=%s error='%s'", f->row.id, err->message);
	else
		log_info("snapshot.fetched", "id=%s bytes=%llu", f->row.id,
		         (unsigned long long)f->row.bytes);
	why.field[0] = '\0'; /* of the cluster's own words */
	snapshot_file_drop(f->file);
	fetch_free(f);
	for (struct shared_wait *w; (w = list_first(&waits, struct shared_wait, link));) {
		list_remove(&w->link);
		w->fn(err ? &why : NULL, w->arg);
	}
}

/* Import. */

static void go_on(void *arg)
{
	struct fetch *f = arg;

	while (f->import) {
		if (f->chunk_sent == f->chunk_len) {
			ssize_t n = pread(f->fd, f->chunk, sizeof(f->chunk), (off_t)f->at);

			if (n <= 0) { /* short by an error: the bundle's end is missing then */
				snapshot_import_finish(f->import);
				return;
			}
			f->at += (size_t)n;
			f->chunk_len = (size_t)n;
			f->chunk_sent = 0;
		}
		size_t n = snapshot_import_write(f->import, f->chunk + f->chunk_sent,
		                                 f->chunk_len - f->chunk_sent);
		if (n == 0)
			return;
		f->chunk_sent += n;
	}
}

static void on_imported(struct snapshot *sn, const struct err *err, void *arg)
{
	struct fetch *f = arg;

	f->import = NULL;
	if (sn)
		shared_snapshots_keep_a_while(f->s, sn);
	end(f, err);
}

static void import(struct fetch *f)
{
	static const struct snapshot_import_ops ops = {go_on, on_imported};
	const struct snapshot_import_spec spec = {.project_id = f->row.project_id,
	                                          .described = f->described};
	struct err err;

	if (snapshot_import_start(f->s->owner, &spec, &ops, f, &f->import, &err) < 0) {
		end(f, &err);
		return;
	}
	f->described = NULL;
	go_on(f);
}

static void on_image(const struct err *err, void *arg)
{
	struct fetch *f = arg;

	if (err)
		end(f, err);
	else
		import(f);
}

static bool has_image(const struct fetch *f)
{
	const struct template *t = template_find(f->s->owner->config.fleet, f->row.project_id,
	                                         snapshot_template(f->described));

	return t && digest_equal(template_image(t), snapshot_image(f->described));
}

static int check_image(const struct fetch *f, struct err *err)
{
	const struct node_image *i = &f->row.image;
	const struct digest *wanted = snapshot_image(f->described);

	if (i->n_parts == 0 ? digest_is_zero(wanted)
	                    : digest_equal(&i->parts[i->n_parts - 1].image, wanted))
		return 0;
	return err_set(err, ERR_CONFLICT, 0,
	               "the database names another template's image than the snapshot has");
}

static int read_description(struct fetch *f, struct err *err)
{
	struct {
		char magic[SNAPSHOT_MAGIC_SIZE];
		uint32_t len;
	} __attribute__((packed)) head;
	auto_json json_t *json = NULL;
	auto_free char *text = NULL;
	size_t len = 0;
	int r;

	if (pread(f->fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
	    memcmp(head.magic, SNAPSHOT_MAGIC, SNAPSHOT_MAGIC_SIZE) == 0)
		len = le32toh(head.len);
	if (len == 0 || len > DESCRIPTION_MAX)
		return err_set(err, ERR_CONFLICT, 0, "the store returned no snapshot");
	text = xcalloc(len + 1, 1);
	if (pread(f->fd, text, len, sizeof(head)) != (ssize_t)len)
		return err_set(err, ERR_CONFLICT, 0, "the store returned no snapshot");
	f->at = sizeof(head) + len;
	r = json_parse(text, len, &json, err);
	if (r == 0)
		r = snapshot_read_description(f->s->owner->config.fleet, f->row.project_id, json,
		                              &f->described, err);
	if (r == 0 && (strcmp(snapshot_id(f->described), f->row.id) != 0 ||
	               strcmp(snapshot_source_id(f->described), f->row.source_id) != 0))
		r = err_set(err, ERR_CONFLICT, 0, "the store returned another snapshot");
	return r == 0 ? check_image(f, err) : r;
}

/* Files. */

static void on_checked(int *fd, const struct sealed_file_result *result, const struct err *failure,
                       void *arg)
{
	struct fetch *f = arg;
	struct err err;

	(void)result;
	f->file = NULL;
	if (failure)
		err = *failure;
	else
		f->fd = take_fd(fd);
	if (failure || read_description(f, &err) < 0) {
		end(f, &err);
	} else if (f->row.image.n_parts == 0 || has_image(f)) {
		import(f);
	} else {
		f->image_wait = (struct shared_wait){.fn = on_image, .arg = f};
		list_init(&f->image_wait.link);
		shared_image_fetch(f->s->owner->config.fleet, &f->row.image, &f->image_wait);
	}
}

static void on_got(const json_t *answer, const struct err *err, void *arg)
{
	struct fetch *f = arg;
	struct err why;

	(void)answer;
	f->is_asking = false;
	close_fd(&f->fd); /* nobody can write any more: the broker looks */
	if (!f->s) {
		fetch_free(f);
	} else if (err) {
		end(f, err);
	} else if (snapshot_file_close(f->file, on_checked, f, &why) < 0) {
		f->file = NULL;
		end(f, &why);
	}
}

static void on_file(int *fd, const struct sealed_file_result *result, const struct err *err,
                    void *arg)
{
	struct fetch *f = arg;

	(void)result;
	if (err) {
		f->file = NULL;
		end(f, err);
		return;
	}
	f->fd = take_fd(fd);
	f->is_asking = true;
	node_get_snapshot(f->node, &f->row, f->fd, on_got, f);
}

static void on_row(const json_t *answer, const struct err *failure, void *arg)
{
	struct fetch *f = arg;
	struct sealed_file_spec spec = {.is_fetched = 1};
	const struct node_snapshot wanted = f->row;
	struct err err;
	int r = 0;

	f->is_asking = false;
	if (!f->s) {
		fetch_free(f);
		return;
	}
	if (failure) {
		end(f, failure);
		return;
	}
	r = node_read_snapshot(answer, wanted.project_id, wanted.id, &f->row, &err);
	if (r < 0)
		f->row = wanted;
	else if (wanted.source_id[0] && strcmp(f->row.source_id, wanted.source_id) != 0)
		r = err_set(&err, ERR_NOT_FOUND, 0, "snapshot %s is of another sandbox", wanted.id);
	if (r == 0) {
		spec.bytes = f->row.bytes;
		spec.generation = f->row.generation;
		spec.digest = f->row.digest;
		spec.seal = f->row.seal;
		node_snapshot_class(&f->row, &spec.class);
		r = snapshot_file_open(f->s->owner->config.fleet, &spec, on_file, f, &f->file,
		                       &err);
	}
	if (r < 0)
		end(f, &err);
}

static struct fetch *find(const struct shared_snapshots *s, const struct shared_snapshot_id *ref)
{
	list_for_each (&s->fetches, struct fetch, f, link)
		if (strcmp(f->row.id, ref->snapshot_id) == 0 &&
		    strcmp(f->row.project_id, ref->project_id) == 0)
			return f;
	return NULL;
}

static struct fetch *begin(struct shared_snapshots *s, const struct shared_snapshot_id *ref)
{
	struct fetch *f = xnew0(struct fetch);

	f->s = s;
	f->node = shared_snapshots_node(s);
	f->fd = -1;
	(void)snprintf(f->row.id, ID_SIZE, "%s", ref->snapshot_id);
	(void)snprintf(f->row.project_id, ID_SIZE, "%s", ref->project_id);
	(void)snprintf(f->row.source_id, ID_SIZE, "%s", ref->source_id ? ref->source_id : "");
	list_init(&f->waits);
	list_init(&f->image_wait.link);
	list_append(&s->fetches, &f->link);
	f->is_asking = true;
	log_info("snapshot.fetch", "id=%s", ref->snapshot_id);
	node_find_snapshot(f->node, f->row.id, on_row, f);
	return f;
}

static int refuse(const struct shared_snapshot_id *ref, struct err *err)
{
	(void)err_set(err, ERR_NOT_FOUND, 0, "there is no snapshot '%.64s'", ref->snapshot_id);
	return err_hint(err, "`cloche snapshot ls` lists them");
}

bool shared_snapshot_may_come(struct builds *bs, const struct shared_snapshot_id *ref)
{
	return shared_snapshots_node(bs->shared) && id_is_valid(ref->snapshot_id, "sn") &&
	       !snapshot_find(bs->config.fleet, ref->project_id, ref->snapshot_id);
}

int shared_snapshot_fetch(struct builds *bs, const struct shared_snapshot_id *ref,
                          struct shared_wait *w, struct err *err)
{
	struct shared_snapshots *s = bs->shared;
	const struct snapshot *sn =
		snapshot_find(bs->config.fleet, ref->project_id, ref->snapshot_id);
	struct fetch *f;
	size_t n = 0;

	if (sn && (!ref->source_id || strcmp(snapshot_source_id(sn), ref->source_id) == 0))
		return 0;
	if (sn || !shared_snapshots_node(s) || !id_is_valid(ref->snapshot_id, "sn"))
		return refuse(ref, err);
	f = find(s, ref);
	list_for_each (&s->fetches, const struct fetch, other, link)
		n++;
	if (!f && n >= FETCHES_MAX) {
		(void)err_set(err, ERR_UNAVAILABLE, EBUSY, "%zu snapshots are being fetched", n);
		return err_hint(err, "try again in a moment");
	}
	if (!f)
		f = begin(s, ref);
	list_init(&w->link);
	list_append(&f->waits, &w->link);
	return 1;
}

void snapshot_fetches_close(struct shared_snapshots *s)
{
	list_for_each (&s->fetches, struct fetch, f, link) {
		list_remove(&f->link);
		list_for_each (&f->waits, struct shared_wait, w, link)
			list_remove(&w->link);
		shared_wait_remove(&f->image_wait);
		snapshot_file_drop(take_ptr(f->file));
		if (f->is_asking)
			f->s = NULL; /* the answer frees it */
		else
			fetch_free(f);
	}
}
