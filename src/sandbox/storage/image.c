// SPDX-License-Identifier: Apache-2.0
/*
 * The broker's list is read once, at the start; after that only seals and removals made here change
 * it. Pending removals are tried now and then until all are done: a sandbox on an image may need
 * long to end, and only the broker knows for certain who uses what.
 *
 * While the broker is asked to remove an image, nobody may start to use it: a seal that results in
 * the same image then fails, and can be tried again.
 */
#include "sandbox/storage/image.h"

#include "base/log.h"
#include "base/units.h"
#include "sandbox/model/create_rules.h"
#include "sandbox/model/registry.h"
#include "sandbox/storage/guest_kernel.h"
#include "sandbox/storage/storage.h"
#include "sandbox/storage/template.h"

#include <time.h>

#define LOOK_US   (1 * SECOND_US)
#define BYTES_MAX (UINT64_C(64) << 30)

struct image {
	struct digest digest;
	uint64_t bytes, keeper;
	struct image_bases bases;
	bool is_unwanted, is_going, is_gone;
	UT_hash_handle hh;
};

struct image_seal {
	struct list link;
	struct fleet *fleet;
	uint64_t tag, bytes;
	image_sealed_fn done;
	void (*progress)(uint64_t bytes, void *arg);
	void *arg;
};

struct images {
	struct fleet *fleet;
	struct image *by_digest;
	struct list seals;
	struct loop_timer *look;
};

static struct image *find(const struct fleet *fleet, const struct digest *digest)
{
	struct image *i = NULL;

	HASH_FIND(hh, fleet->images->by_digest, digest, sizeof(*digest), i);
	return i;
}

static void add(struct images *im, const struct image_info *info)
{
	const struct digest *digest = &info->digest;
	struct image *i = find(im->fleet, digest);

	if (!i) {
		i = xnew0(struct image);
		i->digest = *digest;
		HASH_ADD(hh, im->by_digest, digest, sizeof(i->digest), i);
	}
	i->bytes = info->bytes;
	i->keeper = info->keeper;
	i->bases = info->bases;
	i->is_unwanted = i->is_gone = false;
}

bool image_has(const struct fleet *fleet, const struct digest *digest, uint64_t *ret_bytes)
{
	const struct image *i = find(fleet, digest);

	if (!i || i->is_going || i->is_gone)
		return false;
	if (ret_bytes)
		*ret_bytes = i->bytes;
	return true;
}

bool image_needs(const struct fleet *fleet, const struct digest *digest, const struct digest *base)
{
	const struct image *i = find(fleet, digest);

	if (digest_equal(digest, base))
		return true;
	for (uint32_t k = 0; i && k < i->bases.n; k++)
		if (digest_equal(&i->bases.list[k].digest, base))
			return true;
	return false;
}

uint64_t image_count_shared(const struct fleet *fleet, const struct digest *digest)
{
	const struct image *i = find(fleet, digest);
	uint64_t bytes = 0;

	for (uint32_t k = 0; i && k < i->bases.n; k++)
		bytes += i->bases.list[k].bytes;
	return bytes;
}

uint64_t image_count_charged(const struct fleet *fleet, const struct digest *digest,
                             bool (*is_free)(const struct digest *base, const void *arg),
                             const void *arg)
{
	const struct image *i = find(fleet, digest);
	uint64_t bytes = i ? i->bytes : 0;

	for (uint32_t k = 0; i && k < i->bases.n; k++)
		if (!is_free(&i->bases.list[k].digest, arg))
			bytes += i->bases.list[k].bytes;
	return bytes;
}

size_t image_count_users(const struct fleet *fleet, const struct digest *digest)
{
	size_t n = 0;

	list_for_each (&fleet->all, const struct sandbox, s, link_all)
		n += (s->place == PLACE_ALIVE || s->place == PLACE_KEPT) &&
		     digest_equal(&s->image, digest);
	return n;
}

size_t image_count_stored(const struct fleet *fleet, const struct digest *digest)
{
	size_t n = 0;

	for (const struct stored_kind *k = fleet->stored; k->prefix; k++)
		n += k->count_image ? k->count_image(fleet, digest) : 0;
	return n;
}

static void on_removed(const struct msg_reply *reply, void *arg)
{
	struct image *i = arg;

	i->is_going = false;
	if (reply->err.code != ERR_NONE) { /* a guest on it is still dying */
		log_debug("image.not_removed", "error='%s'", reply->err.message);
		return;
	}
	i->is_gone = true; /* forgotten at the next look */
}

static void remove_image(struct images *im, struct image *i)
{
	struct msg_request req = {.op = MSG_IMAGE_REMOVE, .image = i->digest};

	i->is_going = broker_client_ask(im->fleet->broker, &req, on_removed, i, NULL, NULL) == 0;
}

static void on_look(struct loop *loop, void *arg)
{
	struct images *im = arg;
	struct image *i, *next;
	bool is_done = true;

	(void)loop;
	for (i = im->by_digest; i; i = next) {
		next = i->hh.next;
		if (!i->is_unwanted)
			continue;
		if (i->is_gone) {
			HASH_DEL(im->by_digest, i);
			free(i);
			continue;
		}
		if (!i->is_going && template_has_image(im->fleet, &i->digest)) {
			i->is_unwanted = false; /* a build that needed no step has published it */
			continue;
		}
		is_done = false;
		if (!i->is_going && image_count_users(im->fleet, &i->digest) == 0 &&
		    image_count_stored(im->fleet, &i->digest) == 0)
			remove_image(im, i);
	}
	if (!is_done)
		loop_timer_set_in(im->look, LOOK_US);
}

void image_release(struct fleet *fleet, const struct digest *digest)
{
	struct image *i = find(fleet, digest);

	if (!i || template_has_image(fleet, digest))
		return;
	i->is_unwanted = true;
	loop_timer_set_in(fleet->images->look, 0);
}

static void check_keeper(const struct fleet *fleet, const struct image *i)
{
	char hex[DIGEST_HEX];
	auto_free char *file = NULL;

	digest_to_hex(&i->digest, hex);
	file = xasprintf("templates/%s/keeper", hex);
	fleet_check_keeper(fleet, file, i->keeper);
}

void image_settle(struct fleet *fleet, bool (*needs)(const struct digest *image, void *arg),
                  void *arg)
{
	const uint64_t us = store_number(fleet->config.store);
	struct image *i, *next;

	templates_settle(fleet);
	for (i = fleet->images->by_digest; i; i = next) {
		next = i->hh.next;
		if (template_has_image(fleet, &i->digest))
			check_keeper(fleet, i);
		if (i->keeper != us || template_has_image(fleet, &i->digest) ||
		    (needs && needs(&i->digest, arg)))
			continue;
		log_info("image.orphaned", "bytes=%llu", (unsigned long long)i->bytes);
		image_release(fleet, &i->digest);
	}
	guest_kernel_tell(fleet);
	shared_templates_begin(fleet);
}

int image_add_new(struct fleet *fleet, const struct image_info *info, struct err *err)
{
	const struct image *i = find(fleet, &info->digest);

	if (i && i->is_going)
		return err_set(err, ERR_UNAVAILABLE, 0,
		               "the same image was just being removed; try again");
	add(fleet->images, info);
	return 0;
}

/* Reports the sealed image, unless it is being removed right now. */
static void tell_sealed(struct image_seal *seal, const struct msg_reply *reply)
{
	const struct digest *digest = &reply->seal.image;
	const struct image_info info = {.digest = *digest,
	                                .bytes = reply->seal.bytes,
	                                .keeper = store_number(seal->fleet->config.store),
	                                .bases = reply->seal.bases};
	struct err err;

	if (image_add_new(seal->fleet, &info, &err) < 0)
		seal->done(NULL, 0, &err, seal->arg);
	else
		seal->done(digest, reply->seal.bytes, NULL, seal->arg);
}

static void on_seal(const struct msg_reply *reply, void *arg)
{
	struct image_seal *seal = arg;

	if (reply->err.code == ERR_NONE && digest_is_zero(&reply->seal.image)) {
		seal->bytes = reply->seal.bytes;
		if (seal->progress)
			seal->progress(seal->bytes, seal->arg);
		return;
	}
	list_remove(&seal->link);
	if (reply->err.code == ERR_NONE)
		tell_sealed(seal, reply);
	else
		seal->done(NULL, 0, &reply->err, seal->arg);
	free(seal);
}

static int check_state(const struct sandbox *s, struct err *err)
{
	if (pause_is_on_disk(s) && !s->is_kept) {
		(void)err_set(err, ERR_CONFLICT, 0, "sandbox %s is paused on disk", s->id);
		return err_hint(err, "resume it first");
	}
	return sandbox_check_files(s, err);
}

json_t *image_sealed_json(uint64_t epoch_s, bool is_small)
{
	return json_pack("{sIsb}", "epoch_s", (json_int_t)epoch_s, "small", is_small);
}

int image_ask_for_seal(struct fleet *fleet, const char id[ID_SIZE], const char *snapshot,
                       const struct digest *base, const struct image_spec *spec,
                       image_sealed_fn done, void *arg, struct image_seal **ret, struct err *err)
{
	struct msg_request req = {
		.op = MSG_SEAL,
		.seal = {.base = *base,
	                 .spec = {.epoch_s = spec->epoch_s ? spec->epoch_s : (uint64_t)time(NULL),
	                          .bytes_max = spec->bytes_max ? spec->bytes_max : BYTES_MAX,
	                          .keeper = store_number(fleet->config.store),
	                          .is_tree = spec->is_tree,
	                          .is_over = spec->is_over,
	                          .is_small = spec->is_small,
	                          .is_whole = spec->is_whole}}};
	struct image_seal *seal;
	int r = fleet_check_disk(fleet, err);

	if (r < 0)
		return r;
	memcpy(req.id, id, sizeof(req.id));
	if (snapshot)
		memcpy(req.seal.spec.snapshot, snapshot, sizeof(req.seal.spec.snapshot));
	seal = xnew0(struct image_seal);
	*seal = (struct image_seal){
		.fleet = fleet, .done = done, .progress = spec->progress, .arg = arg};
	r = broker_client_ask(fleet->broker, &req, on_seal, seal, &seal->tag, err);
	if (r < 0) {
		free(seal);
		return r;
	}
	list_append(&fleet->images->seals, &seal->link);
	*ret = seal;
	return 0;
}

int image_refuse_unreadable(uint32_t engine, struct err *err)
{
	return engine_refuse_without(engine_find(engine)->build_image != NULL, engine,
	                             "files that the host reads", err);
}

int image_seal(struct sandbox *s, const struct image_spec *spec, image_sealed_fn done, void *arg,
               struct image_seal **ret, struct err *err)
{
	int r = image_refuse_unreadable(s->engine, err);

	if (r == 0)
		r = check_state(s, err);
	return r < 0 ? r
	             : image_ask_for_seal(s->fleet, s->id, NULL, &s->image, spec, done, arg, ret,
	                                  err);
}

static void on_cancelled(const struct msg_reply *reply, void *arg)
{
	(void)reply;
	(void)arg;
}

void image_seal_cancel(struct image_seal *seal)
{
	struct msg_request req = {.op = MSG_SEAL_CANCEL, .seal_tag = seal->tag};

	(void)!broker_client_ask(seal->fleet->broker, &req, on_cancelled, NULL, NULL, NULL);
}

uint64_t image_seal_bytes(const struct image_seal *seal)
{
	return seal->bytes;
}

void image_add(struct fleet *fleet, const struct image_info *info)
{
	add(fleet->images, info);
}

void image_open_all(struct fleet *fleet)
{
	struct images *im = xnew0(struct images);

	im->fleet = fleet;
	list_init(&im->seals);
	im->look = loop_timer_new(fleet->config.loop, on_look, im);
	fleet->images = im;
}

void image_close_all(struct fleet *fleet)
{
	struct images *im = take_ptr(fleet->images);
	struct image *i, *next;

	if (!im)
		return;
	list_for_each (&im->seals, struct image_seal, seal, link) {
		broker_client_cancel(fleet->broker, seal->tag);
		list_remove(&seal->link);
		free(seal);
	}
	for (i = im->by_digest; i; i = next) {
		next = i->hh.next;
		HASH_DEL(im->by_digest, i);
		free(i);
	}
	loop_timer_free(im->look);
	free(im);
}
