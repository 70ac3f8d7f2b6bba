// SPDX-License-Identifier: Apache-2.0
/* Records of bundles: what goes in comes out, and what no honest bundle has is refused. */
#include "proto/bundle.h"
#include "test.h"

#include <string.h>
#include <sys/stat.h>

static const struct bundle_record file = {.kind = BUNDLE_ENTRY,
                                          .path = (char[]){"/home/user/a"},
                                          .mode = S_IFREG | 0644,
                                          .uid = 1000,
                                          .gid = 1000,
                                          .size = 5,
                                          .mtime_ns = 1500000000123456789U};

TEST(a_record_comes_out_as_it_went_in)
{
	auto_call(buf_done) struct buf out = BUF_INIT(BUNDLE_RECORD_MAX);
	struct bundle_record r = file;
	size_t used = 0;

	r.is_checked = true;
	r.seen = (struct bundle_seen){.mode = S_IFREG | 0600, .size = 7, .mtime_ns = 9};
	CHECK_INT(bundle_encode(&r, &out), 0);
	for (size_t n = 0; n < out.len; n++)
		CHECK_INT(bundle_decode(out.data, n, &r, &used), 0);
	CHECK_INT(bundle_decode(out.data, out.len, &r, &used), 1);
	CHECK_INT((int)used, (int)out.len);
	CHECK_STR(r.path, "/home/user/a");
	CHECK(r.is_checked && r.seen.size == 7 && r.size == 5 && r.uid == 1000);
	bundle_record_done(&r);
}

TEST(a_path_that_leads_elsewhere_is_refused)
{
	static const char *const bad[] = {"",     "/",     "a",       "/a/",    "//a", "/a//b",
	                                  "/./a", "/a/..", "/../etc", "/a/./b", ".."};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		auto_call(buf_done) struct buf out = BUF_INIT(BUNDLE_RECORD_MAX);
		struct bundle_record r = file;

		r.path = unconst(bad[i]);
		CHECK(!bundle_path_is_good(bad[i]));
		CHECK_INT(bundle_encode(&r, &out), -EINVAL);
	}
	CHECK(bundle_path_is_good("/..a/b.."));
}

TEST(what_a_sandbox_could_not_make_is_refused)
{
	struct bundle_record bad[] = {file, file, file, file, file, file};

	bad[0].mode = S_IFCHR | 0600;
	bad[1].mode = S_IFBLK | 0600;
	bad[2].uid = 65536;
	bad[3].mode = S_IFDIR | 0755; /* with a size */
	bad[4].is_link = true;        /* to nothing */
	bad[5].mtime_ns = UINT64_MAX;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		auto_call(buf_done) struct buf out = BUF_INIT(BUNDLE_RECORD_MAX);

		CHECK_INT(bundle_encode(&bad[i], &out), -EINVAL);
		CHECK_INT((int)out.len, 0);
	}
}

TEST(only_attributes_of_files_pass)
{
	static const struct {
		const char *name;
		int result;
	} rows[] = {{"user.note", 0},
	            {"system.posix_acl_access", 0},
	            {"user.overlay.opaque", -EINVAL},
	            {"trusted.overlay.opaque", -EINVAL},
	            {"security.capability", -EINVAL},
	            {"", -EINVAL}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_call(buf_done) struct buf out = BUF_INIT(BUNDLE_RECORD_MAX);
		const struct bundle_record r = {.kind = BUNDLE_ATTRIBUTE,
		                                .name = unconst(rows[i].name),
		                                .data = "v",
		                                .len = 1};

		CHECK_INT(bundle_encode(&r, &out), rows[i].result);
	}
}

TEST(a_length_beyond_all_bounds_is_refused_before_its_bytes_come)
{
	const unsigned char large[] = {0xff, 0xff, 0xff, 0xff, BUNDLE_DATA};
	const unsigned char none[] = {0, 0, 0, 0, BUNDLE_DATA};
	struct bundle_record r;
	size_t used;

	CHECK_INT(bundle_decode(large, sizeof(large), &r, &used), -EPROTO);
	CHECK_INT(bundle_decode(none, sizeof(none), &r, &used), -EPROTO);
}
