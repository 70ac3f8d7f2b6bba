// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Finds the image that a pull can be stored over: one that is here, and has the same layers as the
 * lower ones of what is pulled. Layers are named together by what OCI calls a ChainID, which the
 * manifest of each pulled or imported template has (imported.chain), with the image that it is
 * true of (imported.image).
 *
 * Only what the project can see anyway is looked at: its own templates and the shared ones. So
 * nobody learns by a pull what others have.
 */
#include "base/digest.h"
#include "build/build.h"

struct import_base { /* n_layers 0: none */
	size_t n_layers;
	bool is_all; /* it has no further layers: it is the same image */
	struct digest image, chain;
	uint64_t epoch_s; /* these two say how it was sealed */
	bool is_small;
};
/* chains[i] stands for the layers 0 to i. project_id NULL: for a shared template. */
void import_find_base(struct builds *bs, const char *project_id, const struct digest *chains,
                      size_t n, struct import_base *ret);
/* Whether there is any. */
bool import_has_bases(struct builds *bs, const char *project_id);
