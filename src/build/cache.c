// SPDX-License-Identifier: Apache-2.0
/*
 * The image of each step's result, by the step's key. The cache is bounded in bytes: the least
 * recently used entry is forgotten first, and its image is removed unless it is needed elsewhere.
 */
#include "build/build_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "sandbox/storage/image.h"
#include "sandbox/storage/template.h"

#include <string.h>

struct cached {
	struct list link;
	char key[65];
	struct digest image;
	uint64_t bytes;
	json_t *json;
};

static void cached_free(struct cached *c)
{
	list_remove(&c->link);
	json_decref(c->json);
	free(c);
}

static struct cached *find(struct builds *bs, const char *key)
{
	list_for_each (&bs->cache, struct cached, c, link)
		if (strcmp(c->key, key) == 0)
			return c;
	return NULL;
}

static bool is_shared(const struct builds *bs, const struct cached *one)
{
	list_for_each (&bs->cache, struct cached, c, link)
		if (c != one && digest_equal(&c->image, &one->image))
			return true;
	return false;
}

static int add_row(const struct build_cache_row *row, void *arg)
{
	struct builds *bs = arg;
	struct cached *c = xnew0(struct cached);

	list_append(&bs->cache, &c->link);
	(void)snprintf(c->key, sizeof(c->key), "%s", row->key);
	c->bytes = row->bytes;
	if (digest_parse(row->image, &c->image) < 0 ||
	    json_parse(row->json, strlen(row->json), &c->json, NULL) < 0)
		cached_free(c); /* a lookup that finds nothing costs time only */
	return 0;
}

int cache_load(struct builds *bs, struct err *err)
{
	return store_build_cache_each(bs->rows, add_row, bs, err);
}

bool cache_has(const struct builds *bs, const struct digest *image)
{
	list_for_each (&bs->cache, struct cached, c, link)
		if (digest_equal(&c->image, image))
			return true;
	return false;
}

void cache_free(struct builds *bs)
{
	list_for_each (&bs->cache, struct cached, c, link)
		cached_free(c);
}

static void forget(struct builds *bs, struct cached *c)
{
	struct err err;

	if (store_build_cache_remove(bs->rows, c->key, &err) < 0) {
		log_warn("build.cache_not_removed", "why='%s'", err.message);
		return;
	}
	if (!is_shared(bs, c))
		image_release(bs->config.fleet, &c->image);
	cached_free(c);
}

static void save(struct builds *bs, const struct cached *c)
{
	auto_free char *json = json_dumps(c->json, JSON_COMPACT);
	char image[DIGEST_HEX];
	struct build_cache_row row = {.key = c->key,
	                              .image = image,
	                              .bytes = c->bytes,
	                              .used_us = clock_wall_us(),
	                              .json = json};
	struct err err;

	digest_to_hex(&c->image, image);
	if (store_build_cache_put(bs->rows, &row, &err) < 0)
		log_warn("build.cache_not_saved", "why='%s'", err.message);
}

static bool is_counted(const struct digest *image, const void *arg)
{
	const struct builds *bs = arg;

	return template_needs_image(bs->config.fleet, image) || cache_has(bs, image);
}

/* With those images of forgotten steps that it keeps on disk. */
static uint64_t count(const struct builds *bs, const struct cached *c)
{
	return is_shared(bs, c) ? 0
	                        : image_count_charged(bs->config.fleet, &c->image, is_counted, bs);
}

static void trim(struct builds *bs, const struct cached *newest)
{
	uint64_t bytes = 0;

	list_for_each (&bs->cache, struct cached, c, link)
		bytes += count(bs, c);
	list_for_each (&bs->cache, struct cached, c, link) {
		if (bytes <= bs->config.cache_bytes_max || c == newest)
			break;
		bytes -= MIN(bytes, count(bs, c));
		forget(bs, c);
	}
}

bool cache_find(struct builds *bs, const char *key, struct digest *ret_image,
                const json_t **ret_json)
{
	struct cached *c = find(bs, key);
	uint64_t bytes;

	if (!c)
		return false;
	if (!image_has(bs->config.fleet, &c->image, &bytes)) {
		forget(bs, c);
		return false;
	}
	list_remove(&c->link);
	list_append(&bs->cache, &c->link);
	save(bs, c);
	*ret_image = c->image;
	*ret_json = c->json;
	return true;
}

void cache_put(struct builds *bs, const char *key, const struct digest *image, uint64_t bytes,
               json_t *json)
{
	struct cached *c = find(bs, key);

	if (!c) {
		c = xnew0(struct cached);
		(void)snprintf(c->key, sizeof(c->key), "%s", key);
		list_init(&c->link);
	}
	list_remove(&c->link);
	list_append(&bs->cache, &c->link);
	c->image = *image;
	c->bytes = bytes;
	json_decref(c->json);
	c->json = json_incref(json);
	save(bs, c);
	trim(bs, c);
}
