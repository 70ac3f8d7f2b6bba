// SPDX-License-Identifier: Apache-2.0
/* Which id a request is about, and the tags of ids. */
#include "test.h"

#include "cluster/tag.h"
#include "daemon/gateway/hop/hop_id.h"

#include <string.h>

#define SHORT "abcdefghijkmnpqrstuvwxyz23"

static const char *found(struct hop_asked asked)
{
	static struct hop_id id;

	asked.preview_domain = asked.preview_domain ? asked.preview_domain : "p.example";
	return hop_id_find(&asked, &id) ? id.text : "";
}

TEST(the_first_id_of_a_path_is_what_a_request_is_about)
{
	static const struct {
		const char *target, *id;
	} rows[] = {
		{"/v1/sandboxes/sb_" SHORT, "sb_" SHORT},
		{"/v1/sandboxes/sb_" SHORT "/execs/ex_" SHORT "?x=1", "sb_" SHORT},
		{"/v1/snapshots/sn_" SHORT "?a", "sn_" SHORT},
		{"/v1/volumes/vo_" SHORT "/files", "vo_" SHORT},
		{"/p/sb_" SHORT "/3000~token/x", "sb_" SHORT},
		{"/p/" SHORT "/3000/", "sb_" SHORT},
		{"/sandboxes/" SHORT "/timeout", "sb_" SHORT},
		{"/v2/sandboxes/" SHORT "/logs", "sb_" SHORT},
		{"/vercel/api/v2/sandboxes/snapshots/snap_" SHORT, "sn_" SHORT},
		{"/vercel/api/v2/sandboxes/sessions/sb_" SHORT "/cmd", "sb_" SHORT},
		{"/v2/templates/x/builds/" SHORT "~2~1024?a", "bld_" SHORT},
		{"/v2/templates/x/builds/" SHORT "x2~1024", ""},
		{"/v2/templates/" SHORT "~2~1024", ""},
		{"/vercel/api/v2/sandboxes/snapshots/snap_", ""},
		{"/vercel/api/v2/sandboxes/snapshots/snap_" SHORT "x", ""},
		{"/v1/sandboxes", ""},
		{"/v1/templates/" SHORT, ""},
		{"/v1/keys/key_" SHORT, ""},
		{"/v1/sandboxes/sb_" SHORT "x", ""},
		{"/v1/sandboxes/sb_0" SHORT, ""},
		{"/v1/sandboxes/%73b_" SHORT, ""},
		{"/v1/sandboxes?id=sb_" SHORT, ""},
		{"*", ""},
		{"", ""},
		{"//", ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_STR(found((struct hop_asked){.target = rows[i].target}), rows[i].id);
}

TEST(the_name_of_a_preview_goes_before_its_path)
{
	static const struct {
		const char *host, *id;
	} rows[] = {
		{"3000-" SHORT ".p.example", "sb_" SHORT},
		{"49983-" SHORT ".P.EXAMPLE:443", "sb_" SHORT},
		{"3000-ABCDEFGHIJKMNPQRSTUVWXYZ23.p.example", "sb_" SHORT},
		{"3000-" SHORT ".q.example", "sn_" SHORT},
		{"3000-" SHORT ".x.p.example", "sn_" SHORT},
		{"-" SHORT ".p.example", "sn_" SHORT},
		{"p.example", "sn_" SHORT},
		{".p.example", "sn_" SHORT},
		{"[", "sn_" SHORT},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_STR(found((struct hop_asked){.target = "/sn_" SHORT, .host = rows[i].host}),
		          rows[i].id);
}

TEST(fields_of_other_wires_name_an_id)
{
	CHECK_STR(found((struct hop_asked){.target = "/files", .sandbox_field = SHORT}),
	          "sb_" SHORT);
	CHECK_STR(found((struct hop_asked){.target = "/mcp", .session_field = "mcp_" SHORT}),
	          "mcp_" SHORT);
	CHECK_STR(found((struct hop_asked){.target = "/mcp", .session_field = SHORT}), "");
	CHECK_STR(found((struct hop_asked){.target = "/files", .sandbox_field = "../x"}), "");
}

TEST(ids_that_stand_in_paths_bear_a_tag_of_their_node)
{
	static const uint32_t tags[] = {0, 1, 77777, TAG_COUNT - 1};
	unsigned seen[ARRAY_SIZE(tags)] = {0};
	char id[ID_SIZE];

	id_make_tagged(id, "sb");
	CHECK(id_is_valid(id, "sb"));
	CHECK(id_has_own_tag(id)); /* there are none */
	id_set_tags(tags, ARRAY_SIZE(tags));
	for (int n = 0; n < 400; n++) {
		id_make_tagged(id, "sb");
		CHECK(id_is_valid(id, "sb") && id_has_own_tag(id));
		for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
			seen[i] += tag_of(id) == (int32_t)tags[i];
	}
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
		CHECK(seen[i] > 40);
	CHECK(!id_has_own_tag("sb_zzzzefghijkmnpqrstuvwxyz23"));
	id_set_tags(NULL, 0);
}
