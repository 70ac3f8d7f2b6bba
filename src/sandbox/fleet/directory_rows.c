// SPDX-License-Identifier: Apache-2.0
/* What the directory of the cluster is told of a sandbox (node/telling.c): what a list shows of it.
 */
#include "node/node.h"
#include "sandbox/fleet/fleet_private.h"
#include "sandbox/model/registry.h"
#include "sandbox/model/sandbox_private.h"

#define ROW_MAX ((size_t)256 * 1024)

static json_t *describe(const char *id, const char **ret_project_id, void *arg)
{
	const struct sandbox *s = fleet_find_id(arg, id);
	struct buf text = BUF_INIT(ROW_MAX);
	struct json_writer w;
	json_t *row = NULL;

	if (!s || s->spare || s->place == PLACE_ENDED)
		return NULL;
	json_writer_init(&w, &text);
	sandbox_to_json(s, &w, NULL);
	if (json_writer_end(&w) == 0)
		row = json_loadb(text.data, text.len, 0, NULL);
	buf_done(&text);
	*ret_project_id = s->project_id;
	return row;
}

static void each(void (*fn)(const char *id, void *fn_arg), void *fn_arg, void *arg)
{
	const struct fleet *fleet = arg;

	list_for_each (&fleet->all, const struct sandbox, s, link_all)
		if (!s->spare && s->place != PLACE_ENDED)
			fn(s->id, fn_arg);
}

void directory_rows_open(struct fleet *fleet)
{
	static const struct node_telling telling = {describe, each};

	node_tells(fleet->config.node, &telling, fleet);
}
