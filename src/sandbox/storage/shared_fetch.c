// SPDX-License-Identifier: Apache-2.0
/*
 * A template that another node has made comes here, once however many wait for it:
 *
 *	for each part: broker: seal, room, empty file ─► member: fills it ─► broker: checks, names
 *	then it is a template like any other, with the id that it has everywhere
 *
 * The gateway keeps the file while it is filled, to see how much has come, and closes it before
 * the broker looks whether anybody can still write into it. What fails leaves nothing: the broker
 * drops the file; and the next create begins anew.
 *
 * The image of a snapshot comes in the same way, without a template: it goes again when nothing
 * uses it.
 */
#include "base/fd.h"
#include "base/log.h"
#include "sandbox/storage/shared_template_private.h"
#include "store/store.h"

#include <string.h>
#include <sys/stat.h>

struct fetch {
	struct list link; /* in the fetches; it is out when nobody wants it any more */
	struct shared_templates *s;
	struct node *node;
	char *name;
	json_t *manifest;
	struct node_image image; /* its texts are name and manifest */
	size_t at;
	uint64_t done_bytes; /* of parts that are here */
	int fd;              /* being filled */
	uint64_t ask;
	struct err why; /* of a failure */
	struct list waits;
};

static void ask_for_file(struct fetch *f);

static void fetch_free(struct fetch *f)
{
	close_fd(&f->fd);
	json_decref(f->manifest);
	free(f->name);
	free(f);
}

static void end(struct fetch *f, const struct err *err)
{
	struct list waits = LIST_INIT(waits);
	struct fleet *fleet = f->s->fleet;
	const struct digest image = f->image.parts[f->image.n_parts - 1].image;
	const bool is_template = f->image.template_id[0] != '\0';
	struct err why = err ? *err : (struct err){0};

	list_remove(&f->link);
	list_for_each (&f->waits, struct shared_wait, w, link) {
		list_remove(&w->link);
		list_append(&waits, &w->link);
	}
	if (err)
		log_warn("template.not_fetched", "id=%s name=%s error='%s'", f->image.template_id,
		         f->name, err->message);
	fetch_free(f);
	for (struct shared_wait *w; (w = list_first(&waits, struct shared_wait, link));) {
		list_remove(&w->link);
		w->fn(err ? &why : NULL, w->arg);
	}
	if (!err && !is_template) /* who waited uses it by now */
		image_release(fleet, &image);
}

static void on_dropped(const struct msg_reply *reply, void *arg)
{
	struct fetch *f = arg;

	(void)reply;
	f->ask = 0;
	end(f, &f->why);
}

/* Nothing of it is left when it is told. */
static void fail(struct fetch *f, const struct err *err)
{
	const struct msg_request req = {.op = MSG_IMAGE_DROP,
	                                .claim = {.image = f->image.parts[f->at].image}};

	close_fd(&f->fd);
	f->why = *err;
	if (broker_client_ask(f->s->fleet->broker, &req, on_dropped, f, &f->ask, NULL) < 0)
		end(f, &f->why);
}

/* Its parts are here. */
static void publish(struct fetch *f, const struct image_shared *own)
{
	struct fleet *fleet = f->s->fleet;
	const struct digest *image = &f->image.parts[f->image.n_parts - 1].image;
	const struct template_spec spec = {
		.project_id = f->image.project_id[0] ? f->image.project_id : NULL,
		.name = f->name,
		.id = f->image.template_id,
		.created_us = f->image.created_us,
		.image = *image,
		.manifest = f->manifest};
	struct template *t = NULL;
	struct err err;
	int r;

	r = image_add_new(fleet,
	                  &(struct image_info){.digest = *image,
	                                       .bytes = own->bytes,
	                                       .keeper = store_number(fleet->config.store),
	                                       .bases = own->bases},
	                  &err);
	if (r == 0 && f->image.template_id[0]) {
		r = template_publish(fleet, &spec, &t, &err);
		if (r < 0)
			image_release(fleet, image);
	}
	if (r == 0)
		log_info("template.fetched", "id=%s name=%s", f->image.template_id, f->name);
	end(f, r < 0 ? &err : NULL);
}

static void on_taken(const struct msg_reply *reply, void *arg)
{
	struct fetch *f = arg;

	f->ask = 0;
	if (reply->err.code != ERR_NONE) {
		end(f, &reply->err);
		return;
	}
	f->done_bytes += f->image.parts[f->at].bytes;
	if (++f->at < f->image.n_parts)
		ask_for_file(f);
	else
		publish(f, &reply->shared);
}

static struct msg_request request_of(const struct fetch *f, uint32_t op)
{
	const struct node_image_part *part = &f->image.parts[f->at];
	struct msg_request req = {.op = op,
	                          .claim = {.image = part->image,
	                                    .seal = part->seal,
	                                    .bytes = part->bytes,
	                                    .keeper = store_number(f->s->fleet->config.store),
	                                    .is_base = f->at + 1 < f->image.n_parts}};

	node_image_class(f->image.project_id, &req.claim.class);
	return req;
}

static void take(struct fetch *f)
{
	const struct msg_request req = request_of(f, MSG_IMAGE_TAKE);
	struct err err;

	close_fd(&f->fd);
	if (broker_client_ask(f->s->fleet->broker, &req, on_taken, f, &f->ask, &err) < 0)
		fail(f, &err);
}

static void on_got(const json_t *answer, const struct err *err, void *arg)
{
	struct fetch *f = arg;
	struct err why;

	(void)answer;
	if (!f->s) {
		fetch_free(f);
		return;
	}
	if (!err) {
		take(f);
		return;
	}
	why = *err;
	why.field[0] = '\0'; /* of the cluster's own words */
	fail(f, &why);
}

static void on_file(const struct msg_reply *reply, int *fds, void *arg)
{
	struct fetch *f = arg;

	f->ask = 0;
	if (reply->err.code != ERR_NONE) {
		end(f, &reply->err);
		return;
	}
	if (fds[0] < 0) { /* it is here, for another template */
		take(f);
		return;
	}
	f->fd = take_fd(&fds[0]);
	node_get_part(f->node, &f->image, f->at, f->fd, on_got, f);
}

static void ask_for_file(struct fetch *f)
{
	const struct msg_request req = request_of(f, MSG_IMAGE_FETCH);
	struct err err;

	if (broker_client_ask_fds(f->s->fleet->broker, NULL, &req, on_file, f, &f->ask, &err) < 0)
		end(f, &err);
}

static void on_begin(struct loop *loop, void *arg)
{
	(void)loop;
	ask_for_file(arg);
}

static struct fetch *find(const struct shared_templates *s, const char *template_id)
{
	list_for_each (&s->fetches, struct fetch, f, link)
		if (strcmp(f->image.template_id, template_id) == 0)
			return f;
	return NULL;
}

static struct fetch *find_image(const struct shared_templates *s, const struct node_image *i)
{
	list_for_each (&s->fetches, struct fetch, f, link)
		if (!f->image.template_id[0] && f->image.n_parts == i->n_parts &&
		    memcmp(f->image.parts, i->parts, sizeof(i->parts)) == 0 &&
		    strcmp(f->image.project_id, i->project_id) == 0)
			return f;
	return NULL;
}

static struct fetch *begin(struct shared_templates *s, const struct node_image *i)
{
	struct fetch *f = xnew0(struct fetch);

	*f = (struct fetch){.s = s,
	                    .node = shared_node(s->fleet),
	                    .image = *i,
	                    .name = xstrdup(i->name),
	                    .manifest = i->manifest ? json_deep_copy(i->manifest) : NULL,
	                    .fd = -1};
	f->image.name = f->name;
	f->image.manifest = f->manifest;
	f->image.was = NULL;
	list_init(&f->waits);
	list_init(&f->link);
	list_append(&s->fetches, &f->link);
	loop_defer(s->fleet->config.loop, on_begin, f);
	log_info("template.fetch", "id=%s name=%s parts=%zu", i->template_id, i->name, i->n_parts);
	return f;
}

static int refuse(const struct node_image *i, struct err *err)
{
	(void)err_set(err, ERR_UNAVAILABLE, 0,
	              "template '%s' lies on node %u alone: the cluster keeps no objects", i->name,
	              i->node);
	return err_hint(err,
	                "name a bucket or directory as `objects` under [cluster] on all nodes; "
	                "or `cloche template export` there and `cloche template import` here; "
	                "or build it here with \"replace\": true");
}

static const struct node_image *find_elsewhere(const struct fleet *fleet, const char *project_id,
                                               const char *word)
{
	const struct template *here = template_find(fleet, project_id, word);
	const struct node_image *i;
	const char *other;

	if (here &&
	    (strcmp(template_name(here), word) == 0 || strcmp(template_id(here), word) == 0))
		return NULL;
	i = node_image_find(shared_node(fleet), project_id, word);
	for (size_t n = 0; !i && !here && (other = template_alias(word, n)); n++)
		i = node_image_find(shared_node(fleet), project_id, other);
	return i;
}

int shared_template_find(struct fleet *fleet, const char *project_id, const char *word,
                         shared_check_fn check, struct shared_wait *w, struct err *err)
{
	struct shared_templates *s = fleet->shared_templates;
	const struct node_image *i;
	struct fetch *f;
	int r;

	if (!word)
		word = fleet->config.default_template;
	if (!s || !shared_node(fleet) || !word || strcmp(word, TEMPLATE_HOST) == 0)
		return 0;
	i = find_elsewhere(fleet, project_id, word);
	if (!i)
		return 0;
	f = find(s, i->template_id);
	if (!f) {
		if (!i->is_stored)
			return refuse(i, err);
		r = check(i->manifest, err);
		if (r < 0)
			return err_prefix(err, "template '%s' of another node", i->name);
		f = begin(s, i);
	}
	list_append(&f->waits, &w->link);
	return 1;
}

void shared_image_fetch(struct fleet *fleet, const struct node_image *i, struct shared_wait *w)
{
	struct shared_templates *s = fleet->shared_templates;
	struct node_image nameless = *i;
	struct fetch *f = find_image(s, i);

	nameless.template_id[0] = '\0';
	nameless.name = "";
	nameless.manifest = NULL;
	if (!f)
		f = begin(s, &nameless);
	list_append(&f->waits, &w->link);
}

void shared_wait_remove(struct shared_wait *w)
{
	list_remove(&w->link);
}

int64_t shared_fetched_bytes(const struct shared_templates *s, const char *template_id)
{
	const struct fetch *f = s ? find(s, template_id) : NULL;
	struct stat st = {0};

	if (!f)
		return -1;
	if (f->fd >= 0 && fstat(f->fd, &st) < 0)
		st.st_blocks = 0;
	return (int64_t)f->done_bytes + (int64_t)st.st_blocks * 512;
}

void shared_fetches_close(struct shared_templates *s)
{
	list_for_each (&s->fetches, struct fetch, f, link) {
		list_remove(&f->link);
		list_for_each (&f->waits, struct shared_wait, w, link)
			list_remove(&w->link);
		if (f->ask)
			broker_client_cancel(s->fleet->broker, f->ask);
		if (f->fd < 0)
			fetch_free(f);
		else
			f->s = NULL; /* the member's answer frees it */
	}
}
