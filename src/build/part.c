// SPDX-License-Identifier: Apache-2.0
#include "build/part.h"

#include "build/dockerfile/dockerfile_plan.h"
#include "build/recipe/word.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

static const json_t *plan_of(const struct build *b)
{
	return json_object_get(b->recipe, "dockerfile");
}

static const json_t *parts_of(const struct build *b)
{
	return json_object_get(plan_of(b), "parts");
}

static const json_t *part_now(const struct build *b)
{
	return json_array_get(parts_of(b), b->part);
}

static size_t stage_of(const json_t *part)
{
	return (size_t)json_integer_value(json_object_get(part, "stage"));
}

static const json_t *stage_row(const struct build *b, size_t stage)
{
	return json_array_get(json_object_get(plan_of(b), "stages"), stage);
}

bool part_is_any(const struct build *b)
{
	return plan_of(b) != NULL;
}

size_t part_count(const struct build *b)
{
	return json_array_size(parts_of(b));
}

bool part_is_last(const struct build *b)
{
	return b->part + 1 >= part_count(b);
}

bool part_is_tree(const struct build *b)
{
	return json_object_get(part_now(b), "tree") != NULL;
}

bool part_is_offline(const struct build *b)
{
	return json_object_get(part_now(b), "offline") ||
	       (part_is_tree(b) && !json_object_get(part_now(b), "fetches"));
}

bool part_is_unknown(const struct build *b)
{
	return json_object_get(part_now(b), "unknown") != NULL;
}

bool part_has_copies(const struct build *b)
{
	for (size_t i = 0; i < part_count(b); i++)
		if (json_array_size(json_object_get(json_array_get(parts_of(b), i), "copies")) > 0)
			return true;
	return false;
}

const json_t *part_caches(const struct build *b)
{
	return json_object_get(part_now(b), "caches");
}

/* The image that a stage has left; of one without parts, that which it starts from. Zero: nothing.
 * A stage starts from an earlier one, so this ends. */
static struct digest image_of(const struct build *b, size_t stage)
{
	struct digest image = {0};
	char key[24];
	const json_t *row = stage_row(b, stage), *other = json_object_get(row, "stage");
	const char *hex;

	(void)snprintf(key, sizeof(key), "%zu", stage);
	hex = json_string_value(json_object_get(b->stage_images, key));
	if (!hex && other)
		return image_of(b, (size_t)json_integer_value(other));
	if (!hex)
		hex = json_string_value(json_object_get(row, "image"));
	if (!hex || digest_parse(hex, &image) < 0)
		return (struct digest){0};
	return image;
}

static bool is_first(const struct build *b)
{
	return b->part == 0 ||
	       stage_of(json_array_get(parts_of(b), b->part - 1)) != stage_of(part_now(b));
}

void part_enter(struct build *b)
{
	const size_t stage = stage_of(part_now(b));
	const char *suite = json_string_value(json_object_get(stage_row(b, stage), "suite"));

	(void)snprintf(b->suite, sizeof(b->suite), "%s",
	               suite && word_is_suite(suite) ? suite : "");
	if (is_first(b))
		b->image = image_of(b, stage);
}

bool part_leave(struct build *b)
{
	const json_t *target = json_object_get(plan_of(b), "target");
	char key[24], hex[DIGEST_HEX];

	if (b->part < part_count(b)) {
		(void)snprintf(key, sizeof(key), "%zu", stage_of(part_now(b)));
		digest_to_hex(&b->image, hex);
		if (!b->stage_images)
			b->stage_images = json_object();
		(void)json_object_set_new(b->stage_images, key, json_string(hex));
		b->part++;
		b->carried = 0;
	}
	if (b->part < part_count(b))
		return true;
	b->image = image_of(b, (size_t)json_integer_value(target));
	return false;
}

void part_restart(struct build *b)
{
	b->part = b->carried = 0;
	json_decref(b->stage_images);
	json_decref(b->contents);
	b->stage_images = b->contents = NULL;
}

json_t *part_files(const struct build *b)
{
	return json_object_get(part_now(b), "files");
}

/* The number and each pattern of the copies that some part has. */
static void add_patterns(const struct build *b, json_t *words)
{
	const json_t *copies = json_object_get(plan_of(b), "copies");
	size_t i, k;
	json_t *number, *pattern;

	for (size_t part = 0; part < part_count(b); part++) {
		json_array_foreach(json_object_get(json_array_get(parts_of(b), part), "copies"), i,
		                   number)
		{
			const size_t n = (size_t)json_integer_value(number);

			json_array_foreach(json_array_get(copies, n), k, pattern)
			{
				(void)json_array_append_new(words, json_sprintf("%zu", n));
				(void)json_array_append(words, pattern);
			}
		}
	}
}

static void add_carry(const struct part_carry *carry, json_t *words)
{
	(void)json_array_append_new(words, json_sprintf("%u", carry->line));
	(void)json_array_append_new(words, json_string(carry->path));
}

json_t *part_words(const struct build *b, enum step step)
{
	json_t *words = json_array();
	struct part_carry carry;

	if (step == STEP_CONTEXT)
		add_patterns(b, words);
	else if (step == STEP_CARRY && part_carry(b, b->carried, &carry))
		add_carry(&carry, words);
	else
		(void)json_array_extend(words, json_object_get(part_now(b), "run"));
	return words;
}

/* The hashes of what the part copies from the context, and the images that it copies from: they
 * make its key another one when these change. */
static char *list_inputs(const struct build *b)
{
	auto_call(buf_done) struct buf out = BUF_INIT(1 << 20);
	struct part_carry carry;
	size_t i;
	json_t *number;

	json_array_foreach(json_object_get(part_now(b), "copies"), i, number)
	{
		char key[24];
		const char *hash;

		(void)snprintf(key, sizeof(key), "%lld", (long long)json_integer_value(number));
		hash = json_string_value(json_object_get(b->contents, key));
		(void)!buf_printf(&out, "%s\n", hash ? hash : "");
	}
	for (i = 0; part_carry(b, i, &carry); i++)
		(void)!buf_printf(&out, "%s\n", carry.name);
	return xstrdup(buf_str(&out));
}

void part_put_env(const struct build *b, enum step step, json_t *env)
{
	auto_free char *inputs = NULL;

	if (step == STEP_CONTEXT) {
		(void)json_object_set_new(env, "FROM", json_string(DOCKER_CONTEXT));
		return;
	}
	inputs = list_inputs(b);
	(void)json_object_set_new(env, "INPUTS", json_string(inputs));
	(void)json_object_set_new(env, "ROOT", json_string(part_is_tree(b) ? "/template" : ""));
}

json_t *part_fills(const struct build *b, enum step step)
{
	const json_t *context = json_object_get(plan_of(b), "context");
	json_t *fills = json_array();
	struct part_carry carry;

	if (context &&
	    (step == STEP_CONTEXT || json_array_size(json_object_get(part_now(b), "copies")) > 0))
		(void)json_array_append_new(fills, json_pack("[Osb]", context, DOCKER_CONTEXT, 0));
	for (size_t i = 0; step == STEP_PART && part_carry(b, i, &carry); i++)
		(void)json_array_append_new(
			fills,
			json_pack("[sob]", carry.name, json_sprintf(DOCKER_CARRIED "%zu", i), 1));
	return fills;
}

bool part_carry(const struct build *b, size_t i, struct part_carry *ret)
{
	const json_t *row = json_array_get(json_object_get(part_now(b), "carries"), i);
	const json_t *stage = json_object_get(row, "stage");
	const char *hex = json_string_value(json_object_get(row, "image"));
	auto_free char *text = NULL;
	char image[DIGEST_HEX];
	struct digest hash;

	if (!row)
		return false;
	*ret = (struct part_carry){
		.path = json_string_value(json_object_get(row, "path")),
		.line = (unsigned)json_integer_value(json_object_get(row, "line"))};
	if (stage)
		ret->image = image_of(b, (size_t)json_integer_value(stage));
	else if (digest_parse(hex, &ret->image) < 0)
		return false;
	digest_to_hex(&ret->image, image);
	text = xasprintf("carry %s /%s", image, ret->path);
	if (EVP_Digest(text, strlen(text), hash.bytes, NULL, EVP_sha256(), NULL) != 1)
		abort(); /* no memory */
	digest_to_hex(&hash, ret->name);
	return true;
}
