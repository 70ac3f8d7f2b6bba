// SPDX-License-Identifier: Apache-2.0
#include "object/object_listing.h"

#include "base/auto.h"
#include "base/parse.h"
#include "base/units.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char top[] = "<ListBucketResult";

/* The text of an element, which is cut out of what holds it. NULL: there is none. */
static char *take_element(char *in, const char *name)
{
	char begin[32], end[32];
	char *at, *stop;

	(void)snprintf(begin, sizeof(begin), "<%s>", name);
	(void)snprintf(end, sizeof(end), "</%s>", name);
	at = strstr(in, begin);
	stop = at ? strstr(at, end) : NULL;
	if (!stop)
		return NULL;
	*stop = '\0';
	return at + strlen(begin);
}

/* In place. Only the five names that XML has, and no number: keys of ours need none. */
static int unescape(char *text)
{
	static const struct {
		const char *name;
		char letter;
	} rows[] = {
		{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
	char *to = text;

	while (*text) {
		size_t i = 0;

		if (*text != '&') {
			*to++ = *text++;
			continue;
		}
		while (i < ARRAY_SIZE(rows) &&
		       strncmp(text, rows[i].name, strlen(rows[i].name)) != 0)
			i++;
		if (i == ARRAY_SIZE(rows))
			return -EPROTO;
		*to++ = rows[i].letter;
		text += strlen(rows[i].name);
	}
	*to = '\0';
	return 0;
}

int object_time_parse(const char *text, uint64_t *ret_us)
{
	struct tm tm = {0};
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	time_t seconds;

	if (rest && *rest == '.')
		rest += 1 + strspn(rest + 1, "0123456789");
	if (!rest || strcmp(rest, "Z") != 0)
		return -EPROTO;
	seconds = timegm(&tm);
	if (seconds < 0)
		return -EPROTO;
	*ret_us = (uint64_t)seconds * SECOND_US;
	return 0;
}

static int read_one(char *entry, struct object_entry *ret)
{
	/* Each cuts off what stands behind it, so each has a text of its own. */
	char *copy = xstrdup(entry), *other = xstrdup(entry);
	char *key = take_element(entry, "Key");
	const char *time = take_element(copy, "LastModified");
	const char *size = take_element(other, "Size");
	int r = key && time && size ? 0 : -EPROTO;

	if (r == 0)
		r = object_time_parse(time, &ret->written_us);
	if (r == 0 && parse_u64(size, INT64_MAX, &ret->bytes) < 0)
		r = -EPROTO;
	if (r == 0)
		r = unescape(key);
	if (r == 0 && strlen(key) > OBJECT_KEY_MAX)
		r = -EPROTO;
	ret->key = key;
	free(copy);
	free(other);
	return r;
}

static int has_more(const char *text)
{
	if (strstr(text, "<IsTruncated>true</IsTruncated>"))
		return 1;
	return strstr(text, "<IsTruncated>false</IsTruncated>") ? 0 : -EPROTO;
}

int object_listing_read(char *text, object_entry_fn fn, void *arg,
                        char ret_last[OBJECT_KEY_MAX + 1])
{
	static const char begin[] = "<Contents>", end[] = "</Contents>";
	char *at = strstr(text, top);
	const int more = has_more(text);
	int r = at && more >= 0 ? 0 : -EPROTO;

	ret_last[0] = '\0';
	while (r == 0 && (at = strstr(at, begin))) {
		struct object_entry one;
		char *stop = strstr(at, end);

		if (!stop)
			return -EPROTO;
		*stop = '\0';
		r = read_one(at + strlen(begin), &one);
		if (r == 0)
			r = fn(&one, arg);
		if (r == 0)
			(void)snprintf(ret_last, OBJECT_KEY_MAX + 1, "%s", one.key);
		at = stop + strlen(end);
	}
	if (r < 0)
		return r;
	return more && !ret_last[0] ? -EPROTO : more; /* more, but behind nothing */
}
