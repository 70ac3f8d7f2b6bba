// SPDX-License-Identifier: Apache-2.0
#include "member/directory.h"

#include "member/papers/authority.h"

#include <stdio.h>
#include <string.h>

static uint32_t number_of(const json_t *object, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(object, name));

	return n > 0 && n <= INT32_MAX ? (uint32_t)n : 0;
}

static bool is_true(const json_t *object, const char *name)
{
	return json_is_true(json_object_get(object, name));
}

/* The database is not believed: what a gateway would refuse ends here. */
static bool read_row(struct cluster_node_row *row, const json_t *node, uint32_t after)
{
	const char *name = json_string_value(json_object_get(node, "name"));
	const char *address = json_string_value(json_object_get(node, "address"));
	const json_t *tags = json_object_get(node, "tags"), *tag;
	struct err err;
	size_t k;

	*row = (struct cluster_node_row){
		.node = number_of(node, "node"),
		.is_cordoned = is_true(node, "is_cordoned"),
		.is_alive = number_of(node, "epoch") > 0 && !is_true(node, "is_claimed") &&
	                    !is_true(node, "is_lost"),
	};
	if (row->node <= after || !name || !address || node_check(name, address, &err) < 0 ||
	    strlen(name) >= sizeof(row->name) || strlen(address) >= sizeof(row->address))
		return false;
	(void)snprintf(row->name, sizeof(row->name), "%s", name);
	(void)snprintf(row->address, sizeof(row->address), "%s", address);
	for (size_t i = 0; i < TAGS_PER_NODE; i++)
		row->tags[i] = CLUSTER_NO_TAG;
	json_array_foreach(tags, k, tag)
	{
		json_int_t value = json_integer_value(tag);

		if (k >= TAGS_PER_NODE || !json_is_integer(tag) || value < 0 || value >= TAG_COUNT)
			return false;
		row->tags[k] = (uint32_t)value;
	}
	return true;
}

static int check_tags(const struct cluster_node_row *nodes, size_t n)
{
	auto_free struct tag_row *rows = xnew0n(struct tag_row, n * TAGS_PER_NODE + 1);
	struct tag_map map = {0};
	size_t n_rows = 0;
	int r;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < TAGS_PER_NODE; k++)
			if (nodes[i].tags[k] != CLUSTER_NO_TAG)
				rows[n_rows++] = (struct tag_row){nodes[i].tags[k], nodes[i].node};
	r = tag_map_set(&map, rows, n_rows);
	tag_map_done(&map);
	return r;
}

int directory_set(struct directory *d, const json_t *answer)
{
	const json_t *nodes = json_object_get(answer, "nodes"), *node;
	auto_free struct cluster_node_row *rows =
		xnew0n(struct cluster_node_row, json_array_size(nodes) + 1);
	json_int_t number = json_integer_value(json_object_get(answer, "number"));
	size_t i, n = 0;
	int r;

	/* Who asks is a node of it, so none at all is no answer. */
	if (json_array_size(nodes) == 0 || json_array_size(nodes) > CLUSTER_NODES_TOTAL)
		return -EINVAL;
	json_array_foreach(nodes, i, node)
	{
		/* One that is still joining has no name yet: nothing leads to it. */
		if (json_is_null(json_object_get(node, "name")))
			continue;
		if (!read_row(&rows[n], node, n ? rows[n - 1].node : 0))
			return -EINVAL;
		n++;
	}
	r = check_tags(rows, n);
	if (r < 0)
		return r;
	free(d->nodes);
	d->nodes = take_ptr(rows);
	d->n = n;
	d->number = number > 0 ? (uint64_t)number : 0;
	return 0;
}

static int by_number(const void *a, const void *b)
{
	const struct cluster_node_row *x = a, *y = b;

	return (x->node > y->node) - (x->node < y->node);
}

const struct cluster_node_row *directory_find(const struct directory *d, uint32_t node)
{
	struct cluster_node_row key = {.node = node};

	return d->n ? bsearch(&key, d->nodes, d->n, sizeof(key), by_number) : NULL;
}

const struct cluster_node_row *directory_named(const struct directory *d, const char *name)
{
	for (size_t i = 0; i < d->n; i++)
		if (strcmp(d->nodes[i].name, name) == 0)
			return &d->nodes[i];
	return NULL;
}

void directory_done(struct directory *d)
{
	free(d->nodes);
	*d = (struct directory){0};
}
