// SPDX-License-Identifier: Apache-2.0
/* Removes first the manifests, then the pieces that no manifest lists. If a manifest cannot be
 * read, nothing is removed, since its pieces are not known. */
#include "backup/keep.h"

#include "backup/manifest.h"

#define MANIFEST_TEXT (256U << 20)

struct keeping {
	struct content *content;
	uint64_t n, n_old, i;
};

static int count(const char *name, void *arg, struct err *err)
{
	struct keeping *k = arg;

	(void)name;
	(void)err;
	k->n++;
	return 0;
}

static int know(struct content *c, const char *name, struct err *err)
{
	auto_call(buf_done) struct buf text = BUF_INIT(MANIFEST_TEXT);
	struct manifest m = {0};
	int r = content_read(c, name, &text, err);

	if (r == 0)
		r = manifest_parse(text.data, text.len, &m, err);
	for (size_t i = 0; r == 0 && i < m.n_parts; i++)
		for (size_t k = 0; k < m.parts[i].n_chunks; k++)
			content_know(c, &m.parts[i].chunks[k]);
	manifest_done(&m);
	return r;
}

static int know_new(const char *name, void *arg, struct err *err)
{
	struct keeping *k = arg;

	return k->i++ < k->n_old ? 0 : know(k->content, name, err);
}

static int forget_old(const char *name, void *arg, struct err *err)
{
	struct keeping *k = arg;

	return k->i++ < k->n_old ? content_forget(k->content, name, err) : 0;
}

int keep_newest(const char *path, uint64_t n, uint64_t *ret_removed, uint64_t *ret_freed,
                struct err *err)
{
	auto_call(content_closep) struct content *c = NULL;
	struct keeping k = {0};
	int r = content_create(path, &c, err);

	k.content = c;
	if (r == 0)
		r = content_each(c, count, &k, err);
	k.n_old = k.n > n ? k.n - n : 0;
	if (r == 0)
		r = content_each(c, know_new, &k, err);
	k.i = 0;
	if (r == 0)
		r = content_each(c, forget_old, &k, err);
	*ret_removed = k.n_old;
	*ret_freed = 0;
	return r < 0 ? r : content_prune(c, ret_freed, err);
}
