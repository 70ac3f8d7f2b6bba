// SPDX-License-Identifier: Apache-2.0
#include "api/frame/cursor.h"

#include "base/parse.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static_assert(CURSOR_SIZE >= base64_size(ID_SIZE), "an id's cursor does not fit");

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

int cursor_parse(const char *text, const char *kind, char ret_id[ID_SIZE], struct err *err)
{
	char padded[CURSOR_SIZE], id[CURSOR_SIZE];
	size_t len = strlen(text);
	ssize_t n = -1;

	if (len + 3 < sizeof(padded) && len < base64_size(ID_SIZE - 1)) {
		(void)snprintf(padded, sizeof(padded), "%s%s", text, &"==="[3 - (4 - len % 4) % 4]);
		swap_letters(padded, "-_", "+/");
		n = base64_decode(padded, strlen(padded), id);
	}
	if (n >= 0 && n < ID_SIZE) {
		id[n] = '\0';
		if (strlen(id) == (size_t)n && id_is_valid(id, kind)) {
			(void)snprintf(ret_id, ID_SIZE, "%.*s", (int)n, id);
			return 0;
		}
	}
	return err_field(err, "cursor", "is not a next_cursor of an earlier page");
}
