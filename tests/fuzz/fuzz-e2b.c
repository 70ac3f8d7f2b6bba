// SPDX-License-Identifier: Apache-2.0
/*
 * What E2B's clients send: envelopes, the steps of a build, and forms. The first byte says which,
 * of a form also in what stretches it comes: a form is read the same however it is cut.
 */
#include "compat/e2b/control/steps.h"
#include "compat/e2b/envd/multipart.h"
#include "compat/e2b/envd/rpc.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX (16 * 1024)

static void try_envelope(const uint8_t *data, size_t size)
{
	json_t *message = NULL;
	struct err err = {0};
	int r = rpc_envelope_read(data, size, &message, &err);

	assert((r == 1) == (message != NULL));
	assert(r >= 0 || err.message[0]);
	json_decref(message);
}

static void try_steps(const uint8_t *data, size_t size)
{
	auto_json json_t *recipe = json_pack("{s{}}", "e2b");
	auto_json json_t *body = NULL;
	const struct steps_start start = {0};
	struct err err = {0};
	const char *path;
	json_t *script;

	if (json_parse((const char *)data, size, &body, &err) < 0)
		return;
	err = (struct err){0};
	if (steps_read(body, &start, recipe, &err) < 0) {
		assert(err.message[0]);
		return;
	}
	assert(json_array_size(json_object_get(recipe, "run")) > 0);
	json_object_foreach (json_object_get(recipe, "files"), path, script)
		assert((steps_find(path, strlen(path)) > 0 || strcmp(path, STEPS_USER) == 0) &&
		       json_string_length(script) < STEPS_TEXT_MAX);
}

/* All that a form's parts tell, as bytes. */
static void read_form(const uint8_t *data, size_t size, size_t stretch, struct buf *out)
{
	auto_call(buf_done) struct buf in = BUF_INIT(2 * INPUT_MAX);
	struct multipart m;
	size_t at = 0;
	int r;

	assert(multipart_init(&m, "multipart/form-data; boundary=b", NULL) == 0);
	for (;;) {
		const char *bytes = NULL;
		size_t len = 0;

		r = multipart_next(&m, &in, &bytes, &len, NULL);
		if (r == MULTIPART_MORE && at < size) {
			size_t n = MIN(stretch, size - at);

			assert(buf_append(&in, data + at, n) == 0);
			at += n;
			continue;
		}
		if (r == MULTIPART_PART)
			assert(buf_printf(out, "<%s %s>", m.name, m.filename) == 0);
		if (r == MULTIPART_DATA) {
			assert(len > 0 && len <= in.len && buf_append(out, bytes, len) == 0);
			buf_consume(&in, len);
		}
		if (r < 0 || r == MULTIPART_MORE || r == MULTIPART_END)
			break;
	}
	assert(buf_printf(out, "%d", r < 0 ? -1 : r) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_call(buf_done) struct buf whole = BUF_INIT(8 * INPUT_MAX);
	auto_call(buf_done) struct buf cut = BUF_INIT(8 * INPUT_MAX);

	if (size < 1 || size > INPUT_MAX)
		return 0;
	if (data[0] == 0) {
		try_envelope(data + 1, size - 1);
		return 0;
	}
	if (data[0] == 's') {
		try_steps(data + 1, size - 1);
		return 0;
	}
	read_form(data + 1, size - 1, size, &whole);
	read_form(data + 1, size - 1, data[0], &cut);
	assert(whole.len == cut.len && memcmp(whole.data, cut.data, whole.len) == 0);
	return 0;
}
