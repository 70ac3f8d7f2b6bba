// SPDX-License-Identifier: Apache-2.0
#include "cli/term/output.h"

#include "base/fd.h"
#include "base/parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void output_init(struct output *o, enum output_mode mode)
{
	*o = (struct output){.mode = mode};
	buf_init(&o->kept[0], OUTPUT_GATHER_MAX);
	buf_init(&o->kept[1], OUTPUT_GATHER_MAX);
}

void output_done(struct output *o)
{
	buf_done(&o->kept[0]);
	buf_done(&o->kept[1]);
}

static void remember(struct output *o, const char *data, size_t len)
{
	const size_t n = MIN(len, sizeof(o->last)), keep = MIN(o->last_len, sizeof(o->last) - n);

	memmove(o->last, o->last + o->last_len - keep, keep);
	memcpy(o->last + keep, data + len - n, n);
	o->last_len = keep + n;
}

/* which: 0 = stdout, 1 = stderr */
static int put(struct output *o, size_t which, const char *data, size_t len, struct err *err)
{
	size_t room = buf_room(&o->kept[which]);
	int r;

	if (o->mode == OUTPUT_GATHER) {
		o->is_cut[which] |= len > room;
		r = buf_append(&o->kept[which], data, MIN(len, room));
	} else {
		r = fd_write_all(which == 0 ? STDOUT_FILENO : STDERR_FILENO, data, len);
		if (which == 1)
			remember(o, data, len);
		if (len > 0)
			o->is_mid_line = data[len - 1] != '\n';
	}
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot write the command's output") : 0;
}

static int put_bytes(struct output *o, size_t which, const json_t *event, struct err *err)
{
	const json_t *text = json_object_get(event, "text");
	const json_t *base64 = json_object_get(event, "base64");
	auto_free char *bytes = NULL;
	ssize_t n;

	if (json_is_string(text))
		return put(o, which, json_string_value(text), json_string_length(text), err);
	if (!json_is_string(base64))
		return err_set(err, ERR_INTERNAL, 0, "an output event has no bytes");
	bytes = malloc(json_string_length(base64) + 1);
	n = bytes ? base64_decode(json_string_value(base64), json_string_length(base64), bytes)
	          : -ENOMEM;
	if (n < 0)
		return err_set(err, ERR_INTERNAL, (int)-n, "an output event is malformed");
	return put(o, which, bytes, (size_t)n, err);
}

int output_event(struct output *o, const json_t *event, const char *line, size_t len,
                 struct err *err)
{
	const char *type = json_string_value(json_object_get(event, "type"));

	if (o->mode == OUTPUT_EVENTS) {
		int r = fd_write_all(STDOUT_FILENO, line, len);

		if (r == 0)
			r = fd_write_all(STDOUT_FILENO, "\n", 1);
		return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot write an event") : 0;
	}
	if (type && strcmp(type, "stdout") == 0)
		return put_bytes(o, 0, event, err);
	if (type && strcmp(type, "stderr") == 0)
		return put_bytes(o, 1, event, err);
	if (type && strcmp(type, "gap") == 0 && o->mode == OUTPUT_RAW)
		(void)fprintf(stderr, "cloche: %" PRId64 " bytes of output are no longer kept\n",
		              (int64_t)json_integer_value(json_object_get(event, "lost_bytes")));
	return 0;
}

static void put_stream(struct json_writer *w, const char *name, const struct buf *bytes,
                       bool is_cut)
{
	auto_free char *as_base64 = xasprintf("%s_base64", name);
	auto_free char *truncated = xasprintf("%s_truncated", name);

	json_put_strn(w, name, buf_str(bytes), bytes->len);
	if (!utf8_is_valid(buf_str(bytes), bytes->len))
		json_put_base64(w, as_base64, buf_str(bytes), bytes->len);
	json_put_bool(w, truncated, is_cut);
}

void output_print_result(const struct output *o, const json_t *exec)
{
	struct buf text = BUF_INIT(16 * (size_t)OUTPUT_GATHER_MAX);
	struct json_writer w;

	json_writer_init(&w, &text);
	json_open_object(&w, NULL);
	json_put_value(&w, "exec", exec);
	put_stream(&w, "stdout", &o->kept[0], o->is_cut[0]);
	put_stream(&w, "stderr", &o->kept[1], o->is_cut[1]);
	json_close_object(&w);
	if (json_writer_end(&w) == 0)
		printf("%s\n", buf_str(&text));
	buf_done(&text);
}
