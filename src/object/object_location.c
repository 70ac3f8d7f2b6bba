// SPDX-License-Identifier: Apache-2.0
#include "object/object_location.h"

#include "base/parse.h"

#include <stdio.h>
#include <string.h>

#define LETTERS    "abcdefghijklmnopqrstuvwxyz"
#define DIGITS     "0123456789"
#define SETTING    "cluster.objects"
#define ENDPOINT   "cluster.objects_endpoint"
#define PLACE      "{bucket}"
#define BUCKET_MIN 3
#define BUCKET_MAX 63
#define PREFIX_MAX 512
#define URL_MAX    512

void object_location_done(struct object_location *l)
{
	free(l->directory);
	free(l->url);
	free(l->host);
	free(l->path);
	free(l->root);
	free(l->keys);
	free(l->region);
	*l = (struct object_location){0};
}

static bool has_only(const char *text, size_t len, const char *letters)
{
	return strspn(text, letters) >= len;
}

static int parse_directory(const char *path, struct object_location *ret, struct err *err)
{
	if (path[0] != '/' || path[1] == '\0' || strlen(path) > PREFIX_MAX) {
		(void)err_field(err, SETTING, "'%.200s' is no absolute path", path);
		return err_hint(err, "such as dir:///mnt/shared/cloche");
	}
	ret->backend = OBJECT_DIRECTORY;
	ret->directory = xstrdup(path);
	return 0;
}

static bool is_prefix(const char *prefix)
{
	return strlen(prefix) <= PREFIX_MAX && prefix[0] != '/' && !strstr(prefix, "//") &&
	       !strstr(prefix, "..") &&
	       has_only(prefix, strlen(prefix),
	                LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS "-._~/");
}

/* scheme://host[:port], and nothing behind it. */
static int check_endpoint(const char *url, const char *as_said, struct object_location *ret,
                          struct err *err)
{
	const bool is_tls = strncmp(url, "https://", 8) == 0;
	const char *host = url + (is_tls ? 8 : 7);
	const char *colon;
	uint64_t port = 0;

	if ((!is_tls && strncmp(url, "http://", 7) != 0) || strlen(url) > URL_MAX || !*host ||
	    !has_only(host, strlen(host), LETTERS DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZ-.:[]")) {
		(void)err_field(err, ENDPOINT, "'%.200s' is no server", as_said);
		return err_hint(err, "such as https://s3.example:9000, without a path");
	}
	colon = strrchr(host, ':');
	if (colon && !strchr(colon, ']') && (parse_u64(colon + 1, 65535, &port) < 0 || port == 0))
		return err_field(err, ENDPOINT, "'%.200s' has no port behind its colon", as_said);
	ret->host = port == (is_tls ? 443 : 80) ? xstrndup(host, (size_t)(colon - host))
	                                        : xstrdup(host);
	ret->url = xasprintf("http%s://%s", is_tls ? "s" : "", ret->host);
	return 0;
}

static char *put_bucket(const char *endpoint, const char *at, const char *bucket)
{
	return xasprintf("%.*s%s%s", (int)(at - endpoint), endpoint, bucket, at + strlen(PLACE));
}

static int parse_bucket(const char *text, const char *endpoint, const char *region,
                        struct object_location *ret, struct err *err)
{
	const size_t n = strcspn(text, "/");
	auto_free char *bucket = xstrndup(text, n);
	auto_free char *prefix = xstrdup(text + n + (text[n] ? 1 : 0));
	auto_free char *said = endpoint
	                               ? xstrdup(endpoint)
	                               : xasprintf("https://" PLACE ".s3.%s.amazonaws.com", region);
	auto_free char *url = NULL;
	const char *at = strstr(said, PLACE);
	size_t len = strlen(prefix);

	if (n < BUCKET_MIN || n > BUCKET_MAX || !has_only(bucket, n, LETTERS DIGITS "-.")) {
		(void)err_field(err, SETTING, "'%.100s' is no bucket", bucket);
		return err_hint(err,
		                "3 to 63 lower-case letters, digits, - and .: s3://BUCKET/PREFIX");
	}
	if (!is_prefix(prefix))
		return err_field(err, SETTING,
		                 "'%.200s' may have letters, digits and -._~ between "
		                 "its slashes",
		                 prefix);
	while (len > 0 && prefix[len - 1] == '/')
		prefix[--len] = '\0';
	ret->backend = OBJECT_S3;
	ret->region = xstrdup(region);
	url = at ? put_bucket(said, at, bucket) : xstrdup(said);
	ret->path = at ? xasprintf("%s%s", len ? "/" : "", prefix)
	               : xasprintf("/%s%s%s", bucket, len ? "/" : "", prefix);
	ret->root = at ? xstrdup("/") : xasprintf("/%s", bucket);
	ret->keys = xasprintf("%s%s", prefix, len ? "/" : "");
	return check_endpoint(url, said, ret, err);
}

int object_location_parse(const char *text, const char *endpoint, const char *region,
                          struct object_location *ret, struct err *err)
{
	struct object_location l = {0};
	int r;

	if (!region)
		region = "us-east-1";
	if (!*region || strlen(region) > 40 ||
	    !has_only(region, strlen(region), LETTERS DIGITS "-"))
		return err_field(err, "cluster.objects_region",
		                 "'%.80s' is not a region such as us-east-1", region);
	if (strncmp(text, "dir://", 6) == 0) {
		r = parse_directory(text + 6, &l, err);
	} else if (strncmp(text, "s3://", 5) == 0) {
		r = parse_bucket(text + 5, endpoint, region, &l, err);
	} else {
		(void)err_field(err, SETTING, "'%.200s' is no place for objects", text);
		r = err_hint(err, "use s3://BUCKET/PREFIX or dir:///PATH");
	}
	if (r < 0)
		object_location_done(&l);
	else
		*ret = l;
	return r;
}

void object_name(bool is_manifest, const struct digest *name, char ret[OBJECT_NAME_SIZE])
{
	char hex[DIGEST_HEX];

	digest_to_hex(name, hex);
	(void)snprintf(ret, OBJECT_NAME_SIZE, "%s%.2s/%s", object_folder(is_manifest), hex, hex);
}

const char *object_folder(bool is_manifest)
{
	return is_manifest ? "v1/manifests/" : "v1/chunks/";
}

int object_name_parse(bool is_manifest, const char *text, struct digest *ret)
{
	const char *folder = object_folder(is_manifest);
	const char *hex = text + strlen(folder) + strlen("ab/");
	char name[OBJECT_NAME_SIZE];

	if (strncmp(text, folder, strlen(folder)) != 0 ||
	    strlen(text) != strlen(folder) + strlen("ab/") + DIGEST_HEX - 1 ||
	    digest_parse(hex, ret) < 0)
		return -EINVAL;
	object_name(is_manifest, ret, name);
	return strcmp(name, text) == 0 ? 0 : -EINVAL;
}
