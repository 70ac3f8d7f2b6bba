// SPDX-License-Identifier: Apache-2.0
/*
 * What becomes of the files of an import: they get a manifest, and are sealed as an image.
 *
 * What the sandbox reports about the image is not trusted: it is text of bounded size, parsed as
 * strictly as a request, and only known fields are used.
 */
#include "build/transfer/import_private.h"

#include "base/json/json.h"
#include "build/registry/pull.h"
#include "sandbox/storage/image.h"

#include <string.h>
#include <time.h>

static void on_seal_progress(uint64_t bytes, void *arg)
{
	struct import *im = arg;

	im->bytes = bytes;
	import_tell(im);
}

static void on_sealed(const struct digest *image, uint64_t bytes, const struct err *err, void *arg)
{
	struct import *im = arg;

	(void)bytes;
	im->seal = NULL;
	if (image)
		im->image = *image;
	import_end(im, err);
}

/* The latest time of any file, unless the manifest of an exported template gives one. */
static uint64_t pick_epoch(const struct import *im, const json_t *told)
{
	const json_t *sealed = json_object_get(im->manifest, "sealed");
	json_int_t newest = json_integer_value(json_object_get(told, "newest_s"));
	json_int_t epoch = json_integer_value(json_object_get(sealed, "epoch_s"));

	if (epoch <= 0)
		epoch = MAX(newest, (json_int_t)im->base.epoch_s);
	return (uint64_t)MIN(MAX(epoch, (json_int_t)1), (json_int_t)time(NULL));
}

/* The image has the same layers as one that is here, so it is that one. */
static void take_base(struct import *im)
{
	json_t *sealed = json_pack("{sIsb}", "epoch_s", (json_int_t)im->base.epoch_s, "small",
	                           im->base.is_small);

	(void)json_object_set_new(im->manifest, "sealed", sealed);
	im->image = im->base.image;
	import_end(im, NULL);
}

static void begin_seal(struct import *im, const json_t *told)
{
	json_t *sealed = json_object_get(im->manifest, "sealed");
	const struct image_spec spec = {.is_tree = im->base.n_layers == 0,
	                                .is_over = im->base.n_layers > 0,
	                                .is_small = im->is_small ||
	                                            json_is_true(json_object_get(sealed, "small")),
	                                .epoch_s = pick_epoch(im, told),
	                                .progress = on_seal_progress};
	struct sandbox *s = import_sandbox(im);
	struct err err = {0};

	im->phase = IMPORT_SEALING;
	im->bytes = im->total = 0;
	import_tell(im);
	(void)json_object_set_new(
		im->manifest, "sealed",
		json_pack("{sIsb}", "epoch_s", (json_int_t)spec.epoch_s, "small", spec.is_small));
	if (!s)
		(void)err_set(&err, ERR_GONE, 0, "the import's sandbox has ended");
	else if (image_seal(s, &spec, on_sealed, im, &im->seal, &err) == 0)
		return;
	import_end(im, &err);
}

static void take_field(json_t *manifest, const json_t *from, const char *name)
{
	json_t *value = json_object_get(from, name);

	if (value)
		(void)json_object_set(manifest, name, value);
}

/* A template that was exported brings its manifest along; any other image its defaults. */
static int make_manifest(struct import *im, const json_t *told, struct err *err)
{
	static const char *const defaults[] = {"env", "user", "cwd", "entrypoint", "cmd", "config"};
	static const char *const facts[] = {"kind",     "layers",         "entries", "bytes",
	                                    "left_out", "owners_changed", "chain"};
	const char *label = json_string_value(json_object_get(told, "template"));
	json_t *origin;

	if (im->is_bare)
		return 0;
	origin = json_object();
	if (label && json_parse(label, strlen(label), &im->manifest, err) < 0) {
		json_decref(origin);
		return err_prefix(err, "image: the template's manifest");
	}
	if (!json_is_object(im->manifest)) {
		json_decref(im->manifest);
		im->manifest = json_object();
	}
	for (size_t i = 0; i < ARRAY_SIZE(defaults) && !label; i++)
		take_field(im->manifest, json_object_get(told, "defaults"), defaults[i]);
	for (size_t i = 0; i < ARRAY_SIZE(facts); i++)
		take_field(origin, told, facts[i]);
	if (im->pull)
		(void)json_object_update_new(origin, json_pack("{ssss}", "ref", pull_ref(im->pull),
		                                               "digest", im->digest));
	if (im->base.n_layers > 0)
		(void)json_object_set_new(origin, "shared_layers",
		                          json_integer((json_int_t)im->base.n_layers));
	(void)json_object_set_new(im->manifest, "imported", origin);
	return im->ops->check(im->manifest, err);
}

/* What the program said of the layers is now verified: those that were not fetched are those of the
 * base. */
static int check_base(const struct import *im, const json_t *told, struct err *err)
{
	const char *over = json_string_value(json_object_get(told, "over"));
	char hex[DIGEST_HEX];

	digest_to_hex(&im->base.chain, hex);
	if (im->base.n_layers == 0 || (over && strcmp(over, hex) == 0))
		return 0;
	return err_set(err, ERR_FILE_INVALID, 0,
	               "image: its layers differ from those that the registry listed");
}

void import_make_image(struct import *im)
{
	auto_json json_t *told = NULL;
	struct err err = {0};

	if (json_parse(buf_str(&im->told), im->told.len, &told, &err) < 0 ||
	    check_base(im, told, &err) < 0 || make_manifest(im, told, &err) < 0)
		import_end(im, &err);
	else if (im->base.is_all)
		take_base(im);
	else
		begin_seal(im, told);
}

void import_note_image(struct import *im)
{
	json_t *imported = json_object_get(im->manifest, "imported");
	char hex[DIGEST_HEX];

	digest_to_hex(&im->image, hex);
	if (imported)
		(void)json_object_set_new(imported, "image", json_string(hex));
}
