// SPDX-License-Identifier: Apache-2.0
#include "net/policy/secret_reference.h"

#include <errno.h>
#include <string.h>

#define SCHEME     "secret://"
#define SCHEME_LEN (sizeof(SCHEME) - 1)

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_name_char(char c)
{
	return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* The length of the name that text begins with; 0: none. */
static size_t name_len(const char *text)
{
	size_t n = 0;

	while (is_name_char(text[n]))
		n++;
	return is_letter(text[0]) && n <= SECRET_NAME_MAX ? n : 0;
}

bool secret_name_is_valid(const char *name)
{
	const size_t n = name_len(name);

	return n > 0 && name[n] == '\0';
}

const char *secret_reference_find(const char *text, char name[SECRET_NAME_SIZE])
{
	const char *at = strstr(text, SCHEME);
	const size_t n = at ? name_len(at + SCHEME_LEN) : 0;

	if (n > 0)
		memcpy(name, at + SCHEME_LEN, n);
	name[n] = '\0';
	return at;
}

bool secret_reference_is_alone(const char *text)
{
	char name[SECRET_NAME_SIZE];
	const char *at = secret_reference_find(text, name);

	static const char *const schemes[] = {"", "Bearer ", "Token ", "ApiKey ", "Basic "};

	if (!at || name[0] == '\0' || at[SCHEME_LEN + strlen(name)] != '\0')
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
		if (strlen(schemes[i]) == (size_t)(at - text) &&
		    strncasecmp(text, schemes[i], strlen(schemes[i])) == 0)
			return true;
	return false;
}

int secret_reference_fill(const char *text, secret_fill_fn fn, void *arg, struct buf *out)
{
	char name[SECRET_NAME_SIZE];
	const char *at;
	int r = 0;

	while (r >= 0 && (at = secret_reference_find(text, name))) {
		r = buf_append(out, text, (size_t)(at - text));
		if (r >= 0)
			r = name[0] ? fn(name, out, arg) : -ENOENT;
		text = at + SCHEME_LEN + strlen(name);
	}
	return r < 0 ? r : buf_append(out, text, strlen(text));
}
