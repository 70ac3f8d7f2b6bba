// SPDX-License-Identifier: Apache-2.0
#include "engine/jail/zygote/zygotes.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

#define REMOVAL_MAX_US 5000000 /* of a group, when nothing else is left to do */

static void set(struct zygotes *zs, size_t i, const struct digest *image, const char *warm)
{
	char group[40];

	if (i == 0)
		(void)snprintf(group, sizeof(group), "zygote-python");
	else
		(void)snprintf(group, sizeof(group), "zygote-python-%zu", i);
	zygote_init(&zs->all[i], zs->host, image, group, warm);
}

void zygotes_init(struct zygotes *zs, struct guest_host *host, const char *warm)
{
	*zs = (struct zygotes){.host = host, .used[0] = UINT64_MAX};
	for (size_t i = 0; i < ZYGOTES_MAX; i++)
		set(zs, i, &(struct digest){0}, warm);
}

void zygotes_done(struct zygotes *zs)
{
	for (size_t i = 0; i < ZYGOTES_MAX; i++)
		if (zs->used[i] > 0)
			zygote_done(&zs->all[i]);
	for (size_t i = 0; zs->all[0].warm && i < ZYGOTES_MAX; i++) {
		int r = zygote_remove_group(&zs->all[i], REMOVAL_MAX_US);

		if (r < 0)
			log_warn("zygote.group_left", "group=%s error='%s'", zs->all[i].group,
			         strerrordesc_np(-r));
	}
}

void zygotes_start(struct zygotes *zs)
{
	zygote_start(&zs->all[0]);
}

struct zygote *zygotes_find(struct zygotes *zs, const struct digest *image)
{
	for (size_t i = 0; i < ZYGOTES_MAX; i++)
		if (zs->used[i] > 0 && digest_equal(&zs->all[i].image, image))
			return &zs->all[i];
	return NULL;
}

struct zygote *zygotes_take(struct zygotes *zs, const struct digest *image)
{
	struct zygote *z = zygotes_find(zs, image);
	size_t oldest = 1;

	if (digest_is_zero(image))
		return z;
	for (size_t i = 2; !z && i < ZYGOTES_MAX; i++)
		if (zs->used[i] < zs->used[oldest])
			oldest = i;
	if (!z) {
		z = &zs->all[oldest];
		if (zs->used[oldest] > 0)
			zygote_done(z);
		set(zs, oldest, image, z->warm);
		zs->used[oldest] = ++zs->last;
		zygote_start(z);
	}
	zs->used[z - zs->all] = ++zs->last;
	return z;
}

void zygotes_drop(struct zygotes *zs, const struct digest *image)
{
	struct zygote *z = zygotes_find(zs, image);

	if (!z)
		return;
	zygote_done(z);
	zs->used[z - zs->all] = 0;
}

unsigned zygotes_deaths(const struct zygotes *zs)
{
	unsigned most = 0;

	/* A template whose Python does not work is given up; its owner has to repair it. */
	for (size_t i = 0; i < ZYGOTES_MAX; i++)
		if (!zs->all[i].is_given_up && zs->used[i] > 0)
			most = MAX(most, zs->all[i].n_deaths);
	return most;
}
