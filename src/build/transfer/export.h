// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Exports a template as an OCI image layout. A sandbox of `host` without network is shown the
 * image, and its agent packs it (src/agent/fileops/op_image_out.c). An exported template can be
 * imported again (import.h), here or elsewhere, and gives the same image: the config has a label
 * with the template's manifest, which says how it was sealed.
 */
#include "build/build.h"

struct export;
struct template;

struct export_ops {
	/* Called once, before the first data: how many bytes there will be. */
	void (*on_begin)(uint64_t bytes, void *arg);
	void (*on_data)(const char *data, size_t len, void *arg);
	/* Called exactly once, unless export_leave() came before; err NULL = success. */
	void (*on_end)(const struct err *err, void *arg);
};

must_check int export_start(struct builds *bs, const char *project_id, const struct template *t,
                            const struct export_ops *ops, void *arg, struct export **ret,
                            struct err *err);
void export_pause(struct export *ex, bool on); /* holds back the data */
void export_leave(struct export *ex);          /* the caller is gone */
