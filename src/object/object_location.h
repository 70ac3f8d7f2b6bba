// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Where a cluster's objects lie: "dir:///PATH" is a directory that all nodes see, "s3://BUCKET" or
 * "s3://BUCKET/PREFIX" a bucket. An S3 server is said as http[s]://HOST[:PORT]; with "{bucket}" in
 * its host it is asked by a host of the bucket's own, else by a path (https://HOST/BUCKET/…). Pure:
 * no I/O.
 */
#include "base/digest.h"
#include "base/err.h"

enum object_backend { OBJECT_DIRECTORY, OBJECT_S3 };

struct object_location {
	enum object_backend backend;
	char *directory; /* absolute */
	char *url;       /* of the server: scheme://host[:port], without the scheme's own port */
	char *host;      /* as the field Host has it: no port that is the scheme's own */
	char *path;      /* before a name: "/BUCKET/PREFIX" or "/PREFIX" or "" */
	char *root;      /* that lists the bucket: "/BUCKET" or "/" */
	char *keys;      /* before a name in a key: "PREFIX/" or "" */
	char *region;
};

/* text, endpoint and region are the settings cluster.objects, .objects_endpoint and
 * .objects_region; endpoint NULL: Amazon's of the region; region NULL: us-east-1. */
must_check int object_location_parse(const char *text, const char *endpoint, const char *region,
                                     struct object_location *ret, struct err *err);
void object_location_done(struct object_location *l); /* twice is fine */

/* What a thing is called there: "v1/chunks/ab/ab…" or "v1/manifests/ab/ab…". */
#define OBJECT_NAME_SIZE (sizeof("v1/manifests/ab/") + DIGEST_HEX)
void object_name(bool is_manifest, const struct digest *name, char ret[OBJECT_NAME_SIZE]);
/* Where all of a kind are: "v1/chunks/", "v1/manifests/". */
const char *object_folder(bool is_manifest);
/* The name of one that object_name() gives; -EINVAL: it is none of that kind. */
must_check int object_name_parse(bool is_manifest, const char *text, struct digest *ret);
