// SPDX-License-Identifier: Apache-2.0
#include "cli/term/result_image.h"

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

bool result_image_is_one(const char *mime)
{
	return find_type(mime) != NULL;
}

/* The bytes of the image, for free(); NULL where they are none. */
static char *decode(const struct type *t, const json_t *value, size_t *ret_len)
{
	const char *text = json_string_value(value);
	size_t len = json_string_length(value);
	auto_free char *data = text ? malloc(len + 1) : NULL;
	ssize_t n = (ssize_t)len;

	if (!data)
		return NULL;
	if (t->is_text)
		memcpy(data, text, len);
	else
		n = base64_decode(text, len, data);
	if (n < 0)
		return NULL;
	*ret_len = (size_t)n;
	return take_ptr(data);
}

/* A new file: its path, or NULL with errno. */
static char *save_new(const char *path, const char *data, size_t len)
{
	auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	int r = fd < 0 ? -errno : fd_write_all(fd, data, len);

	if (r < 0 && fd >= 0)
		(void)unlink(path);
	errno = -r;
	return r < 0 ? NULL : xstrdup(path);
}

/* Under the first number that is free. */
static int save(struct result_images *images, const struct type *t, const char *data, size_t len,
                char **ret_path, struct err *err)
{
	for (images->next = MAX(images->next, 1U); images->next <= NUMBER_MAX; images->next++) {
		auto_free char *path =
			xasprintf("%s/cloche-%u.%s", images->dir, images->next, t->extension);

		*ret_path = save_new(path, data, len);
		if (!*ret_path && errno == EEXIST)
			continue;
		if (!*ret_path)
			return err_set(err, ERR_INTERNAL, errno, "cannot save '%s'", path);
		images->next++;
		images->n_call++;
		return 0;
	}
	return err_set(err, ERR_LIMIT, 0, "'%s' has %d images already", images->dir, NUMBER_MAX);
}

int result_image_save(struct result_images *images, const char *mime, const json_t *value,
                      char **ret_path, struct err *err)
{
	const struct type *t = find_type(mime);
	auto_free char *data = NULL;
	size_t len = 0;

	if (images->n_call >= RESULT_IMAGES_MAX)
		return err_set(err, ERR_LIMIT, 0,
		               "this call has shown %d images: no more are saved",
		               RESULT_IMAGES_MAX);
	data = t ? decode(t, value, &len) : NULL;
	return data ? save(images, t, data, len, ret_path, err)
	            : err_set(err, ERR_INTERNAL, 0, "an image is malformed");
}
