// SPDX-License-Identifier: Apache-2.0
#include "build/image/image_reference.h"

#include <stdio.h>
#include <string.h>

#define DIGEST_SCHEME "sha256:"
#define LOWER         "abcdefghijklmnopqrstuvwxyz0123456789"
#define UPPER         "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

static int refuse(struct err *err, const char *field, const char *text, const char *why)
{
	(void)err_field(err, field, "'%.200s' is no image's name: %s", text, why);
	return err_hint(err, "such as registry.example.com/team/app:1.2");
}

/* One part of a name: letters and digits, divided by '.', '_', "__" or dashes. */
static bool is_part(const char *s, size_t len)
{
	size_t at = 0;

	for (;;) {
		size_t word = strspn(s + at, LOWER), dashes, marks;

		word = MIN(word, len - at);
		at += word;
		if (word == 0 || at == len)
			return word > 0;
		dashes = MIN(strspn(s + at, "-"), len - at);
		marks = s[at] == '.'                                       ? 1
		        : s[at] == '_' && at + 1 < len && s[at + 1] == '_' ? 2
		        : s[at] == '_'                                     ? 1
		                                                           : dashes;
		if (marks == 0)
			return false;
		at += marks;
	}
}

static bool is_name(const char *s, size_t len)
{
	if (len == 0 || len > IMAGE_NAME_MAX)
		return false;
	while (len > 0) {
		const char *slash = memchr(s, '/', len);
		size_t part = slash ? (size_t)(slash - s) : len;

		if (part == 0 || !is_part(s, part) || (slash && part + 1 == len))
			return false;
		s += part + (slash != NULL);
		len -= part + (slash != NULL);
	}
	return true;
}

static bool is_tag(const char *s, size_t len)
{
	return len > 0 && len <= IMAGE_TAG_MAX && s[0] != '.' && s[0] != '-' &&
	       strspn(s, LOWER UPPER "_.-") >= len;
}

static bool is_digest(const char *s)
{
	const size_t scheme = strlen(DIGEST_SCHEME);

	return strlen(s) == IMAGE_DIGEST_LEN && strncmp(s, DIGEST_SCHEME, scheme) == 0 &&
	       strspn(s + scheme, "0123456789abcdef") == IMAGE_DIGEST_LEN - scheme;
}

/* Whether the part before the first '/' is a host. */
static bool names_host(const char *s, size_t len)
{
	return memchr(s, '.', len) || memchr(s, ':', len) ||
	       (len == strlen("localhost") && strncmp(s, "localhost", len) == 0);
}

static void copy(char *to, const char *from, size_t len)
{
	memcpy(to, from, len);
	to[len] = '\0';
}

/* The default place: its host, and its path for names of one part. */
static int use_place(const char *place, const char *name, size_t len, const char *field,
                     struct image_reference *ref, struct err *err)
{
	const char *path = place ? strchr(place, '/') : NULL;
	size_t host = place ? (path ? (size_t)(path - place) : strlen(place)) : 0;
	const char *why = NULL;

	if (!place) {
		(void)err_field(err, field, "'%.200s' names no registry", name);
		return err_hint(err,
		                "write HOST/%.*s, or set registries.default in the daemon's "
		                "settings",
		                (int)MIN(len, (size_t)60), name);
	}
	if (authority_parse(place, host, &ref->host, &ref->port, &why) < 0)
		return err_field(err, "registries.default", "'%.100s' %s", place, why);
	if (!path || memchr(name, '/', len)) {
		copy(ref->name, name, len);
		return 0;
	}
	if (strlen(path + 1) + 1 + len > IMAGE_NAME_MAX)
		return refuse(err, field, name, "it is too long");
	(void)snprintf(ref->name, sizeof(ref->name), "%s/%.*s", path + 1, (int)len, name);
	return is_name(ref->name, strlen(ref->name))
	               ? 0
	               : err_field(err, "registries.default",
	                           "'%.100s' has a path that no name may have", place);
}

int image_reference_parse(const char *text, const char *place, const char *field,
                          struct image_reference *ret, struct err *err)
{
	struct image_reference ref = {0};
	const char *at = strchr(text, '@'), *slash, *name = text, *colon, *why = NULL;
	size_t len = at ? (size_t)(at - text) : strlen(text), host = 0;
	int r = 0;

	if (at && !is_digest(at + 1))
		return refuse(err, field, text,
		              "behind the '@' must be sha256: and 64 digits from 0 to f");
	if (at)
		copy(ref.digest, at + 1, IMAGE_DIGEST_LEN);
	slash = memchr(text, '/', len);
	if (slash && names_host(text, (size_t)(slash - text))) {
		host = (size_t)(slash - text);
		if (authority_parse(text, host, &ref.host, &ref.port, &why) < 0)
			return refuse(err, field, text, why);
		name = slash + 1;
		len -= host + 1;
	}
	colon = memchr(name, ':', len);
	if (colon) {
		size_t tag = len - (size_t)(colon - name) - 1;

		if (!is_tag(colon + 1, tag))
			return refuse(err, field, text, "its tag is not valid");
		copy(ref.tag, colon + 1, tag);
		len = (size_t)(colon - name);
	}
	if (!is_name(name, len))
		return refuse(err, field, text,
		              "parts have a-z and 0-9, divided by '.', '_' or '-'");
	if (host > 0)
		copy(ref.name, name, len);
	else
		r = use_place(place, name, len, field, &ref, err);
	if (r < 0)
		return r;
	if (at)
		ref.tag[0] = '\0';
	else if (!colon)
		copy(ref.tag, "latest", strlen("latest"));
	*ret = ref;
	return 0;
}

void image_reference_registry(const struct image_reference *ref, char ret[HOST_SIZE + 6])
{
	char host[HOST_SIZE];

	host_format(&ref->host, host);
	if (ref->port)
		(void)snprintf(ret, HOST_SIZE + 6, "%s:%u", host, ref->port);
	else
		(void)snprintf(ret, HOST_SIZE + 6, "%s", host);
}

void image_reference_format(const struct image_reference *ref, char ret[IMAGE_REF_MAX])
{
	char registry[HOST_SIZE + 6];

	image_reference_registry(ref, registry);
	(void)snprintf(ret, IMAGE_REF_MAX, "%s/%s%c%s", registry, ref->name,
	               ref->digest[0] ? '@' : ':', ref->digest[0] ? ref->digest : ref->tag);
}
