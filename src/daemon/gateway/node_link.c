// SPDX-License-Identifier: Apache-2.0
#include "daemon/gateway/node_link.h"

#include <stdio.h>
#include <string.h>

struct call {
	node_answer_fn fn;
	void *arg;
};

static const char *text_of(const json_t *error, const char *name)
{
	const char *text = json_string_value(json_object_get(error, name));

	return text ? text : "";
}

/* "unavailable" may be tried again; all else is a fault that is told and not tried again. */
static void on_reply(const struct cluster_reply *reply, void *arg)
{
	const struct call call = *(struct call *)arg;
	const json_t *error = json_object_get(reply->json, "error");
	struct err err = {0};

	free(arg);
	if (reply->error)
		(void)node_refuse(&err, reply->message);
	else if (error && strcmp(text_of(error, "code"), "unavailable") == 0)
		(void)node_refuse(&err, text_of(error, "message"));
	else if (error && text_of(error, "hint")[0]) { /* of the store of objects */
		(void)err_set(&err, ERR_UNAVAILABLE, 0, "the cluster's store of objects: %.200s",
		              text_of(error, "message"));
		(void)snprintf(err.field, sizeof(err.field), "%.63s", text_of(error, "code"));
		(void)err_hint(&err, "%s", text_of(error, "hint"));
	} else if (error)
		(void)err_set(&err, ERR_INTERNAL, 0, "the cluster's database refuses: %.200s",
		              text_of(error, "message"));
	call.fn(err.code ? NULL : reply->json, err.code ? &err : NULL, call.arg);
}

static void send_call(const json_t *call, node_answer_fn fn, void *arg, void *link)
{
	struct call *waiting = xnew0(struct call);

	*waiting = (struct call){fn, arg};
	cluster_link_call(link, call, on_reply, waiting);
}

static void send_call_with(const json_t *call, int fd, node_answer_fn fn, void *arg, void *link)
{
	struct call *waiting = xnew0(struct call);

	*waiting = (struct call){fn, arg};
	cluster_link_call_with(link, call, fd, on_reply, waiting);
}

static void on_told(const struct cluster_word *word, void *arg)
{
	node_told(arg, word);
}

struct node *node_link_open(struct cluster_link *link, bool has_member,
                            const struct node_config *services)
{
	struct node_config config = *services;
	struct node *n;

	if (!has_member)
		return NULL;
	config.call = send_call;
	config.call_with_file = send_call_with;
	config.link = link;
	n = node_new(&config);
	link->loop = config.loop; /* for what is asked before a member is there */
	link->told = on_told;
	link->told_arg = n;
	return n;
}
