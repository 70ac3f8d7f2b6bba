// SPDX-License-Identifier: Apache-2.0
/* The tools, in the order in which they are listed, and how they are described to a model. */
#include "mcp/mcp_private.h"

#include <string.h>

static const struct mcp_tool *const tools[] = {
	&tool_run_code,   &tool_exec,   &tool_read_file, &tool_write_file,
	&tool_list_files, &tool_create, &tool_list,      &tool_fork,
	&tool_snapshot,   &tool_port,   &tool_close,
};

const struct mcp_tool *tool_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(tools); i++)
		if (strcmp(tools[i]->name, name) == 0)
			return tools[i];
	return NULL;
}

#define SANDBOX_ID                                                                                 \
	"\"sandbox_id\":{\"type\":\"string\",\"description\":\"Which sandbox, by id or name. "     \
	"Without it: the session's own.\"}"

static void put_schema(struct json_writer *w, const struct mcp_tool *t)
{
	auto_call(buf_done) struct buf text = BUF_INIT(16 * 1024);
	bool in_sandbox = t->flags & TOOL_IN_SANDBOX;

	if (buf_printf(&text,
	               "{\"type\":\"object\",\"properties\":{%s%s%s}%s%s,"
	               "\"additionalProperties\":false}",
	               t->properties, in_sandbox && *t->properties ? "," : "",
	               in_sandbox ? SANDBOX_ID : "", *t->required ? ",\"required\":" : "",
	               t->required) < 0)
		abort(); /* all of it is our own */
	json_put_raw(w, "inputSchema", text.data, text.len);
}

void tools_to_json(struct json_writer *w, const char *name)
{
	json_open_array(w, name);
	for (size_t i = 0; i < ARRAY_SIZE(tools); i++) {
		const struct mcp_tool *t = tools[i];

		json_open_object(w, NULL);
		json_put_str(w, "name", t->name);
		json_put_str(w, "title", t->title);
		json_put_str(w, "description", t->description);
		put_schema(w, t);
		json_open_object(w, "annotations");
		json_put_bool(w, "readOnlyHint", t->flags & TOOL_READS);
		json_put_bool(w, "destructiveHint", t->flags & TOOL_DESTROYS);
		json_put_bool(w, "openWorldHint", false);
		json_close_object(w);
		json_close_object(w);
	}
	json_close_array(w);
}
