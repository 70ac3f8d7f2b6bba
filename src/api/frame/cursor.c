// SPDX-License-Identifier: Apache-2.0
#include "api/frame/cursor.h"

#include "base/parse.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TEXT_SIZE (ID_SIZE + 24)

static_assert(CURSOR_SIZE >= base64_size(TEXT_SIZE), "a cursor does not fit");

/* base64url differs in two letters and has no padding. */
static void swap_letters(char *text, const char *from, const char *to)
{
	for (; *text; text++) {
		const char *at = strchr(from, *text);

		if (at)
			*text = to[at - from];
	}
}

void cursor_make(const char *id, char ret[CURSOR_SIZE])
{
	(void)base64url_encode(id, strlen(id), ret);
}

void cursor_make_at(const char *id, uint64_t us, char ret[CURSOR_SIZE])
{
	char text[TEXT_SIZE];

	(void)snprintf(text, sizeof(text), "%s/%" PRIu64, id, us);
	cursor_make(text, ret);
}

int cursor_parse_at(const char *text, const char *kind, char ret_id[ID_SIZE], uint64_t *ret_us,
                    struct err *err)
{
	char padded[CURSOR_SIZE], plain[CURSOR_SIZE];
	size_t len = strlen(text);
	ssize_t n = -1;
	uint64_t us = 0;
	char *slash;

	if (len + 3 < sizeof(padded) && len < base64_size(TEXT_SIZE - 1)) {
		(void)snprintf(padded, sizeof(padded), "%s%s", text, &"==="[3 - (4 - len % 4) % 4]);
		swap_letters(padded, "-_", "+/");
		n = base64_decode(padded, strlen(padded), plain);
	}
	if (n >= 0 && n < TEXT_SIZE) {
		plain[n] = '\0';
		slash = strchr(plain, '/');
		if (slash)
			*slash = '\0';
		if (strlen(plain) + (slash ? strlen(slash + 1) + 1 : 0) == (size_t)n &&
		    (!slash || (parse_u64(slash + 1, INT64_MAX, &us) == 0 && us > 0)) &&
		    strlen(plain) < ID_SIZE && id_is_valid(plain, kind)) {
			(void)snprintf(ret_id, ID_SIZE, "%.*s", ID_SIZE - 1, plain);
			*ret_us = us;
			return 0;
		}
	}
	return err_field(err, "cursor", "is not a next_cursor of an earlier page");
}

int cursor_parse(const char *text, const char *kind, char ret_id[ID_SIZE], struct err *err)
{
	uint64_t us;

	return cursor_parse_at(text, kind, ret_id, &us, err);
}
