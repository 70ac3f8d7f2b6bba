// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the JSON of a container image says: an OCI index, manifest and config, and the manifest.json
 * of `docker save`. Texts in, plain data out, no I/O.
 *
 *	index.json --> (index -->) manifest --> config, layers     each named by digest and size
 *	manifest.json ----------------------> config, layers     each named by its path
 *
 * All of it is untrusted. A type that we do not know is refused by name: with it the image could be
 * something else than what we would make of it. Only the form of digests is checked here; whoever
 * reads a blob checks that it has its digest.
 */
#include "base/digest.h"
#include "base/json/json.h"

#define OCI_JSON_MAX    ((size_t)4 << 20) /* of one text; real ones have some KiB */
#define OCI_LAYERS_MAX  512               /* Docker makes no more than 127 */
#define OCI_NESTING_MAX 4                 /* of indexes in indexes; real ones have two */
#define OCI_LABEL       "dev.cloche.template"

struct oci_blob {
	bool is_index; /* else it is what its place says: manifest, config or layer */
	struct digest digest;
	uint64_t bytes;
};

struct oci_wish {
	const char *arch; /* as Go names it: "amd64", "arm64" */
	const char *ref;  /* which of several images; NULL or "": there must be only one */
};
/* This machine's architecture in those words. */
const char *oci_arch(void);

/* The wanted image of an index, or a further index. */
must_check int oci_choose(const json_t *index, const struct oci_wish *wish, struct oci_blob *ret,
                          struct err *err);

struct oci_manifest {
	struct oci_blob config;
	struct oci_blob *layers; /* lowest first */
	size_t n_layers;
};
must_check int oci_read_manifest(const json_t *manifest, struct oci_manifest *ret, struct err *err);
void oci_manifest_done(struct oci_manifest *m);

/* The manifest.json of `docker save`. Its paths must be resolved beneath the archive. */
struct oci_saved {
	const char *config; /* borrowed from the JSON, as the others */
	const char **layers;
	size_t n_layers;
};
must_check int oci_choose_saved(const json_t *saved, const char *ref, struct oci_saved *ret,
                                struct err *err);
void oci_saved_done(struct oci_saved *s);

struct oci_config {
	struct digest *diff_ids; /* of the layers as they are unpacked */
	size_t n_diff_ids;
	json_t *defaults;  /* {env?, user, cwd?, entrypoint?, cmd?, config?} */
	const char *label; /* OCI_LABEL's value, borrowed; NULL = it has none */
};
/* An image of another system or architecture than arch is refused. */
must_check int oci_read_config(const json_t *config, const char *arch, struct oci_config *ret,
                               struct err *err);
void oci_config_done(struct oci_config *c);
/* Labels, ports and the like, as `config` of a manifest has them; the caller owns it. */
json_t *oci_config_facts(const json_t *config);

/* "sha256:" and 64 digits; what names it in the error. */
must_check int oci_parse_digest(const json_t *value, const char *what, struct digest *ret,
                                struct err *err);
const char *oci_text(const json_t *object, const char *key); /* "" where there is none */
must_check int oci_refuse(struct err *err, const char *fmt, ...) printf_like(2, 3);
