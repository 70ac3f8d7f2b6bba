// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The name of an image in a registry, as people write it:
 *
 *	[HOST[:PORT]/]NAME[:TAG][@sha256:DIGEST]
 *
 * The first part is a host if it has a dot or a port, or is "localhost". Without a host, the
 * default place of the settings is used, "HOST[:PORT][/PATH]". Its path is put before a name of
 * only one part: registries keep names without an owner at such a path. If a digest is given, it
 * alone says which image it is. If neither tag nor digest is given, the tag is "latest".
 */
#include "base/err.h"
#include "net/match/host.h"

#define IMAGE_NAME_MAX   255
#define IMAGE_TAG_MAX    128
#define IMAGE_DIGEST_LEN 71 /* "sha256:" and 64 digits */
#define IMAGE_REF_MAX    (HOST_SIZE + 6 + IMAGE_NAME_MAX + IMAGE_TAG_MAX + IMAGE_DIGEST_LEN + 3)

struct image_reference {
	struct host host;
	uint16_t port; /* 0: none was given */
	char name[IMAGE_NAME_MAX + 1];
	char tag[IMAGE_TAG_MAX + 1];       /* "": none, there is a digest */
	char digest[IMAGE_DIGEST_LEN + 1]; /* "": none */
};

/* place: the default one, or NULL. field names the text in errors. */
must_check int image_reference_parse(const char *text, const char *place, const char *field,
                                     struct image_reference *ret, struct err *err);
/* The whole name, with host and with a tag or a digest. */
void image_reference_format(const struct image_reference *ref, char ret[IMAGE_REF_MAX]);
/* "HOST[:PORT]". */
void image_reference_registry(const struct image_reference *ref, char ret[HOST_SIZE + 6]);
