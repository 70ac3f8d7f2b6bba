// SPDX-License-Identifier: Apache-2.0
/*
 * Sandboxes that another node has taken over. The node of their tag, and the one that had them
 * before, know where they are (node/owned.h), and tell a peer by 421. Who was told remembers it, so
 * that the next request goes straight there.
 */
#include "base/parse.h"
#include "daemon/gateway/hop/hop_private.h"
#include "node/owned.h"

#include <stdio.h>
#include <string.h>

uint32_t hop_moved_find(const struct hops *h, const char *id)
{
	const uint32_t node = node_forward(h->config.node, id);

	for (size_t i = 0; node == 0 && i < ARRAY_SIZE(h->moved); i++)
		if (strcmp(h->moved[i].id, id) == 0)
			return h->moved[i].node;
	return node;
}

void hop_moved_note(struct hops *h, const char *id, uint32_t node)
{
	size_t row = h->n_moved++ % HOP_MOVED_MAX;

	for (size_t i = 0; i < ARRAY_SIZE(h->moved); i++)
		if (strcmp(h->moved[i].id, id) == 0)
			row = i;
	(void)snprintf(h->moved[row].id, sizeof(h->moved[row].id), "%s", id);
	h->moved[row].node = node;
}

uint32_t hop_moved_read(const struct http_head *head)
{
	const char *field = head->status == 421 ? http_head_find(head, HOP_MOVED_FIELD) : NULL;
	uint64_t node = 0;

	if (!field || parse_u64(field, INT32_MAX, &node) < 0)
		return 0;
	return (uint32_t)node;
}

int hop_moved_tell(struct http_req *req, uint32_t node)
{
	char number[16];

	(void)snprintf(number, sizeof(number), "%u", node);
	http_set_told(req, true);
	http_reply_header(req, HOP_MOVED_FIELD, number);
	http_reply(req, 421, NULL, NULL, 0);
	return 1;
}
