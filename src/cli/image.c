// SPDX-License-Identifier: Apache-2.0
#include "cli/image.h"

#include "base/fd.h"
#include "base/parse.h"

#include <fcntl.h>
#include <string.h>

#define NUMBER_MAX 99999

static const struct type {
	const char *mime, *extension;
	bool is_text; /* else base64 */
} types[] = {
	{"image/png", "png", false},
	{"image/jpeg", "jpg", false},
	{"image/svg+xml", "svg", true},
};

static const struct type *find_type(const char *mime)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strcmp(types[i].mime, mime) == 0)
			return &types[i];
	return NULL;
}

bool image_is_one(const char *mime)
{
	return find_type(mime) != NULL;
}

static int decode(const struct type *t, const json_t *value, char **ret, size_t *ret_len,
                  struct err *err)
{
	const char *text = json_string_value(value);
	size_t len = json_string_length(value);
	ssize_t n = (ssize_t)len;

	if (!text)
		return err_set(err, ERR_INTERNAL, 0, "an %s is no text", t->mime);
	*ret = malloc(len + 1);
	if (!*ret)
		return err_set(err, ERR_INTERNAL, ENOMEM, "an %s", t->mime);
	if (t->is_text)
		memcpy(*ret, text, len);
	else
		n = base64_decode(text, len, *ret);
	if (n < 0)
		return err_set(err, ERR_INTERNAL, 0, "an %s is malformed", t->mime);
	*ret_len = (size_t)n;
	return 0;
}

/* A new file under the first free number. */
static int open_new(struct images *images, const struct type *t, char **ret_path, struct err *err)
{
	for (images->next = MAX(images->next, 1U); images->next <= NUMBER_MAX; images->next++) {
		char *path = xasprintf("%s/cloche-%u.%s", images->dir, images->next, t->extension);
		int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

		if (fd >= 0) {
			*ret_path = path;
			images->next++;
			return fd;
		}
		free(path);
		if (errno != EEXIST)
			return err_set(err, ERR_INTERNAL, errno, "cannot save an image in '%s'",
			               images->dir);
	}
	return err_set(err, ERR_LIMIT, 0, "'%s' has %d images already", images->dir, NUMBER_MAX);
}

int image_save(struct images *images, const char *mime, const json_t *value, char **ret_path,
               struct err *err)
{
	const struct type *t = find_type(mime);
	auto_free char *data = NULL;
	auto_free char *path = NULL;
	auto_fd int fd = -1;
	size_t len;
	int r;

	if (images->n_call >= IMAGES_PER_CALL_MAX)
		return err_set(err, ERR_LIMIT, 0,
		               "this call has shown %d images: no more are saved",
		               IMAGES_PER_CALL_MAX);
	r = decode(t, value, &data, &len, err);
	if (r < 0)
		return r;
	fd = open_new(images, t, &path, err);
	if (fd < 0)
		return fd;
	images->n_call++;
	r = fd_write_all(fd, data, len);
	if (r < 0) {
		(void)unlink(path);
		return err_set(err, ERR_INTERNAL, -r, "cannot write '%s'", path);
	}
	*ret_path = take_ptr(path);
	return 0;
}
